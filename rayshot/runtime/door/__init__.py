"""Ray itself: the cluster, and all that rayshot uses of Ray that has no public name. No other room knows such names."""
