"""The same programs on rayshot: when an actor dies, all go on from the last snapshot."""
