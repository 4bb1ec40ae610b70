"""Which message is to blame: single decisions, and worlds at random in which some messages kill their actors."""

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from rayshot.protocol.poison import ALL_MAX, LETTERS_MAX, OTHERS_MAX, Caution, MessageId, Poison, Suspicion
from rayshot.protocol.recovery import Recovery
from rayshot.protocol.recovery_events import (
    BeginLife,
    CommitWritten,
    LifeBegan,
    LifeMarked,
    LoadProcess,
    Past,
    ProcessLoaded,
    ProcessLost,
    RecoveryEffect,
    RecoveryPolicy,
    StopSystem,
    WatchForPoison,
)
from tests.protocol.running import running

AT = 1000.0


def message(number: int, digest: bytes = b"", *, removable: bool = True) -> MessageId:
    return MessageId("driver:x", number, digest or bytes([number]), "eat", removable)


def suspicion(*, dead_letters: bool = True, fruitless_max: int = 3) -> Suspicion:
    return Suspicion(fruitless_max, dead_letters)


@dataclass
class Row:
    """A suspicion behind losses in a row, without a commit between them unless one is noted."""

    blame: Suspicion
    past: Past = field(default_factory=Past)

    def lose(self, process: str, handled: MessageId | None = None) -> str | Poison | None:
        """What is judged of a loss; the system goes back behind it."""
        verdict = self.blame.judge(process, handled, self.past.losses, self.past.led_nowhere(process))
        self.past = self.past.rolled_back(AT, process)
        return verdict

    def commit(self, count: int = 1) -> None:
        for _ in range(count):
            self.past = self.past.committed()

    @property
    def cautions(self) -> dict[str, Caution]:
        return dict(self.blame.cautions(self.past.losses))


def watched(process: str = "bob", *, dead_letters: bool = True, fruitless_max: int = 3) -> Row:
    """Behind so many losses of a process that it is watched."""
    row = Row(suspicion(dead_letters=dead_letters, fruitless_max=fruitless_max))
    assert [row.lose(process) for _ in range(fruitless_max - 1)] == [None] * (fruitless_max - 1)
    return row


# Single decisions ---------------------------------------------------------------------------------------------------


def test_who_was_lost_twice_in_a_row_is_watched_and_nobody_else() -> None:
    row = Row(suspicion())
    assert row.cautions == {}
    row.lose("bob")
    row.lose("alice")
    assert row.cautions == {}
    row.lose("bob")
    assert row.cautions == {"bob": Caution(says=True)}
    row.lose("alice")
    assert row.cautions == {"alice": Caution(says=True), "bob": Caution(says=True)}


def test_who_was_lost_before_there_was_progress_is_not_careful() -> None:
    row = watched("alice")
    row.commit(2)
    row.lose("bob")
    row.lose("bob")
    assert row.cautions == {"bob": Caution(says=True)}


def test_the_message_at_two_deaths_in_a_row_is_the_poison() -> None:
    row = watched()
    assert row.lose("bob", message(7)) is None
    assert row.lose("bob", message(7)) == Poison("bob", message(7))
    assert row.cautions == {"bob": Caution(says=True, letters=(message(7),))}


@pytest.mark.parametrize(
    "between", [None, message(8), message(7, b"other bytes under the same number"), replace(message(7), sender="alice")]
)
def test_a_death_with_another_message_or_with_none_between_breaks_the_row(between: MessageId | None) -> None:
    row = watched()
    assert not any(isinstance(row.lose("bob", handled), Poison) for handled in (message(7), between, message(7)))


def test_deaths_of_others_between_do_not_break_it() -> None:
    row = watched()
    assert [row.lose("bob", message(7)), row.lose("alice")] == [None, None]
    assert row.lose("bob", message(7)) == Poison("bob", message(7))


def test_without_dead_letters_the_poison_is_named_and_the_system_stops() -> None:
    row = watched(dead_letters=False)
    row.lose("bob", message(7))
    assert row.lose("bob", message(7)) == (
        "bob was lost twice in a row while it handled message 7 from driver:x (.eat): going back 3 times led nowhere, "
        "so once more would not either"
    )


def test_what_cannot_be_left_out_stops_the_system() -> None:
    row = watched()
    row.lose("bob", message(1, removable=False))
    why = row.lose("bob", message(1, removable=False))
    assert isinstance(why, str)
    assert "cannot become a dead letter" in why


@pytest.mark.parametrize("dead_letters", [False, True])
def test_a_row_without_a_name_ends_and_the_last_message_is_said(*, dead_letters: bool) -> None:
    row = watched(dead_letters=dead_letters)
    assert row.lose("bob") is None
    assert row.lose("bob") == "going back 3 times led nowhere, so once more would not either"
    row = watched(dead_letters=dead_letters)
    assert row.lose("bob", message(7, b"some bytes")) is None
    why = row.lose("bob", message(7, b"others, as it has the time in it"))
    assert isinstance(why, str)
    assert why.endswith("; at last bob handled message 7 from driver:x (.eat)")


