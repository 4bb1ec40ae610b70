"""`@rayshot.actor`: a user's class that can be spawned as an actor of a system."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn, overload

from rayshot.errors import ConfigError, NameTaken
from rayshot.format.classes_by_value import ON_CLASS, OnClass, OnClassOverData, raw_attribute_of
from rayshot.format.suggestion import porting
from rayshot.model.handle import ActorHandle, no_graphs, with_class
from rayshot.model.methods import warn_of_turns
from rayshot.model.options import check_options
from rayshot.model.parameters import parameters_of
from rayshot.model.port import Port, spawning_port, system_name
from rayshot.model.specification import (
    ActorMaker,
    ActorSpecification,
    check_class,
    check_given,
    is_imported,
    user_class_of,
)
from rayshot.model.versions import GIVEN, check_version, declaration, options_of
from rayshot.protocol.identity import check_actor_name

_DERIVED = "__init_subclass__"


class Actor:
    """A base for classes under `@rayshot.actor`, for type checkers only: with it they know `remote` and `options`.

    They check the constructor's arguments and options then, and what the handle is asked: `rayshot help type-checkers`.
    """

    __slots__ = ()


class ActorClass(type):
    """What decorated classes look like to type checkers. `Account(100)` makes a plain object, for tests.

    Snapshots of before 0.2 hold a decorated class by value as a subclass of the user's, of this metaclass: what they
    hold becomes the user's class itself, decorated.
    """

    remote: Callable[..., ActorHandle]
    """Make an actor of this class; the arguments go to its constructor. Returns its handle at once."""
    options: "Callable[..., _Spawner]"
    """Options for one actor: `name` (a text of one line), `system`, `capture`, `on_error`, Ray's.

    `system` is the system that the actor is to belong to, or its name. A program that has only one, an actor, and a
    `with` block of a system need not say it.
    """
    bind: Callable[..., NoReturn]
    """Refuse to make a node of a Ray graph."""

    def __new__(mcs, _name: str, bases: tuple[type, ...], _namespace: dict[str, Any]) -> Any:
        """Decorate the base."""
        return _put_on(bases[0], {})


class _Spawner(ActorMaker):
    """A class with options given. With `get_if_exists`, `remote` returns an existing actor of that name.

    States may hold one, and name the class and its fields: keep them.
    """

    _system: str | None = None  # states of before lack it

    def __init__(
        self,
        actor_class: type,
        options: Mapping[str, Any],
        name: str | None,
        *,
        get_if_exists: bool = False,
        system: str | None = None,
    ) -> None:
        super().__init__(actor_class, options)
        self._name = name
        self._get_if_exists = get_if_exists
        self._system = system

    def options(
        self, *, name: str | None = None, get_if_exists: bool = False, system: object = None, **options: Any
    ) -> "_Spawner":
        if name is not None:
            check_actor_name(name)
        name = name or self._name
        if get_if_exists and name is None:
            raise ConfigError("get_if_exists=True: give the name too, Class.options(name=..., get_if_exists=True)")
        checked = {**self._options, **check_options(options)}
        check_given(self._class, checked)
        where = self._system if system is None else system_name(system)
        return _Spawner(self._class, checked, name, get_if_exists=get_if_exists or self._get_if_exists, system=where)

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        user_class = self._class
        _check_fields(user_class)
        specification = ActorSpecification.of(user_class, self._options)
        port = spawning_port(self._system)
        if self._get_if_exists and (found := self._find(port)) is not None:
            return found
        parameters_of(user_class, "__init__").check(f"{user_class.__qualname__}.remote(...)", args, kwargs)
        try:
            return with_class(port.spawn(specification, self._name, args, kwargs), user_class)
        except NameTaken:
            if not self._get_if_exists:
                raise
            assert self._name is not None
            return self._find(port) or port.handle_of(self._name)  # of one that is just being made nobody knows yet

    def _find(self, port: Port) -> ActorHandle | None:
        """Return the actor of that name, or None if nobody knows of one. Raises NameTaken if it has ended."""
        assert self._name is not None
        there = port.is_there(self._name)
        if there is False:
            raise NameTaken(
                f"the actor named {self._name!r} has ended, and no other one gets its name in this life of the system: "
                f"give another name; see {porting('name-again')}",
                actor=self._name,
            )
        return port.handle_of(self._name) if there else None

    def bind(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise no_graphs(f"{self._class.__qualname__}.bind(...)")


@overload
def actor(decorated: type, /) -> ActorClass: ...
@overload
def actor(*, version: int = 1, **options: Any) -> Callable[[type], ActorClass]: ...


def actor(decorated: Any = None, /, *, version: int = 1, **options: Any) -> Any:
    """Turn a class into one whose instances can be actors of a system. Goes over or under `@ray.remote`.

    Returns the class itself, with `remote`, `options` and `bind` on it. A class that is decorated already, or whose
    module has been imported without a decorator, stays as it is, as other processes import it so: they get what
    `Class.options(...)` returns.

    Args:
        decorated: the class, when used without parentheses.
        version: the version of the class's state, from 1. Raise it when a recorded state no longer fits the class, and
            give the class a static or class method `migrate(state, from_version)` that returns the state in its new
            form. A restore calls it before `__setstate__` or the update of the `__dict__`, with what `__getstate__` or
            the `__dict__` gave. It is not a handler. Each subclass declares its own version.
        **options: `capture` ("auto", "fork", "inline"), `on_error` ("continue", "stop"), `prove` (False: states are not
            loaded for trial), `hooks_s` (seconds for `on_restore`, 60), `outside` ("plain": files in `cut.folder` may
            lie beside encrypted snapshots as they are), and options of Ray's actors (num_cpus, resources, ...), which
            are passed to Ray unchanged.

    Raises:
        ConfigError: `migrate` cannot be called this way, or rayshot does not support an option of the class or method;
            the message names the line of `rayshot help porting` that says what to write instead.
    """
    checked = check_options(options)
    check_version(version)
    if decorated is None:
        return lambda cls: _decorate(cls, checked, version)
    return _decorate(decorated, checked, version)


def _decorate(decorated: Any, options: Mapping[str, Any], version: int) -> Any:
    user_class = user_class_of(decorated)
    if user_class is None:
        raise ConfigError(f"@rayshot.actor decorates classes, not {decorated!r}")
    if isinstance(decorated, ActorMaker):
        options = {**decorated.given, **options}
    elif user_class is not decorated:  # the result of @ray.remote
        options = {**check_options(_given(decorated._default_options)), **options}  # noqa: SLF001
    check_class(user_class)
    check_given(user_class, options)
    before = options_of(user_class)
    options = {**(before or {}), **options}
    late = before is not None or is_imported(user_class)
    given = declaration(user_class, options, version, late=late)
    if options.get("max_concurrency", 1) == 1:
        warn_of_turns(user_class, stacklevel=4)  # the line of the user's that decorates
    if not late:
        return _put_on(user_class, given)
    return user_class if before == options else _Spawner(user_class, options, None)


def _put_on(user_class: type, given: Mapping[str, Any]) -> type:
    """The class, decorated. Raises ConfigError if its metaclass forbids that."""
    assert GIVEN not in vars(user_class), user_class
    added: dict[str, Any] = {GIVEN: given}
    for name in ON_CLASS:
        if _is_data(inspect.getattr_static(type(user_class), name, None)):
            raise ConfigError(f"{user_class.__qualname__} cannot be decorated: its metaclass has a {name!r} itself")
        kind = OnClassOverData if _is_data(raw_attribute_of(user_class, name)) else OnClass
        added[name] = kind(name, on_class, *_in_place_of(user_class, name))
    added[_DERIVED] = SubclassByRay(_DERIVED, on_class, *_in_place_of(user_class, _DERIVED))
    for name, value in added.items():
        type.__setattr__(user_class, name, value)  # not that of a metaclass, which may refuse
    return user_class


def _is_data(found: object) -> bool:
    """Whether it is a slot, a property or the like, which stands above what an instance holds itself."""
    return hasattr(type(found), "__set__")


def _in_place_of(user_class: type, name: str) -> tuple[Any, ...]:
    return (vars(user_class)[name],) if name in vars(user_class) else ()


def on_class(user_class: type, name: str) -> Any:
    """What a decorated class answers. Classes by value name this function: keep it here."""
    options = options_of(user_class)
    assert options is not None, user_class
    return getattr(_Spawner(user_class, options, None), name)


def _check_fields(user_class: type) -> None:
    """Raise ConfigError if a library took what stands on the class for the default of a field."""
    own = vars(user_class)
    for field in (*own.get("__dataclass_fields__", {}).values(), *own.get("__attrs_attrs__", ())):
        whose = getattr(field.default, "__self__", field.default)
        if isinstance(whose, OnClass | _Spawner):
            raise ConfigError(
                f"the default of {user_class.__qualname__}.{field.name} is what @rayshot.actor put there: write it "
                "above @dataclass or attrs, and not below"
            )


class SubclassByRay(OnClass):
    """`__init_subclass__` of a decorated class: it runs the user's own.

    `@ray.remote` may stand over the decorator: Ray then derives a class whose `remote` is Ray's, and gets ours.
    """

    __slots__ = ()

    def __get__(self, instance: object, owner: type) -> Any:
        return partial(self._derive, owner)

    def _derive(self, derived: type, **keywords: Any) -> None:
        self.bound(None, derived)(**keywords)
        decorated = getattr(derived, "__ray_actor_class__", None)
        if any(base.__module__ == "ray.actor" for base in derived.__bases__) and GIVEN in vars(decorated):
            for name, function in _OVER_RAY.items():
                type.__setattr__(derived, name, function)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}


def _over_ray(ray_class: Any) -> _Spawner:
    user_class = user_class_of(ray_class)
    assert user_class is not None
    options = options_of(user_class)
    assert options is not None, user_class
    given = check_options(_given(ray_class._default_options))  # noqa: SLF001
    return _Spawner(user_class, {**options, **given}, None)


def _remote_over_ray(self: Any, *args: Any, **kwargs: Any) -> ActorHandle:
    return _over_ray(self).remote(*args, **kwargs)


def _options_over_ray(self: Any, **options: Any) -> _Spawner:
    return _over_ray(self).options(**options)


def _bind_over_ray(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    _over_ray(self).bind(*args, **kwargs)


_OVER_RAY = {"remote": _remote_over_ray, "options": _options_over_ray, "bind": _bind_over_ray}
