"""States that pickle and that a plain unpickling cannot make again: rayshot loads them all the same, as they were."""

import collections
import enum
import pickle
import typing

import pytest

from rayshot.format.object_state import fill
from rayshot.format.pickling import dump_state, load_state
from tests.format.hard_to_make import Money, Proxy, Refused

pytestmark = pytest.mark.acceptance("S1")


class Slotted:
    """The same with slots."""

    __slots__ = ("inner", "more")

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def __hash__(self):
        return len(self.inner)

    def __eq__(self, other):
        return self is other


class Keys(dict):
    """A dict whose keys are its attributes too."""

    def __getattr__(self, name):
        return self[name]


class Kept:
    """A dict that keeps account of its items, and puts them in by `__setitem__` of the builtin beneath."""

    def __init__(self, *args):
        super().__init__(*args)
        self.total, self.order = 0, []

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.order.append(key)
        self.total += value

    def __setstate__(self, state):
        assert len(self)  # as in pickle, the items come first
        vars(self).update(state)


class Bag(Kept, dict): ...


class OrderedBag(Kept, collections.OrderedDict):
    def __reduce__(self):
        return OrderedBag.__new__, (OrderedBag,), vars(self), None, iter(self.items())


class BagByKind(Kept, collections.defaultdict):
    def __reduce__(self):
        return BagByKind.__new__, (BagByKind,), vars(self), None, iter(self.items())


class Halved(dict):
    """Shows its values as others than it holds."""

    def __init__(self):
        self.by = 2

    def __setitem__(self, key, value):
        super().__setitem__(key, value * self.by)

    def items(self):
        return ((key, value / self.by) for key, value in super().items())


class Without(Kept, dict):
    """Leaves its attributes out."""

    def __getstate__(self):
        return None


class Members(set):
    """A set that counts what is added."""

    def __init__(self, *args):
        super().__init__(*args)
        self.added = 0

    def add(self, member):
        super().add(member)
        self.added += 1


class Rows(list):
    """A list that counts what is appended."""

    def __init__(self):
        self.appended = 0

    def append(self, row):
        self.extend([row])

    def extend(self, rows):
        super().extend(rows)
        self.appended += len(rows)


class Node:
    """Lies in a set and in a dict of its parent, hashed by its name."""

    def __init__(self, name, parent):
        self.name, self.parent = name, parent

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return isinstance(other, Node) and self.name == other.name


class Euro(int):
    """A number made of two."""

    def __new__(cls, euros, cents):
        return super().__new__(cls, 100 * euros + cents)


class Pair(typing.NamedTuple):
    left: int
    right: int


class FromText(Pair):
    """A named tuple made of a text."""

    def __new__(cls, text):
        return super().__new__(cls, *map(int, text.split()))


class Order:
    class Line: ...

    class Refused(Refused): ...

    class Colour(enum.Enum):
        RED = 1


class Index:
    """Makes a table of its nodes when it is loaded."""

    def __init__(self, nodes):
        self.nodes = nodes

    def __setstate__(self, state):
        self.nodes = state["nodes"]
        self.names = sorted(node.name for node in self.nodes)


def there_and_back(value):
    pickled = dump_state({"state": value}, "alice")
    return load_state(pickled.stream, pickled.buffers)["state"]


def plainly(value):
    return pickle.loads(pickle.dumps(value, 5))


@pytest.mark.parametrize("kind", [Proxy, Slotted])
def test_an_object_that_gives_unknown_names_to_what_it_wraps_is_loaded(kind):
    wrapped = kind([1])
    with pytest.raises(RecursionError):
        plainly(wrapped)
    again = there_and_back([wrapped, wrapped])
    assert type(again[0]) is kind
    assert again[0] is again[1]
    assert again[0].inner == [1]
    assert again[0].index(1) == 0


def test_a_dict_with_its_keys_as_attributes_is_loaded():
    keys = Keys(a=1)
    keys.__dict__["note"] = 2
    with pytest.raises(KeyError):
        plainly(keys)
    again = there_and_back(keys)
    assert (again.a, again.note, type(again)) == (1, 2, Keys)


@pytest.mark.parametrize("kind", [Bag, OrderedBag, BagByKind])
def test_a_dict_that_keeps_account_of_its_items_is_loaded_with_its_own_account(kind):
    bag = kind()
    bag["a"], bag["b"] = 2, 3
    with pytest.raises(AttributeError):
        plainly(bag)
    again, same = there_and_back([bag, bag])
    assert (type(again), list(again.items()), vars(again)) == (kind, [("a", 2), ("b", 3)], vars(bag))
    assert again is same


def test_a_dict_that_keeps_account_is_whole_where_one_of_its_keys_has_to_wait():
    node = Node("a", Bag())
    node.parent["before"], node.parent[node], node.parent["behind"] = 1, 2, 3
    again = there_and_back(node).parent
    assert [getattr(key, "name", key) for key in again] == ["before", "a", "behind"]
    assert again.total == 6
    assert again.order == list(again)


