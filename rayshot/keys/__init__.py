"""Keys that sign and encrypt: what they are, how people write them down, and where a process finds them."""
