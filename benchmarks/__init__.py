"""Benchmarks of rayshot against plain Ray, both in one run: `python -m benchmarks [NAME ...]`.

Each benchmark takes its samples in turn (rayshot, Ray, rayshot, Ray ...), so that whatever else the machine does
weighs on both, and says how the medians compare and whether the target is met. Where plain Ray has nothing of the kind,
the other side is what one would do without rayshot: write a file, unpickle one, take no snapshot. `growth` is no race:
it counts what the protocol's machines send, in systems of up to 10,000 processes, and starts no Ray. Nor is `walk`: it
counts files that are passed.
"""
