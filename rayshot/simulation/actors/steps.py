"""Steps through a world of actors: one message at a time; the packets that bring it arrive at once."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rayshot.errors import ActorDied, ConfigError, StateNotSerializable
from rayshot.format.codec import RecordedMessage
from rayshot.protocol.identity import Channel
from rayshot.simulation.actors.recovery import RecoverableActors
from rayshot.simulation.actors.stepping import (
    TIMER,
    Pending,
    Step,
    changes_between,
    new_awaits,
    read,
    timers_set,
    view_of,
)
from rayshot.simulation.bodies.actor_driver import NAME as DRIVER
from rayshot.simulation.bodies.actor_process import SimulatedActor
from rayshot.snapshots.diff import WHOLE_STATE

if TYPE_CHECKING:
    from collections.abc import Sequence


def settle(actors: RecoverableActors) -> None:
    """Let everything arrive except messages and events that make a handler run."""
    news = {actors.on_find, actors.on_tell_coordinator, actors.on_tell_process, actors.on_acknowledge}
    news |= {actors.on_receiver_ended, actors.on_resend, actors.outside.on_advanced}

    def is_news(method: Callable[..., None], args: tuple[Any, ...]) -> bool:
        return method in news or (method == actors.on_deliver and not args[0].messages)

    while (event := actors.take_first(is_news)) is not None:
        actors.hurry_one(event)


def let_go_on(actors: RecoverableActors) -> None:
    """Bring their answers to handlers that wait, and let them go on; no other handler runs."""

    def is_theirs(method: Callable[..., None], args: tuple[Any, ...]) -> bool:
        waiting = actors.waiting
        if method == actors.on_take:
            return args[1] in waiting
        go_on = method in (actors.on_answered, actors.on_turn)
        return go_on or (method == actors.on_deliver and args[0].receiver in waiting)

    settle(actors)
    while (event := actors.take_first(is_theirs)) is not None:
        actors.hurry_one(event)
        settle(actors)


def drain_driver(actors: RecoverableActors) -> None:
    """Let everything that the driver sent arrive; before, a new coordinator finds all actors, and a rollback ends."""
    if actors.coordinator.finding:
        settle(actors)
    actors.finish_rollback()
    for receiver in actors.driver.waiting():
        actors.driver.take(receiver, actors.driver.unsent(receiver))
    actors.hurry(lambda sender, _: sender == DRIVER)


def give_birth(actors: RecoverableActors) -> None:
    """Construct the actors that the driver made."""
    for name in actors.driver.creations:
        process = actors.processes.get(name)
        if process is not None and not process.cell.born and DRIVER in process.next_senders():
            actors.handle(process, DRIVER)


def pending(actors: RecoverableActors) -> tuple[Pending, ...]:
    """All that could be handled next: the first message of each channel, and the first timer of each actor.

    An actor whose handler waits handles nothing.
    """
    actors.finish_rollback()
    found = []
    for process in actors.processes.values():
        is_full = process.runs_at_once and not process.interleaving.has_room
        if not (process.ended or process.suspension.is_on or is_full):
            heads = (_head(actors, sender, process) for sender in _senders(actors, process))
            found += [head for head in heads if head and (process.cell.born or head.kind == "create")]
    found.sort(key=lambda head: head.channel)
    return (*found, *(_timer(process) for process in actors.processes.values() if process.cell.timers))


def _senders(actors: RecoverableActors, process: SimulatedActor) -> set[str]:
    senders = {sender for sender, messages in process.mailbox.items() if messages}
    senders |= {other.name for other in actors.processes.values() if other.sent.get(process.name, 0)}
    return senders | {DRIVER}


def _head(actors: RecoverableActors, sender: str, process: SimulatedActor) -> Pending | None:
    number = process.received.get(sender, 0) + 1
    message = _find(actors, sender, process.name, number)
    return None if message is None else _as_pending(Channel(sender, process.name), read(message, number))


def _find(actors: RecoverableActors, sender: str, receiver: str, number: int) -> bytes | None:
    """A message that was sent and not handled, wherever it is; None if it was not sent."""
    there = actors.processes.get(receiver)
    mailbox: list[bytes] | None = there.mailbox.get(sender) if there else None
    if mailbox and there and number - there.received.get(sender, 0) <= len(mailbox):
        return mailbox[number - there.received.get(sender, 0) - 1]
    if sender == DRIVER:
        written: bytes | None = (
            actors.driver.message(receiver, number) if number <= actors.driver.sent(receiver) else None
        )
        return written
    process = actors.processes.get(sender)
    if process is None or number > process.sent.get(receiver, 0):
        return None
    if number in (in_flight := process.in_flight(receiver)):
        transported: bytes = in_flight[number]
        return transported
    behind = process.sent[receiver] - number
    outbox: Sequence[bytes] = process.outbox.get(receiver, ())
    return outbox[len(outbox) - 1 - behind] if behind < len(outbox) else None


def _as_pending(channel: Channel, message: RecordedMessage) -> Pending:
    return Pending(*channel, message.number, message.kind, message.method, message.args, message.kwargs)


def _timer(process: SimulatedActor) -> Pending:
    timer = min(process.cell.timers, key=lambda timer: timer.due)
    args = read(process.codec.tell(timer.method, timer.args), 1).args
    return Pending(process.name, process.name, 0, TIMER, timer.method, args, due=timer.due)


def do_step(actors: RecoverableActors, chosen: Pending) -> Step:
    """Handle one pending message, or fire a timer.

    Raises ActorDied, with the step in its evidence, if the handler's failure is a failure of the system.
    """
    settle(actors)
    process = actors.processes[chosen.receiver]
    before, sent_before = _seen(process), dict(process.sent)
    actors.steps += 1
    report, death = "", None
    if chosen.kind == TIMER:
        actors.on_fire(process)
    else:
        hurry(actors, chosen)
        try:
            report = actors.handle(process, chosen.sender)
        except ActorDied as error:
            report, death = error.evidence["report"], error
    sent = [
        Channel(process.name, receiver)
        for receiver, n in process.sent.items()
        for _ in range(n - sent_before.get(receiver, 0))
    ]
    numbers = dict(sent_before)
    messages = []
    for channel in sent:
        number = numbers[channel.receiver] = numbers.get(channel.receiver, 0) + 1
        if (message := _find(actors, *channel, number)) is not None:
            messages.append(_as_pending(channel, read(message, number)))
    after = _seen(process)
    let_go_on(actors)
    step = Step(
        chosen,
        changes_between(before, after),
        tuple(messages),
        timers_set(before, after),
        new_awaits(before, after),
        report,
        process.cell.ending,
    )
    if death is not None:
        raise ActorDied(death.message, **death.evidence, step=step) from death.__cause__
    return step


def _seen(process: SimulatedActor) -> dict[str, Any]:
    """The view of an actor; if its state cannot be pickled, the error instead, so that a debugging user can go on."""
    try:
        return view_of(process.cell)
    except StateNotSerializable as error:
        return {WHOLE_STATE: error.message}


def hurry(actors: RecoverableActors, chosen: Pending) -> None:
    """Bring a message into its receiver's mailbox. Raises ConfigError if it may not be handled now."""
    process = actors.processes[chosen.receiver]

    def of_channel(sender: str, receiver: str) -> bool:
        return (sender, receiver) == chosen.channel

    actors.hurry(of_channel)
    if not process.mailbox.get(chosen.sender):
        sender = actors.driver if chosen.sender == DRIVER else actors.processes[chosen.sender]
        sender.take(chosen.receiver, 1)
        actors.hurry(of_channel)
    if chosen.sender not in process.next_senders():
        raise ConfigError(f"{chosen} must wait for an open snapshot: let it end with world.run()")
