"""What `rayshot doctor` looks for: whether a cluster, its nodes and a storage are fit for a system, and what to do."""
