"""Wrong drivers of a system that goes back: random programs notice each of them. See `tests.fake.mistakes`."""

import pytest

from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import ActorsMentioned
from rayshot.protocol.retained_calls import RetainedCalls
from rayshot.runtime.driver.channel import DriverChannel
from rayshot.runtime.driver.succession import Succession
from tests.fake.mistakes import Mistakes
from tests.runtime.going_back import going_back
from tests.runtime.test_runtime_going_back_at_random import Play


def play(seed):
    with going_back("alice", "bob") as world:
        played = Play(world, seed)
        played.run(250)
        played.check()
        played.check_rest()


MISTAKES = Mistakes(play, 60)
mistake = MISTAKES.mistake


@mistake(DriverChannel, "roll_back")
def nothing_is_told_again(wrong, roll_back, self, life, arrived):
    roll_back(self, life, max(arrived, self.transported) if wrong else arrived)


@mistake(DriverChannel, "roll_back")
def what_was_under_way_is_sent_again_in_the_life_of_now(wrong, roll_back, self, life, arrived):
    under_way, peer = list(self.in_flight.values()), self.peer
    roll_back(self, life, arrived)
    if wrong:
        self.peer = peer
        for batch in under_way:
            self.transmit(batch)


@mistake(RetainedCalls, "fetched")
def answers_of_an_earlier_life_count(wrong, fetched, self, receiver, call_id, given_in, present):
    return fetched(self, receiver, call_id, present if wrong else given_in, present)


@mistake(RetainedCalls, "ask")
def nobody_asks_for_outcomes_again(wrong, ask, self, receiver, handed, present):
    return [] if wrong else ask(self, receiver, handed, present)


@mistake(Driver, "handle")
def what_mentions_an_actor_does_not_wait_for_it(wrong, handle, self, event):
    return () if wrong and isinstance(event, ActorsMentioned) else handle(self, event)


@mistake(Succession, "take_over")
def an_end_that_was_undone_stays(wrong, take_over, self):
    session, ended = self._session, dict(self._session.life.ended)
    done = take_over(self)
    if wrong and done:
        session.life.ended.update(ended)
        for receiver in ended.keys() & session.channels.keys():
            session.channels[receiver].shut(ended[receiver])
    return done


@mistake(Driver, "missing")
def actors_are_not_made_again(wrong, missing, self, sent, ended):
    return [] if wrong else missing(self, sent, ended)


@mistake(DriverChannel, "release")
def a_snapshot_releases_all_that_was_told(wrong, release, self, last):
    release(self, max(last, self.transported - 1) if wrong else last)


@pytest.mark.sampled("more cases of one kind", keeps=6)
@pytest.mark.parametrize("name", [*MISTAKES])
def test_a_wrong_driver_is_noticed(name):
    MISTAKES.check_noticed(name)


@pytest.mark.parametrize("name", [*MISTAKES])
def test_its_twin_with_the_right_behaviour_is_not(name):
    MISTAKES.check_twin(name)
