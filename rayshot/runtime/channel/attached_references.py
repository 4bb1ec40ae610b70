"""References to objects that travel beside messages: Ray must see them to count them.

A batch whose messages have slots is sent by another call: `receive_with(packet, layout, objects, *values)`. Ray brings
each of `values` to the receiver's node before the method runs, and gives the method the value; `objects` stay
references. The layout says to which message and place each belongs, [[number, [[kind, place, size, where], ...]], ...].
`place` is the index among values or objects; for a slot that failed it is the pickle of its error. The answer says that
the receiver holds the values. Until then the sender's references keep them.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rayshot.format.pickling import carry
from rayshot.format.slots import FAILED, LARGE, OBJECT, VALUE, Slot
from rayshot.runtime.door import door
from rayshot.runtime.wire.packets import pack, unpack

Slots = dict[int, tuple[Slot, ...]]
"""The slots of messages, by message number."""


def lay_out(slots: Slots) -> tuple[Any, ...]:
    """The arguments of `receive_with` after the packet."""
    objects: list[Any] = []
    values: list[Any] = []
    layout = []
    for number, of_message in slots.items():
        places = []
        for slot in of_message:
            if slot.kind == FAILED:
                place = slot.content
            else:
                among = objects if slot.kind == OBJECT else values
                place = len(among)
                among.append(slot.reference)
            places.append((slot.kind, place, slot.size, slot.where))
        layout.append((number, places))
    return (pack(layout), objects, *values)


def take_in(layout: bytes, objects: Sequence[Any], values: Sequence[Any]) -> Slots:
    """The slots from the arguments that `lay_out` made, as the receiver holds them."""

    def taken(kind: Any, place: Any, size: int, where: str) -> Slot:
        if kind == OBJECT:
            return Slot(kind, objects[place], where=where)
        return Slot(kind, content=place if kind == FAILED else values[place], size=size, where=where)

    return {number: tuple(taken(*of) for of in places) for number, places in unpack(layout)}


def unready(wanted: Sequence[Any]) -> list[Any]:
    """The references whose objects are not ready. Does not wait."""
    unique = list(dict.fromkeys(wanted))  # Ray refuses a reference that comes twice
    _, waiting = door.wait(unique, num_returns=len(unique), timeout=0, fetch_local=False)
    return list(waiting)


def size_of(slots: Mapping[int, Sequence[Slot]]) -> int:
    """Bytes of the large arguments of these messages."""
    return sum(slot.size for of_message in slots.values() for slot in of_message)


def values_size(slots: Mapping[int, Sequence[Slot]]) -> int:
    """Bytes of the objects whose values these messages need, as far as this process knows. Does not wait."""
    wanted = {slot.reference for of_message in slots.values() for slot in of_message if slot.kind == VALUE}
    return door.known_size(reference for reference in wanted if reference is not None) if wanted else 0


def give_up_failed(slots: Slots, probe: Callable[[Any], Any]) -> bool:
    """Put an error in the place of each value that neither this process nor the receiver can get.

    Waits for values. Returns whether any was replaced.
    """
    known: dict[Any, Exception | None] = {}
    for number, of_message in slots.items():
        found = list(of_message)
        for index, slot in enumerate(of_message):
            if slot.kind in {VALUE, LARGE}:
                if slot.reference not in known:
                    known[slot.reference] = _error_of(slot.reference, probe)
                if (error := known[slot.reference]) is not None:
                    found[index] = Slot(FAILED, content=dump_error(error), where=slot.where)
        slots[number] = tuple(found)
    return any(error is not None for error in known.values())


def _error_of(reference: Any, probe: Callable[[Any], Any]) -> Exception | None:
    try:
        door.get(reference)
    except Exception as error:  # noqa: BLE001 - the error of a task can have any class
        return cause_of(error)
    try:
        door.get(probe(reference))
    except door.NotReached:
        return None  # the receiver itself is gone
    except Exception as error:  # noqa: BLE001 - unpickling runs code of the value's class
        return cause_of(error)
    return None


def dump_error(error: Exception) -> bytes:
    """The pickle of an error, for a slot that failed. If it cannot be pickled: of a RuntimeError with its text."""
    return carry(error) or pickle.dumps(RuntimeError(repr(error)), protocol=5)


def cause_of(error: Exception) -> Exception:
    """The task's own error if Ray has wrapped it; else the error as it is."""
    cause = getattr(error, "cause", None)  # Ray wraps the error of a task, and the wrapper does not name its class
    return cause if isinstance(error, door.Raised) and isinstance(cause, Exception) else error
