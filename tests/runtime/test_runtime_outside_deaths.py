"""Each step between the record of a row and the moment when it is visible, with a death there: actor or coordinator."""

import contextlib
import errno

import pytest
import ray

from rayshot.errors import OutsideFailed, RayshotError
from rayshot.runtime.door import failpoints
from tests.runtime.healed import die_at, until_it_runs
from tests.runtime.outsiders import Full, Trainer, Writer, rows
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def actor_dies_at(system, name, place):
    """That actor's process dies when it passes this failpoint next."""
    host = ray.get(system._identity.coordinator.actors.remote())[name]
    ray.get(host.__ray_call__.remote(lambda _: failpoints._table.update({place: 1})))


def snapshot_in_vain(system):
    with contextlib.suppress(RayshotError):
        system.snapshot()


@pytest.mark.acceptance("W1")
@pytest.mark.parametrize(
    ("who", "place"),
    [
        *(
            (who, place)
            for who in ("writer", "trainer")
            for place in ("after_on_snapshot", "before_record", "after_record", "before_outside_sealed")
        ),
        *(("writer", place) for place in ("after_on_commit", "before_publish", "after_publish")),
        *(("coordinator", place) for place in ("before_commit", "after_commit", "before_announce", "notice_settled")),
    ],
)
def test_a_death_at_each_step_loses_no_row_and_shows_none_twice(system, tmp_path, who, place):
    table = tmp_path / "table"
    writer = Writer.options(name="writer").remote(str(table))
    trainer = Trainer.options(name="trainer").remote(str(tmp_path))

    def work(*numbers):
        for number in numbers:
            writer.write.tell(number)
            trainer.step.tell()

    work(1, 2)
    system.snapshot()
    work(3)
    if who == "coordinator":
        die_at(system, place)
    else:
        actor_dies_at(system, who, place)
    snapshot_in_vain(system)
    work(4)
    until_it_runs(system, life=1 if who == "coordinator" else 2)
    system.snapshot()
    eventually(lambda: sorted(rows(table)) == [1, 2, 3, 4])
    assert ray.get(trainer.read.remote()) == 4


@pytest.mark.acceptance("W2")
def test_a_disk_that_is_full_under_a_hook_costs_the_snapshot_and_keeps_the_older_ones(system, tmp_path):
    actor = Full.options(name="full").remote(str(tmp_path))
    before = system.snapshot()
    (tmp_path / "full").touch()
    with pytest.raises(OutsideFailed, match=f"OSError.*{errno.ENOSPC}.*No space left"):
        system.snapshot()
    assert ray.get(actor.read.remote()) == 0
    (tmp_path / "full").unlink()
    system.snapshot()
    assert before.verify().sound
