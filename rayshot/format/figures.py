"""Figures of a manifest, in its `stats`, by which readers and writers decide something; all others are only shown."""

FINAL = "final"
"""It is there where the system stopped with the snapshot."""
FOLLOWS = "follows"
"""Up to which position of the log all snapshots were committed when this one began."""
