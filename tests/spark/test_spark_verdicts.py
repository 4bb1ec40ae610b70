"""A stable property asked of all snapshots by Spark."""

import pytest

from pyspark_rayshot import verdicts
from rayshot.analysis.verdicts import verdict_table
from rayshot.errors import NotStable
from rayshot.properties import counter_reached, possibly, stable, termination
from rayshot.snapshots.catalog import open as open_storage

pytestmark = pytest.mark.spark


def test_it_gives_the_rows_that_the_table_gives(spark, storage):
    for asked in (termination(), counter_reached("alice", "balance", 50)):
        frame = verdicts(spark, str(storage), asked)
        rows = [row.asDict() for row in frame.orderBy("log_index").collect()]
        assert rows == [
            row | {"taken_at": row["taken_at"].replace(tzinfo=None)}
            for row in verdict_table(open_storage(storage).system(), asked).to_pylist()
        ]
        assert len(rows) == 2


def test_a_predicate_of_this_program_travels_to_the_tasks(spark, storage):
    @stable(name="many actors")
    def many(state):
        return len(state.actors) >= 3

    frame = verdicts(spark, str(storage), many, snapshot="latest")
    assert [(row.property, row.holds) for row in frame.collect()] == [("many actors", True)]
    assert "null where the snapshot does not tell" in str(frame.schema["holds"].metadata)


def test_what_is_not_stable_is_refused_here_and_what_raises_names_itself(spark, storage):
    with pytest.raises(NotStable):
        verdicts(spark, str(storage), possibly(lambda state: True))
    broken = stable(lambda state: state.actor("nobody"), name="broken")
    with pytest.raises(Exception, match=r"'broken', asked of 1-coordinator-\d, raised ActorNotFound"):
        verdicts(spark, str(storage), broken).collect()
