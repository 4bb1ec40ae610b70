"""Places for bytes: the six verbs of a store, and each kind of storage behind them."""
