"""Readers whose layout has few containers build no more of them, however many a few bytes announce."""

from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from rayshot.audit.document import _stream
from rayshot.audit.findings import Unproved
from rayshot.audit.segment import read_segment
from rayshot.errors import BadManifest
from rayshot.format.codec import Frame, pack_frames, read_frames, read_messages
from rayshot.format.msgpack_walk import ContainerBudget

COUNT = 100_000
pytestmark = pytest.mark.acceptance("G12")


def bomb(kind: bytes) -> bytes:
    """An array of as many empty lists or maps."""
    return b"\xdd" + COUNT.to_bytes(4, "big") + kind * COUNT


def tree(leaf: bytes) -> bytes:
    """As many, no more than three in one array."""
    for _ in range(10):
        leaf = b"\x93" + leaf * 3
    return leaf


def segment(names: bytes, events: bytes) -> bytes:
    head = [1, False, "", 1, {}, {}]
    return b"\x98" + b"".join(map(msgpack.packb, head)) + names + msgpack.packb(events)


READERS: dict[str, Callable[[bytes], Any]] = {
    "argument of a tell": lambda nested: list(read_messages(Frame(1, 1, b"\x92\xa1m" + nested))),
    "argument of a call": lambda nested: list(read_messages(Frame(1, 1, msgpack.packb([1, 7, b"\x92\xa1m" + nested])))),
    "part of a frame": lambda nested: list(read_frames(b"\x93\x01\x01" + tree(nested[-1:]))),
    "message, audited": lambda nested: list(_stream(b"\x92\xa1m" + nested)),
    "names of a trace": lambda nested: read_segment("alice", segment(nested, b"")),
    "event of a trace": lambda nested: read_segment("alice", segment(b"\x91\xa1b", b"\x93\x01\x00" + nested)),
}


@pytest.mark.parametrize("kind", [b"\x90", b"\x80"], ids=["lists", "maps"])
@pytest.mark.parametrize("where", READERS)
def test_containers_where_nobody_writes_any_are_refused_before_they_are_built(
    where: str, kind: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0

    def count(original: Callable[..., Any]) -> Callable[..., Any]:
        def take(self: Any, container: Any) -> Any:
            nonlocal taken
            taken += 1
            return original(self, container)

        return take

    monkeypatch.setattr("rayshot.format.msgpack_walk.ContainerBudget._take", count(ContainerBudget._take))
    with pytest.raises((BadManifest, Unproved)):
        READERS[where](bomb(kind))
    assert 0 < taken < 10


def test_each_message_has_its_own_budget() -> None:
    bodies = [msgpack.packb(["deposit", number]) for number in range(1, 4)]
    frames = pack_frames([Frame(1, 2, bodies[0] + bodies[1]), Frame(3, 1, bodies[2])])
    read = [message.args for frame in read_frames(frames) for message in read_messages(frame)]
    assert read == [(1,), (2,), (3,)]