@pytest.mark.acceptance("P1")
def test_deaths_with_another_message_each_time_do_not_add_up_but_end_at_last() -> None:
    row = watched()
    verdicts = [row.lose("bob", message(number)) for number in range(1, OTHERS_MAX + 5)]
    assert verdicts[:-1] == [None] * (OTHERS_MAX + 3)
    assert isinstance(verdicts[-1], str)
    assert "led nowhere" in verdicts[-1]


@pytest.mark.acceptance("P1")
@pytest.mark.parametrize("commits", [0, 1])
def test_two_that_die_by_turns_each_get_to_name_their_poison_twice(commits: int) -> None:
    row = Row(suspicion())
    poisons = {"bob": message(7), "alice": message(9)}
    for _ in range(3):
        for process, poison in poisons.items():
            says = row.cautions.get(process, Caution(says=False)).says
            assert row.lose(process, poison if says else None) is None
            row.commit(commits)
    assert row.lose("bob", message(7)) == Poison("bob", message(7))
    assert row.lose("alice", message(9)) == Poison("alice", message(9))


@pytest.mark.acceptance("P1")
def test_a_poison_is_found_though_a_snapshot_comes_in_each_life_before_it() -> None:
    for dead_letters in (False, True):
        row = watched(dead_letters=dead_letters)
        row.commit()
        assert row.lose("bob", message(7)) is None
        row.commit()
        assert "handled message 7" in str(row.lose("bob", message(7))) or row.blame.letters


def test_a_letter_begins_the_count_anew_but_there_are_few_in_a_row_for_one_actor() -> None:
    row = watched()
    for number in range(1, LETTERS_MAX + 1):
        for process in ("alice", "bob"):
            if number == 1 and process == "alice":
                assert [row.lose("alice"), row.lose("alice")] == [None, None]
            assert row.lose(process, message(number)) is None
            assert row.lose(process, message(number)) == Poison(process, message(number))
    row.lose("bob", message(50))
    why = row.lose("bob", message(50))
    assert isinstance(why, str)
    assert "these in a row became dead letters before: message 1 from driver:x (.eat), message 2" in why


def test_progress_forgets_the_row_but_not_the_letters() -> None:
    row = watched()
    row.lose("bob", message(7))
    row.lose("bob", message(7))
    row.commit(2)
    row.lose("alice")
    assert row.cautions == {"bob": Caution(says=False, letters=(message(7),))}
    row.blame.letters -= {Poison("bob", message(7))}
    assert row.cautions == {}


def test_who_takes_over_knows_no_names_and_finds_them_anew() -> None:
    row = Row(suspicion(), watched().past.rolled_back(AT, "bob").rolled_back(AT, "bob"))
    row.blame.take_over(row.past.losses)
    assert row.cautions == {"bob": Caution(says=True)}
    assert row.lose("bob") is None, "it had told the coordinator that died"
    assert row.lose("bob", message(7)) is None
    assert row.lose("bob", message(7)) == Poison("bob", message(7))
    row = Row(suspicion(dead_letters=False), watched().past.rolled_back(AT, "bob"))
    row.blame.take_over(row.past.losses)
    assert row.lose("bob") == "going back 3 times led nowhere, so once more would not either"


def test_it_ends_though_each_coordinator_dies_with_the_actor_and_knows_no_name() -> None:
    row = Row(suspicion())
    for losses in range(1000):
        if isinstance(row.lose("bob"), str):
            assert losses == 3 * ALL_MAX
            return
        row.blame = suspicion()
        row.blame.take_over(row.past.losses)
    raise AssertionError("it goes back for ever")


def test_the_machine_goes_back_once_more_and_takes_care_before_it_loads() -> None:
    machine = running(1, RecoveryPolicy(dead_letters=True, pause_s=0.0))
    past = Past()
    effects: tuple[RecoveryEffect, ...] = ()
    for life in range(1, 5):
        handled = message(7) if life >= 3 else None
        effects = machine.handle(ProcessLost(life, "bob", 1, "bob died", AT * life, handled=handled))
        past = past.rolled_back(AT * life, "bob")
        if life < 4:
            run(machine, life + 1, past)
    assert effects[-1] == BeginLife(
        4, "bob", "bob died; bob does not live through message 7 from driver:x (.eat), which becomes a dead letter"
    )
    assert machine.letters == {Poison("bob", message(7))}
    caution = {"bob": Caution(says=True, letters=(message(7),))}
    assert machine.handle(LifeBegan(5, ("bob",), past)) == (WatchForPoison(5, caution), LoadProcess(5, "bob", 1))
    over = LifeBegan(6, ("bob",), past.rolled_back(AT * 9, None), over=machine.letters)
    machine.handle(ProcessLoaded(5, "bob", 1))
    machine.handle(LifeMarked(5))
    machine.handle(ProcessLost(5, "bob", 1, "bob died", AT * 9))
    assert machine.handle(over) == (WatchForPoison(6, {"bob": Caution(says=True)}), LoadProcess(6, "bob", 1))
    assert machine.letters == frozenset()


