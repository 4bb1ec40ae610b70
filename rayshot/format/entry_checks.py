"""The checks of a manifest's entries: each raises what `bounds` says, or InconsistentCut for a false cut."""

import reprlib
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from rayshot.errors import BadManifest, InconsistentCut, UnsafePath
from rayshot.format.bounds import (
    ACTORS_MAX,
    BLOB_BYTES_MAX,
    BUFFERS_MAX,
    CHANNELS_MAX,
    CHUNK_BYTES_MAX,
    CHUNKS_MAX,
    METHODS_MAX,
    OUTSIDE_FILE_BYTES_MAX,
    OUTSIDE_FILES_MAX,
    OWED_MAX,
    SLOTS_MAX,
    SPANS_MAX,
    check_actor,
    check_count,
    check_digest,
    check_file_path,
    check_length,
    check_options,
    check_process,
    check_real,
    check_text,
    is_intent,
)
from rayshot.format.entries import (
    PROOF_WORDS,
    ActorEntry,
    Blob,
    CapturedState,
    ChannelEntry,
    Chunk,
    Outside,
    OutsideFile,
    Proof,
    TraceEntry,
)
from rayshot.format.payloads import check_payload
from rayshot.format.shape_tables import check_shapes
from rayshot.keys.encryption import OVERHEAD_BYTES
from rayshot.protocol.identity import is_driver

Sizes = Mapping[str, int]
"""Digest of a chunk -> its uncompressed bytes."""


def chunk_key(name: str, intent: str) -> str:
    """The key of the chunk `name` that `intent` wrote, relative to the system's folder; see `Chunk.name`."""
    return f"chunks/{name[:2]}/{name}-{intent}"


def check_chunks(chunks: Sequence[Chunk]) -> Sizes:
    """Check each chunk, and that no digest comes twice. Return their sizes."""
    check_length(chunks, "chunks", CHUNKS_MAX)
    for chunk in chunks:
        _check_chunk(chunk)
    sizes = {chunk.digest: chunk.size for chunk in chunks}
    if len(sizes) != len(chunks):
        raise BadManifest("the manifest lists a chunk twice")
    return sizes


def _check_chunk(chunk: Chunk) -> None:
    digest = check_digest(chunk.digest, "a chunk")
    _check_key(chunk.key, chunk.name)
    check_count(chunk.size, f"size of chunk {digest}", CHUNK_BYTES_MAX, 1)
    check_count(chunk.stored_size, f"stored size of chunk {digest}", CHUNK_BYTES_MAX + OVERHEAD_BYTES, 1)
    check_count(chunk.packed_size, f"compressed size of chunk {digest}", CHUNK_BYTES_MAX, 1)
    if chunk.codec not in {"zstd", "raw"}:
        raise BadManifest(f"chunk {digest} has the codec {reprlib.repr(chunk.codec)}; it is zstd or raw")
    if chunk.codec == "raw" and chunk.size != chunk.packed_size:
        raise BadManifest(f"chunk {digest} is raw, but {chunk.packed_size} bytes are stored for {chunk.size}")
    if chunk.codec == "zstd" and chunk.size <= chunk.packed_size:
        raise BadManifest(
            f"chunk {digest} is compressed from {chunk.size} to {chunk.packed_size} bytes, which is not smaller"
        )


def _check_key(key: Any, name: str) -> None:
    """A key has one form only, so it cannot name anything outside the folder of chunks."""
    prefix = chunk_key(name, "")
    if not isinstance(key, str) or not key.startswith(prefix) or not is_intent(key.removeprefix(prefix)):
        raise UnsafePath(f"chunk {name} has the key {reprlib.repr(key)}; it must be {prefix}<intent>", key=key)


def check_actors(actors: Sequence[ActorEntry], sizes: Sizes) -> set[str]:
    """Check each actor, and that no name comes twice. Return the names."""
    check_length(actors, "actors", ACTORS_MAX)
    names: set[str] = set()
    for actor in actors:
        _check_actor(actor, sizes)
        if actor.name in names:
            raise BadManifest(f"the manifest lists the actor {actor.name} twice", actor=actor.name)
        names.add(actor.name)
    return names


def check_ended(ended: Sequence[str], actors: Collection[str]) -> None:
    """Check the names of actors that ended before the cut: each comes once and is not an actor of the snapshot."""
    check_length(ended, "ended", ACTORS_MAX)
    names = {check_actor(name, "an actor") for name in ended}
    if len(names) != len(ended) or names & set(actors):
        raise BadManifest("the manifest lists an actor that ended twice, or also as a living actor")


