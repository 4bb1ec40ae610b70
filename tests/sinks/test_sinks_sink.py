import pickle

import pyarrow as pa
import pytest

from rayshot.errors import NotReady, SinkAhead, SinkBehind, SinkFenced, SinkTaken
from rayshot.sinks import Held, Sink
from tests.sinks.tables import Life, Table, ToTable, numbers


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
    life.settle(life.commit(record))
    assert seen(table) == [0, 1, 2]


def test_a_payload_says_how_far_the_sink_is(table):
    life = Life(ToTable())
    life.sink.write(numbers(3))
    life.record()
    life.sink.write(numbers(2))
    assert life.record()[1] == {"sequence": 2, "branch": 0, "batches": 2, "rows": 5}
    assert Life(ToTable(), life=2).record()[1] == {"sequence": 0, "branch": 0, "batches": 0, "rows": 0}


def test_what_an_aborted_snapshot_sealed_is_in_the_next_one_and_published_with_it(table):
    life = Life(ToTable())
    life.sink.write(numbers(1))
    life.record()
    life.sink.write(numbers(1, 1))
    record = life.record()
    back = Life.restored(record, 2)
    back.settle(back.all_loaded(record))
    assert seen(table) == [0, 1]


def test_a_batch_stays_in_the_state_until_it_is_known_to_be_visible(table):
    life = Life(ToTable())
    life.sink.write(numbers(1))
    work = life.commit(life.record())
    assert pickle.loads(life.record()[0]).sealed.keys() == {1}
    life.settle(work)
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
    life.settle(life.commit(record))
    assert life.commit(record) is None
    back = Life.restored(record, 2)
    assert back.all_loaded(record) is None
    assert seen(table) == [0, 1]


def test_a_commit_publishes_no_batch_of_a_later_snapshot(table):
    life = Life(ToTable())
    life.sink.write(numbers(1))
    first = life.record()
    life.sink.write(numbers(1, 1))
    life.record()
    life.settle(life.commit(first))
    assert seen(table) == [0]


def test_what_was_durable_and_not_visible_is_published_when_all_are_loaded_and_not_in_on_restore(table):
    life = Life(ToTable())
    life.sink.write(numbers(2))
    record = life.record()
    back = Life.restored(record, 2)
    assert seen(table) == []
    back.settle(back.all_loaded(record))
    assert seen(table) == [0, 1]


