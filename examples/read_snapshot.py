"""Read and prove the newest snapshot in a folder, by docs/format.md alone: read_snapshot.py FOLDER SYSTEM."""

import json
import pickletools
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import msgpack
import zstandard
from blake3 import blake3


def told(message: list[Any]) -> str:
    """A message as `method(arguments)`; what is pickled is named and not unpickled."""
    match message:
        case [str(method), *arguments]:
            return f"{method}({', '.join(map(repr, arguments))})"
        case [0, str(), bytes(pickled)]:
            return next(str(text) for code, text, _ in pickletools.genops(pickled) if "UNICODE" in code.name) + "(...)"
    return f"{('', 'call', 'reply', 'create')[message[0]]} {told(msgpack.unpackb(message[-1]))}"


folder = Path(sys.argv[1]) / sys.argv[2]
assert json.loads((folder / "FORMAT").read_bytes()) == {"rayshot": 1}, "another format"
epoch, retained = {"incarnation": 0}, dict[tuple[Any, ...], dict[str, Any]]()
for position, path in enumerate(sorted((folder / "log").iterdir())):  # the log says what is committed
    record = msgpack.unpackb(path.read_bytes())
    assert (record["format"], record["position"], int(path.name)) == (1, position, position), f"a hole before {path}"
    if record["kind"] == "epoch":
        epoch = record if record["incarnation"] >= epoch["incarnation"] else epoch
    elif record["writer"] == epoch.get("writer"):  # others had been taken over, and do not count
        known = retained.setdefault(tuple(record["snapshot"]), record)
        known |= {"deleted": record["kind"] == "delete"}
commit = [record for record in retained.values() if not record["deleted"]][-1]
envelope = (folder / commit["manifest_key"]).read_bytes()  # which the commit proves
assert blake3(envelope).hexdigest() == commit["manifest_digest"], "the manifest is not what was committed"
_, _, algorithm, key_id, _, payload = msgpack.unpackb(envelope)
manifest, chunks = msgpack.unpackb(payload), []
bound = [manifest[name] for name in ("format", "system", "snapshot", "position")]
assert bound == [1, sys.argv[2], commit["snapshot"], commit["position"]], "the manifest is that of something else"
for key, digest, size, stored_size, codec in manifest["chunks"]:  # which the manifest proves
    stored = (folder / key).read_bytes()
    frame = stored[:-24] if codec == "zstd" else b""
    chunks.append(zstandard.ZstdDecompressor().decompress(frame, max_output_size=size) if frame else stored)
    proof = len(stored), len(chunks[-1]), blake3(chunks[-1]).digest()
    assert proof == (stored_size, size, digest), f"{key} is damaged"
print(f"{'-'.join(map(str, commit['snapshot']))}: {len(chunks)} chunks intact, signed: {algorithm} {key_id or ''}")
for sender, receiver, sent, arrived, received, *blobs, _ in manifest["channels"]:
    assert received <= arrived <= sent, f"{sender} -> {receiver}: received what was not sent"
    spans = [span for blob in blobs for span in blob or ()]
    frames = BytesIO(b"".join(chunks[index][offset : offset + length] for index, offset, length in spans))
    flying = [(first, list(msgpack.Unpacker(BytesIO(body)))) for first, _, body in msgpack.Unpacker(frames)]
    messages = [(first + place, told(one)) for first, several in flying for place, one in enumerate(several)]
    print(*(f"  {sender} -> {receiver}  {number}: {text}\n" for number, text in messages), sep="", end="")
    numbers = [number for number, _ in messages]
    assert numbers == list(range(received + 1, sent + 1)), f"{sender} -> {receiver}: not exactly what is in flight"
print(f"proved: a consistent cut of {len(manifest['actors'])} actors and {len(manifest['channels'])} channels")
