"""The coordinator, one Ray actor per life of a system: who belongs to it, its snapshots, and their commit."""
