"""What a node has besides its actors: the vault that writes, captures in forked children, and shared memory."""
