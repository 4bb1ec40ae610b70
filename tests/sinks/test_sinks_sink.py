import pickle

import polars as pl
import pyarrow as pa
import pytest

from rayshot.errors import SinkAhead, SinkBehind, SinkFenced, SinkTaken
from rayshot.sinks import Held, Sink
from tests.sinks.tables import Life, Table, ToTable, numbers, settle, token


@pytest.fixture
def table():
    ToTable.table = Table()
    yield ToTable.table
    del ToTable.table


def seen(table):
    return [row["n"] for row in table.rows]


def test_rows_become_visible_behind_the_commit_and_not_before(table):
    life = Life(ToTable())
    life.sink.write(numbers(3))
    record = life.record()
    assert seen(table) == []
    settle(life.commit(record))
    assert seen(table) == [0, 1, 2]


def test_a_payload_says_how_far_the_sink_is(table):
    life = Life(ToTable())
    life.sink.write(numbers(3))
    life.record()
    life.sink.write(numbers(2))
    assert life.record()[1] == {"sequence": 2, "line": "run:1:owner-1", "batches": 2, "rows": 5}
    assert Life(ToTable(), 2).record()[1] == {"sequence": 0, "line": "run:2:owner-2", "batches": 0, "rows": 0}


def test_what_an_aborted_snapshot_sealed_is_in_the_next_one_and_published_with_it(table):
    life = Life(ToTable())
    life.sink.write(numbers(1))
    life.record()
    life.sink.write(numbers(1, 1))
    record = life.record()
    Life.loaded(record, 2)
    assert seen(table) == [0, 1]


def test_a_batch_stays_in_the_state_until_it_is_known_to_be_visible(table):
    life = Life(ToTable())
    life.sink.write(numbers(1))
    work = life.commit(life.record())
    assert pickle.loads(life.record()[0]).sealed.keys() == {1}
    settle(work)
    assert pickle.loads(life.record()[0]).sealed == {}


def test_an_answer_that_is_lost_doubles_nothing(table):
    life = Life(ToTable())
    life.sink.write(numbers(2))
    work = life.commit(life.record())
    table.fail, table.done = ConnectionError("reset by peer"), True
    with pytest.raises(ConnectionError):
        work()
    work()
    assert seen(table) == [0, 1]


def test_a_commit_that_is_told_twice_or_again_in_the_next_life_doubles_nothing(table):
    life = Life(ToTable())
    life.sink.write(numbers(2))
    record = life.record()
    settle(life.commit(record))
    assert life.commit(record) is None
    back = Life.restored(record, 2)
    assert back.commit(record) is None
    assert seen(table) == [0, 1]


def test_a_commit_publishes_no_batch_of_a_later_snapshot(table):
    life = Life(ToTable())
    life.sink.write(numbers(1))
    first = life.record()
    life.sink.write(numbers(1, 1))
    life.record()
    settle(life.commit(first))
    assert seen(table) == [0]


def test_what_was_durable_and_not_visible_is_published_when_all_are_loaded_and_not_in_on_restore(table):
    life = Life(ToTable())
    life.sink.write(numbers(2))
    record = life.record()
    back = Life.restored(record, 2)
    assert seen(table) == []
    settle(back.commit(record))
    assert seen(table) == [0, 1]


def test_a_thread_of_an_earlier_life_that_wakes_up_is_fenced(table):
    life = Life(ToTable())
    record = life.snapshot()
    life.sink.write(numbers(1, 7))
    late = life.commit(life.record())
    back = Life.loaded(record, 2)
    with pytest.raises(SinkFenced, match=r"life 2 has shop/sink, so life 1 may not write there"):
        late()
    back.sink.write(numbers(1))
    back.snapshot()
    assert seen(table) == [0]


