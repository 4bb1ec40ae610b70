"""The small storage that the notebooks read: three systems, each made on Ray by a program of this folder.

`python -m examples.notebooks.stores` makes all of them anew, or those that are named.
"""

from pathlib import Path

STORAGE = Path(__file__).with_name("data")
"""Holds the systems `bank`, `sky` and `crew`."""
