"""Every reader of stored bytes as a function of bytes, and bytes of real snapshots to begin with.

Whatever the bytes, a reader ends with a value or with an error of rayshot's own tree.
"""

import pickle
from collections.abc import Callable, Mapping

import msgpack
import numpy as np

from rayshot.audit.document import Document
from rayshot.audit.findings import NoTrace
from rayshot.audit.segment import read_segment
from rayshot.errors import RayshotError
from rayshot.format.bounds import CHUNK_BYTES_MAX
from rayshot.format.chunks import _seal, digest, expand
from rayshot.format.codec import Frame, read_frames, read_messages, unpack_messages
from rayshot.format.encryption import decrypt_chunk, encrypt_manifest, open_manifest
from rayshot.format.entries import Chunk
from rayshot.format.entry_checks import chunk_key
from rayshot.format.envelope import open_envelope, seal, verify
from rayshot.format.manifest import decode, encode
from rayshot.inert.digest import content_digest
from rayshot.inert.inert_object import short_repr
from rayshot.inert.jsonable import jsonable
from rayshot.inert.likeness import alike
from rayshot.inert.reader import read, read_slots
from rayshot.keys.encryption import DataKey, EncryptionKey, parse_encryption_keys
from rayshot.keys.signing import PrivateKey, SigningKey, parse_key
from rayshot.log.history import History
from rayshot.log.records import DeleteRecord, EpochRecord, decode_record, encode_record
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.actor.tracing import Tracer
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.intents import leased_bases
from tests.places.faulty_store import FaultyStore
from tests.snapshots.snapshot_builder import KEY, Bank, large, make_snapshot, open_bank

REFUSALS = (RayshotError, NoTrace)
KEK, DATA_KEY, PAIR = EncryptionKey(b"e" * 32), DataKey(b"d" * 32), PrivateKey(b"p" * 32)
_SNAPSHOT = SnapshotId(1, "coordinator", 1)


def _state(data: bytes) -> None:
    value = read(data)
    jsonable(value)
    content_digest(value)
    short_repr(value)
    alike(value, value)


def _state_with_buffers(data: bytes) -> None:
    middle = data[0] if data else 0
    jsonable(read(data[1 + middle :], [data[1 : 1 + middle], data[1 : 1 + middle]]))


def _manifest(data: bytes) -> None:
    assert encode(decode(data)) == data


def _envelope(data: bytes) -> None:
    verify(open_envelope(data), [KEY, PAIR.public])


def _encrypted_manifest(data: bytes) -> None:
    decode(*open_manifest(data, [KEK]))


def _encrypted_chunk(data: bytes) -> None:
    name = "ab" * 32
    chunk = Chunk(chunk_key(DATA_KEY.chunk_name(name), "i"), name, 100, max(len(data), 1), "raw", DATA_KEY)
    decrypt_chunk(data, chunk, "bank")


def _record(data: bytes) -> None:
    decode_record(data, 1)


def _intent(data: bytes) -> None:
    store = FaultyStore()
    store.put_raw(f"bank/intents/{_SNAPSHOT}", data)
    history = History()
    history.add(EpochRecord(0, 1, "w1"))
    leased_bases(store, "bank", history)


def _format(data: bytes) -> None:
    store = FaultyStore()
    store.put_raw("bank/FORMAT", data)
    Storage(store).system("bank").snapshots()


def _log(data: bytes) -> None:
    """Records one behind the other, each as long as its first two bytes say."""
    store = FaultyStore()
    store.put_raw("bank/FORMAT", b'{"rayshot": 1}')
    position = 0
    while len(data) > 1:
        size = int.from_bytes(data[:2], "big")
        store.put_raw(f"bank/log/{position:020}", data[2 : 2 + size])
        data, position = data[2 + size :], position + 1
    for snapshot in Storage(store).system("bank").snapshots():
        _ = snapshot.manifest


def _chunk(data: bytes) -> None:
    """As it is, and with a seal that fits, so that what is behind the seal is reached."""
    for stored in (data, data + _seal(data)):
        for size in (100, 1 << 20, CHUNK_BYTES_MAX):
            try:
                expand(stored, Chunk("k", "0" * 64, size, len(stored), "zstd"))
            except RayshotError as refusal:
                last = refusal
    raise last


def _frames(data: bytes) -> None:
    for frame in read_frames(data):
        for some in unpack_messages(frame, 3):
            assert len(some) <= 3
        for message in read_messages(frame):
            jsonable(list(message.args))
            jsonable(dict(message.kwargs))


def _messages(data: bytes) -> None:
    for count in range(1, 5):
        try:
            list(read_messages(Frame(1, count, data)))
        except RayshotError as refusal:
            last = refusal
        else:
            return
    raise last


def _slots(data: bytes) -> None:
    """A message, and what lies beside it: each as long as its first two bytes say, the message last."""
    parts = []
    while len(data) > 1:
        size = int.from_bytes(data[:2], "big")
        parts.append(data[2 : 2 + size])
        data = data[2 + size :]
    *beside, message = parts or [b""]
    for found in read_messages(Frame(1, 1, message), lambda _: read_slots([(stream, [stream]) for stream in beside])):
        jsonable(list(found.args))
        alike(found.args, found.args)


def _segment(data: bytes) -> None:
    read_segment("alice", data)


def _document(data: bytes) -> None:
    document = Document(data, lambda key, size: data[:size])
    for channel in document.channels:
        list(document.messages(channel))


def _specification(data: bytes) -> None:
    ActorSpecification.unpack(data)


