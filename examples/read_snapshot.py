"""Read and prove the newest snapshot in a folder, by docs/format.md alone: read_snapshot.py FOLDER SYSTEM."""

import pickletools
import sys
from collections import Counter
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


folder = Path(sys.argv[1]) / sys.argv[2] if len(sys.argv) == 3 else sys.exit("usage: read_snapshot.py FOLDER SYSTEM")
assert (folder / "FORMAT").read_bytes() == b'{"rayshot": 1}\n', "another format"
latest, taken_over, retained, ends = ("", 0), set[str](), dict[Any, dict[str, Any]](), Counter[Any]()
for position, path in enumerate(sorted((folder / "log").glob("[0-9]*"))):  # the log says what can be had
    written = msgpack.unpackb(path.read_bytes())
    assert (written["position"], int(path.name)) == (position, position), f"a hole before {path}"
    if written["format"] != 1:  # which had no digest
        proof = written.pop("digest")
        assert written["format"] in (2, 3, 4, 5), f"{path} is of another format"
        assert proof == blake3(msgpack.packb(written)).hexdigest(), f"{path} is damaged"
    record = {"snapshot": (), "attempt": 0, "origin_position": position} | written
    kind, writer, name = record["kind"], record["writer"], tuple(record["snapshot"])
    if kind in ("epoch", "rollback") and record["incarnation"] >= latest[1] + (kind == "rollback"):
        latest, taken_over = (writer, record["incarnation"]), taken_over | {latest[0]} - {writer}
    elif kind in ("delete", "expire") and writer not in taken_over:
        ends[name] += (retained.pop(name, None) is not None) if kind == "delete" else (name not in retained)
    elif (kind == "copy" or (kind == "commit" and writer == latest[0])) and record["attempt"] == ends[name]:
        retained.setdefault(name, record)
commit = max(retained.values(), key=lambda record: (record["incarnation"], record["origin_position"]))
envelope = (folder / commit["manifest_key"]).read_bytes()  # which the commit proves
assert blake3(envelope).hexdigest() == commit["manifest_digest"], "the manifest is not what was committed"
_, _, algorithm, key_id, _, payload = msgpack.unpackb(envelope)
manifest, chunks, home = msgpack.unpackb(payload), [], (folder / commit["manifest_key"]).parents[1]
assert isinstance(manifest, dict), "the snapshot is encrypted"
bound = [manifest[name] for name in ("system", "snapshot", "position")]
assert manifest["format"] in (1, 2), "the manifest is of another format"
assert bound == [sys.argv[2], commit["snapshot"], commit["origin_position"]], "the manifest is of something else"
for key, digest, size, stored_size, codec in manifest["chunks"]:  # which the manifest proves
    stored = (home / key).read_bytes()
    assert codec == "raw" or zstandard.frame_content_size(stored) == size, f"{key} expands to another size"
    chunks.append(stored if codec == "raw" else zstandard.ZstdDecompressor().decompress(stored[:-24]))
    assert (len(stored), blake3(chunks[-1]).digest()) == (stored_size, digest), f"{key} is damaged"
print(f"{'-'.join(map(str, commit['snapshot']))}: {len(chunks)} chunks intact, signed: {algorithm} {key_id or ''}")
for name, *_, about in manifest["actors"]:
    _, root, files = about.get("outside", ("", None, ())) if isinstance(about, dict) else ("", None, ())
    for path, size, digest in () if root else files:  # which a hook wrote; of an actor with a simple name
        content = (home / "outside" / "-".join(map(str, commit["snapshot"])) / name / path).read_bytes()
        assert (len(content), blake3(content).digest()) == (size, digest), f"{path} of {name} is damaged"
        print(f"  {name}: {path} intact")
for sender, receiver, sent, arrived, received, *blobs, _ in manifest["channels"]:
    assert received <= arrived <= sent, f"{sender} -> {receiver}: received what was not sent"
    spans = [span for blob in blobs for span in blob or ()]
    frames = BytesIO(b"".join(chunks[index][offset : offset + length] for index, offset, length in spans))
    flying = [(first, list(msgpack.Unpacker(BytesIO(body)))) for first, _, body in msgpack.Unpacker(frames)]
    messages = [(first + place, told(one)) for first, several in flying for place, one in enumerate(several)]
    print(*(f"  {sender} -> {receiver}  {number}: {text}\n" for number, text in messages), sep="", end="")
    assert [n for n, _ in messages] == [*range(received + 1, sent + 1)], f"{sender} -> {receiver}: not what is to be"
print(f"proved: a consistent cut of {len(manifest['actors'])} actors and {len(manifest['channels'])} channels")