def run(machine: Recovery, life: int, past: Past) -> None:
    machine.handle(LifeBegan(life, ("bob",), past))
    machine.handle(ProcessLoaded(life, "bob", 1))
    machine.handle(LifeMarked(life))


# Worlds at random ---------------------------------------------------------------------------------------------------

ACTORS = ("alice", "bob", "carol")
MESSAGES = 12


@dataclass
class World:
    """Actors that each handle their messages in order, from the last snapshot again after each rollback."""

    random: Random
    policy: RecoveryPolicy
    poisons: frozenset[tuple[str, int]]
    kills: int = 0
    """So many kills come from outside."""
    commits: float = 0.0
    """How often a snapshot is taken, as a part of all steps."""
    past: Past = field(default_factory=Past)
    stopped: str = ""
    lives: int = 1
    handled: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)
    left_out: set[tuple[str, int]] = field(default_factory=set)
    deaths: dict[str, list[MessageId | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.machine = running(1, self.policy)
        self.cautions: dict[str, Caution] = {}

    def run(self) -> None:
        while not self.stopped and any(self.handled[actor] < MESSAGES for actor in ACTORS):
            self.step()
            assert self.lives < 200, "it goes back for ever"

    def step(self) -> None:
        actor = self.random.choice([actor for actor in ACTORS if self.handled[actor] < MESSAGES])
        now = message(self.handled[actor] + 1)
        caution = self.cautions.get(actor, Caution(says=False))
        kind = self.random.random()
        if kind < self.commits:
            self.stored = self.handled.copy()
            self.past = self.past.committed()
            self.machine.handle(CommitWritten(self.lives))
        elif now in caution.letters:
            self.left_out.add((actor, now.number))
            self.handled[actor] += 1
        elif (actor, now.number) in self.poisons:
            self.lose(actor, now if caution.says else None)
        elif self.kills and kind > 0.9:
            self.kills -= 1
            self.lose(actor, now if caution.says and self.random.random() < 0.5 else None)
        else:
            self.handled[actor] += 1

    def lose(self, actor: str, handled: MessageId | None) -> None:
        before, machine = self.machine.letters, self.machine
        deaths = self.deaths.setdefault(actor, [])
        deaths.append(handled)
        at = AT * self.lives
        effects = machine.handle(ProcessLost(self.lives, actor, 1, f"{actor} died", at, handled=handled))
        for letter in machine.letters - before:
            assert letter == Poison(actor, handled) if handled else False, f"{letter} is of another actor"
            assert deaths[-2:] == [handled, handled], f"{letter} was handled at {deaths}"
        match effects:
            case (StopSystem(_, why),):
                self.stopped = why
                return
        self.past = self.past.rolled_back(at, actor)
        self.lives += 1
        self.handled = self.stored.copy()
        over = frozenset(one for one in machine.letters if self.stored[one.process] >= one.message.number)
        for effect in machine.handle(LifeBegan(self.lives, ACTORS, self.past, over)):
            if isinstance(effect, WatchForPoison):
                self.cautions = dict(effect.cautions)
                break
        else:
            self.cautions = {}
        for process in ACTORS:
            machine.handle(ProcessLoaded(self.lives, process, 1))
        machine.handle(LifeMarked(self.lives))
        machine.validate()


LETTERS = RecoveryPolicy(dead_letters=True, pause_s=0.0)


def some_poisons(random: Random, most: int) -> frozenset[tuple[str, int]]:
    return frozenset((random.choice(ACTORS), random.randint(1, MESSAGES)) for _ in range(random.randint(1, most)))


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.parametrize("commits", [0.0, 0.1, 0.4])
def test_few_poisons_become_dead_letters_and_nothing_else_is_left_out(commits: float) -> None:
    for seed in range(600):
        random = Random(seed)
        world = World(random, LETTERS, some_poisons(random, LETTERS_MAX), commits=commits)
        world.run()
        assert not world.stopped, f"seed {seed}: {world.stopped}"
        assert world.left_out == world.poisons, f"seed {seed}"


def test_with_kills_from_outside_only_what_was_handled_at_two_deaths_in_a_row_is_left_out_and_it_ends() -> None:
    ends: Counter[bool] = Counter()
    for seed in range(1500):
        random = Random(seed)
        poisons = some_poisons(random, 6) if seed % 2 else frozenset()
        world = World(random, LETTERS, poisons, kills=random.randint(0, 12), commits=random.choice([0.0, 0.05, 0.3]))
        world.run()  # `lose` checks each letter
        ends[bool(world.stopped)] += 1
    assert min(ends.values()) > 50, ends


def test_without_dead_letters_nothing_is_left_out_and_the_stop_names_the_poison() -> None:
    named = 0
    for seed in range(300):
        random = Random(seed)
        world = World(random, replace(LETTERS, dead_letters=False), some_poisons(random, 1))
        world.run()
        ((actor, number),) = world.poisons
        assert world.left_out == set()
        assert f"{actor} was lost twice in a row while it handled message {number} from driver:x" in world.stopped
        assert world.lives == 4, "no later than without names"
        named += 1
    assert named == 300
