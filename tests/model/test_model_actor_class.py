"""`@rayshot.actor`: what it accepts, what it refuses and what the decorated class still is."""

import functools
import inspect
import pickle
import re

import pytest

import rayshot
from rayshot.errors import CodeMismatch, ConfigError, NameTaken, SystemStopped, UnknownMethod
from rayshot.model.handle import ActorHandle, rebind_anew
from rayshot.model.methods import silent_methods
from rayshot.model.options import check_options
from rayshot.model.specification import ActorSpecification, find_class
from rayshot.protocol.identity import NAME_LENGTH_MAX
from tests.model.workloads import Account, Configured, Registered, Registry
from tests.protocol.test_protocol_identity import NAMES

REFUSED = [
    ({"concurrency_groups": {"io": 2}}, r"one at a time.*rayshot help porting#concurrency-groups"),
    ({"placement_group": "mine"}, r"PlacementGroupSchedulingStrategy.*rayshot help porting#placement-options"),
    ({"placement_group_bundle_index": 2}, r"rayshot help porting#placement-options"),
    ({"enable_task_events": True}, r"no calls.*rayshot help porting#task-events"),
    ({"fallback_strategy": [{}]}, r"rayshot help porting#placement-options"),
    ({"lifetime": "detached"}, r"as long as their system.*rayshot help porting#detached"),
    ({"namespace": "mine"}, r"live in their system.*rayshot help porting#namespaces"),
    ({"num_cpu": 1}, r"no option 'num_cpu'; .*num_cpus"),
    ({"capture": "copy"}, "'auto', 'fork', 'inline'"),
    ({"capture": None}, "'auto', 'fork', 'inline'"),
    ({"on_error": "restart"}, "'continue', 'stop'"),
    ({"scheduling_strategy": object()}, "plain numbers and texts"),
    ({"resources": {"a": (1, 2)}}, "plain numbers and texts"),
]
HARMLESS = [
    {"max_restarts": 0, "max_task_retries": 0},
    {"lifetime": None},
    {"lifetime": "non_detached"},
    {"placement_group": "default"},
    {"get_if_exists": False},
    {"num_cpus": None},
    {"enable_task_events": False},
]


def plain_class():
    class Plain:
        def read(self):
            return 1

    return Plain


def test_a_plain_instance_works_without_a_system():
    account = Account(5)
    assert account.deposit(2) == 7
    with pytest.raises(ValueError, match="not enough"):
        account.withdraw(100)
    assert isinstance(account, Account)


def test_a_decorator_with_options_decorates_as_well():
    plain = plain_class()
    assert rayshot.actor()(plain) is plain
    plain = plain_class()
    assert rayshot.actor(num_cpus=1, on_error="stop")(plain) is plain
    assert Configured().read() == 1
    assert inspect.getdoc(Configured) == "A class with options."


@pytest.mark.parametrize(("options", "reason"), REFUSED, ids=[repr(list(o)) for o, _ in REFUSED])
def test_an_option_that_cannot_work_is_refused_at_decoration_and_later(options, reason):
    with pytest.raises(ConfigError, match=reason):
        rayshot.actor(**options)
    with pytest.raises(ConfigError, match=reason):
        Account.options(**options)
    with pytest.raises(ConfigError, match=reason):
        Account.options(num_cpus=1).options(**options)


@pytest.mark.parametrize("options", HARMLESS, ids=repr)
def test_an_option_that_says_what_is_so_anyway_is_accepted_and_not_kept(options):
    assert check_options(options) == {}
    rayshot.actor(**options)(plain_class())


def test_options_are_not_changed_and_keep_their_values():
    given = {"num_cpus": 0.5, "resources": {"disk": 1}, "capture": "fork", "max_restarts": 0}
    checked = check_options(given)
    assert checked == {"num_cpus": 0.5, "resources": {"disk": 1}, "capture": "fork"}
    assert "max_restarts" in given


def test_options_of_the_decorator_and_of_one_actor_join(world):
    Configured.remote()
    Configured.options(name="other", num_cpus=3).options(on_error="stop").remote()
    (first, first_name, _, _), (second, second_name, _, _) = world.spawned
    assert (first_name, second_name) == (None, "other")
    assert (first.capture, first.on_error, first.ray_options) == ("inline", "continue", {"num_cpus": 2})
    assert (second.capture, second.on_error, second.ray_options) == ("inline", "stop", {"num_cpus": 3})


