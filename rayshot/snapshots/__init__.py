"""Snapshots in a storage: writing and committing them, reading, proving and comparing them."""
