"""The command line: `rayshot list | show | topology | verify | diff | replay | gc | delete STORAGE`, and more.

All commands except `replay` execute nothing of what they read; only `copy`, `delete` and `gc` write. None of these
needs Ray. `systems | status | snapshot | savepoint | stop | configure` need it: they reach a running system. `demo`
starts its own Ray.
"""

try:
    from rayshot.cli.program import main
except KeyboardInterrupt:  # Ctrl-C before the program is loaded; see `exits.INTERRUPTED`
    raise SystemExit(130) from None

__all__ = ["main"]
