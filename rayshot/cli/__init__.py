"""The command line: `rayshot list | show | topology | verify | diff | replay | gc | delete STORAGE`, and some more.

All but `replay` execute nothing of what they read; only `copy`, `delete` and `gc` write. None of these needs Ray:
`systems | status | snapshot | savepoint | stop | configure` do, and reach a system that runs; `demo` starts
a Ray of its own.
"""

from rayshot.cli.program import main

__all__ = ["main"]