def test_a_new_actor_is_refused_where_batches_are_there_already(table):
    life = Life(ToTable())
    life.sink.write(numbers(1))
    life.snapshot()
    for _ in range(2):
        with pytest.raises(
            SinkAhead, match=r"shop/sink is new, and batch 1 of line run:1:owner-1 is there already"
        ) as caught:
            Life(ToTable(), 2).record()
    assert caught.value.evidence == {
        "actor": "sink",
        "there": {"sequence": 1, "line": "run:1:owner-1"},
        "here": {"sequence": 0, "line": ""},
    }


def test_a_new_actor_whose_table_is_away_is_taken_by_a_later_snapshot(table):
    life = Life(ToTable())
    life.sink.write(numbers(1))
    table.fail = ConnectionError("refused")
    with pytest.raises(ConnectionError):
        life.record()
    life.snapshot()
    assert seen(table) == [0]


def test_two_first_snapshots_at_once_take_the_table_once(table):
    life = Life(ToTable())
    life.sink.write(numbers(1))
    first, second = (life.sink.on_snapshot(life.cut()) for _ in range(2))
    settle(life.commit((b"", first())))
    assert second() == {"sequence": 1, "line": "run:1:owner-1", "batches": 1, "rows": 1}
    assert seen(table) == [0]


def test_a_table_that_has_more_than_the_snapshot_is_refused_with_the_numbers(table):
    life = Life(ToTable())
    life.sink.write(numbers(1))
    old = life.snapshot()
    life.sink.write(numbers(1, 1))
    life.snapshot()
    with pytest.raises(
        SinkAhead, match=r"has batch 2 of line run:1:owner-1, and snapshot 1-coordinator-1 says batch 1 of"
    ) as caught:
        Life.restored(old, 2)
    assert caught.value.evidence == {
        "actor": "sink",
        "snapshot": "1-coordinator-1",
        "there": {"sequence": 2, "line": "run:1:owner-1"},
        "here": {"sequence": 1, "line": "run:1:owner-1"},
    }
    assert seen(table) == [0, 1]


def test_a_table_from_a_backup_is_refused_with_the_numbers(table):
    life = Life(ToTable())
    backup = life.snapshot() and table.claim
    life.sink.write(numbers(1))
    life.snapshot()
    life.sink.write(numbers(1, 1))
    record = life.snapshot()
    table.claim, table.rows = backup, []
    with pytest.raises(SinkBehind, match=r"has batch 0, and snapshot .* says batch 2 of .*, of which 1 were visible"):
        Life.restored(record, 2, again="restore-1")


@pytest.mark.parametrize("life_of_the_backup", [1, 2])
def test_a_table_from_a_backup_is_noticed_by_the_life_that_runs(table, life_of_the_backup):
    life = Life(ToTable())
    backup = life.snapshot() and table.claim
    life.sink.write(numbers(1))
    record = life.snapshot()
    if life_of_the_backup == 1:
        life = Life.loaded(record, 2)
    table.claim, table.rows = backup, []
    life.sink.write(numbers(1, 1))
    words = (
        "would leave a gap"
        if life_of_the_backup == 2
        else "as life 1 had it, and life 2 took it: it came from a backup"
    )
    with pytest.raises(SinkBehind, match=words):
        life.snapshot()
    assert seen(table) == []


