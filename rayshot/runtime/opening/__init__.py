"""How a life of a system begins, and what a program does with a system that runs."""
