"""Benchmarks of rayshot against plain Ray, both in one run: `python -m benchmarks [NAME ...]`.

Each benchmark takes its samples in turn (rayshot, Ray, rayshot, Ray ...), so that whatever else the machine does
weighs on both, and says how the medians compare and whether the target is met.
"""
