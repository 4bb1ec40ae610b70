"""What is noted for a coordinator that is started again: small maps in the key-value store of Ray's control service.

They are there as long as the processes of the system can be, beside its rosters.
"""

import logging

from rayshot.runtime.door import door
from rayshot.runtime.door.naming import prefix

log = logging.getLogger("rayshot")


class Notes:
    """One such map: names with bytes."""

    def __init__(self, before: str) -> None:
        self._before = before

    def put(self, name: str, data: bytes) -> None:
        """Write a note, or a new one in its place."""
        door.write_note(self._before + name, data)

    def remove(self, name: str) -> None:
        """Remove a note, if it is there. One that cannot be removed now stays."""
        try:
            door.remove_note(self._before + name)
        except door.CallFailed as error:
            log.warning("the note of %s cannot be removed now: %r", name, error)

    def all(self) -> dict[str, bytes]:
        """All notes by name."""
        keys = door.note_keys(self._before)
        found = {key.removeprefix(self._before): door.read_note(key) for key in keys}
        return {name: data for name, data in found.items() if data is not None}

    def clear(self) -> None:
        """The system is over."""
        door.remove_notes(self._before)


def of_evictions(system: str, incarnation: int) -> Notes:
    """Driver -> what it evicted in one life, packed. These notes go with the roster of the life."""
    return Notes(f"{prefix(system, incarnation)}let-go/")


def of_programs(system: str) -> Notes:
    """Label -> the present driver of the program that attached under it, for all lives."""
    return Notes(f"rayshot-programs/{system}/")


def of_fits(system: str) -> Notes:
    """The snapshots that only the program could load that restored the system, see `restored_fit`, for all lives."""
    return Notes(f"rayshot-fits/{system}/")


def of_silence(system: str) -> Notes:
    """The Unix time at which its coordinator was last killed because it was silent, see `guard`."""
    return Notes(f"rayshot-silence/{system}/")


def of_vain_acts(system: str) -> Notes:
    """Coordinator -> why it stops the system for a changed answer, packed, for all lives."""
    return Notes(f"rayshot-vain/{system}/")


def of_drivers(system: str) -> Notes:
    """Driver -> where it is, see `here.place`, for all lives."""
    return Notes(f"rayshot-drivers/{system}/")
