"""A name that older snapshots hold."""
