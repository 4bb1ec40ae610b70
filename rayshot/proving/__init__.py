"""Scratch processes that load recorded states and messages: they prove while all live that a restore could."""
