"""The small storage that the notebooks read: seven systems, made on Ray by the programs of this folder.

`python -m examples.notebooks.stores` makes all of them anew, or those that are named.
"""

from pathlib import Path

STORAGE = Path(__file__).with_name("data")
"""Holds the systems `bank`, `sky`, `crew`, `training`, `by_hand`, `lost_prompts` and `ranks`."""
