"""The jobs: `python -m benchmarks.peers.jobs.NAME --records N ...` with the engine's own Python.

Each imports its engine, the standard library, `records` and `measuring`, and nothing else of this tree.
"""