class TestOthers:
    """Several systems want the table."""

    def test_another_run_has_it_only_by_takeover_and_then_the_first_one_has_it_not(self, table):
        life = Life(ToTable())
        life.sink.write(numbers(1))
        record = life.snapshot()
        with pytest.raises(SinkTaken, match="shop/sink belongs to another run, run: end that system"):
            Life.restored(record, token(5, "copy"))
        copy = Life.loaded(record, token(5, "copy"), takeover=True)
        life.sink.write(numbers(1, 1))
        with pytest.raises(SinkTaken):
            life.snapshot()
        copy.sink.write(numbers(1, 2))
        copy.snapshot()
        assert seen(table) == [0, 2]

    def test_of_two_copies_of_a_storage_that_are_resumed_one_has_it_though_their_lives_have_the_same_number(
        self, table
    ):
        life = Life(ToTable())
        life.sink.write(numbers(1))
        record = life.snapshot()
        first = Life.loaded(record, token(2))
        with pytest.raises(SinkTaken, match="shop/sink belongs to a copy of this storage, in life 2"):
            Life.restored(record, token(2, owner="the other"))
        first.sink.write(numbers(1, 1))
        first.snapshot()
        assert seen(table) == [0, 1]

    def test_a_restore_that_is_refused_keeps_nobody_out(self, table):
        life = Life(ToTable())
        old = life.snapshot()
        life.sink.write(numbers(1))
        life.snapshot()
        with pytest.raises(SinkAhead):
            Life.restored(old, token(2, "copy"), takeover=True)
        life.sink.write(numbers(1, 1))
        life.snapshot()
        assert seen(table) == [0, 1]

    def test_a_storage_that_was_put_back_to_earlier_lives_may_have_it_by_takeover(self, table):
        record = Life(ToTable()).snapshot()
        Life.loaded(record, 7)
        with pytest.raises(SinkFenced):
            Life.restored(record, 3)
        back = Life.loaded(record, 3, takeover=True)
        back.sink.write(numbers(1))
        back.snapshot()
        assert seen(table) == [0]


class TestLines:
    """Two lives that go back to one snapshot both number what follows from the same number on."""

    @pytest.fixture
    def durable(self, table):
        """Snapshots with batch 1, which is visible, and with batch 2, which is durable and not visible."""
        life = Life(ToTable())
        life.sink.write(numbers(1))
        first = life.snapshot()
        life.sink.write(numbers(1, 1))
        return first, life.record()

    def test_a_batch_of_another_line_is_not_taken_for_the_own_one_with_its_number(self, table, durable):
        first, second = durable
        back = Life.loaded(first, 2)
        back.sink.write(numbers(1, 30))
        back.snapshot()
        with pytest.raises(
            SinkAhead, match=r"has batch 2 of line run:2:owner-2, and snapshot .* says batch 2 of line run:1"
        ):
            Life.restored(second, 3)
        Life.loaded(second, 3, again="restore-1")
        assert set(seen(table)) == {0, 1, 30}

    def test_nor_if_another_run_had_it_meanwhile(self, table, durable):
        first, second = durable
        copy = Life.loaded(first, token(2, "copy"), takeover=True)
        copy.sink.write(numbers(1, 30))
        copy.snapshot()
        with pytest.raises(SinkAhead, match="of line copy:2"):
            Life.restored(second, 2, takeover=True)

    def test_what_a_life_sealed_and_nobody_published_leaves_no_trace_in_the_next(self, table, durable):
        back = Life.loaded(durable[0], 2)
        back.sink.write(numbers(1, 30))
        record = back.record()
        Life.loaded(record, 3)
        assert seen(table) == [0, 30]


