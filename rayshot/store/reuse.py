"""Which chunks of an earlier snapshot a new one may share: those that still exist."""

import logging
import random
from collections.abc import Mapping

from rayshot.errors import KeyNotFound
from rayshot.format.manifest import Chunk
from rayshot.store.layout import chunk_folder, inside
from rayshot.store.several import several_at_once
from rayshot.store.store import Store

log = logging.getLogger("rayshot")
LOOKED_FOR = 3


def find_present(store: Store, system: str, chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
    """The chunks that exist in the store, by digest, so that a new snapshot names no chunk that was removed.

    Looking for each chunk would cost more than a snapshot that changes little. So this looks for LOOKED_FOR of
    them, different ones each time, and lists all if one is gone. It can miss a few among many: `Snapshot.verify`
    finds those.

    Raises StoreError.
    """
    names = random.sample(sorted(chunks), min(LOOKED_FOR, len(chunks)))

    def is_there(name: str) -> bool:
        try:
            store.read_range(inside(system, chunks[name].key), 0, 1)
        except KeyNotFound:
            return False
        return True

    with several_at_once(len(names), "rayshot-look") as map_:
        if all(map_(is_there, names)):
            return dict(chunks)
    listed = {entry.key for entry in store.list(chunk_folder(system))}
    present = {name: chunk for name, chunk in chunks.items() if inside(system, chunk.key) in listed}
    log.warning(
        "%d of %d chunks of the last snapshot of %r are gone from %s: what is needed of them is written anew, and "
        "snapshots that share them are damaged, see rayshot verify",
        len(chunks) - len(present), len(chunks), system, store.url,
    )  # fmt: skip
    return present
