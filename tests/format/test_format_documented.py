"""docs/format.md names what is written, and a design page the marks; who adds to the bytes adds to the page."""

from pathlib import Path

import msgpack

from rayshot.format import manifest
from rayshot.format.envelope import seal
from rayshot.keys.signing import SigningKey
from rayshot.log import records
from rayshot.log.aborts import NOTE
from rayshot.log.heartbeat import HEARTBEAT
from rayshot.model.handle import REBIND
from rayshot.snapshots.intents import INTENT
from rayshot.snapshots.leases import LEASE
from rayshot.snapshots.upkeep.garbage import UNREACHABLE
from tests.format.test_format_manifest import MANIFEST

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "format.md").read_text()
MARKS = (DOCS / "design/0014-who-may-write-beside-a-coordinator.md").read_text()


def test_every_key_of_a_manifest_and_of_a_record_is_on_the_page():
    written = msgpack.unpackb(manifest.encode(MANIFEST))
    fields = {name for kind in records._KINDS.values() for name in kind.__dataclass_fields__}
    for key in (*written, *fields, *records._KINDS):
        assert f"`{key}`" in PAGE, key


def test_every_key_of_a_mark_is_on_the_page():
    for kind in (INTENT, LEASE, HEARTBEAT, NOTE, UNREACHABLE):
        for key in (kind.folder, *kind.fields):
            assert f"`{key}`" in MARKS or f"/{key}/" in MARKS, key


def test_rows_are_as_wide_as_the_page_says():
    written = msgpack.unpackb(manifest.encode(MANIFEST))
    for key in ("actors", "channels", "chunks"):
        (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{key}` | an array of `[")]
        inner = row.split("`[", 1)[1].rsplit("]`", 1)[0].replace("[method, ...]", "methods")
        assert len(inner.split(", ")) == len(written[key][0]), key


def test_algorithms_and_functions_that_pickles_name_are_on_the_page():
    for key in (None, SigningKey(b"k" * 32)):
        assert f"| `{msgpack.unpackb(seal(b'', key))[2]}` |" in PAGE
    pickling = "rayshot.format.pickling"
    ours = ("sentinels.named", "shared_arrays.view")
    for name in (
        REBIND,
        "rayshot.runtime.door.plain_handles.plain_handle",
        f"{pickling}.own_instance",
        f"{pickling}.put_again",
        *(f"rayshot.format.{one}" for one in ours),
    ):
        assert f"| `{name}` " in PAGE
