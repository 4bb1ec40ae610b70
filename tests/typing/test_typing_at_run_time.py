"""What is for type checkers changes nothing at run time, and their stub says what is there at run time."""

import ast
import inspect
import pickle

import pytest
from mypy.plugin import Plugin

import rayshot
from rayshot.errors import ConfigError
from rayshot.model.handle import ActorHandle, check_class_of
from rayshot.model.methods import methods_of, silent_methods
from rayshot.model.options import _NEEDLESS, COUNT_OPTIONS, OWN_OPTIONS, RAY_OPTIONS
from rayshot.mypy_plugin import RayshotPlugin, plugin
from rayshot.simulation import SimulatedSystem
from tests.processes import ROOT

STUB = {
    node.name: node
    for node in ast.parse((ROOT / "rayshot" / "typed.pyi").read_text()).body
    if isinstance(node, ast.ClassDef | ast.FunctionDef)
}
"""By name; of overloads the last."""


class Counted(rayshot.Actor):
    def __init__(self):
        self.total = 0

    @rayshot.method
    def add(self, by):
        """Add."""
        self.total += by
        return self.total

    @rayshot.method(num_returns=0)
    def quietly(self, by):
        self.add(by)

    @rayshot.method
    @staticmethod
    def twice(number):
        return 2 * number

    @rayshot.method
    async def later(self):
        return self.total


class More(Counted):
    @rayshot.method
    def add(self, by):
        return super().add(by + 1)


def test_a_decorated_method_is_the_function_itself():
    def add(self, by): ...

    assert rayshot.method(add) is add
    assert rayshot.method(num_returns=0)(add) is add
    assert Counted.add.__doc__ == "Add."
    assert inspect.iscoroutinefunction(Counted.later)
    assert pickle.loads(pickle.dumps(Counted.add)) is Counted.add


def test_decorated_methods_are_called_as_they_are_and_sent_to():
    counted = More()
    assert (counted.add(1), counted.total, Counted.twice(4)) == (2, 2, 8)
    with SimulatedSystem() as world:
        handle = world.create(More, name="more")
        handle.add.tell(1)
        handle.quietly.tell(2)
        world.run()
        assert world.actors["more"].total == 5
    assert {"add", "quietly", "twice", "later"} <= {*methods_of(More)}
    assert silent_methods(More) == {"quietly"}


@pytest.mark.parametrize("options", [{"concurrency_group": "io"}, {"num_returns": 2}, {"num_return": 1}])
def test_options_of_a_method_are_refused_where_they_are_given(options):
    with pytest.raises(ConfigError):

        class _:
            @rayshot.method(**options)
            def add(self): ...


def test_only_methods_are_decorated():
    with pytest.raises(ConfigError, match="decorates methods"):
        rayshot.method(Counted)


def test_names_with_a_type_are_the_names_themselves():
    assert rayshot.ActorHandle[Counted] is rayshot.ActorHandle
    assert rayshot.Reply[int] is rayshot.Reply
    assert rayshot.Queue[int] is rayshot.Queue


def test_a_handle_is_not_of_a_class_whose_methods_its_actor_lacks():
    handle = ActorHandle("bank", "alice", frozenset({"add", "later", "quietly", "twice"}), None)
    check_class_of(handle, More)

    class Other:
        def subtract(self): ...

    with pytest.raises(ConfigError, match="it has no subtract"):
        check_class_of(handle, Other)
    with pytest.raises(ConfigError, match="not a class of actors"):
        check_class_of(handle, "Other")


def test_a_handle_of_a_class_with_hooks_is_one_of_this_class():
    @rayshot.actor(version=2)
    class Hooked(More):
        def on_restore(self): ...

        @staticmethod
        def migrate(state, from_version): ...

    with SimulatedSystem() as world:
        check_class_of(world.create(Hooked, name="hooked"), Hooked)
    check_class_of(ActorHandle("bank", "alice", frozenset(methods_of(More)), None), Hooked.options(num_cpus=1))


@pytest.mark.parametrize(
    ("version", "expected"), [("1.13.0", Plugin), ("0.991", Plugin), ("99.0+dev.1", RayshotPlugin)]
)
def test_the_plugin_does_nothing_under_a_mypy_that_is_too_old(version, expected, capsys):
    assert plugin(version) is expected
    assert ("needs mypy" in capsys.readouterr().err) == (expected is Plugin)


def test_the_stub_has_the_options_of_actors():
    fields = {node.target.id: node.annotation for node in STUB["ClassOptions"].body if isinstance(node, ast.AnnAssign)}
    assert fields.keys() == RAY_OPTIONS | OWN_OPTIONS.keys() | COUNT_OPTIONS | _NEEDLESS
    for name, values in OWN_OPTIONS.items():
        expected = "bool" if False in values else f"Literal[{', '.join(map(repr, values))}]"
        assert ast.unparse(fields[name]) == f"{expected} | None"


@pytest.mark.parametrize("name", ["get", "wait", "gather", "kill"])
def test_the_stub_has_the_parameters_of_functions(name):
    told = STUB[name].args
    assert [one.arg for one in (*told.posonlyargs, *told.args, *told.kwonlyargs)] == [
        *inspect.signature(getattr(rayshot, name)).parameters
    ]


@pytest.mark.parametrize("name", ["Reply", "SeveralReplies", "Method"])
def test_the_stub_has_no_methods_that_are_not_there(name):
    home = __import__(f"rayshot.model.{'handle' if name == 'Method' else 'reply'}", fromlist=[name])
    told = {node.name for node in STUB[name].body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert told <= {*dir(getattr(home, name))}