def test_a_dict_that_shows_other_items_than_it_holds_is_filled_by_its_own_method():
    halved = Halved()
    halved["a"] = 3
    assert there_and_back(halved) == {"a": 6}


def test_a_dict_that_never_gets_the_attributes_which_it_needs_stays_an_error():
    bag = Without()
    bag["a"] = 1
    with pytest.raises(AttributeError):
        there_and_back(bag)


def test_sets_and_lists_with_methods_of_their_own_take_nothing_twice():
    members, rows = Members(), Rows()
    members.add(1)
    rows.append(1)
    again, _ = there_and_back([members, Money(5)])
    assert (again, again.added) == ({1}, 1)
    with pytest.raises(AttributeError):
        there_and_back(rows)


@pytest.mark.parametrize(
    "hold", [lambda node: {node}, lambda node: {node: 1}, lambda node: {(1, node): 2}, lambda node: {"a": 0, node: 1}]
)
def test_a_key_whose_hash_needs_its_state_is_found_again_in_a_cycle(hold):
    node = Node("a", [])
    node.parent.append(hold(node))
    with pytest.raises(AttributeError):
        plainly(node)
    again = there_and_back(node)
    (held,) = again.parent
    assert held == hold(again)
    assert len(held) == len(hold(again))
    assert any(again is part for key in held for part in (key if isinstance(key, tuple) else [key]))


@pytest.mark.parametrize("hold", [lambda own: {own}, lambda own: {own: 1}, lambda own: {"a": 0, ("b", own): 1}])
def test_an_actor_that_is_a_key_in_its_own_state_is_found_there_when_it_has_its_state(hold):
    actor, again = Node("a", []), Node.__new__(Node)
    actor.parent.append(hold(actor))
    pickled = dump_state({"state": vars(actor)}, "alice", actor)
    state = load_state(pickled.stream, pickled.buffers, again)["state"]
    assert not vars(again), "its class may migrate the state first"
    fill(again, state)
    (held,) = again.parent
    assert held == hold(again)
    assert [*held][-1] is again or again in [*held][-1]


def test_an_actor_with_slots_alone_is_found_in_its_own_state():
    actor, again = Slotted([1]), Slotted.__new__(Slotted)
    actor.more = {actor}
    pickled = dump_state({"state": actor.__getstate__()}, "alice", actor)
    fill(again, load_state(pickled.stream, pickled.buffers, again)["state"])
    assert again.more == {again}


def test_who_takes_a_part_of_a_state_before_the_actor_can_be_a_key_of_it_is_refused_not_given_less():
    actor = Node("a", None)
    actor.parent = {actor}
    pickled = dump_state({"state": {**vars(actor), "index": Index(actor.parent)}}, "alice", actor)
    with pytest.raises(pickle.UnpicklingError, match=r"Index.* is made of a set"):
        load_state(pickled.stream, pickled.buffers, Node.__new__(Node))


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_the_order_of_a_dict_stays_where_some_keys_waited(kind):
    node = Node("a", kind())
    node.parent.update({"before": 0, node: 1, "behind": 2, Node("b", None): 3})
    again = there_and_back(node)
    assert [getattr(key, "name", key) for key in again.parent] == ["before", "a", "behind", "b"]
    assert again.parent[again] == 1


def test_who_makes_something_of_its_state_finds_the_keys_that_had_to_wait():
    first = Node("a", [])
    first.parent.append({first, Node("b", first.parent)})
    again = there_and_back({"node": first, "index": Index(first.parent[0])})
    assert again["index"].names == ["a", "b"]


def test_what_would_be_copied_before_its_keys_are_there_is_refused_not_emptied():
    node = Node("a", None)
    node.parent = collections.Counter([node])
    with pytest.raises(pickle.UnpicklingError, match="Counter"):
        there_and_back(node)


def test_an_object_made_by_its_new_alone_is_loaded():
    with pytest.raises(TypeError):
        plainly(Money(5))
    assert vars(there_and_back(Money(5))) == {"cents": 5}
    assert (there_and_back(Euro(1, 5)), type(there_and_back(Euro(1, 5)))) == (105, Euro)
    assert (there_and_back(FromText("1 2")), type(there_and_back(FromText("1 2")))) == (Pair(1, 2), FromText)


def test_a_class_that_nobody_can_make_stays_an_error():
    class Never:
        def __new__(cls, made=False):
            if not made:
                raise ValueError("not like this")
            return super().__new__(cls)

    with pytest.raises(ValueError, match="not like this"):
        there_and_back(Never(made=True))


@pytest.mark.acceptance("S6")
@pytest.mark.parametrize(
    "beside", [Order.Line, lambda: Order.Refused(1, "no"), lambda: Order.Colour.RED, lambda: Order.Line]
)
def test_a_name_with_a_dot_is_found_beside_an_error_with_its_own_constructor(beside, nothing_learned):
    refused, again = there_and_back([Refused(1, "no"), beside()])
    assert (type(refused), vars(refused), str(refused)) == (Refused, {"code": 1}, "no")
    if not isinstance(beside(), enum.Enum | type):
        assert type(again) is type(beside())
    else:
        assert again is beside()