def test_a_thread_of_an_earlier_life_that_wakes_up_is_fenced(table):
    life = Life(ToTable())
    record = life.snapshot()
    life.sink.write(numbers(1, 7))
    late = life.commit(life.record())
    back = Life.restored(record, 2)
    back.settle(back.all_loaded(record))
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
        with pytest.raises(SinkAhead, match=r"shop/sink is new, and batch 1 is there already") as caught:
            Life(ToTable(), life=2).record()
    assert caught.value.evidence == {
        "actor": "sink",
        "there": {"sequence": 1, "branch": 0},
        "here": {"sequence": 0, "branch": 0},
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
    record = life.record()
    life.sink._publisher.held = None  # the second hook runs before the first one's function has ended
    second = life.sink.on_snapshot(type("Cut", (), {"system": "shop", "actor": "sink", "run": "run", "life": 1}))
    life.sink._publisher.held = Held()
    life.settle(life.commit(record))
    assert second() == {"sequence": 1, "branch": 0, "batches": 1, "rows": 1}


def test_a_table_that_has_more_than_the_snapshot_is_refused_with_the_numbers(table):
    life = Life(ToTable())
    life.sink.write(numbers(1))
    old = life.snapshot()
    life.sink.write(numbers(1, 1))
    life.snapshot()
    with pytest.raises(SinkAhead, match=r"has batch 2, and snapshot 1-coordinator-1 says batch 1") as caught:
        Life.restored(old, 2)
    assert caught.value.evidence == {
        "actor": "sink",
        "snapshot": "1-coordinator-1",
        "there": {"sequence": 2, "branch": 0},
        "here": {"sequence": 1, "branch": 0},
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
    with pytest.raises(SinkBehind, match=r"has batch 0, and snapshot .* says batch 2, with rows from batch 2 on"):
        Life.restored(record, 2, again=True)


def test_a_table_from_a_backup_is_noticed_by_the_life_that_runs(table):
    life = Life(ToTable())
    backup = life.snapshot() and table.claim
    life.sink.write(numbers(1))
    life.snapshot()
    table.claim, table.rows = backup, []
    life.sink.write(numbers(1, 1))
    with pytest.raises(SinkBehind, match="has batches up to 0, so batch 2 would leave a gap"):
        life.snapshot()
    assert seen(table) == []


def test_another_run_has_the_table_only_by_takeover_and_then_the_first_one_has_it_not(table):
    life = Life(ToTable())
    life.sink.write(numbers(1))
    record = life.snapshot()
    with pytest.raises(SinkTaken, match="shop/sink belongs to another run, run: end that system"):
        Life.restored(record, 5, "copy")
    copy = Life.restored(record, 5, "copy", takeover=True)
    copy.settle(copy.all_loaded(record))
    life.sink.write(numbers(1, 1))
    with pytest.raises(SinkTaken):
        life.snapshot()
    copy.sink.write(numbers(1, 2))
    copy.snapshot()
    assert seen(table) == [0, 2]


class TestAgain:
    """A person goes back behind what is visible, and has it published a second time."""

    @pytest.fixture
    def ahead(self, table):
        """A snapshot with batch 1, where the table has batch 2."""
        life = Life(ToTable())
        life.sink.write(numbers(1))
        record = life.snapshot()
        life.sink.write(numbers(1, 1))
        life.snapshot()
        return record

    def test_what_comes_behind_the_snapshot_becomes_visible_again_in_a_branch_of_its_own(self, table, ahead):
        back = Life.restored(ahead, 2, again=True)
        assert table.claim.held == Held(2, 0)  # not before all are loaded
        back.settle(back.all_loaded(ahead))
        assert table.claim.held == Held(1, 2)
        back.sink.write(numbers(1, 1))
        assert back.snapshot()[1] == {"sequence": 2, "branch": 2, "batches": 1, "rows": 1}
        assert seen(table) == [0, 1, 1]

    def test_no_snapshot_is_taken_before_the_numbers_have_moved_back(self, table, ahead):
        back = Life.restored(ahead, 2, again=True)
        work = back.all_loaded(ahead)
        table.fail = ConnectionError("refused")
        with pytest.raises(ConnectionError):
            work()
        with pytest.raises(NotReady, match="shop/sink has not been moved back to batch 1 yet"):
            back.record()
        work()
        assert back.snapshot()[1]["branch"] == 2

    def test_the_word_holds_in_the_next_life_if_this_one_has_no_snapshot(self, table, ahead):
        for life in (2, 3):
            back = Life.restored(ahead, life, again=True)
            back.settle(back.all_loaded(ahead))
        back.sink.write(numbers(1, 1))
        after = back.snapshot()
        Life.restored(after, 4)
        assert seen(table) == [0, 1, 0, 1]  # batch 1 was sealed in the snapshot: another branch says nothing of it

    def test_the_old_branch_is_not_restored_without_the_word_although_its_numbers_would_fit(self, table, ahead):
        back = Life.restored(ahead, 2, again=True)
        back.settle(back.all_loaded(ahead))
        with pytest.raises(SinkAhead, match=r"has batch 1 of branch 2, and snapshot .* says batch 1"):
            Life.restored(ahead, 3)

    def test_a_table_from_a_backup_before_the_branch_is_behind_though_its_number_is_higher(self, table, ahead):
        backup, rows = table.claim, list(table.rows)
        back = Life.restored(ahead, 2, again=True)
        back.settle(back.all_loaded(ahead))
        record = back.snapshot()
        table.claim, table.rows = backup, rows
        with pytest.raises(SinkBehind, match=r"has batch 2, and snapshot .* says batch 1 of branch 2: it was restored"):
            Life.restored(record, 3, again=True)

    def test_numbers_of_two_branches_are_not_compared(self, table):
        """X has batch 1. N has batch 3, durable and not visible. From X again, up to 4'. Then to N: 3 must come."""
        life = Life(ToTable())
        life.sink.write(numbers(1))
        x = life.snapshot()
        life.sink.write(numbers(1, 1))
        life.snapshot()
        life.sink.write(numbers(1, 2))
        n = life.record()
        back = Life.restored(x, 2, again=True)
        back.settle(back.all_loaded(x))
        for number in (11, 12, 13):
            back.sink.write(numbers(1, number))
            back.snapshot()
        back = Life.restored(n, 3, again=True)
        back.settle(back.all_loaded(n))
        assert seen(table) == [0, 1, 11, 12, 13, 2]
        assert table.claim.held == Held(3, 3)


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
        back = Life.restored(record, 2)
        back.settle(back.all_loaded(record))
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
        life.sink.write([])
        life.sink.write(pa.table({"n": pa.array([], pa.int64())}))
        assert life.record()[1]["sequence"] == 0

    @pytest.mark.parametrize(
        ("first", "then", "words"),
        [
            (None, ({"n": 1},), "a list of dicts or an Arrow table, not tuple"),
            (None, {"n": 1}, "not dict"),
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
