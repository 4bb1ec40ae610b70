"""Which message is to blame: single decisions, and worlds at random in which some messages kill their actors."""

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from rayshot.protocol.poison import LETTERS_MAX, Caution, HandledMessage, Letter, Suspicion
from rayshot.protocol.recovering import (
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
    TakeCare,
)
from rayshot.protocol.recovery import Recovery

AT = 1000.0


def message(number: int, digest: bytes = b"", *, removable: bool = True) -> HandledMessage:
    return HandledMessage("driver:x", number, digest or bytes([number]), "eat", removable)


def suspicion(*, dead_letters: bool = True, fruitless_max: int = 3) -> Suspicion:
    return Suspicion(fruitless_max, dead_letters)


def careful(blame: Suspicion, process: str = "bob") -> Suspicion:
    """Behind two rollbacks that led nowhere."""
    assert [blame.judge(process, None, fruitless) for fruitless in (0, 1)] == [None, None]
    return blame


# Single decisions ---------------------------------------------------------------------------------------------------


def test_a_life_is_careful_behind_two_rollbacks_that_led_nowhere_and_only_those_who_were_lost() -> None:
    blame = suspicion()
    assert blame.cautions(0) == {}
    blame.judge("bob", None, 0)
    assert blame.cautions(1) == {}
    blame.judge("alice", None, 1)
    assert blame.cautions(2) == {"alice": Caution(says=True), "bob": Caution(says=True)}


def test_who_was_lost_before_there_was_progress_is_not_careful() -> None:
    blame = careful(suspicion(), "alice")
    blame.judge("bob", None, 0)
    assert blame.cautions(2) == {"bob": Caution(says=True)}


def test_the_message_at_two_deaths_in_a_row_is_the_poison() -> None:
    blame = careful(suspicion())
    assert blame.judge("bob", message(7), 2) is None
    assert blame.judge("bob", message(7), 3) == Letter("bob", message(7))
    assert blame.cautions(4) == {"bob": Caution(says=True, letters=(message(7),))}


@pytest.mark.parametrize(
    "between", [None, message(8), message(7, b"other bytes under the same number"), replace(message(7), sender="alice")]
)
def test_a_death_with_another_message_or_with_none_between_breaks_the_row(between: HandledMessage | None) -> None:
    blame = careful(suspicion(fruitless_max=9))
    assert [blame.judge("bob", handled, 2) for handled in (message(7), between, message(7))] == [None, None, None]


def test_deaths_of_others_between_do_not_break_it() -> None:
    blame = careful(suspicion(fruitless_max=9))
    assert [blame.judge("bob", message(7), 2), blame.judge("alice", message(7), 3)] == [None, None]
    assert blame.judge("bob", message(7), 4) == Letter("bob", message(7))


def test_without_dead_letters_the_poison_is_named_and_the_system_stops() -> None:
    blame = careful(suspicion(dead_letters=False))
    blame.judge("bob", message(7), 2)
    assert blame.judge("bob", message(7), 3) == (
        "bob was lost twice in a row while it handled message 7 from driver:x (.eat): going back 3 times led nowhere, "
        "so once more would not either"
    )


def test_what_cannot_be_left_out_stops_the_system() -> None:
    blame = careful(suspicion())
    blame.judge("bob", message(1, removable=False), 2)
    why = blame.judge("bob", message(1, removable=False), 3)
    assert isinstance(why, str)
    assert "cannot become a dead letter" in why


def test_a_row_without_a_name_ends_as_before_and_the_last_message_is_said() -> None:
    blame = careful(suspicion())
    assert blame.judge("bob", None, 2) is None
    assert blame.judge("bob", None, 3) == "going back 3 times led nowhere, so once more would not either"
    for dead_letters, last in ((False, 3), (True, 4)):
        blame = careful(suspicion(dead_letters=dead_letters))
        whys = [blame.judge("bob", message(number), number) for number in range(2, last + 1)]
        assert whys[:-1] == [None] * (last - 2)
        assert isinstance(whys[-1], str)
        assert whys[-1].endswith(f"; at last bob handled message {last} from driver:x (.eat)")


def test_two_that_die_by_turns_each_get_to_name_their_poison_twice() -> None:
    blame = suspicion()
    assert [blame.judge(who, None, n) for n, who in enumerate(("bob", "alice"))] == [None, None]
    assert blame.judge("bob", message(7), 2) is None
    assert blame.judge("alice", message(9), 3) is None
    assert blame.judge("bob", message(7), 4) == Letter("bob", message(7))
    assert blame.judge("alice", message(9), 5) is None, "a letter begins the row anew"
    assert blame.judge("alice", message(9), 6) == Letter("alice", message(9))