def _keys(data: bytes) -> None:
    for parse in (parse_key, lambda text: parse_encryption_keys(text, "a file")):
        try:
            parse(data)
        except RayshotError as refusal:
            last = refusal
    raise last


DECODERS: Mapping[str, Callable[[bytes], None]] = {
    reader.__name__.strip("_"): reader
    for reader in (
        _state,
        _state_with_buffers,
        _manifest,
        _envelope,
        _encrypted_manifest,
        _encrypted_chunk,
        _record,
        _intent,
        _format,
        _log,
        _chunk,
        _frames,
        _messages,
        _slots,
        _segment,
        _document,
        _specification,
        _keys,
    )
}


def seeds() -> dict[str, list[bytes]]:
    """Sound bytes for each decoder, out of real snapshots."""
    store = FaultyStore()
    repository = open_bank(store)
    first = make_snapshot(repository, Bank(states={"alice": {"n": large("a")}, "bob": _odd()}), 1)
    second = make_snapshot(repository, Bank(label="payday"), 2, key=None)
    kept = make_snapshot(open_bank(FaultyStore(), keys=[KEK]))
    outside = make_snapshot(repository, Bank(files={"alice": {"a/b": b"x"}, "bob": {}}, payload={"n": [1, 0.5]}), 3)
    documents = [snapshot.document for snapshot in (first, second, outside)]
    records = [store.read(entry.key) for entry in store.list("bank/log")]
    states = [second.read(actor.state.stream) for actor in second.manifest.actors if actor.state]
    channels = [first.read(blob) for channel in first.manifest.channels for blob in channel.blobs()]
    frame = next(read_frames(channels[0]))
    pickled = msgpack.packb([0, "pickle", pickle.dumps(("deposit", (1, {"a": (2,)}), {"k": {3}}), protocol=5)])
    segment = _trace()
    hmac = SigningKey(b"h" * 40)
    return {
        "state": [*states, pickle.dumps(_odd(), protocol=2), pickle.dumps(_odd(), protocol=0)],
        "state_with_buffers": [bytes([8]) + b"12345678" + _with_buffers(), b"\0" + states[0]],
        "manifest": documents,
        "envelope": [seal(documents[0], hmac), seal(documents[1], PAIR), seal(b"", KEY), seal(b"x", None)],
        "encrypted_manifest": [kept.envelope.payload, encrypt_manifest(documents[0], [DATA_KEY], KEK)],
        "encrypted_chunk": [DATA_KEY.chunks.encrypt(b"x" * 50, b"elsewhere")],
        "record": [records[1], encode_record(EpochRecord(1, 1, "w1")), encode_record(DeleteRecord(1, "w1", _SNAPSHOT))],
        "intent": [store.read(entry.key) for entry in store.list("bank/intents")],
        "format": [store.read("bank/FORMAT"), b'{"rayshot": 2}', b"[" * 50],
        "log": [b"".join(len(record).to_bytes(2, "big") + record for record in records)],
        "chunk": [store.read(entry.key) for entry in store.list("bank/chunks")],
        "frames": channels,
        "slots": [b"".join(len(part).to_bytes(2, "big") + part for part in _beside())],
        "messages": [bytes(frame.body), pickled, msgpack.packb([1, 7, pickled]), msgpack.packb([2, 7, True, pickled])],
        "segment": [segment],
        "document": documents,
        "specification": [ActorSpecification("m", "C", b"pickle", ("f",), {"num_cpus": 1}).pack()],
        "keys": [PAIR.text.encode(), PAIR.public.text.encode(), KEK.text.encode(), b"h" * 40],
    }


def _odd() -> dict[str, object]:
    import collections
    import datetime as dt
    import decimal
    import uuid
    import zoneinfo

    shared = [1, 2]
    return {
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "scalar": np.float32(1.5),
        "decimal": decimal.Decimal("1.50"),
        "when": [dt.datetime(2026, 1, 1, tzinfo=zone) for zone in (dt.UTC, zoneinfo.ZoneInfo("Asia/Tokyo"))],
        "uuid": uuid.UUID(int=7),
        "ordered": collections.OrderedDict(a=1),
        "deque": collections.deque([1], maxlen=3),
        "shared": [shared, shared, {1, 2}, frozenset({3}), 2**70, b"bytes", bytearray(b"more"), 1j],
        "unknown": SigningKey(b"u" * 32),
        "digest": digest(b""),
    }


def _with_buffers() -> bytes:
    return pickle.dumps(np.arange(2, dtype=np.int32), protocol=5, buffer_callback=lambda _: False)


def _trace() -> bytes:
    tracer = Tracer("p", full=True)
    body = msgpack.packb(["m", 1]) * 3
    unpacker = msgpack.Unpacker()
    unpacker.feed(body)
    for _ in tracer.watch("alice", unpacker, body):
        tracer.sent("bob")
    tracer.fired(b"due")
    tracer.sent_by_thread("bob")
    tracer.recorded(_SNAPSHOT, {"bob": 4}, {"alice": 3})
    tracer.ended()
    return tracer.segment()


def _beside() -> list[bytes]:
    """A value, arguments that hold it, and their message."""
    place = b"\x80\x05crayshot.format.pickling\nslot\nK%c\x85R."
    last = b"\x80\x05(X\x01\x00\x00\x00m(" + place[2:-1] % 0 + b"t}t."
    message = b"\x80\x05(X\x01\x00\x00\x00m" + place[2:-1] % 1 + b"Nt."
    return [pickle.dumps([1, {2}], protocol=5), last, msgpack.packb([0, "pickle", message])]
