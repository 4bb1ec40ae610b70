"""A snapshot as stored, read by its layout alone: the manifest, and the bytes that it names.

The layout is that of `rayshot/format/manifest.py` and `chunks.py`, but nothing from them is used here. A digest proves
everything that is read: the commit record's digest proves the manifest, the manifest's digests prove the chunks. If a
snapshot is encrypted, both come here decrypted.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgpack
import zstandard
from blake3 import blake3

from rayshot.audit.findings import Unproved
from rayshot.format.msgpack_walk import ContainerBudget, count_documents

MANIFEST_FORMATS = (1, 2)
CHUNK_BYTES_MAX = 64 << 20
_SEAL_BYTES = 24
"""The bytes after a zstd frame: a skippable frame with 16 bytes of digest."""

Spans = list[list[int]]
"""[index into the chunks, offset, length], one after the other."""


class StoredChunk(NamedTuple):
    """A chunk as the manifest lists it: `size` before compression, `stored_size` in the store, decrypted."""

    key: str
    digest: bytes
    size: int
    stored_size: int
    codec: str


class ListedActor(NamedTuple):
    """An actor as the manifest lists it; `deterministic` is an option of its class."""

    name: str
    born: bool
    deterministic: bool


class StoredChannel(NamedTuple):
    """A channel as the manifest lists it; `mailbox` and `outbox` say where messages received+1 .. sent are stored."""

    sender: str
    receiver: str
    sent: int
    arrived: int
    received: int
    mailbox: Spans | None
    outbox: Spans | None
    aligned: bool

    def __str__(self) -> str:
        return f"{self.sender} -> {self.receiver}"


class Document:
    """One snapshot. `read(key, size)` gives up to `size` bytes of the object under a key of the system's folder.

    Raises Unproved for bytes that are not a manifest.
    """

    def __init__(self, payload: bytes, read: Callable[[str, int], bytes]) -> None:
        try:
            tree = msgpack.unpackb(payload)
            if tree["format"] not in MANIFEST_FORMATS:
                raise Unproved(f"the manifest has format {tree['format']}, this audit reads {MANIFEST_FORMATS}")
            incarnation, initiator, counter = tree["snapshot"]
            self.snapshot = f"{incarnation}-{initiator}-{counter}"
            self.incarnation: int = incarnation
            self.position: int = tree["position"]
            self.actors = {row[0]: _actor(row) for row in tree["actors"]}
            self.ended = frozenset(tree["ended"])
            self._chunks = [_chunk(row) for row in tree["chunks"]]
            self.channels = tuple(_channel(row, self._chunks) for row in tree["channels"])
            self.traces = {actor: _spans(trace, self._chunks) for actor, trace in tree["traces"]}
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, msgpack.UnpackException) as error:
            raise Unproved(f"the manifest is not laid out as documented: {error!r}") from error
        self._read = read
        self._last: tuple[int, bytes] = (-1, b"")

    def bytes_of(self, spans: Spans) -> bytes:
        """The bytes of a blob."""
        return b"".join(self._chunk(index)[offset : offset + length] for index, offset, length in spans)

    def messages(self, channel: StoredChannel) -> Iterator[int]:
        """The numbers of a channel's stored messages, in stored order. Raises Unproved for anything but messages."""
        for spans in (channel.mailbox, channel.outbox):
            for frame in _stream(self.bytes_of(spans)) if spans is not None else ():
                first, count, body = _frame(channel, frame)
                number = first
                for message in _stream(body):
                    if not isinstance(message, list) or not message:
                        raise Unproved(f"channel {channel}: message {number} is none")
                    yield number
                    number += 1
                if number != first + count:
                    raise Unproved(
                        f"channel {channel}: a run of {count} messages from {first} on holds {number - first}"
                    )

    def _chunk(self, index: int) -> bytes:
        if self._last[0] != index:
            self._last = index, self._expand(self._chunks[index])
        return self._last[1]

    def _expand(self, chunk: StoredChunk) -> bytes:
        key, digest, size, stored_size, codec = chunk
        if not 0 < size <= CHUNK_BYTES_MAX or not 0 < stored_size <= CHUNK_BYTES_MAX + _SEAL_BYTES:
            raise Unproved(f"chunk {key} announces {size} bytes")
        data = self._read(key, stored_size + 1)
        if codec == "zstd":
            try:
                frame = data[:-_SEAL_BYTES]
                if zstandard.frame_content_size(frame) != size:
                    raise Unproved(f"chunk {key} announces another size than the manifest")
                data = zstandard.ZstdDecompressor().decompress(frame, max_output_size=size)
            except zstandard.ZstdError as error:
                raise Unproved(f"chunk {key} cannot be decompressed: {error}") from error
        if len(data) != size or blake3(data).digest() != digest:
            raise Unproved(f"chunk {key} is not what the manifest names")
        return data


