"""The coordinator, one Ray actor per life of a system: its members, its snapshots, and their commit."""
