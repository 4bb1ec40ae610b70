"""Figures of a manifest, in its `stats`, by which readers and writers decide something; all others are only shown."""

FINAL = "final"
"""It is there where the system stopped with the snapshot."""
BEHIND = "behind"
"""It is there if some process is before its place in an earlier stored snapshot: the system never goes back to it."""
FOLLOWS = "follows"
"""Up to which position of the log all snapshots were committed when this one began."""
