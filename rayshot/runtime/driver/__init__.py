"""How a program takes part in a system: it sends into it, hears of its lives, and asks its coordinator."""
