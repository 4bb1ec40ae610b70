"""The commit log of a system, and the marks beside it: order, commit and fencing."""