def _actor(row: list[Any]) -> ListedActor:
    if len(row) not in (9, 10, 12, 13):  # the longer forms say how it recorded, and more: this proves nothing
        raise ValueError(f"{row!r:.100} has {len(row)} columns, an actor has 9, 10, 12 or 13")
    name, _, _, _, options, status, *_ = row
    return ListedActor(name, status == "born", options.get("deterministic") is True)


def _chunk(row: list[Any]) -> StoredChunk:
    match row:  # an encrypted chunk names its key too
        case [str(key), bytes(digest), int(size), int(stored_size), str(codec), *_]:
            return StoredChunk(key, digest, size, stored_size, codec)
    raise ValueError(f"{row!r:.100} is not a chunk")


def _channel(row: list[Any], chunks: Sequence[StoredChunk]) -> StoredChannel:
    match row:
        case [str(sender), str(receiver), int(sent), int(arrived), int(received), *parts, bool(aligned)] | [
            str(sender), str(receiver), int(sent), int(arrived), int(received), *parts, bool(aligned), list()
        ] | [
            str(sender), str(receiver), int(sent), int(arrived), int(received), *parts, bool(aligned), list(), list()
        ]:  # fmt: skip  # the last ones: values beside messages, calls without an answer; nothing is proved of these
            mailbox, outbox = (None if spans is None else _spans(spans, chunks) for spans in parts)
            return StoredChannel(sender, receiver, sent, arrived, received, mailbox, outbox, aligned)
    raise ValueError(f"{row!r:.100} is not a channel")


def _spans(spans: list[Any], chunks: Sequence[StoredChunk]) -> Spans:
    """The spans; each must be inside a listed chunk, or this raises ValueError."""
    for span in spans:
        match span:
            case [int(index), int(offset), int(length)] if 0 <= index < len(chunks) and offset >= 0:
                if 0 < length <= chunks[index].size - offset:
                    continue
        raise ValueError(f"{span!r:.100} is not a span of a chunk")
    return spans


def _frame(channel: StoredChannel, frame: Any) -> tuple[int, int, bytes]:
    match frame:
        case [int(first), int(count), bytes(body)]:
            return first, count, body
    raise Unproved(f"channel {channel}: what is stored of it is not a run of messages")


def _stream(data: bytes) -> Iterator[Any]:
    """The msgpack documents in `data`. Raises Unproved if they do not fill `data` exactly."""
    budget = ContainerBudget(1)  # a frame is one list, and so is a message
    unpacker = msgpack.Unpacker(None, max_buffer_size=0, strict_map_key=False, max_bin_len=len(data), **budget.hooks)
    try:
        count_documents(data, len(data))
        unpacker.feed(data)
        for document in unpacker:
            budget.next()
            yield document
    except (ValueError, msgpack.UnpackException) as error:
        raise Unproved(f"what is stored of a channel cannot be read: {error!r}") from error
    if unpacker.tell() != len(data):
        raise Unproved("what is stored of a channel ends in the middle of a message")
