"""Plain Ray: when an actor dies, what it held is gone."""
