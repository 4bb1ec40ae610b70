"""Named places in the code where a test can make a process die: `RAYSHOT_FAILPOINTS="name=kill@3,other=kill"`.

`kill` ends the process with SIGKILL when it passes the failpoint for the n-th time (default: the first). If the
variable is not set, a failpoint costs one look at an empty table.
"""

import os
import signal


def _parse(text: str) -> dict[str, int]:
    table = {}
    for item in filter(None, text.split(",")):
        name, _, action = item.partition("=")
        action, _, count = action.partition("@")
        assert action == "kill", f"there is no failpoint action {action!r}"
        table[name] = int(count or 1)
    return table


_table = _parse(os.environ.get("RAYSHOT_FAILPOINTS", ""))


def failpoint(name: str) -> None:
    """End the process here if a test asked for it."""
    if name in _table:
        _table[name] -= 1
        if _table[name] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
