"""One keyed count with checkpoints, on rayshot and on the stream processors that install from PyPI.

`jobs/` has a script for each engine, which runs in the environment of that engine and prints what it measured;
`environment.py` makes the environments, `comparison.py` runs the scripts in turn and makes the report.
"""
