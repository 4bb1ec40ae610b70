"""Snapshots for eyes: what a page needs to know of a storage, the page itself, and a report that is one file."""