def test_remote_spawns_the_users_own_class_with_the_constructors_arguments(world):
    handle = Account.options(name="alice").remote(balance=3)
    ((specification, name, args, kwargs),) = world.spawned
    assert (handle.name, name, args, kwargs) == ("alice", "alice", (), {"balance": 3})
    assert (specification.class_name, specification.class_pickle) == ("Account", None)
    assert specification.resolve() is Account
    assert "deposit" in specification.methods
    assert not any(method.startswith("__") for method in specification.methods)


def test_making_an_actor_without_a_system_says_what_to_do(monkeypatch):
    for known in ("_begun", "_several"):  # tests before had systems in this process
        monkeypatch.setattr(f"rayshot.runtime.opening.ports.{known}", [])
    with pytest.raises(SystemStopped, match=r"rayshot\.init"):
        Account.remote()


@pytest.mark.acceptance("X3")
@pytest.mark.parametrize("name", [*NAMES, "x" * NAME_LENGTH_MAX, "🧀" * NAME_LENGTH_MAX])
def test_any_text_of_one_line_is_accepted_as_a_name(world, name):
    assert Account.options(name=name).remote().name == name


@pytest.mark.acceptance("X3")
@pytest.mark.parametrize(
    "name",
    [
        "", "a\n", "a\0b", "\x1b[31m", "\x7f", "\x85", "a\u2028b", "\u2029", "\ud800", "driver:", "driver:x",
        "coordinator", "aligned", "stopped", "x" * (NAME_LENGTH_MAX + 1), 7, b"a",
    ],
    ids=repr,
)  # fmt: skip
def test_a_name_that_cannot_be_one_is_refused_before_anything_is_made(world, name):
    with pytest.raises(ConfigError, match="cannot name an actor"):
        Account.options(name=name)
    assert world.spawned == []


@pytest.mark.acceptance("O4")
@pytest.mark.parametrize("options", [{"max_restarts": 1}, {"max_restarts": -1, "max_task_retries": 3}], ids=repr)
def test_options_for_actors_that_die_are_taken_with_one_warning(options, world):
    with pytest.warns(
        UserWarning, match=r"not needed.*goes back to its last snapshot.*rayshot help porting#max-restarts"
    ) as warned:
        made = rayshot.actor(**options)(plain_class())
    assert len(warned) == 1
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="not needed") as warned:
        Account.options(**options).remote(1)
    assert len(warned) == 1
    made.remote()
    assert [specification.options for specification, *_ in world.spawned] == [{}, {}]


@pytest.mark.acceptance("O4")
def test_an_actor_that_is_there_already_is_taken_where_that_is_asked_for(world):
    world.taken.add("alice")
    with pytest.raises(NameTaken):
        Account.options(name="alice").remote(3)
    for made in (Account.options(name="alice", get_if_exists=True), Account.options(get_if_exists=True, name="alice")):
        assert made.options(num_cpus=1).remote(3).name == "alice"
    assert Account.options(name="bob", get_if_exists=True).remote(3).name == "bob"
    world.ended.add("carol")
    with pytest.raises(NameTaken, match=r"'carol' has ended.*rayshot help porting#name-again"):
        Account.options(name="carol", get_if_exists=True).remote(3)
    assert [name for _, name, _, _ in world.spawned] == ["bob"]
    for asked in (lambda: Account.options(get_if_exists=True), lambda: rayshot.actor(get_if_exists=True)):
        with pytest.raises(ConfigError, match=r"name=\.\.\., get_if_exists=True"):
            asked()


class Generating:
    def rows(self):
        yield 1


class GeneratingAsynchronously:
    async def rows(self):
        yield 1


class GeneratingByInheritance(Generating):
    def read(self):
        return 1


class GeneratingPrivately:
    def __init__(self):
        self.read = sum(self._rows())

    def _rows(self):
        yield from (1, 2)


KINDS = [type("Generating", (), {"rows": kind(lambda *_: (yield 1))}) for kind in (staticmethod, classmethod)]