class TestAgain:
    """A person goes back behind what is visible, and has it published a second time."""

    @pytest.fixture
    def ahead(self, table):
        """A snapshot with batch 1, where the table has batch 2 of the same life."""
        life = Life(ToTable())
        life.sink.write(numbers(1))
        record = life.snapshot()
        life.sink.write(numbers(1, 1))
        life.snapshot()
        return record

    def test_what_comes_behind_the_snapshot_becomes_visible_again_in_a_line_of_its_own(self, table, ahead):
        back = Life.restored(ahead, 2, again="restore-1")
        assert table.claim.held == Held(2, "run:1:owner-1")  # not before all are loaded
        settle(back.commit(ahead))
        assert table.claim.held == Held(1, "restore-1")
        back.sink.write(numbers(1, 1))
        assert back.snapshot()[1] == {"sequence": 2, "line": "run:2:owner-2", "batches": 1, "rows": 1}
        assert seen(table) == [0, 1, 1]

    def test_if_the_table_is_away_the_next_snapshot_moves_it_back_before_it_is_durable(self, table, ahead):
        back = Life.restored(ahead, 2, again="restore-1")
        table.fail = ConnectionError("refused")
        with pytest.raises(ConnectionError):
            settle(back.commit(ahead))
        table.fail = ConnectionError("refused")
        with pytest.raises(ConnectionError):
            back.record()
        back.sink.write(numbers(1, 1))
        record = back.record()  # no commit was told, and it dies
        Life.loaded(record, 3)
        assert seen(table) == [0, 1, 1]

    def test_a_later_commit_that_takes_the_place_of_the_first_one_moves_it_back_too(self, table, ahead):
        back = Life.restored(ahead, 2, again="restore-1")
        table.fail = ConnectionError("refused")
        with pytest.raises(ConnectionError):
            settle(back.commit(ahead))
        back.sink.write(numbers(1, 1))
        back.sink.on_snapshot(back.cut())
        settle(back.commit((b"", {"sequence": 2})))
        assert seen(table) == [0, 1, 1]

    def test_lives_of_one_restore_publish_it_a_second_time_and_no_third(self, table):
        life = Life(ToTable())
        life.sink.write(numbers(1))
        life.record()
        life.sink.write(numbers(1, 1))
        record = life.snapshot()
        back = Life.loaded(record, 2)
        back.sink.write(numbers(1, 2))
        back.snapshot()
        for number in (3, 4, 5):
            Life.loaded(record, number, again="restore-1")
        assert seen(table) == [0, 1, 2, 0, 1]
        assert table.claim.held == Held(2, "restore-1")

    def test_two_restores_are_two_lines_though_their_lives_have_the_same_number(self, table, ahead):
        for run, start in (("run", 10), ("copy", 20)):
            back = Life.loaded(ahead, token(2, run), again=f"restore of {run}", takeover=True)
            for number in (start, start + 1):
                back.sink.write(numbers(1, number))
                back.snapshot()
        assert {20, 21} <= set(seen(table))

    def test_the_snapshot_is_not_restored_without_the_word_although_its_number_would_fit(self, table, ahead):
        Life.loaded(ahead, 2, again="restore-1")
        with pytest.raises(SinkAhead, match=r"has batch 1 of line restore-1, and snapshot .* says batch 1 of line run"):
            Life.restored(ahead, 3)

    def test_from_one_line_to_another_and_back_nothing_is_lost(self, table):
        """X has batch 1. N has batch 3, durable and not visible. From X again, up to 4'. Then to N: 3 must come."""
        life = Life(ToTable())
        life.sink.write(numbers(1))
        x = life.snapshot()
        life.sink.write(numbers(1, 1))
        life.snapshot()
        life.sink.write(numbers(1, 2))
        n = life.record()
        back = Life.loaded(x, 2, again="restore-1")
        for number in (11, 12, 13):
            back.sink.write(numbers(1, number))
            back.snapshot()
        Life.loaded(n, 3, again="restore-2")
        assert seen(table) == [0, 1, 11, 12, 13, 2]
        assert table.claim.held == Held(3, "restore-2")

    def test_a_sink_that_is_born_again_behind_such_a_restore_begins_at_zero(self, table):
        life = Life(ToTable())
        life.sink.write(numbers(2))
        life.snapshot()
        for number in (2, 3):  # the first one dies before a snapshot has it
            born = Life(ToTable(), number, again="restore-1")
            born.sink.write(numbers(2))
            record = born.record()
            assert table.claim.held == Held(0, f"run:{number}:owner-{number}")
        settle(born.commit(record))
        Life.loaded(record, 4)
        assert seen(table) == [0, 1, 0, 1]


