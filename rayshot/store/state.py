"""The state of one actor, read inertly: classes become records of their names, and no code runs."""

from dataclasses import dataclass
from typing import Any

from rayshot.errors import BadState
from rayshot.format.chunks import digest
from rayshot.format.inert import read as read_inertly
from rayshot.format.manifest import CapturedState, Proof
from rayshot.store.chunk_reader import ChunkReader


@dataclass(frozen=True, slots=True)
class ActorInfo:
    """The facts about an actor in a snapshot that need no reading of its state.

    `class_name` is "module.Qualname"; `status` is "born" or "unborn" (only messages to
    it exist yet); `state_bytes` counts the pickled state before compression. `proof` says whether the
    state was loaded for trial; None if that is not known.
    """

    name: str
    class_name: str
    status: str
    state_bytes: int
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class RecordedState:
    """The recorded parts of one actor: its own `state`, the `calls` whose replies it awaits, and its `timers`.

    `callees` maps the id of a call to the actor that replies; None if no call is pending, or an older rayshot wrote it.
    `dead_letters` are its last messages without effect; see `pending.read_dead_letters`.
    """

    state: Any
    calls: Any
    timers: Any
    callees: Any = None
    dead_letters: Any = ()


def read_captured(captured: CapturedState, reader: ChunkReader) -> RecordedState:
    """Read a state; raises BadState, MissingChunk, CorruptChunk, LimitExceeded, StoreError."""
    tree = read_inertly(*read_parts(captured, reader))
    if not isinstance(tree, dict) or "state" not in tree:
        raise BadState("a recorded state does not have the form that an actor writes")
    parts = tree.get("calls"), tree.get("timers"), tree.get("callees"), tree.get("dead_letters", ())
    return RecordedState(tree["state"], *parts)


def read_parts(captured: CapturedState, reader: ChunkReader) -> tuple[bytes, list[bytes]]:
    """The stream and the buffers of a pickle; raises as `read_captured`, except BadState."""
    return reader.read(captured.stream), [reader.read(blob) for blob in captured.buffers]


def state_digest(captured: CapturedState) -> str:
    """A digest of 64 digits, equal for two states of the same spans of the same chunks, so of the same bytes.

    A small actor shares a chunk with others, so its digest may change although only their states changed.
    """
    blobs = (captured.stream, *captured.buffers)
    places = [[(span.chunk, span.offset, span.length) for span in blob.spans] for blob in blobs]
    return digest(repr((captured.codec, places)).encode())


def captured_bytes(captured: CapturedState | None) -> int:
    """Bytes of a state before compression; 0 without a state."""
    if captured is None:
        return 0
    return captured.stream.size + sum(blob.size for blob in captured.buffers)
