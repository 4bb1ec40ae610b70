"""Wrong systems and wrong classes: plays with something outside notice each. See `mistakes`."""

import pytest

from rayshot.runtime.actor.outside import OutsideWork
from rayshot.runtime.coordinator.collector_runner import CollectorRunner
from rayshot.runtime.coordinator.commit_news import CommitNews
from tests.fake.mistakes import Mistakes
from tests.fake.outside_play import play
from tests.fake.outsiders import Holder, Outside, Register

MISTAKES = Mistakes(play, 40)
mistake = MISTAKES.mistake


@mistake(Register, "on_snapshot")
def a_batch_leaves_the_state_with_the_next_snapshot(wrong, on_snapshot, self, cut):
    if wrong:
        self.sealed.clear()
    return on_snapshot(self, cut)


@mistake(Register, "take")
def a_row_is_written_twice(wrong, take, self, sender, number):
    take(self, sender, number)
    if wrong and number % 7 == 3:
        self.open.append((sender, number))


@mistake(Holder, "on_restore")
def an_engine_comes_back_from_the_latest_that_it_kept(wrong, on_restore, self, back):
    latest = [*Outside.present.engines[back.actor].kept][-1]
    back.payload = {"kept": latest} if wrong else back.payload
    on_restore(self, back)


@mistake(Holder, "on_restore")
def an_engine_does_not_come_back(wrong, on_restore, self, back):
    if not wrong:
        on_restore(self, back)


@mistake(OutsideWork, "may_end")
def a_guest_leaves_before_its_rows_are_visible(wrong, may_end, self):
    return wrong or may_end(self)


@mistake(CommitNews, "await_settled")
def a_stop_awaits_nobody(wrong, await_settled, self):
    return () if wrong else await_settled(self)


@mistake(CollectorRunner, "_commit")
def rows_become_visible_before_the_commit(wrong, commit, self, cut):
    if wrong and cut.snapshot in self._gathered:
        with self.lock:
            self.news.committed(cut.snapshot, self._gathered[cut.snapshot].settling)
    commit(self, cut)


@pytest.mark.sampled("more cases of one kind", keeps=3)
@pytest.mark.parametrize("name", [*MISTAKES])
def test_a_wrong_system_is_noticed(name):
    MISTAKES.check_noticed(name)
