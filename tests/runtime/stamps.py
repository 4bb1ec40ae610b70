"""A program whose classes no other process can import; run as `stamps.py STEP STORAGE ...`, it says what is wrong.

`alive` looks at what comes back from a running system, `first` takes a snapshot, `second` restores it in a new process,
`notebook` defines a class again and again in one process.
"""

import abc
import dataclasses
import enum
import json
import logging
import sys
import time
import typing
from concurrent import futures
from pathlib import Path

import ray

import rayshot


@dataclasses.dataclass
class Stamp:
    value: int = 0


Printed = Stamp


@dataclasses.dataclass
class Stamp:
    value: int = 0

    def age(self):
        return "old"


class Rare(Stamp):
    pass


class Foreign(Stamp):
    """Has no class of its name in the program that was changed."""


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Torn(Exception):
    pass


class Pair(typing.NamedTuple):
    left: object
    right: object


class Glue(abc.ABC):
    @abc.abstractmethod
    def strength(self):
        """How much it holds."""


class Paste(Glue):
    __slots__ = ("amount",)

    def __init__(self, amount):
        self.amount = amount

    def strength(self):
        return self.amount


class Album:
    class Page:
        pass

    class Tag(Exception):
        pass


def local_ones():
    """These have names of classes above, and are others."""

    class Stamp:
        pass

    class Torn(Exception):
        pass

    return Stamp(), Torn()


HERE = [Stamp, Rare, Colour, Torn, Pair, Paste, Album.Page, Album.Tag]


def values():
    return [
        Stamp(1), Rare(2), Colour.RED, Torn("a corner"), Pair(Stamp(1), Colour.BLUE), Paste(3), Album.Page(),
        Album.Tag("x"), Stamp, Album.Page, lambda: Stamp(4),
    ]  # fmt: skip


def untrue(found):
    """What is not as it should be of what `values` has become."""
    if not isinstance(found, list):
        return [f"found {found!r}"]
    stamp, rare, red, torn, pair, paste, page, tag, cls, page_class, make = found
    facts = {
        "type": [type(one) for one in found[:8]] == HERE,
        "dataclass ==": stamp == Stamp(1),
        "isinstance": isinstance(rare, Stamp),
        "enum is": red is Colour.RED,
        "except": catches(torn, Torn) and catches(tag, Album.Tag),
        "named tuple": pair == Pair(Stamp(1), Colour.BLUE) and pair.right is Colour.BLUE,
        "abstract": isinstance(paste, Glue) and paste.strength() == 3,
        "nested": type(page).__qualname__ == "Album.Page",
        "class": cls is Stamp and page_class is Album.Page,
        "global of a function": make() == Stamp(4),
    }
    return [name for name, holds in facts.items() if not holds]


def catches(error, cls):
    try:
        raise error  # noqa: TRY301 - that is what it is about
    except Exception as caught:  # noqa: BLE001 - whatever it is
        return isinstance(caught, cls)


@rayshot.actor
class Collector:
    """Holds values wherever a snapshot has them."""

    def __init__(self, given=None):
        self.given = given
        self.gives = 0
        self.kept = self.arrived = self.heard = self.asked = self.rung = self.put = None

    def keep(self, kept):
        self.kept = kept
        self.put = ray.put(kept)

    def take(self, value):
        self.arrived = value

    def give(self, value):
        self.gives += 1
        return value

    def has_given(self):
        return self.gives

    def fail(self):
        raise Torn("in two")

    def send(self, other, value):
        other.take.tell(value)

    def pause(self, begun, until):
        Path(begun).touch()
        wait_for(Path(until).exists)

    def ask(self, other, value):
        other.give.remote(value).then(self.hear, value)

    def hear(self, value, context):
        self.heard, self.asked = value, context

    def wait(self, seconds, value):
        rayshot.current().after(seconds, self.ring, value)

    def ring(self, value):
        self.rung = value

    def found(self, name, value):
        Collector.options(name=name, resources={"room": 1}).remote(value)

    def are_alike(self, sent, referred):
        return type(sent) is type(referred) is Stamp

    def holds(self):
        held = {name: value for name, value in vars(self).items() if isinstance(value, list)}
        return held | ({"put": ray.get(self.put)} if self.put else {})

    def untrue(self):
        """What is not as it should be, with the classes that this actor's own methods mean."""
        return {name: wrong for name, value in self.holds().items() if (wrong := untrue(value))}

    def age(self):
        return "old"


@rayshot.actor
class Clerk:
    """Has no class of its name in the program that was changed."""

    def stamps(self, found):
        return [isinstance(found, Stamp), type(Stamp(5)).__name__, Stamp(5)]


@rayshot.actor(deterministic=True)
class Counter:
    """Does again, in a replay, what depends on the classes of what it holds."""

    def __init__(self):
        self.first, self.alike = None, 0

    def count(self, value):
        self.first = self.first or value
        self.alike += type(self.first) is type(value) is Stamp


@ray.remote
def is_a_stamp(value):
    return type(value) is Stamp


@ray.remote
def hand_over(storage, name, value):
    """A process of Ray's that is a driver by itself, and had classes from Ray before it knew of rayshot."""
    system = rayshot.init("album", storage=storage, snapshots=rayshot.SnapshotConfig())
    ray.get(system.get_actor(name).take.remote(value))


def wait_for(fact):
    while not fact():
        time.sleep(0.05)


def caught(collector):
    try:
        ray.get(collector.fail.remote())
    except Torn:
        return True
    except ray.exceptions.RayTaskError:
        return False