class TestOlderClasses:
    """The class became a sink, or its snapshots were taken without its hooks."""

    def test_a_snapshot_without_a_payload_has_all_that_is_sealed(self, table):
        life = Life(ToTable())
        life.sink.write(numbers(1))
        state, _ = life.record()
        Life.loaded((state, None), 2)
        assert seen(table) == [0]

    def test_a_state_from_before_begins_as_a_new_sink(self, table):
        sink = ToTable.__new__(ToTable)
        sink.__setstate__({"shop": 7})
        back = Life(sink, 2)
        sink.on_restore(back.cut())
        settle(back.commit((b"", None)))
        sink.write(numbers(1))
        Life.loaded(back.snapshot(), 3)
        assert (sink.shop, seen(table)) == (7, [0])


class TestRoom:
    """A sink takes no messages while too many rows are durable and not visible."""

    class Narrow(ToTable):
        rows_waiting_max = 3

    def test_rows_that_are_not_durable_do_not_count(self, table):
        life = Life(self.Narrow())
        life.sink.write(numbers(9))
        assert life.sink.has_room()
        life.record()
        assert life.sink.has_room()

    def test_there_is_none_until_the_durable_rows_are_visible(self, table):
        life = Life(self.Narrow())
        life.sink.write(numbers(2))
        first = life.commit(life.record())
        assert life.sink.has_room()
        life.sink.write(numbers(2))
        second = life.commit(life.record())
        assert not life.sink.has_room()
        first()
        assert life.sink.has_room()
        second()
        assert life.sink._publisher.rows_waiting == 0

    def test_rows_that_were_visible_before_the_life_do_not_count(self, table):
        life = Life(self.Narrow())
        life.sink.write(numbers(3))
        record = life.snapshot()
        back = Life.loaded(record, 2)
        assert back.sink._publisher.rows_waiting == 0
        back.snapshot()
        assert back.sink.has_room()


class TestRows:
    """What `write` takes."""

    def test_arrow_tables_and_batches_of_a_snapshot_are_one_table(self, table):
        life = Life(ToTable())
        arrow = pa.table({"n": [1, 2]})
        life.sink.write(arrow)
        life.sink.write(arrow.to_batches()[0])
        life.record()
        assert life.sink.sealed[1].to_pydict() == {"n": [1, 2, 1, 2]}

    def test_a_slice_is_stored_without_the_table_around_it(self, table):
        life = Life(ToTable())
        life.sink.write(pa.table({"n": range(100_000)}).slice(7, 2))
        state, _ = life.record()
        assert len(state) < 10_000
        assert pickle.loads(state).sealed[1].to_pydict() == {"n": [7, 8]}

    def test_no_rows_are_no_batch(self, table):
        life = Life(ToTable())
        for nothing in ([], pa.table({"n": pa.array([], pa.int64())})):
            life.sink.write(nothing)
        assert life.record()[1]["sequence"] == 0

    @pytest.mark.parametrize(
        ("first", "then", "words"),
        [
            (None, ({"n": 1},), "a list of dicts or an Arrow table, not tuple"),
            (None, [{"n": 1}, {"m": 1}], "a dict with the keys n: this is {'m': 1}"),
            (None, pl.DataFrame({"n": [1]}), "not DataFrame"),
            (numbers(1), pa.table({"n": [1]}), "dicts came before, and now n: int64"),
            (pa.table({"n": [1]}), numbers(1), "n: int64 came before, and now dicts"),
            (pa.table({"n": [1]}), pa.table({"n": ["1"]}), "n: int64 came before, and now n: string"),
        ],
    )
    def test_rows_of_no_kind_or_of_two_are_refused_at_once(self, table, first, then, words):
        sink = ToTable()
        if first is not None:
            sink.write(first)
        before = list(sink.open)
        with pytest.raises(TypeError, match=words):
            sink.write(then)
        assert sink.open == before


def test_a_class_that_says_not_where_it_writes_is_told_what_lacks():
    with pytest.raises(NotImplementedError, match=r"Sink is a sink: define connect\(self\)"):
        Life(Sink()).record()
