"""Which vault writes what."""

from rayshot.runtime.members import Members


def members(*nodes):
    known = Members("bank", 1, "/shots", lambda *_: None)
    known._vaults.update({node: f"vault of {node}" for node in nodes})
    known._nodes.update(alice="near", bob="far", gone="left")
    return known


def test_a_vault_that_has_nothing_to_write_is_not_waited_for_as_its_node_may_be_gone():
    shares = members("left", "far", "near").shares({"alice": b"a", "bob": b"b", "unknown": b"u"})
    assert sorted(shares) == [("vault of far", [b"b"]), ("vault of left", [b"u"]), ("vault of near", [b"a"])]
    assert members("left", "far", "near").shares({"alice": b"a"}) == [("vault of near", [b"a"])]


def test_where_nobody_recorded_one_vault_writes_what_the_ended_left_behind():
    assert members("left", "near").shares({}) == [("vault of left", [])]
    assert members().shares({}) == []


def test_of_an_actor_that_ended_only_its_name_and_why_are_kept():
    known = members("left", "near")
    assert known.end("alice", "actor 'alice' ended")
    assert "alice" not in known._nodes
    assert known.fate("alice") == "actor 'alice' ended"
    assert not known.end("alice", "again")
