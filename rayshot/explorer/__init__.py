"""The page of a snapshot: the data that it needs from a storage, the page itself, and a report in one file."""
