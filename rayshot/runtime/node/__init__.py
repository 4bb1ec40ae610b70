"""What happens on a node beside its actors: the vault that writes, captures in forked children, shared memory."""
