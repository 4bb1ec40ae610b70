"""The process of an actor: the Ray actor that it lives in, its channels, its share of snapshots, and its handlers."""
