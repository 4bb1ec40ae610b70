"""A world of a user's actors: which exist, how it begins and comes back from a snapshot, runs and is stepped."""
