"""What a manifest lists: chunks, stretches of them, actors and channels. The Manifest checks them."""

from dataclasses import dataclass
from typing import Any, Literal

from rayshot.format.derivation import OVERHEAD_BYTES
from rayshot.format.encryption_key import DataKey

ChunkCodec = Literal["zstd", "raw"]
StateCodec = Literal["pickle", "cloudpickle"]
RecordedKind = Literal["value", "object", "failed"]
ActorStatus = Literal["born", "unborn"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One object of the store.

    `key` is relative to the system's folder and is always `chunk_key(name, intent)` of the intent that
    wrote it; `digest` is the BLAKE3 of the uncompressed bytes, 64 hexadecimal digits, once in a manifest;
    `size` counts the uncompressed bytes, at least 1; `stored_size` the bytes in the store. An encrypted chunk
    has the `data_key` of the snapshot that wrote it.
    """

    key: str
    digest: str
    size: int
    stored_size: int
    codec: ChunkCodec
    data_key: DataKey | None = None

    @property
    def name(self) -> str:
        """What its key is made of: the digest, or where it is encrypted what does not betray it."""
        return self.digest if self.data_key is None else self.data_key.chunk_name(self.digest)

    @property
    def packed_size(self) -> int:
        """Bytes as compressed, before encryption; equal to `size` for the codec "raw"."""
        return self.stored_size if self.data_key is None else self.stored_size - OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class Span:
    """`length` (at least 1) uncompressed bytes from `offset` on of the chunk with the digest `chunk`."""

    chunk: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Blob:
    """The bytes of `spans`, joined in order; no bytes where there are no spans."""

    spans: tuple[Span, ...]

    @property
    def size(self) -> int:
        """Uncompressed bytes."""
        return sum(span.length for span in self.spans)


@dataclass(frozen=True, slots=True)
class CapturedState:
    """A protocol-5 pickle of `{"state": ..., "calls": ..., "timers": ...}` and its buffers in order."""

    codec: StateCodec
    stream: Blob
    buffers: tuple[Blob, ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """How one actor recorded: on the `node` with that address, stopped for `hold_s` seconds.

    Its record reached the coordinator `after_s` seconds after the snapshot's beginning, by the coordinator's clock.
    """

    node: str
    hold_s: float
    after_s: float


@dataclass(frozen=True, slots=True)
class ActorEntry:
    """One actor: its class, how it was started, and its state if it is "born", only then.

    `class_name` is the qualified name inside `class_module`; `class_pickle` holds the class by value where no
    module can be imported for it. `options` are what `.options()` was given (see `bounds.check_options`).
    `version` is what the class said that its state is of, from 1. `recording` is None where nobody said.
    """

    name: str
    class_module: str
    class_name: str
    class_pickle: Blob | None
    options: dict[str, Any]
    status: ActorStatus
    methods: tuple[str, ...]
    state: CapturedState | None
    version: int = 1
    recording: Recording | None = None


@dataclass(frozen=True, slots=True)
class RecordedSlot:
    """What fills a place of a message, pickled as states are: a value, that of a reference, or an error.

    A "value" is there itself when the message is handled, an "object" is put again and the place holds a reference to
    it, and a "failed" one raises its error.
    """

    kind: RecordedKind
    content: CapturedState


@dataclass(frozen=True, slots=True)
class RecordedSlots:
    """The slots of the message `number`, at least one, in the order in which its pickle counts them from 0."""

    number: int
    slots: tuple[RecordedSlot, ...]


@dataclass(frozen=True, slots=True)
class ChannelEntry:
    """The cut of one channel: `received <= arrived <= sent`.

    `mailbox` holds exactly the messages received+1 .. arrived, `outbox` exactly arrived+1 .. sent;
    each is None exactly when its range is empty. Both are msgpack streams of frames `[first, count, body]`.
    `aligned`: the receiver had waited for the sender's marker, so nothing may be in flight: `received == sent`.
    `slots` are those of the messages that have any, in the order of their numbers.
    """

    sender: str
    receiver: str
    sent: int
    arrived: int
    received: int
    mailbox: Blob | None = None
    outbox: Blob | None = None
    aligned: bool = False
    slots: tuple[RecordedSlots, ...] = ()

    def blobs(self) -> tuple[Blob, ...]:
        """The blobs of messages that are there, in the order of these."""
        return tuple(blob for blob in (self.mailbox, self.outbox) if blob is not None)

    def contents(self) -> tuple[CapturedState, ...]:
        """What fills the slots of the messages, in their order."""
        return tuple(slot.content for message in self.slots for slot in message.slots)

    def all_blobs(self) -> tuple[Blob, ...]:
        """Those of messages and those beside them."""
        beside = (blob for content in self.contents() for blob in (content.stream, *content.buffers))
        return (*self.blobs(), *beside)


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """What an actor did until it recorded, for those who want to prove it; how it is written is in `rayshot.audit`."""

    actor: str
    segment: Blob
