"""Ids of snapshots: their text, which is a part of keys, and what stands in it for actors with names of any text."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rayshot.errors import ConfigError
from rayshot.protocol.identity import (
    NAME_LENGTH_MAX,
    RESERVED,
    SnapshotId,
    check_actor_name,
    check_name,
    initiator_of,
    is_driver,
)

NAMES = [
    "a", "0", "A-1_b.c", "x-3", " ", "-a", ".a", "..", "_a", "a b", "a/b", "../x", "a\\b", "worker:0", "[bold]x", "%2F",
    "{n!r}", "käse 🧀", "👩‍🚀", "\u202egnp.exe", "make.<locals>.Cell-1", "1-a-1", "a-1.2", "null", "driver", "Driver:x",
]  # fmt: skip
"""Of actors: a text of any kind each."""
names = st.one_of(
    st.sampled_from(NAMES),
    st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=NAME_LENGTH_MAX),
    st.text("ab_.-/2f", min_size=1, max_size=NAME_LENGTH_MAX),
).filter(lambda name: name not in RESERVED and not is_driver(name))


@pytest.mark.parametrize(
    "snapshot",
    [
        SnapshotId(1, "coordinator", 1),
        SnapshotId(10, "7-a.b_c-9", 0),
        SnapshotId(2**63 - 1, "a" * NAME_LENGTH_MAX, 2**63 - 1),
    ],
)
def test_the_text_of_an_id_is_read_back(snapshot):
    assert SnapshotId.parse(str(snapshot)) == snapshot


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest",
        "1-coordinator",
        "01-coordinator-1",
        "1-coordinator-01",
        "1-coordinator-+1",
        "1-coordinator-1\n",
        "1-co ordinator-1",
        "\u0661-coordinator-1",
        "1-coordinator-\u00b2",
        f"{'1' * 5000}-coordinator-1",
        f"1-coordinator-{'1' * 5000}",
        f"1-{'a' * (NAME_LENGTH_MAX + 1)}-1",
    ],
    ids=len,
)
def test_what_no_id_is_written_as_is_refused_in_a_short_line(text):
    with pytest.raises(ConfigError, match="is not a snapshot id") as caught:
        SnapshotId.parse(text)
    assert len(str(caught.value)) < 300


@pytest.mark.acceptance("X3")
@given(names, names, st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1))
def test_no_two_snapshots_of_actors_with_any_names_have_the_same_id(one, other, incarnation, counter):
    snapshots = {
        (name, counts): SnapshotId(counts[0], initiator_of(name), counts[1])
        for name in (one, other)
        for counts in ((incarnation, counter), (counter, incarnation))
    }
    texts = {str(snapshot) for snapshot in snapshots.values()}
    assert len(texts) == len(snapshots)
    for snapshot in snapshots.values():
        assert SnapshotId.parse(str(snapshot)) == snapshot
        assert not snapshot.by_coordinator


@pytest.mark.acceptance("X3")
@given(names)
@example("🧀" * NAME_LENGTH_MAX)
@example("/" + "0" * 62)
def test_a_name_that_can_name_a_system_stands_for_itself_and_another_is_told_by_its_first_sign(name):
    initiator = initiator_of(name)
    try:
        check_name(name, "an actor")
    except ConfigError:
        assert initiator.startswith("_")
    else:
        assert initiator == name


def test_what_stands_for_a_name_is_readable_where_that_is_short_enough():
    assert initiator_of("worker:0") == "_worker_3a0"
    assert initiator_of("a_b/c") == "_a_5fb_2fc"
    assert initiator_of("ü") == "__c3_bc"
    assert len(initiator_of("/" * 42)) == 127
    assert initiator_of("/" * 43) == "_84fb696b241ae984e2a42b8c84e96c3f805c6db317f5d3238de1af1a821af694"  # its SHA-256


@pytest.mark.acceptance("X3")
@given(st.text(max_size=NAME_LENGTH_MAX + 1))
def test_a_name_is_any_text_but_for_what_cannot_be_told_from_others_or_shown_on_a_line(name):
    wrong = (
        not 0 < len(name) <= NAME_LENGTH_MAX
        or any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in name)
        or name.startswith("driver:")
        or name in RESERVED
    )
    if wrong:
        with pytest.raises(ConfigError, match="cannot name an actor"):
            check_actor_name(name)
    else:
        assert check_actor_name(name) == name
        assert len(name.splitlines()) == 1
