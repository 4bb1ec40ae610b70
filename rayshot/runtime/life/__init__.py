"""The life of a system as its drivers see it: beginning, attaching, sending, restoring, and its end."""
