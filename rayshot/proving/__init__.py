"""Scratch processes that load recorded states: they prove while all live that a restore could."""
