"""The states of a system, as `SystemStatus.state` has them."""

from typing import Final

LOADING: Final = "loading"
"""The system is being restored."""
BEGINNING: Final = "beginning"
"""The first actors of the system are being made; nothing is committed before its first snapshot."""
RUNNING: Final = "running"
STOPPED: Final = "stopped"
"""The system takes no messages any more."""
RECOVERING: Final = "recovering"
"""The system goes back to its last snapshot by itself, and will run again."""
STATES: Final = (LOADING, BEGINNING, RUNNING, RECOVERING, STOPPED)