@pytest.mark.acceptance("G26")
@pytest.mark.acceptance("O4")
@pytest.mark.parametrize("user_class", [Generating, GeneratingAsynchronously, GeneratingByInheritance, *KINDS])
def test_a_generator_is_refused_when_it_is_called_and_not_before(user_class, world):
    handle = rayshot.actor(user_class).remote()
    with pytest.raises(UnknownMethod, match=r"no method 'rows'.*rayshot help porting#generators"):
        handle.rows.remote()
    world.construct(user_class)
    world.receive(world.codec.call(1, world.codec.tell("rows", ())))
    ((_, _, error, ok),) = world.answers
    assert not ok
    assert isinstance(error, ConfigError)
    assert re.search(
        r"\.rows .*is a generator: .*return a list.*rayshot help porting#generators", str(error), re.IGNORECASE
    )


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def listed(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return list(function(*args, **kwargs))

    return wrapper


class GeneratingBehindDecorators:
    @logged
    def rows(self):
        yield 1

    @logged
    async def async_rows(self):
        yield 1

    @listed
    def whole(self):
        yield 1


@pytest.mark.acceptance("O4")
def test_a_generator_behind_a_decorator_is_refused_where_a_handler_returns_one(world):
    world.construct(GeneratingBehindDecorators)
    for method in ("rows", "async_rows", "whole"):
        world.receive(world.codec.call(1, world.codec.tell(method, ())))
    *refused, (_, _, value, ok) = world.answers
    assert (value, ok) == ([1], True)
    for (_, _, error, ok), method in zip(refused, ("rows", "async_rows"), strict=True):
        assert not ok
        assert isinstance(error, ConfigError)
        assert re.search(rf"\.{method} of actor 'alice' is a generator.*rayshot help porting#generators", str(error))
    with pytest.raises(ConfigError, match="is a generator"):
        world.tell("rows")


@pytest.mark.acceptance("O4")
def test_handlers_call_generators_of_their_own(world):
    assert "_rows" not in ActorSpecification.of(GeneratingPrivately, {}).methods
    assert world.construct(GeneratingPrivately).read == 3


@pytest.mark.acceptance("O7")
@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"num_returns": 2}, "num-returns"),
        ({"num_returns": True}, "num-returns"),
        ({"num_returns": -1}, "num-returns"),
        ({"num_returns": "streaming"}, "generators"),
        ({"num_returns": "dynamic"}, "generators"),
        ({"_generator_backpressure_num_objects": 2}, "generators"),
        ({"concurrency_group": "io"}, "concurrency-groups"),
        ({"retry_exceptions": True}, "retry-exceptions"),
        ({"retry_exceptions": [ValueError]}, "retry-exceptions"),
        ({"tensor_transport": "nccl"}, "tensor-transport"),
        ({"enable_task_events": True}, "task-events"),
    ],
    ids=repr,
)
def test_an_option_of_a_method_that_cannot_work_is_refused_where_it_is_asked_for(options, line, world):
    def read(self):
        return 1

    for key, value in options.items():  # as @ray.method does
        setattr(read, f"__ray_{key.strip('_')}__", value)
    reason = rf"read: {next(iter(options))}=.*rayshot help porting#{line}"
    with pytest.raises(ConfigError, match=reason):
        rayshot.actor(type("Asking", (), {"read": read}))
    with pytest.raises(ConfigError, match=reason):
        world.handle("alice").read.options(**options)
    assert world.sent.get("alice", []) == []


@pytest.mark.acceptance("O7")
def test_options_of_a_method_that_change_nothing_are_taken(world):
    read = world.handle("alice").read
    read.options(name="reading", num_returns=1, retry_exceptions=False, concurrency_group=None).remote(1)
    with pytest.warns(UserWarning, match="max-restarts") as warned:
        read.options(max_task_retries=3).tell(2)
    assert len(warned) == 1
    assert world.messages("alice") == [("read", (1,)), ("read", (2,))]
    with pytest.raises(ConfigError, match=r"there is no option 'num_return' of a method; there are .*num_returns"):
        read.options(num_return=2)


