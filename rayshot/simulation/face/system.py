"""`rayshot.simulation.SimulatedSystem`: a user's own actors in one thread, without Ray, under a chosen schedule.

The actors run on the protocol's machines as they do on Ray. A seed or a recorded list of choices picks what happens
next; or a user who debugs picks it, step by step.
"""

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from rayshot.errors import (
    ActorExited,
    ActorNotFound,
    ConfigError,
    NotFound,
)
from rayshot.format.entries import OutsideMode
from rayshot.model.configuration import ANEW, CHOSEN, KEPT, LoopsOfWorld, check_loops, check_mode
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.fit import RenamedClasses, SkipMissing
from rayshot.model.handle import with_class
from rayshot.model.parameters import parameters_of
from rayshot.model.port import swap_port
from rayshot.model.specification import ActorMaker, ActorSpecification, check_class, user_class_of
from rayshot.model.versions import GIVEN, options_of
from rayshot.protocol.identity import CHANDY_LAMPORT, Mode, SnapshotId, check_name
from rayshot.simulation.actors.schedule import STEPS_MAX, ActorSchedule, source_of
from rayshot.simulation.actors.snapshot_loading import read_stored
from rayshot.simulation.actors.stepping import TIMER, Pending, Step, view_of
from rayshot.simulation.actors.steps import do_step, drain_driver, give_birth, hurry, pending, settle
from rayshot.simulation.bodies.actor_process import SimulatedActor
from rayshot.simulation.bodies.world_snapshot import WorldSnapshot
from rayshot.simulation.choices import Choices
from rayshot.simulation.world.networks import NETWORKS, Traffic
from rayshot.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from rayshot.typed import ActorHandle

LOST_ONE_IN = DUPLICATED_ONE_IN = 5
"""On a network that loses or doubles, one in this many packets and answers is lost, or comes twice."""


