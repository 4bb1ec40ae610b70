"""Wrong systems: plays of the whole runtime notice each. See `mistakes`."""

from dataclasses import replace

import pytest

from rayshot.protocol.participant import Participant
from rayshot.runtime.actor import loading
from rayshot.runtime.actor.channels import ActorChannel
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.mailbox import Mailbox
from rayshot.runtime.coordinator import life
from rayshot.runtime.coordinator.death_watch import DeathWatch
from rayshot.runtime.coordinator.loader import Loader
from rayshot.runtime.door.roster import Roster
from rayshot.runtime.driver.channel import DriverChannel
from tests.fake.door import fake
from tests.fake.mistakes import Mistakes
from tests.fake.play import Play


def play(seed):
    with fake(nodes=2) as cluster:
        played = Play(cluster, seed)
        if seed % 2:
            played.lose_calls()
        played.play()


MISTAKES = Mistakes(play, 80)
mistake = MISTAKES.mistake


@mistake(DriverChannel, "roll_back")
def a_driver_tells_nothing_again(wrong, roll_back, self, sender, arrived):
    roll_back(self, sender, max(arrived, self.transported) if wrong else arrived)


@mistake(Host, "_hears")
def a_host_obeys_a_coordinator_that_was_replaced(wrong, hears, self, issuer):
    return hears(self, issuer) or wrong


@mistake(Mailbox, "unprocessed")
def a_record_lacks_what_waits_in_the_mailbox(wrong, unprocessed, self, ends):
    found = unprocessed(self, ends)
    return {sender: [] for sender in found} if wrong else found


@mistake(DeathWatch, "add")
def nobody_watches(wrong, add, self, name, handle):
    if not wrong:
        add(self, name, handle)


@mistake(life, "taking_over")
def a_new_coordinator_takes_a_rollback_for_done(wrong, taking_over, remains, committer, settings, marked, evicted):
    return taking_over(remains, committer, settings, marked or wrong, evicted)


@mistake(DriverChannel, "release")
def a_driver_releases_all_that_it_told(wrong, release, self, last):
    release(self, max(last, self.transported - 1) if wrong else last)


@mistake(loading, "load_process")
def what_was_in_flight_is_not_loaded(wrong, load_process, process, plan, *before):
    return load_process(process, replace(plan, mailbox={}) if wrong else plan, *before)


@mistake(ActorChannel, "keep")
def a_batch_is_not_kept_for_the_snapshot_that_needs_it(wrong, keep, self, batch):
    if not wrong:
        keep(self, batch)


@mistake(Loader, "look")
def who_stands_still_is_loaded_for_ever(wrong, look, self, now):
    left, self.left = self.left, {} if wrong else self.left
    look(self, now)
    self.left = left


@mistake(Roster, "add")
def nobody_is_on_the_roster(wrong, add, self, name, *more):
    if not wrong:
        add(self, name, *more)


@mistake(Participant, "_batch_arrived")
def what_comes_twice_counts_twice(wrong, arrived, self, batch):
    is_old = batch.first + batch.count - 1 <= self.arrived(batch.sender)
    return arrived(self, replace(batch, first=self.arrived(batch.sender) + 1) if wrong and is_old else batch)


@pytest.mark.sampled("more cases of one kind", keeps=6)
@pytest.mark.parametrize("name", [*MISTAKES])
def test_a_wrong_system_is_noticed(name):
    MISTAKES.check_noticed(name)


@pytest.mark.parametrize("name", [*MISTAKES])
def test_its_twin_with_the_right_behaviour_is_not(name):
    MISTAKES.check_twin(name, 4)
