"""The simulated world: what may happen next, the network, the machines in processes, drivers and coordinators."""
