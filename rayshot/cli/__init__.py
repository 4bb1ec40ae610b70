"""The command line: `rayshot list | show | topology | verify | diff | replay STORAGE`, and `rayshot simulate`.

All but `replay` only read, and execute nothing of what they read. None needs Ray.
"""

from rayshot.cli.commands import main

__all__ = ["main"]
