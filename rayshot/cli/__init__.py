"""The command line: `rayshot list | show | topology | verify | diff | replay | gc | delete STORAGE`, and some more.

All but `replay` execute nothing of what they read; only `copy`, `delete` and `gc` write. None needs Ray.
"""

from rayshot.cli.commands import main

__all__ = ["main"]
