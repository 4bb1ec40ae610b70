"""What runs ahead of the cut, and comes back with it: an inference engine, a trainer of two ranks, a working tree.

`python examples/holders/engine.py`, `python examples/holders/trainer.py`, `python examples/holders/sandbox.py`.
"""
