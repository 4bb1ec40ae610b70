"""The states of a system, as `SystemStatus.state` tells them."""

from typing import Final

LOADING: Final = "loading"
"""It is being restored."""
BEGINNING: Final = "beginning"
"""Its first actors are being made; nothing is committed before its first snapshot."""
RUNNING: Final = "running"
STOPPED: Final = "stopped"
"""It takes no messages any more."""
STATES: Final = (LOADING, BEGINNING, RUNNING, STOPPED)