def alive(storage):
    with rayshot.init("album", storage=storage, snapshots=rayshot.SnapshotConfig()) as system:
        one, two, three = (Collector.options(name=name).remote() for name in ("one", "two", "three"))
        one.keep.tell(values())
        one.send.tell(two, values())
        wait_for(lambda: "arrived" in ray.get(two.holds.remote()))
        ray.get(hand_over.remote(storage, "three", values()))
        facts = {
            "a message's class is that of a ref": ray.get(one.are_alike.remote(Stamp(1), ray.put(Stamp(2)))),
            "a task has the class of a result": ray.get(is_a_stamp.remote(one.give.remote(Stamp(1)))),
            "except": caught(one),
        }
        held = {actor.name: ray.get(actor.holds.remote()) for actor in (one, two, three)}
        inside = {actor.name: ray.get(actor.untrue.remote()) for actor in (one, two, three)}
        system.snapshot()
    return summary(facts, held, inside)


def summary(facts, held, inside):
    outside = {name: {what: wrong for what, value in held[name].items() if (wrong := untrue(value))} for name in held}
    return {
        "facts": [name for name, holds in facts.items() if not holds],
        "outside": {name: wrong for name, wrong in outside.items() if wrong},
        "inside": {name: wrong for name, wrong in inside.items() if wrong},
        "held": {name: sorted(held[name]) for name in held},
    }


def first(storage):
    with rayshot.init("album", storage=storage, trace="full", snapshots=rayshot.SnapshotConfig()) as system:
        names = ("one", "two", "three", "locals")
        one, two, three, local = (Collector.options(name=name).remote() for name in names)
        Clerk.options(name="clerk").remote()
        Counter.options(name="counter").remote().count.tell(Stamp(1))
        one.keep.tell(values())
        local.keep.tell([Printed(7), Foreign(8), *local_ones()])
        one.wait.tell(10.0, values())
        ray.get([actor.give.remote(1) for actor in (one, two, three, local)])
        three_pauses, one_pauses, go = (Path(f"{storage}-{name}") for name in ("three", "one", "go"))
        three.pause.tell(str(three_pauses), str(go))
        one.ask.tell(two, values())
        one.ask.tell(three, values())
        one.send.tell(three, values())
        one.found.tell("four", values())  # there is no room for it here, so what creates it is in flight
        one.pause.tell(str(one_pauses), str(go))
        wait_for(lambda: three_pauses.exists() and one_pauses.exists())
        wait_for(lambda: ray.get(two.has_given.remote()) == 2)  # its reply is in flight, as `one` pauses
        with futures.ThreadPoolExecutor() as pool:
            taken = pool.submit(system.snapshot)
            wait_for(lambda: system.status().snapshots)
            go.touch()
            snapshot = taken.result()
        return sorted({message.kind for channel in snapshot.channels.values() for message in channel.messages})


def second(storage):
    with rayshot.resume(
        "album", storage=storage, begin=lambda system: 1 / 0, trace="full", snapshots=rayshot.SnapshotConfig()
    ) as system:
        one, two, three, four, local = map(system.get_actor, ("one", "two", "three", "four", "locals"))
        wait_for(lambda: {"rung", "heard"} <= ray.get(one.holds.remote()).keys())
        wait_for(lambda: "arrived" in ray.get(three.holds.remote()))
        printed, foreign, *others = ray.get(local.holds.remote())["kept"]
        told = ray.get(system.get_actor("clerk").stamps.remote(Stamp(1)))
        facts = {
            "the last definition counts": type(printed) is Stamp,
            "local ones are others": not {Stamp, Torn} & {type(other) for other in others},
            "except": caught(one),
            "a class that may be gone has it as its base": isinstance(foreign, Stamp) and foreign.value == 8,
            "a class that may be gone uses it": told == [True, "Stamp", Stamp(5)],
        }
        held = {actor.name: ray.get(actor.holds.remote()) for actor in (one, two, three, four)}
        inside = {actor.name: ray.get(actor.untrue.remote()) for actor in (one, two, three, four)}
        system.get_actor("counter").count.tell(Stamp(2))
        system.snapshot()
        ages = [ray.get(one.age.remote()), held["one"]["kept"][0].age(), held["one"]["rung"][0].age()]
        return {**summary(facts, held, inside), "ages": ages}


NOTE = """
@dataclasses.dataclass
class Note:
    text: str
    edition = {edition}
"""


def notebook(storage):
    """The cell of a notebook is run four times, and the system goes on from its snapshot in between."""

    def run(edition):
        exec(NOTE.format(edition=edition), globals())

    run(1)
    system = rayshot.init("album", storage=storage, snapshots=rayshot.SnapshotConfig())
    one, two = Collector.options(name="one").remote(), Collector.options(name="two").remote()
    one.keep.tell([Note("a")])  # noqa: F821
    run(2)
    two.keep.tell([Note("b")])  # noqa: F821
    seen = [ray.get(actor.holds.remote())["kept"][0].edition for actor in (one, two)]
    system.snapshot()
    system.shutdown()
    run(3)
    run(4)
    with rayshot.restore(storage=storage) as system:
        notes = [ray.get(system.get_actor(name).holds.remote())["kept"][0] for name in ("one", "two")]
        return [seen, notes == [Note("a"), Note("b")], [note.edition for note in notes]]  # noqa: F821


if __name__ == "__main__":
    room = {"room": 1} if "second" in sys.argv else {}
    ray.init(
        "local", num_cpus=8, resources=room, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False
    )
    steps = {"alive": alive, "first": first, "second": second, "notebook": notebook}
    for step, folder in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        print(json.dumps(steps[step](folder)))
