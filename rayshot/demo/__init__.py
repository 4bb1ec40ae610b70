"""A bank to look at: accounts that pay each other, photographed while they do."""

SYSTEM = "demo-bank"
