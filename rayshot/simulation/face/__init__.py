"""What a user of the simulation sees: one simulated system, and many schedules of a scenario."""