def check_traces(traces: Sequence[TraceEntry], actors: Collection[str], sizes: Sizes) -> None:
    """Check that each trace belongs to one of these actors, and that no actor has two."""
    check_length(traces, "traces", ACTORS_MAX)
    traced: set[str] = set()
    for trace in traces:
        if trace.actor not in actors or trace.actor in traced:
            raise BadManifest(
                f"the manifest has a trace of {reprlib.repr(trace.actor)}, which is not an actor or has another trace"
            )
        traced.add(trace.actor)
        _check_blob(trace.segment, f"trace of actor {trace.actor}", sizes)


def _check_actor(actor: ActorEntry, sizes: Sizes) -> None:
    what = f"actor {check_actor(actor.name, 'an actor')}"
    check_text(actor.class_module, f"class_module of {what}")
    check_text(actor.class_name, f"class_name of {what}")
    check_options(actor.options, f"options of {what}")
    check_length(actor.methods, f"methods of {what}", METHODS_MAX)
    for method in actor.methods:
        check_text(method, f"a method of {what}")
    check_count(actor.version, f"version of {what}", smallest=1)
    if actor.status not in {"born", "unborn"}:
        raise BadManifest(f"{what} has the status {reprlib.repr(actor.status)}; it is born or unborn")
    if (actor.state is None) == (actor.status == "born"):
        raise BadManifest(f"{what} is {actor.status} and has {'no' if actor.state is None else 'a'} state")
    if actor.recording is not None:
        check_text(actor.recording.node, f"node of {what}")
        for seconds in (actor.recording.hold_s, actor.recording.after_s):
            if check_real(seconds, f"the recording of {what}") < 0:
                raise BadManifest(f"{what} was recorded in a negative time")
    if actor.proof is not None:
        _check_proof(actor, actor.proof, what)
    check_shapes(actor.shapes, what)
    if actor.outside is not None:
        if actor.state is None:
            raise BadManifest(f"{what} has something outside, and no state")
        _check_outside(actor.outside, what)
    if actor.class_pickle is not None:
        _check_blob(actor.class_pickle, f"class_pickle of {what}", sizes)
    if actor.state is not None:
        _check_state(actor.state, f"state of {what}", sizes)


def _check_proof(actor: ActorEntry, proof: Proof, what: str) -> None:
    if proof.word not in PROOF_WORDS:
        raise BadManifest(f"the proof of {what} is {reprlib.repr(proof.word)}; it is proved, alike, plain or unproved")
    if actor.state is None:
        raise BadManifest(f"{what} has the proof of a state, and no state")
    if proof.word == "unproved":
        check_text(proof.reason, f"why the state of {what} is not proved")
    elif proof.reason != "":
        raise BadManifest(f"the state of {what} is {proof.word} for a reason")


def _check_outside(outside: Outside, what: str) -> None:
    check_payload(outside.payload, f"the payload of {what}")
    if outside.root is not None:
        check_text(outside.root, f"the root of files of {what}")
    check_files(outside.files, what)


def check_files(files: Sequence[OutsideFile], what: str) -> None:
    """Check the outside files of an actor, which `what` names, that they are sorted, and that none is also a folder."""
    check_length(files, f"outside files of {what}", OUTSIDE_FILES_MAX)
    paths = [check_file_path(file.path, f"an outside file of {what}") for file in files]
    if any(later <= earlier for earlier, later in pairwise(paths)):
        raise BadManifest(f"{what} lists an outside file twice, or not in the order of the paths")
    known = set(paths)
    if any(folder in known for path in paths for folder in accumulate(path.split("/")[:-1], "{}/{}".format)):
        raise BadManifest(f"{what} lists a path as an outside file and as a folder")
    for file in files:
        check_count(file.size, f"size of {file.path!r} of {what}", OUTSIDE_FILE_BYTES_MAX)
        check_digest(file.digest, f"{file.path!r} of {what}")


def _check_state(state: CapturedState, what: str, sizes: Sizes) -> None:
    if state.codec not in {"pickle", "cloudpickle"}:
        raise BadManifest(f"{what} has the codec {reprlib.repr(state.codec)}; it is pickle or cloudpickle")
    check_length(state.buffers, f"buffers of {what}", BUFFERS_MAX)
    for blob in (state.stream, *state.buffers):
        _check_blob(blob, what, sizes)


