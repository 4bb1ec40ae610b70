"""A bank to look at: accounts that pay each other, and snapshots of them at work."""

SYSTEM = "demo-bank"
