"""Programs without mistakes that are hard for type checkers: both must accept them. Never run."""

import abc
import dataclasses
from typing import Any, Generic, TypeVar, overload

import pydantic
import ray

import rayshot

T = TypeVar("T")


@rayshot.actor
class Shelf(Generic[T]):
    def __init__(self, first: T, *rest: T) -> None:
        self.books = [first, *rest]

    def put(self, book: T, **marks: int) -> None:
        self.books.append(book)

    def first(self) -> T:
        return self.books[0]

    @staticmethod
    def height(wide: int) -> float:
        return wide / 2

    @classmethod
    def kind(cls, upper: bool = False) -> str:
        return cls.__name__

    @overload
    def find(self, which: int) -> T: ...
    @overload
    def find(self, which: str) -> list[T]: ...
    def find(self, which: Any) -> Any:
        return self.books[which]


@rayshot.actor(num_cpus=1, resources={"disk": 1.0})
class Duck(abc.ABC):
    @abc.abstractmethod
    def quack(self) -> str: ...


@rayshot.actor
class Mallard(Duck):
    def quack(self) -> str:
        return "quack"

    def meet(self, other: "rayshot.ActorHandle[Duck]", whoever: rayshot.ActorHandle) -> None:
        other.quack.remote().then(self.heard, 1)
        whoever.anything.tell(other, self_=rayshot.current().name)

    def heard(self, sound: str, times: int = 1) -> None: ...


class Goose(Mallard):
    """An undecorated subclass."""


@rayshot.actor
@dataclasses.dataclass
class Point:
    x: int = 0
    y: int = 0

    def move(self, by: int) -> int:
        self.x += by
        return self.x

    def where(self) -> tuple[int, int]:
        return self.x, self.y


@rayshot.actor
class Form(pydantic.BaseModel):
    name: str = ""

    def rename(self, name: str) -> None:
        self.name = name


@rayshot.actor
class Untyped:
    def __init__(self, start, step=1):
        self.at = start

    def count(self, by=1):
        self.at += by
        return self.at


def program(system: rayshot.System) -> None:
    shelf = Shelf[int].remote(1, 2)
    shelf.put.tell(3, size=2)
    shelf.height.remote(3)
    shelf.kind.options(num_returns=0).remote(upper=True)
    shelf.find.remote("poems")
    mallard = Mallard.options(name="mallard").remote()
    mallard.meet.tell(mallard, shelf)
    print(Goose().quack().upper())
    mallard.meet.tell(system.get_actor("other"), system.actors()["shelf"])
    point = Point.remote(1, y=2)
    moved = point.move.remote(by=3)
    point.move.tell(ray.get(moved))
    Form.remote(name="tax").rename.tell("taxes")
    counter = Untyped.options(name="counter").remote(1)
    counter.count.tell(by=2)
    ready, rest = ray.wait([moved, point.move.remote(1)])
    while rest:
        done, rest = ray.wait(rest, num_returns=1, timeout=1)
        print(ray.get(done[0]))
    refs = [point.move.remote(by) for by in range(3)]
    while refs:
        done, refs = ray.wait(refs)  # plugin: of the same type
        point.move.tell(ray.get(done)[0])
    print(ray.get(ready), rest, hash(point), point.__class__, point == Point.remote(), {point: 1}, mallard.name)
    rayshot.kill(point)
    plain = Shelf("a")
    plain.put("b")
    print(plain.first().upper(), ray.get(point.__ray_ready__.remote()))
    with rayshot.init("bank", storage="./shots", trace="full") as bank:
        bank.snapshot(mode="aligned")


def references(point: rayshot.ActorHandle[Point]) -> None:
    by = point.move.remote(1)
    point.move.tell(by)  # plugin: a reference as an argument
    point.move.tell(by=ray.put(3))  # plugin
    Point.remote(by)  # plugin
    Point.options(name="p").remote(x=by)  # plugin
    Shelf.remote("a", "b").first.remote()  # plugin: the type follows from the arguments


async def waiting(point: rayshot.ActorHandle[Point], queue: rayshot.Queue[str]) -> None:
    print(1 + await point.move.remote(1), (await queue.get_async()).upper(), queue.get().upper())
    async for item in rayshot.loop(queue.get):
        print(item.upper())
    for at in rayshot.loop(point.where):
        print(at[0] + 1)


class Filler:
    def __init__(self) -> None:
        self.queue = rayshot.Queue(100)
        self.words: rayshot.Queue[str] = rayshot.Queue(maxsize=3, actor_options={"name": "words"})
        self.lock, self.event = rayshot.Lock(), rayshot.Event()

    def fill(self) -> None:
        with self.lock:
            self.queue.put(1)
            self.words.put("a")
        for _ in rayshot.loop(every=5.0):
            self.event.set()
        for came in rayshot.loop(self.event.wait):
            print(came and "came")