def _check_blob(blob: Blob, what: str, sizes: Sizes) -> None:
    check_length(blob.spans, f"spans of {what}", SPANS_MAX)
    for span in blob.spans:
        size = sizes.get(span.chunk)
        if size is None:
            raise BadManifest(f"{what} is in the chunk {reprlib.repr(span.chunk)}, which the manifest does not list")
        check_count(span.length, f"length of a span of {what}", smallest=1)
        if check_count(span.offset, f"offset of a span of {what}") + span.length > size:
            raise BadManifest(f"{what} ends behind the end of the chunk {span.chunk}")
    check_count(blob.size, f"size of {what}", BLOB_BYTES_MAX)


def check_channels(
    channels: Sequence[ChannelEntry], actors: Collection[str], senders: Collection[str], sizes: Sizes
) -> None:
    """Check each channel, that its ends are known, that no pair comes twice, and the sum of messages in flight."""
    check_length(channels, "channels", CHANNELS_MAX)
    pairs: set[tuple[str, str]] = set()
    for channel in channels:
        _check_ends(channel, actors, senders)
        for blob in channel.blobs():  # first: the cut asks for their sizes
            _check_blob(blob, f"messages of channel {channel.sender} -> {channel.receiver}", sizes)
        _check_cut(channel)
        _check_slots(channel, sizes)
        _check_owed(channel)
        pairs.add((channel.sender, channel.receiver))
    if len(pairs) != len(channels):
        raise BadManifest("the manifest lists a channel twice")
    check_count(sum(channel.sent - channel.received for channel in channels), "messages in flight on all channels")


def _check_ends(channel: ChannelEntry, actors: Collection[str], senders: Collection[str]) -> None:
    sender, receiver = (
        check_process(channel.sender, "a sender"),
        check_process(channel.receiver, "a receiver"),
    )
    if receiver not in actors or (sender not in senders and not is_driver(sender)):
        stranger = sender if receiver in actors else receiver
        raise BadManifest(f"the channel {sender} -> {receiver} names {stranger}, which is not an actor of the snapshot")


def _check_cut(channel: ChannelEntry) -> None:
    """Check the cut equation for the counters. The messages are counted when they are read."""
    what = f"channel {channel.sender} -> {channel.receiver}"
    sent, arrived, received = channel.sent, channel.arrived, channel.received
    for counter, name in ((sent, "sent"), (arrived, "arrived"), (received, "received")):
        check_count(counter, f"{name} of {what}")
    if not received <= arrived <= sent:
        raise InconsistentCut(
            f"{what}: received {received}, arrived {arrived}, sent {sent} are not in ascending order",
            sent=sent,
            arrived=arrived,
            received=received,
        )
    if type(channel.aligned) is not bool:
        raise BadManifest(f"{what} has an `aligned` that is not a bool")
    if channel.aligned and received != sent:
        raise InconsistentCut(f"{what} was aligned, but {received} of {sent} messages were received", sent=sent)
    _check_range(channel.mailbox, received, arrived, f"mailbox of {what}")
    _check_range(channel.outbox, arrived, sent, f"outbox of {what}")


def _check_slots(channel: ChannelEntry, sizes: Sizes) -> None:
    what, before = f"channel {channel.sender} -> {channel.receiver}", channel.received
    check_length(channel.slots, f"messages with slots of {what}", SLOTS_MAX)
    for message in channel.slots:
        check_count(message.number, f"number of a message with slots of {what}", channel.sent, before + 1)
        before = message.number
        check_length(message.slots, f"slots of message {before} of {what}", SLOTS_MAX)
        if not message.slots:
            raise BadManifest(f"message {before} of {what} has an empty list of slots")
        for slot in message.slots:
            if slot.kind not in {"value", "object", "failed"}:
                raise BadManifest(
                    f"message {before} of {what} has a slot of the kind {reprlib.repr(slot.kind)}; it is value, object "
                    "or failed"
                )
            _check_state(slot.content, f"a slot of message {before} of {what}", sizes)


def _check_owed(channel: ChannelEntry) -> None:
    what, before = f"channel {channel.sender} -> {channel.receiver}", 0
    if channel.owed and not is_driver(channel.sender):
        raise BadManifest(f"{what} lists calls without an answer: only a driver's channel may")
    check_length(channel.owed, f"calls without an answer of {what}", OWED_MAX)
    for number in channel.owed:
        check_count(number, f"number of a call without an answer of {what}", channel.received, before + 1)
        before = number


def _check_range(blob: Blob | None, before: int, last: int, what: str) -> None:
    if (blob is None or blob.size == 0) and before < last:
        raise InconsistentCut(f"{what}: messages {before + 1} to {last} are missing", first=before + 1, last=last)
    if blob is not None and before == last:
        raise InconsistentCut(f"{what}: there are bytes, but no messages after number {last}", last=last)
