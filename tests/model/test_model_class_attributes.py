"""A user's class with attributes of our names: the class has ours, its instances and subclasses have theirs."""

import functools

import pytest

import rayshot
from rayshot.errors import HandlersTakeTurns, UnknownMethod
from rayshot.format.classes_by_value import ON_CLASS
from rayshot.model.specification import ActorSpecification


class WithMethods:
    def options(self, number=1):
        return "options", number

    @staticmethod
    def bind(number=2):
        return "bind", number

    @classmethod
    def remote(cls, number=3):
        return cls.__name__, number


class WithProperty:
    def __init__(self):
        self.options = 1

    @property
    def options(self):
        return "given", self._given

    @options.setter
    def options(self, given):
        self._given = given

    @options.deleter
    def options(self):
        self._given = None


class WithSlots:
    __slots__ = ("options", "remote")

    def __init__(self):
        self.options, self.remote = 1, [2]


class WithValues:
    bind = "of the class"

    def __init__(self):
        self.options = {"lr": 1}


class WithCache:
    @functools.cached_property
    def options(self):
        return ["cached"]


class WithAnswers:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"answered {name}"


OWN = [WithMethods, WithProperty, WithSlots, WithValues, WithCache, WithAnswers]


def seen(one):
    found = {name: getattr(one, name, None) for name in ON_CLASS}
    return {name: one() if callable(one) else one for name, one in found.items()}


@pytest.mark.parametrize("plain", OWN)
def test_an_instance_has_its_own_attributes_of_our_names(plain, world):
    copied = type(plain.__name__, (plain,), {})
    decorated = rayshot.actor(type(plain.__name__, (plain,), {}))
    directly = rayshot.actor(type(plain.__name__, plain.__bases__, own_vars(plain)))
    for made in (decorated, directly):
        made.options(name="bob").remote()
        assert world.spawned.pop()[1] == "bob"
        for cls in (made, type(plain.__name__, (made,), {}), rayshot.actor(type(plain.__name__, (made,), {}))):
            assert seen(cls()) == seen(copied())
            assert [hasattr(cls(), name) for name in ON_CLASS] == [hasattr(copied(), name) for name in ON_CLASS]


def own_vars(plain):
    made = {name: value for name, value in vars(plain).items() if name not in {"__dict__", "__weakref__"}}
    return {name: value for name, value in made.items() if name not in made.get("__slots__", ())}


@pytest.mark.parametrize("plain", [WithProperty, WithSlots])
def test_slots_and_properties_of_our_names_are_set_and_deleted(plain):
    decorated = rayshot.actor(type(plain.__name__, plain.__bases__, own_vars(plain)))
    for cls in (decorated, type("Sub", (decorated,), {})):
        one, other = cls(), cls()
        one.options = 5
        assert "5" in repr(one.options)
        assert "5" not in repr(other.options)
        del one.options
        assert "5" not in repr(getattr(one, "options", None))


def test_a_handler_with_a_name_of_ours_is_called_as_before(world):
    class Base:
        def options(self, word):
            return f"base {word}"

    @rayshot.actor
    class Own(Base):
        def options(self, word):
            return f"own, {super().options(word)}"

        @classmethod
        def bind(cls):
            return cls.__name__

    @rayshot.actor
    class More(Own):
        def options(self, word):
            return f"more, {super().options(word)}"

    handle = Own.remote()
    with pytest.raises(TypeError, match=r"options.*word"):
        handle.options.remote()
    with pytest.raises(UnknownMethod):
        handle.remote.remote()
    assert set(ActorSpecification.of(Own, {}).methods) == {"options", "bind"}
    assert ActorSpecification.of(rayshot.actor(type("Plain", (), {"read": len})), {}).methods == ("read",)
    world.construct(More)
    world.receive(*(world.codec.call(1, world.codec.tell(*tell)) for tell in (("options", ("x",)), ("bind", ()))))
    assert [answer[2:] for answer in world.answers] == [("more, own, base x", True), ("More", True)]
    assert Own.options(num_cpus=1).remote().name


def test_a_generator_and_a_coroutine_with_a_name_of_ours_are_known_for_what_they_are(world):
    class Own:
        def remote(self):
            yield 1

        async def options(self):
            return 2

    with pytest.warns(HandlersTakeTurns, match=r"\(options\)"):
        rayshot.actor(Own)
    world.construct(Own)
    for method in ("remote", "options"):
        world.receive(world.codec.call(1, world.codec.tell(method, ())))
    (_, _, error, refused), (_, _, value, answered) = world.answers
    assert (refused, answered, value) == (False, True, 2)
    assert "is a generator" in str(error)
    assert rayshot.actor(max_concurrency=2)(type("More", (Own,), {})).remote()
