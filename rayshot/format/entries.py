"""The entries of a manifest: chunks, spans of chunks, actors and channels. The Manifest checks them."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from rayshot.format.shapes import Shapes
from rayshot.keys.encryption import OVERHEAD_BYTES, DataKey

ChunkCodec = Literal["zstd", "raw"]
StateCodec = Literal["pickle", "cloudpickle"]
RecordedKind = Literal["value", "object", "failed"]
ActorStatus = Literal["born", "unborn"]
OutsideMode = Literal["refuse", "again", "leave"]
"""What a restore does where what is outside does not fit the snapshot; see `rayshot.restore`."""
ProofWord = Literal["proved", "alike", "plain", "unproved"]
PROOF_WORDS: Final[tuple[ProofWord, ...]] = get_args(ProofWord)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One object of the store.

    `key` is relative to the system's folder and is always `chunk_key(name, intent)` of the intent that wrote the chunk.
    `digest` is the BLAKE3 of the uncompressed bytes, 64 hexadecimal digits, and unique in a manifest. `size` counts the
    uncompressed bytes, at least 1; `stored_size` counts the bytes in the store. An encrypted chunk has the `data_key`
    of the snapshot that wrote it.
    """

    key: str
    digest: str
    size: int
    stored_size: int
    codec: ChunkCodec
    data_key: DataKey | None = None

    @property
    def name(self) -> str:
        """The name in its key: the digest, or for an encrypted chunk a name that does not tell the digest."""
        return self.digest if self.data_key is None else self.data_key.chunk_name(self.digest)

    @property
    def packed_size(self) -> int:
        """Compressed bytes, before encryption; equal to `size` for the codec "raw"."""
        return self.stored_size if self.data_key is None else self.stored_size - OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class Span:
    """`length` (at least 1) uncompressed bytes of the chunk with the digest `chunk`, from `offset` on."""

    chunk: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Blob:
    """The bytes of `spans`, joined in order; empty if there are no spans."""

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
class RecordingTimes:
    """How one actor recorded: on the `node` with this address, paused for `hold_s` seconds.

    Its record reached the coordinator `after_s` seconds after the snapshot began, by the coordinator's clock.
    """

    node: str
    hold_s: float
    after_s: float


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a recorded state was loaded for trial before its snapshot was committed.

    "proved": this state was; "alike": another one of its class with the same types; "plain": it needs no trial, as it
    holds values of Python's own types only; "unproved": for the `reason`, which is empty otherwise.
    """

    word: ProofWord
    reason: str = ""

    def __str__(self) -> str:
        text = {"alike": "proved by another of its class", "plain": "plain values", "unproved": "not proved"}
        return text.get(self.word, self.word) + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True)
class OutsideFile:
    """One file that a hook of an actor wrote into its folder for a snapshot.

    `path` is relative to that folder (see `bounds.check_file_path`), `size` is in bytes, and `digest` is the BLAKE3 of
    the content, 64 hexadecimal digits. rayshot does not encrypt these files.
    """

    path: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Outside:
    """What an actor fixed outside of its state for a snapshot.

    `payload` is the canonical JSON text (see `payloads`) of what its hook gave. `files` are sorted by their paths, each
    once. `root` is the address that `init(outside=...)` gave for files of all snapshots; None stands for the storage of
    the snapshot. A copied snapshot has its files in its own folder, whatever `root` says.
    """

    payload: str
    files: tuple[OutsideFile, ...] = ()
    root: str | None = None


@dataclass(frozen=True, slots=True)
class ActorEntry:
    """One actor: its class, how it was started, and its state. Exactly a "born" actor has a state.

    `class_name` is the qualified name inside `class_module`; `class_pickle` holds the class by value if no module can
    be imported for it. `options` are the arguments of `.options()` (see `bounds.check_options`). `version` is the
    class's version of the state, from 1. `recording` is None if it is unknown, and so is `proof`. `shapes` are those of
    the classes in the state and in messages of the actor, sorted by their names. Only a "born" actor has `outside`.
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
    recording: RecordingTimes | None = None
    proof: Proof | None = None
    shapes: Shapes = field(default_factory=dict)
    outside: Outside | None = None


@dataclass(frozen=True, slots=True)
class RecordedSlot:
    """The content of a slot in a message, pickled as states are: a value, the object of a reference, or an error.

    When the message is handled, a "value" is passed itself, an "object" is put into Ray again and passed as a
    reference, and a "failed" slot raises its error.
    """

    kind: RecordedKind
    content: CapturedState


@dataclass(frozen=True, slots=True)
class RecordedSlots:
    """The slots of message `number`, at least one. Its pickle counts them from 0, in this order."""

    number: int
    slots: tuple[RecordedSlot, ...]


@dataclass(frozen=True, slots=True)
class ChannelEntry:
    """The cut of one channel: `received <= arrived <= sent`.

    `mailbox` holds exactly the messages received+1 .. arrived, `outbox` exactly arrived+1 .. sent. Each is None exactly
    when its range is empty. Both are msgpack streams of frames `[first, count, body]`. `aligned`: the receiver had
    waited for the sender's marker, so nothing is in flight: `received == sent`. `slots` lists the messages that have
    slots, in the order of their numbers. `owed` lists the numbers of those received messages that are calls of a
    driver without an answer, ascending.
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
    owed: tuple[int, ...] = ()

    def blobs(self) -> tuple[Blob, ...]:
        """The blobs of messages: the mailbox, then the outbox, if they exist."""
        return tuple(blob for blob in (self.mailbox, self.outbox) if blob is not None)

    def contents(self) -> tuple[CapturedState, ...]:
        """The contents of all slots, in the order of the messages."""
        return tuple(slot.content for message in self.slots for slot in message.slots)

    def all_blobs(self) -> tuple[Blob, ...]:
        """The blobs of messages, then the blobs of their slots."""
        beside = (blob for content in self.contents() for blob in (content.stream, *content.buffers))
        return (*self.blobs(), *beside)


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """The trace of an actor: what it did until it recorded. `rayshot.audit` defines its bytes and proves it."""

    actor: str
    segment: Blob