@pytest.mark.acceptance("O7")
def test_a_call_that_returns_nothing_is_a_tell(world):
    def note(self, word):
        pass

    note.__ray_num_returns__ = 0
    made = rayshot.actor(type("Noting", (), {"note": note}))
    assert silent_methods(made) == {"note"}
    handle = world.handle("alice")
    assert handle.note.options(num_returns=0).remote("a") is None
    assert ActorHandle("bank", "alice", None, world, silent=frozenset({"note"})).note.remote("b") is None
    assert world.messages("alice") == [("note", ("a",)), ("note", ("b",))]


@pytest.mark.acceptance("O7")
def test_a_handle_takes_along_which_calls_return_nothing(world):
    def note(self, word):
        pass

    note.__ray_num_returns__ = 0
    alice = rayshot.actor(type("Noting", (), {"note": note})).options(name="alice").remote()
    world.handle("bob").meet.tell(alice)
    world.handle("bob").meet.tell([alice])
    ((flat,), ((nested,),)) = (args for _, args in world.messages("bob"))
    for handle in (flat, nested, pickle.loads(pickle.dumps(nested))):
        assert handle.note.remote("a") is None
    assert rebind_anew("bank", "alice", ("note",), ("note",)).note.remote("b") is None
    plain = world.handle("carol")
    world.handle("bob").meet.tell(plain)
    assert len(pickle.dumps(plain)) < len(pickle.dumps(alice))
    assert len(world.sent["bob"][-1]) < 20


@pytest.mark.acceptance("O7")
def test_a_graph_of_rays_is_refused_with_what_to_write_instead(world):
    for bind in (Account.bind, Account.options(num_cpus=1).bind, world.handle("alice").deposit.bind):
        with pytest.raises(ConfigError, match=r"bind\(\.\.\.\) .*rayshot help porting#dag-bind"):
            bind(1)


def test_a_coroutine_and_an_iterator_that_a_handler_returns_are_no_generators():
    class Fine:
        async def read(self):
            return 1

        def __iter__(self):
            yield 1

    assert issubclass(rayshot.actor(Fine), Fine)


def test_a_method_that_a_handle_hides_is_refused_at_decoration():
    class Named:
        def name(self):
            return "me"

    with pytest.raises(ConfigError, match=r"Named\.name cannot be reached.*rename.*rayshot help porting#method-names"):
        rayshot.actor(Named)


@pytest.mark.parametrize("name", ["name_in", "_name", "_system", "_methods", "_port"])
def test_every_name_that_a_handle_needs_for_itself_is_refused_at_decoration(name):
    with pytest.raises(ConfigError, match="cannot be reached"):
        rayshot.actor(type("Hidden", (), {name: lambda self: 1}))


@pytest.mark.parametrize("value", [7, "Account", lambda: 1, plain_class, Account(1)], ids=lambda v: type(v).__name__)
def test_what_is_no_class_is_refused(value):
    with pytest.raises(ConfigError, match="decorates classes"):
        rayshot.actor(value)


def test_a_decorated_subclass_of_a_decorated_class_is_an_actor_of_its_own(world):
    class Savings(Account):
        def rate(self):
            return 0.01

    decorated = rayshot.actor(num_cpus=2)(Savings)
    decorated.remote(1)
    ((specification, _, _, _),) = world.spawned
    assert {"rate", "deposit"} <= set(specification.methods)
    assert specification.ray_options == {"num_cpus": 2}
    assert specification.resolve() is Savings


def test_a_metaclass_of_the_users_own_is_kept(world):
    assert isinstance(Registered, Registry)
    assert Registered.shout == "REGISTERED"
    assert "Registered" in Registry.made
    assert Registered(3).read() == 3
    Registered.remote(4)
    world.construct(world.spawned[0][0].resolve(), 4)
    assert world.cell.instance.read() == 4


def test_a_class_is_found_again_by_its_name_without_the_decoration(tmp_path, monkeypatch):
    assert find_class("tests.model.workloads", "Account") is Account
    assert find_class("tests.model.workloads", "Registry") is Registry
    assert find_class("tests.model.workloads", "nobody") is None
    assert find_class("tests.model.nothing", "Account") is None
    (tmp_path / "broken_module.py").write_text("this is no Python")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CodeMismatch, match="broken_module cannot be imported: SyntaxError"):
        find_class("broken_module", "Account")
    assert find_class("tests.model.test_model_actor_class", "plain_class") is None
