"""The contents of simulated processes and drivers: accounts that know nothing of snapshots, and actors of users."""
