"""Places for bytes, the repository that commits into them, and snapshots, read back out of them."""