class SimulatedSystem:
    """A system of actors in one thread, without Ray, under a chosen schedule.

    Args:
        seed: picks what happens next, each time that several things could. The same seed gives the same run, as long
            as the actors depend only on their messages: no clock, no random numbers, no order of sets.
        choices: instead of a seed, the list of an earlier run (`world.choices`), or your own source of choices.
        snapshots: how many snapshots are taken while the world runs, at chosen moments.
        crashes: how many times an actor dies, at chosen moments. Its death is seen later: until then the others go on.
            Then all actors go back to the last committed snapshot, step by step. Nobody dies before the first one.
        takeovers: how many times the coordinator is lost, at chosen moments, and a new one takes over. Its open
            snapshots are aborted. It may have been only thought dead: then it goes on for a while as a rival, and the
            log refuses its snapshots.
        deadlines: how many times the deadline of a snapshot passes at one actor, at chosen moments. If the actor has
            not recorded yet, the snapshot is aborted.
        mode: "chandy-lamport", "aligned" or "stop-the-world".
        loops: what happens at the top of a pass of a `rayshot.loop`. "anew": the frame of its method is thrown away,
            and the method begun anew, as behind a restore: see `rayshot.init`. "kept": it goes on. "chosen": one of
            both.
        network: what happens to packets: "ordered" (the packets of a channel arrive in the order in which they were
            sent), "reordering" (they take any time), "duplicating", "lossy", or "hostile" (all of this).
        steps_max: how many events one `run` may take.
        system: the system's name.
        story: whether to write the `story`, one line per event.

    The test is the system's driver: what it sends with handles comes from `driver:main`. Inside `with world:`,
    `Account.options(name="alice").remote(100)` also makes an actor of the world.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        choices: Sequence[int] | Choices | None = None,
        snapshots: int = 1,
        crashes: int = 0,
        takeovers: int = 0,
        deadlines: int = 0,
        mode: Mode = CHANDY_LAMPORT,
        loops: LoopsOfWorld = CHOSEN,
        network: str = "reordering",
        steps_max: int = STEPS_MAX,
        system: str = "world",
        story: bool = False,
    ) -> None:
        check_mode(mode)
        check_loops(loops, known=(KEPT, ANEW, CHOSEN))
        if min(snapshots, crashes, takeovers, deadlines) < 0 or steps_max < 1:
            raise ConfigError("snapshots, crashes, takeovers and deadlines are 0 or more, steps_max is 1 or more")
        self._network, self._loops = network, loops
        self._schedule = ActorSchedule(
            source_of(seed, choices),
            check_name(system, "a system"),
            _traffic(network),
            snapshots=snapshots,
            crashes=crashes,
            takeovers=takeovers,
            deadlines=deadlines,
            mode=mode,
            loops=loops,
            steps_max=steps_max,
            story=story,
        )
        self._actors = self._schedule.actors
        self._ports: list[Any] = []
        weakref.finalize(self, self._actors.close_loops).atexit = False  # handlers that wait hold their world

    @classmethod
    def from_snapshot(
        cls,
        snapshot: Snapshot | WorldSnapshot,
        *,
        seed: int = 0,
        choices: Sequence[int] | Choices | None = None,
        allow_unsigned: bool = False,
        rename_classes: RenamedClasses | None = None,
        skip_missing_classes: SkipMissing = False,
        snapshots: int = 0,
        crashes: int = 0,
        takeovers: int = 0,
        deadlines: int = 0,
        loops: LoopsOfWorld = CHOSEN,
        network: str = "reordering",
        outside: OutsideMode = "leave",
        takeover: bool = False,
        steps_max: int = STEPS_MAX,
        story: bool = False,
    ) -> "SimulatedSystem":
        """Make a world with the contents of a snapshot: each actor has its state, messages in flight are in mailboxes.

        States are loaded as a restore loads them: into live instances, without calling their constructors.

        Args:
            snapshot: a snapshot of `rayshot.open(...)`, or of a SimulatedSystem.
            allow_unsigned: True loads a snapshot that no trusted key has signed. Loading runs code that the snapshot
                chooses: do this only with bytes whose history you know.
            rename_classes: for classes that moved, the new ones by recorded name ("module.Class"), as for
                `rayshot.restore`.
            skip_missing_classes: leave out actors whose class is gone, as for `rayshot.restore`; messages in flight to
                them are in `dead_letters`.
            seed: this and the following arguments are as for SimulatedSystem.
            choices: used instead of a seed.
            snapshots: how many are taken while it runs.
            crashes: how many times an actor dies, and all go back to the last snapshot, which may be this one.
            takeovers: how many times a new coordinator takes over.
            deadlines: how many times the deadline of a snapshot passes at one actor.
            loops: what happens at the top of a pass of a `rayshot.loop`.
            network: what happens to packets.
            outside: "leave": no hook of a class with `on_snapshot` or `on_commit` is called, so that nothing of the
                real system is touched. With a WorldSnapshot also "refuse" or "again", as for `rayshot.restore`: then
                this world is another run, which goes on with the test's tables.
            takeover: this run may take what another one has; with "refuse" and "again".
            steps_max: how many events one `run` may take.
            story: whether to write the story.

        Raises:
            Untrusted, Damaged, Incompatible: as `rayshot.restore`. Nothing of the snapshot was executed then, except
                for CodeMismatch and MigrationFailed if a class does not accept its state.
            OutsideConflict: what is outside does not fit the snapshot.
        """
        if outside != "leave" and not isinstance(snapshot, WorldSnapshot):
            raise ConfigError(
                f"outside={outside!r} is for snapshots of a SimulatedSystem: this one is of a real system"
            )
        recorded = read_stored(
            snapshot, rename_classes, allow_unsigned=allow_unsigned, skip_missing_classes=skip_missing_classes
        )
        world = cls(
            seed,
            choices=choices,
            snapshots=snapshots,
            crashes=crashes,
            takeovers=takeovers,
            deadlines=deadlines,
            loops=loops,
            network=network,
            steps_max=steps_max,
            system=recorded.system,
            story=story,
        )
        world._actors.begin_from(recorded, outside, takeover=takeover)
        return world

    def __repr__(self) -> str:
        living = sum(self._actors.is_current(p) and not p.ended for p in self._actors.processes.values())
        return f"<SimulatedSystem {self.system!r} with {living} actors, after {self.events} events>"

    def __enter__(self) -> Self:
        """Make `Account.remote(...)` create actors in this world."""
        self._ports.append(swap_port(lambda: self._actors.driver))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore what `Account.remote(...)` used before."""
        swap_port(self._ports.pop())

    # Who is there ----------------------------------------------------------------------------------------------

    def create(self, actor_class: Any, /, *args: Any, name: str | None = None, **kwargs: Any) -> "ActorHandle[Any]":
        """Make an actor; its constructor runs with the first messages.

        Args:
            actor_class: a class decorated with `@rayshot.actor`, over or under `@ray.remote` too, or a plain one.
            *args: for its constructor.
            name: the actor's name; "account-1" and so on if left out.
            **kwargs: for its constructor; if that takes an argument `name` itself, use
                `with world: Account.options(name=...).remote(...)`.

        Raises ConfigError for a name that is taken or invalid, and for a class that cannot be an actor's class;
        WrongArguments.
        """
        user_class, options = _class_and_options(actor_class)
        specification = ActorSpecification.of(user_class, options)
        parameters_of(user_class, "__init__").check(f"{user_class.__qualname__}(...)", args, kwargs)
        return cast(
            "ActorHandle[Any]", with_class(self._actors.driver.spawn(specification, name, args, kwargs), user_class)
        )

    def get_actor(self, name: str) -> "ActorHandle[Any]":
        """A handle of the actor `name`, for the test. Raises ActorNotFound, and ActorExited if it has ended."""
        cell = self._process(name).cell
        methods = None if cell.specification is None else frozenset(cell.specification.methods)
        handle = self._actors.driver.handle_of(name, methods)
        return cast("ActorHandle[Any]", handle if methods is None else with_class(handle, type(cell.instance)))

    @property
    def actors(self) -> Mapping[str, Any]:
        """The live instances by name, of all actors that are constructed and have not ended. Only look at them.

        While all go back to a snapshot, an actor that is not loaded yet is missing.
        """
        there = (process for process in self._actors.processes.values() if self._actors.is_current(process))
        return MappingProxyType({p.name: p.cell.instance for p in there if p.cell.born and not p.ended})

    def state(self, name: str) -> Any:
        """The live state that a snapshot would record for an actor now. Raises ActorNotFound, also before birth."""
        process = self._process(name)
        if not self._actors.is_current(process):
            raise ActorNotFound(
                f"the actor {name!r} died, or goes back to a snapshot and is not loaded yet: let the world run",
                actor=name,
            )
        cell = process.cell
        if not cell.born:
            raise ActorNotFound(f"the actor {name!r} is not constructed yet: let the world run", actor=name)
        return cell.state()["state"]

    def view(self, name: str) -> dict[str, Any]:
        """The state that a snapshot would show of an actor now, by attribute; empty before birth. Raises ActorNotFound.

        "(awaits)" gives the methods that wait for replies, by the number of the call; "(timers)" the timers as words.
        """
        return view_of(self._process(name).cell)

    @property
    def ended(self) -> Mapping[str, str]:
        """The names of the actors that have ended, each with the reason."""
        return MappingProxyType(self._actors.reasons)

    @property
    def snapshots(self) -> tuple[WorldSnapshot, ...]:
        """All snapshots committed so far, in the order of their commits."""
        return tuple(self._actors.snapshots)

    @property
    def aborted(self) -> Mapping[SnapshotId, str]:
        """The snapshots that were aborted, each with the reason.

        None of them is in `snapshots`, unless the answer of the storage was lost: then it is found later.
        """
        return MappingProxyType(self._actors.aborted)

    @property
    def dead_letters(self) -> tuple[DeadLetter, ...]:
        """Messages without effect: their handler raised, or their receiver had ended. The last thousand."""
        return tuple(self._actors.dead_letters)

    @property
    def system(self) -> str:
        """The system's name."""
        return self._actors.system

    @property
    def now(self) -> float:
        """Virtual time in seconds: it moves when a timer fires."""
        return self._actors.now

    @property
    def events(self) -> int:
        """How many events happened."""
        return self._actors.steps

    @property
    def rollbacks(self) -> int:
        """How many times all actors went back to a snapshot. One time may follow from several deaths."""
        return self._actors.rollbacks

    @property
    def takeovers(self) -> int:
        """How many times a coordinator was lost."""
        return self._actors.takeovers

    @property
    def functions(self) -> int:
        """How many times a function ran that `on_snapshot` or `on_commit` had returned."""
        return self._actors.outside.functions

    @property
    def choices(self) -> list[int]:
        """The choices taken so far: `SimulatedSystem(choices=...)` with the same settings repeats the run."""
        return list(getattr(self._schedule.choices, "taken", ()))

    @property
    def story(self) -> list[str]:
        """The events that happened, one line each, if the world was made with `story=True`; else empty."""
        return list(self._actors.story or ())

    # Running ---------------------------------------------------------------------------------------------------

    def run(self, *, seconds: float | None = None, until: Callable[[], bool] | None = None) -> int:
        """Let events happen until nothing is left to do; then what is planned and has not happened yet.

        Args:
            seconds: a limit of virtual time: timers that are due later wait. For actors whose timers set themselves
                again.
            until: stop as soon as this returns true.

        Returns the number of events. Raises StepsExhausted after `steps_max` of them; ActorDied if a handler of a class
        with `on_error="stop"` raised; the OutsideConflict of a hook, which stops a real system too. A KeyboardInterrupt
        in a handler passes through. At its end it raises StateNotSerializable if a state of a planned snapshot does not
        load; the snapshot is in `aborted`.
        """
        happened = self._schedule.run(seconds, until)
        if (refused := self._actors.refused) is not None:
            self._actors.refused = None
            raise refused
        return happened

    def snapshot(self, *, mode: Mode | None = None) -> WorldSnapshot:
        """Take a snapshot now that includes everything the test did before; returns it, and keeps it in `snapshots`.

        With the default mode no handler runs meanwhile, except the constructors of actors that the test made.

        Raises StateNotSerializable, with the path to the value that cannot be captured, and SnapshotAborted.
        """
        check_mode(mode or self._schedule.mode)
        drain_driver(self._actors)
        give_birth(self._actors)
        return self._schedule.take(mode or self._schedule.mode)

    def crash(self) -> None:
        """Let all actors crash now, and come back from the last committed snapshot, before this returns.

        Raises SnapshotNotFound if there is none.
        """
        self._actors.roll_back()

    # Stepping --------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> tuple[Pending, ...]:
        """All that could be handled next: the first message of each channel, and the first timer of each actor.

        If an actor died, or all are on their way back to a snapshot, they arrive there before.
        """
        return pending(self._actors)

    def step(self, which: int | Pending | None = None, *, channel: tuple[str, str] | None = None) -> Step | None:
        """Handle one message, or fire one timer; the packets that bring the message arrive at once.

        Args:
            which: one of `pending`, or its index. By default the choices pick a message, and time stands still; only if
                there is no message the first due timer fires.
            channel: instead of `which`, the channel whose first message to handle.

        Returns what was done, or None if nothing is pending. Raises NotFound if the message is not pending, and
        ActorDied if a handler of a class with `on_error="stop"` raised: then `evidence["step"]` is what was done.
        """
        choices = self.pending
        if which is None and channel is None:
            messages = [one for one in choices if one.kind != TIMER]
            timers = sorted((one for one in choices if one.kind == TIMER), key=lambda one: one.due or 0.0)
            choices = tuple(messages or timers[:1])
            return do_step(self._actors, choices[self._schedule.choices.choose(len(choices))]) if choices else None
        return do_step(self._actors, _chosen(choices, which, channel))

    def drop(self, which: int | Pending | None = None, *, channel: tuple[str, str] | None = None) -> Pending:
        """Act as if a message had never been sent: count it as handled without handling it. Returns the message.

        Arguments and errors are those of `step`; timers cannot be dropped.
        """
        chosen = _chosen(self.pending, which, channel)
        if chosen.kind in (TIMER, "create"):
            raise ConfigError(f"{chosen}: only messages between actors that are constructed can be dropped")
        settle(self._actors)
        hurry(self._actors, chosen)
        self._actors.processes[chosen.receiver].skip_next(chosen.sender)
        return chosen

    def branch(self, *, seed: int = 0, choices: Sequence[int] | Choices | None = None) -> "SimulatedSystem":
        """Make an independent copy for trying something: take a snapshot, and load it into a new SimulatedSystem.

        Futures and the story are not copied, and the copy calls no hook of a class with something outside. The snapshot
        stays in `snapshots` only if such actors heard of it. Raises StateNotSerializable and SnapshotAborted.
        """
        drain_driver(self._actors)
        taken = self._schedule.take(CHANDY_LAMPORT)
        if not self._actors.has_outside:
            self._actors.snapshots.remove(taken)
        return SimulatedSystem.from_snapshot(
            taken,
            seed=seed,
            choices=choices,
            loops=self._loops,
            network=self._network,
            steps_max=self._schedule.steps_max,
        )

    def _process(self, name: str) -> SimulatedActor:
        process = self._actors.processes.get(name)
        if name in self._actors.reasons:
            raise ActorExited(f"actor {name!r} has ended: {self._actors.reasons[name]}", actor=name)
        if process is None:
            there = ", ".join(self._actors.processes) or "none"
            raise ActorNotFound(f"the world has no actor {name!r}; it has {there}", actor=name)
        return process


