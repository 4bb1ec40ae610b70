"""Six notebooks, and what they need: `stores` made by programs, and pictures drawn from what is in them."""
