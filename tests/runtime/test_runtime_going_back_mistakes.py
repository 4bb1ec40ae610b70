"""Wrong drivers of a system that goes back: programs that do what chance says notice each of them."""

import pytest

from rayshot.runtime.life import succession
from rayshot.runtime.life.creations import Creations
from rayshot.runtime.life.keeping_channel import KeepingChannel
from rayshot.runtime.life.kept_calls import KeptCalls
from tests.runtime.going_back import World
from tests.runtime.test_runtime_going_back_at_random import Play

SEEDS = 60


def nothing_is_told_again(patch):
    heir = KeepingChannel.heir

    def forgetful(self, port, arrived, why):
        return heir(self, port, max(arrived, self.transported), why)

    patch.setattr(KeepingChannel, "heir", forgetful)


def what_was_under_way_is_sent_again_in_the_life_of_now(patch):
    heir = KeepingChannel.heir

    def restamping(self, port, arrived, why):
        under_way = list(self.in_flight.values())
        made = heir(self, port, arrived, why)
        for batch in under_way:
            made.transmit(batch)
        return made

    patch.setattr(KeepingChannel, "heir", restamping)


def answers_of_an_earlier_life_count(patch):
    answered = KeptCalls.answered

    def gullible(self, receiver, call_id, answer):
        self._open[call_id] = self._machine.incarnation
        return answered(self, receiver, call_id, answer if answer.__class__ is not bytes else b"")

    patch.setattr(KeptCalls, "answered", gullible)


def nobody_asks_for_outcomes_again(patch):
    patch.setattr(KeptCalls, "ask_again", lambda *_: None)


def what_mentions_an_actor_does_not_wait_for_it(patch):
    patch.setattr(KeepingChannel, "_last_free", lambda self: self.ordered)


def an_end_that_was_undone_stays(patch):
    take_over = succession.Heir.take_over

    def stubborn(self):
        ended = dict(self._old.ended)
        done = take_over(self)
        if done:
            self.port.ended.update(ended)
            for receiver, error in ended.items():
                if (channel := self.port.channels.get(receiver)) is not None:
                    channel.shut(error)
        return done

    patch.setattr(succession.Heir, "take_over", stubborn)


def actors_are_not_made_again(patch):
    patch.setattr(Creations, "without", lambda *_: {})


def a_snapshot_releases_all_that_was_told(patch):
    release = KeepingChannel.release
    patch.setattr(KeepingChannel, "release", lambda self, last: release(self, max(last, self.transported - 1)))


MISTAKES = [
    nothing_is_told_again,
    what_was_under_way_is_sent_again_in_the_life_of_now,
    answers_of_an_earlier_life_count,
    nobody_asks_for_outcomes_again,
    what_mentions_an_actor_does_not_wait_for_it,
    an_end_that_was_undone_stays,
    actors_are_not_made_again,
    a_snapshot_releases_all_that_was_told,
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_wrong_driver_is_noticed(mistake):
    for seed in range(SEEDS):
        with pytest.MonkeyPatch.context() as patch:
            mistake(patch)
            world = World(patch, "alice", "bob")
            try:
                play = Play(world, seed)
                play.run(250)
                play.check()
                play.check_rest()
            except Exception:  # noqa: BLE001 - an assertion of the code, or a play that cannot go on, is a notice too
                return
            finally:
                world.close()
    pytest.fail(f"it survived {SEEDS} plays")
