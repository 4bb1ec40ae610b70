"""What a vault answers comes to the coordinator as it was."""

import pickle

from rayshot.format.manifest import Blob, CapturedState, Chunk, Span
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.identity import Channel
from rayshot.runtime.stored import Stored, StoredActor, pack_stored, unpack_stored

DIGEST = "ab" * 32
WHOLE = Blob((Span(DIGEST, 0, 5), Span(DIGEST, 9, 1)))
EMPTY = Blob(())


def answered(stored):
    return unpack_stored(pickle.loads(pickle.dumps(pack_stored(stored))))


def test_everything_that_a_vault_wrote_comes_back():
    known = ActorSpecification("shop", "Till", None, ("sell", "close"), {"version": 2, "num_cpus": 0.5}, 2)
    local = ActorSpecification("__main__", "Till", b"\x80pickle", (), {}, 1)
    stored = Stored(
        {
            "born": StoredActor(known, None, CapturedState("pickle", WHOLE, (EMPTY, WHOLE))),
            "bare": StoredActor(known, None, CapturedState("cloudpickle", EMPTY)),
            "unborn": StoredActor(local, WHOLE, None),
        },
        {Channel("born", "unborn"): WHOLE},
        {Channel("driver:1", "born"): EMPTY, Channel("born", "bare"): WHOLE},
        {"born": WHOLE},
        (Chunk("chunks/ab", DIGEST, 10, 8, "zstd"),),
        8,
    )
    assert answered(stored) == stored


def test_nothing_written_is_nothing():
    nothing = Stored({}, {}, {}, {}, (), 0)
    assert answered(nothing) == nothing
