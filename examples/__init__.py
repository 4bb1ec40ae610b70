"""Programs to read and to run: `python -m examples.flights`, `python examples/bank.py`, `python examples/dwell.py`.

`python examples/visits.py` and the programs of `holders` have something outside.
"""
