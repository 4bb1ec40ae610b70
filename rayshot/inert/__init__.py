"""The inert reader: it shows what a pickle holds, and runs, imports and trusts nothing of it."""