def _traffic(network: str) -> Traffic:
    behaviour = NETWORKS.get(network)
    if behaviour is None:
        raise ConfigError(f"network={network!r}: give one of {', '.join(map(repr, NETWORKS))}")
    return Traffic(behaviour.keeps_order, LOST_ONE_IN * behaviour.loses, DUPLICATED_ONE_IN * behaviour.duplicates)


def _chosen(choices: Sequence[Pending], which: int | Pending | None, channel: tuple[str, str] | None) -> Pending:
    if channel is not None:
        found = [one for one in choices if one.channel == tuple(channel) and one.kind != TIMER]
    elif isinstance(which, Pending):
        found = [one for one in choices if one == which]
    else:
        assert which is not None
        found = list(choices[which : which + 1]) if which >= 0 else []
    if not found:
        what = f"{channel[0]} -> {channel[1]}" if channel else which
        there = "; ".join(f"{index}: {one}" for index, one in enumerate(choices)) or "nothing"
        raise NotFound(f"{what} is not pending; there is {there}")
    return found[0]


def _class_and_options(actor_class: Any) -> tuple[type, Mapping[str, Any]]:
    user_class = user_class_of(actor_class)
    if user_class is None:
        raise ConfigError(f"an actor is made of a class, not of {actor_class!r}")
    options = actor_class.given if isinstance(actor_class, ActorMaker) else options_of(user_class)
    if options is None and hasattr(user_class, GIVEN):
        raise ConfigError(f"{user_class.__qualname__} is not decorated with @rayshot.actor itself")
    return _checked(user_class), options or {}


_checked = functools.lru_cache(maxsize=256)(check_class)
