"""The states of a system, as `SystemStatus.state` has them."""

from typing import Final, Literal

LOADING: Final = "loading"
"""The system is being restored."""
BEGINNING: Final = "beginning"
"""The first actors of the system are being made; nothing is committed before its first snapshot."""
RUNNING: Final = "running"
STOPPED: Final = "stopped"
"""The system takes no messages any more."""
RECOVERING: Final = "recovering"
"""The system goes back to its last snapshot by itself, and will run again."""
State = Literal["loading", "beginning", "running", "recovering", "stopped"]
STATES: tuple[State, ...] = (LOADING, BEGINNING, RUNNING, RECOVERING, STOPPED)
