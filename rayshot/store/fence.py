"""Whether a life of a system still owns its storage: a later EPOCH in the log takes that away."""

from rayshot.errors import Fenced
from rayshot.store.log import read_record
from rayshot.store.records import EpochRecord
from rayshot.store.store import Store


class Fence:
    """Looks for a later EPOCH than its own. One thread at a time may use it.

    Each look tries one key and reads the records that are new, however long the log is.

    Args:
        store: the storage of the system.
        system: the name of the system.
        epoch: the record with which this life took the storage over.
    """

    def __init__(self, store: Store, system: str, epoch: EpochRecord) -> None:
        self._store = store
        self._system = system
        self._epoch = epoch
        self._position = epoch.position + 1

    def check(self) -> None:
        """Raise Fenced if another life has taken over the storage. Also BadManifest, FormatTooNew, StoreError."""
        while (record := read_record(self._store, self._system, self._position)) is not None:
            if isinstance(record, EpochRecord) and record.incarnation >= self._epoch.incarnation:
                raise Fenced(
                    f"life {self._epoch.incarnation} of {self._system!r} is over: {record.writer} has taken its "
                    f"storage over for life {record.incarnation}, with record {record.position} of the log",
                    writer=record.writer,
                    position=record.position,
                )
            self._position += 1
