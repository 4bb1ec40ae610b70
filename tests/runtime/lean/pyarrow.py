"""Stands in for pyarrow in the tests' Ray workers: it is as if it were not installed. See ..conftest."""

raise ModuleNotFoundError("left out of the workers of these tests", name="pyarrow")
