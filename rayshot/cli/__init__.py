"""The command line: `rayshot list | show | topology | verify | diff STORAGE`, and `rayshot simulate`.

The former only read, and execute nothing of what they read. None needs Ray.
"""

from rayshot.cli.commands import main

__all__ = ["main"]
