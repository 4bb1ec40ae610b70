"""A bank to look at: ten seconds of accounts that pay each other, photographed while they do."""

SYSTEM = "demo-bank"