def test_a_letter_begins_the_count_anew_but_there_are_few_in_a_row() -> None:
    blame = careful(suspicion())
    fruitless = 2
    for number in range(1, LETTERS_MAX + 1):
        assert blame.judge("bob", message(number), fruitless) is None
        assert blame.judge("bob", message(number), fruitless + 1) == Letter("bob", message(number))
        fruitless += 2
    blame.judge("bob", message(50), fruitless)
    why = blame.judge("bob", message(50), fruitless + 1)
    assert isinstance(why, str)
    assert "these in a row became dead letters before: message 1 from driver:x (.eat) to bob" in why


def test_progress_forgets_the_row_but_not_the_letters() -> None:
    blame = careful(suspicion())
    blame.judge("bob", message(7), 2)
    blame.judge("bob", message(7), 3)
    blame.judge("alice", None, 0)
    assert blame.cautions(1) == {"bob": Caution(says=False, letters=(message(7),))}
    blame.letters -= {Letter("bob", message(7))}
    assert blame.cautions(1) == {}


def test_who_takes_over_knows_no_names_and_finds_them_anew() -> None:
    blame = suspicion()
    blame.take_over("bob", 4)
    assert blame.cautions(4) == {"bob": Caution(says=True)}
    assert blame.judge("bob", None, 4) is None, "it had told the coordinator that died"
    assert blame.judge("bob", message(7), 5) is None
    assert blame.judge("bob", message(7), 6) == Letter("bob", message(7))
    blame = suspicion(dead_letters=False)
    blame.take_over("bob", 3)
    assert blame.judge("bob", None, 3) == "going back 3 times led nowhere, so once more would not either"


def test_the_machine_goes_back_once_more_and_takes_care_before_it_loads() -> None:
    machine = Recovery(1, RecoveryPolicy(dead_letters=True, pause_s=0.0))
    past = Past()
    effects: tuple[RecoveryEffect, ...] = ()
    for life in range(1, 5):
        handled = message(7) if life >= 3 else None
        effects = machine.handle(ProcessLost(life, "bob", 1, "bob died", AT * life, handled=handled))
        past = past.gone_back(AT * life, "bob")
        if life < 4:
            run(machine, life + 1, past)
    assert effects[-1] == BeginLife(
        4, "bob", "bob died; bob does not live through message 7 from driver:x (.eat), which becomes a dead letter"
    )
    assert machine.letters == {Letter("bob", message(7))}
    caution = {"bob": Caution(says=True, letters=(message(7),))}
    assert machine.handle(LifeBegan(5, ("bob",), past)) == (TakeCare(5, caution), LoadProcess(5, "bob", 1))
    over = LifeBegan(6, ("bob",), past.gone_back(AT * 9, None), over=machine.letters)
    machine.handle(ProcessLoaded(5, "bob", 1))
    machine.handle(LifeMarked(5))
    machine.handle(ProcessLost(5, "bob", 1, "bob died", AT * 9))
    assert machine.handle(over) == (TakeCare(6, {"bob": Caution(says=True)}), LoadProcess(6, "bob", 1))
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
    deaths: dict[str, list[HandledMessage | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.machine = Recovery(1, self.policy)
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

    def lose(self, actor: str, handled: HandledMessage | None) -> None:
        before, machine = self.machine.letters, self.machine
        deaths = self.deaths.setdefault(actor, [])
        deaths.append(handled)
        at = AT * self.lives
        effects = machine.handle(ProcessLost(self.lives, actor, 1, f"{actor} died", at, handled=handled))
        for letter in machine.letters - before:
            assert letter == Letter(actor, handled) if handled else False, f"{letter} is of another actor"
            assert deaths[-2:] == [handled, handled], f"{letter} was handled at {deaths}"
        match effects:
            case (StopSystem(_, why),):
                self.stopped = why
                return
        self.past = self.past.gone_back(at, actor)
        self.lives += 1
        self.handled = self.stored.copy()
        over = frozenset(one for one in machine.letters if self.stored[one.process] >= one.message.number)
        for effect in machine.handle(LifeBegan(self.lives, ACTORS, self.past, over)):
            if isinstance(effect, TakeCare):
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
