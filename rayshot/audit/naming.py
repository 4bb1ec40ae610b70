"""The messages that broke a sum: suspects of an interval run again, with their books kept message by message.

Two snapshots show in which interval a quantity changed and whose books do not balance. A message that was both sent and
processed between them is in neither snapshot, but the traces of a system that keeps messages have it. So each suspect
is loaded from the snapshot before the interval and, as in a replay, run again on the messages that it got. At each step
held after - held before + sent - taken in must be 0. If the actor reaches the state in the snapshot after the interval,
and sends the messages that are in flight there, these steps are those that happened.

This executes user code and unpickles: a trusted key must have signed the snapshots.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rayshot.audit.equation import DRIVER_PREFIX
from rayshot.audit.findings import NoTrace, Unproved
from rayshot.audit.history import History
from rayshot.audit.proof import trace_of
from rayshot.audit.replay import Replay
from rayshot.audit.segment import Event, Fired, Handled, Sent
from rayshot.errors import ConfigError, Incompatible
from rayshot.format.codec import Frame, read_messages
from rayshot.format.inert import read as read_inertly
from rayshot.format.pickling import dump_state
from rayshot.format.redaction import shown_call
from rayshot.format.signing import Prover, find_trusted_keys
from rayshot.model.calls import OpenCall
from rayshot.properties.conservation import Conservation, Interval
from rayshot.properties.global_state import ActorState, Message
from rayshot.properties.quantity import REPLY, Exact, Quantity, exact, plain, size, untold_in, untold_of
from rayshot.store.snapshot import Snapshot, check_trust
from rayshot.store.state import read_calls, read_timers


@dataclass(frozen=True, slots=True)
class Culprit:
    """A message whose handling made or lost some of the quantity.

    `carried` is what the message brought. `before` and `after` are what its receiver held. `sent` is what the messages
    carried that the receiver sent while it handled it. `appeared` = after - before + sent - carried.
    """

    message: Message
    carried: float
    before: float
    after: float
    sent: float
    appeared: float

    def __str__(self) -> str:
        one = self.message
        args, kwargs = shown_call(one.method, one.args, one.kwargs)
        given = ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])
        return f"message {one.number:,} of {one.sender} to {one.receiver}: {one.method or one.kind}({given})"


@dataclass(frozen=True, slots=True)
class Named:
    """The result: the `culprits` in the order of each actor's events, and the actors that were `run_again`.

    `not_run` gives, by name, the reason why a suspect was not run again.
    """

    culprits: tuple[Culprit, ...]
    run_again: tuple[str, ...]
    not_run: Mapping[str, str]

    @property
    def why(self) -> str:
        """The result in a sentence."""
        if self.culprits:
            found = "; ".join(f"{one.appeared:+,} by {one}" for one in self.culprits)
        else:
            found = f"all books of {', '.join(self.run_again)} balance" if self.run_again else "nobody was run again"
        return "; ".join([found, *(f"{name} was not run again: {reason}" for name, reason in self.not_run.items())])


def name_messages(
    found: Conservation,
    *,
    actors: Iterable[str] | None = None,
    keys: Sequence[Prover] | None = None,
    allow_unsigned: bool = False,
) -> Named:
    """Run again from the snapshot before a broken interval, and name the messages that changed the sum.

    This needs a system that ran with `rayshot.init(..., trace="full")`, and classes that are declared
    `@rayshot.actor(deterministic=True)` and can be imported here in the version that ran. Their handlers run here, with
    all that they do to files and networks.

    Args:
        found: the result of `rayshot.properties.conservation`.
        actors: the actors to run again; the suspects if left out.
        keys: the keys to trust; those of the user's environment if left out.
        allow_unsigned: True if no trusted key needs to have signed the snapshots.

    Returns the culprits, and for actors that could not be run again the reason. Such actors are drivers, actors that
    ended in between, and actors whose books stay open because of a reply or a constructor, see `quantity`.

    Raises ConfigError if no interval is broken, or if no run leads from one snapshot to the other; Untrusted; and what
    reading the snapshots raises.
    """
    broken = found.broken
    if broken is None:
        same = (
            "the sum is the same in all snapshots" if found.holds else "no total that is told differs from the last one"
        )
        raise ConfigError(f"{same}: there is no message to name")
    if not broken.comparable:
        raise ConfigError(
            f"nothing leads from {broken.old.id} to {broken.new.id}: {broken.apart}. Messages are named between "
            "snapshots that were taken one after the other, or that a life was restored from",
            old=str(broken.old.id),
            new=str(broken.new.id),
        )
    asked = dict.fromkeys(broken.suspects if actors is None else actors)
    not_run = {name: reason for name in asked if (reason := _nothing_to_run(name, broken))}
    wanted = [name for name in asked if name not in not_run]
    try:
        traced = trace_of(broken.new, found.snapshots)
    except NoTrace as reason:
        return Named((), (), MappingProxyType(not_run | dict.fromkeys(wanted, str(reason))))
    trusted = find_trusted_keys() if keys is None else keys
    for one in dict.fromkeys([broken.old, broken.new, *traced.near]):
        check_trust(one, trusted, allow_unsigned=allow_unsigned)
    culprits: list[Culprit] = []
    run_again = []
    for name in wanted:
        try:
            culprits += _weigh(name, traced.histories.get(name), broken.old, broken.new, found)
            run_again.append(name)
        except (NoTrace, Unproved, Incompatible) as reason:
            not_run[name] = str(reason)
    return Named(tuple(culprits), tuple(run_again), MappingProxyType(not_run))


def _nothing_to_run(name: str, broken: Interval) -> str:
    """Why an actor cannot be run again, even with a full trace; "" if it can."""
    new = broken.new
    if name.startswith(DRIVER_PREFIX):
        return "it is a driver, and has no state"
    if name in new.manifest.ended:
        return f"it had ended before {new.id}, so there is no state that running it again could be proved by"
    if name not in new.actors:
        return f"there is no actor of that name in {new.id}"
    return "" if new.actors[name].status == "born" else f"it was not born yet in {new.id}"


def _weigh(name: str, history: History | None, old: Snapshot, new: Snapshot, found: Conservation) -> list[Culprit]:
    """Run one actor again from `old` to `new`. Raises NoTrace, Unproved and Incompatible."""
    if history is None:
        raise NoTrace("there is no trace of it")
    entry = next(actor for actor in new.manifest.actors if actor.name == name)
    if entry.options.get("deterministic") is not True:
        raise NoTrace("its class is not declared @rayshot.actor(deterministic=True)")
    was_there = name in old.actors
    start = history.place_of(str(old.id)) if was_there and history.base != str(old.id) else 0
    end = history.place_of(str(new.id))
    if start is None or end is None:
        raise NoTrace(f"its trace does not reach from {old.id} to {new.id}")
    events = history.events[start:end]
    if any(isinstance(event, Handled) and event.message is None for event in events):
        raise NoTrace("messages were not kept: rayshot.init(..., trace='full') keeps them")
    if any(isinstance(event, Sent) for event in events):
        raise NoTrace("its threads sent messages beside its handlers, and only these can be run again")
    received = Counter(history.received)
    received.update(event.sender for event in history.events[:start] if isinstance(event, Handled))
    scale = _Scale(name, new, found, received)
    scale.check_version()
    with scale.at_work():
        if was_there:
            scale.load(old)
        scale.held = scale.weigh_state()
        scale.run(events)
    return scale.culprits


class _Scale(Replay):
    """A replay of one actor that also keeps its books."""

    def __init__(self, name: str, snapshot: Snapshot, found: Conservation, received: Counter[str]) -> None:
        super().__init__(name, snapshot)
        self._what: Quantity = found.what
        self._tolerance = found.tolerance
        self._class_name = snapshot.actors[name].class_name
        self._received = received
        self._said: list[tuple[str, bytes | OpenCall]] = []
        self._untold: list[str] = []
        self.held: Exact = 0
        self.culprits: list[Culprit] = []

    def note(self, receiver: str, message: bytes | OpenCall | None) -> None:
        """See Replay."""
        super().note(receiver, message)
        if message is not None:
            self._said.append((receiver, message))

    def execute(self, event: Event) -> None:
        """See Replay."""
        self._said.clear()
        super().execute(event)
        match event:
            case Handled(sender, _, bytes() as taken):
                self._received[sender] += 1
                message = self._read(sender, self.name, self._received[sender], taken)
            case Fired(bytes() as taken):
                message = self._read(self.name, self.name, 0, taken)
            case _:
                return
        carried = self._what.carried(message) if isinstance(event, Handled) else 0
        said = [self._read(self.name, receiver, 0, self._settled(one)) for receiver, one in self._said]
        sent: Exact = sum(map(self._what.carried, said))
        open_before = self._untold
        before, self.held = self.held, self.weigh_state()
        appeared = self.held - before + sent - carried
        if size(appeared) > self._tolerance:
            created = [reason for one in (message, *said) for reason in untold_in(self._what.of_message, one)]
            for reason in [*open_before, *self._untold, *created, *filter(None, map(self._may_bring, said))]:
                raise NoTrace(reason)
            numbers = map(plain, (carried, before, self.held, sent, appeared))
            self.culprits.append(Culprit(message, *numbers))

    def weigh_state(self) -> Exact:
        """What the actor holds now, as an exact number."""
        if not self.cell.born:
            return 0
        pickled = dump_state(self.cell.state(), self.name, self.cell.instance)
        tree: dict[str, Any] = read_inertly(pickled.stream, [bytes(buffer) for buffer in pickled.buffers])
        state = tree["state"]
        calls = tuple(read_calls(self.name, tree["calls"], tree.get("callees")))
        timers = tuple(read_timers(self.name, tree["timers"]))
        shown = MappingProxyType(state) if type(state) is dict else state
        actor = ActorState(self.name, self._class_name, shown, calls, timers)
        self._untold = untold_of(self._what.of_message, actor)
        return self._what.held(actor)

    def _may_bring(self, message: Message) -> str:
        """Why a message that was sent may carry some that is not counted; "" if it does not."""
        if message.kind != REPLY or not isinstance(self._what.of_message, str):
            return ""
        try:
            brings = any(exact(value, "the reply") for value in message.args)
        except ConfigError:
            brings = False  # a reply that is not a number brings nothing to a method that counts a number
        if not brings:
            return ""
        return f"it replied to {message.receiver} with a number, and what replies carry is not counted: give functions"

    @staticmethod
    def _read(sender: str, receiver: str, number: int, message: bytes) -> Message:
        (recorded,) = read_messages(Frame(max(number, 1), 1, message))
        return Message(sender, receiver, number, *recorded[1:])
