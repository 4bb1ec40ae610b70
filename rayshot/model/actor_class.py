"""`@rayshot.actor`: a user's class that can be spawned as an actor of a system."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, overload

from rayshot.errors import ConfigError, NameTaken
from rayshot.format.suggestion import porting
from rayshot.model.handle import ActorHandle, no_graphs, with_class
from rayshot.model.methods import warn_of_turns
from rayshot.model.options import check_options
from rayshot.model.parameters import parameters_of
from rayshot.model.port import Port, process_port
from rayshot.model.specification import ActorSpecification, check_class, check_concurrency
from rayshot.model.versions import check_version, declare_version
from rayshot.protocol.identity import check_actor_name


class ActorClass(type):
    """The class of decorated classes: a subclass of the user's class, with Ray's `remote` and `options` on it.

    `Account(100)` makes a plain object, for tests; `Account.remote(100)` makes an actor. `@ray.remote` may stand over
    the decorator: Ray then derives its class from this one. `__new__` notices this and gives that class our `remote`.
    """

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **keywords: Any) -> "ActorClass":
        """Make a decorated class, or a class that Ray or a user derives from one."""
        if any(base.__module__ == "ray.actor" for base in bases):
            over_ray = {"remote": _remote_over_ray, "options": _options_over_ray, "bind": _bind_over_ray}
            namespace = {**namespace, **over_ray}
        return super().__new__(mcs, name, bases, namespace, **keywords)

    @property
    def remote(cls) -> Callable[..., ActorHandle]:
        """Make an actor of this class; the arguments go to its constructor. Returns its handle at once."""
        return _Spawner(cls, _own_options(cls), None).remote

    @property
    def options(cls) -> "Callable[..., _Spawner]":
        """Options for one actor: `name` (a text of one line, see `check_actor_name`), `capture`, `on_error`, Ray's."""
        return _Spawner(cls, _own_options(cls), None).options

    @property
    def bind(cls) -> Callable[..., NoReturn]:
        """Refuse to make a node of a Ray graph."""
        return _Spawner(cls, _own_options(cls), None).bind


class _Spawner:
    """A decorated class with options given. With `get_if_exists`, `remote` returns an existing actor of that name."""

    def __init__(
        self, actor_class: type, options: Mapping[str, Any], name: str | None, *, get_if_exists: bool = False
    ) -> None:
        self._class = actor_class
        self._options = options
        self._name = name
        self._get_if_exists = get_if_exists

    def options(self, *, name: str | None = None, get_if_exists: bool = False, **options: Any) -> "_Spawner":
        if name is not None:
            check_actor_name(name)
        name = name or self._name
        if get_if_exists and name is None:
            raise ConfigError("get_if_exists=True: give the name too, Class.options(name=..., get_if_exists=True)")
        checked = {**self._options, **check_options(options)}
        check_concurrency(_user_class(self._class), checked)
        return _Spawner(self._class, checked, name, get_if_exists=get_if_exists or self._get_if_exists)

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        user_class = _user_class(self._class)
        specification = ActorSpecification.of(user_class, self._options)
        port = process_port()
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

    Args:
        decorated: the class, when used without parentheses.
        version: the version of the class's state, from 1. Raise it when a recorded state no longer fits the class, and
            give the class a static or class method `migrate(state, from_version)` that returns the state in its new
            form. A restore calls it before `__setstate__` or the update of the `__dict__`, with what `__getstate__` or
            the `__dict__` gave. It is not a handler. Each subclass declares its own version.
        **options: `capture` ("auto", "fork", "inline"), `on_error` ("continue", "stop"), `prove` (False: states are not
            loaded for trial), and options of Ray's actors (num_cpus, resources, ...), which are passed to Ray
            unchanged.

    Raises:
        ConfigError: `migrate` cannot be called this way, or rayshot does not support an option of the class or method;
            the message names the line of docs/porting.md that says what to write instead.
    """
    checked = check_options(options)
    check_version(version)
    if decorated is None:
        return lambda cls: _decorate(cls, checked, version)
    return _decorate(decorated, checked, version)


def _decorate(decorated: Any, options: Mapping[str, Any], version: int) -> ActorClass:
    metadata = getattr(decorated, "__ray_metadata__", None)
    if metadata is not None:  # the result of @ray.remote
        options = {**check_options(_given(decorated._default_options)), **options}  # noqa: SLF001
        decorated = metadata.modified_class.__ray_actor_class__
    if not isinstance(decorated, type):
        raise ConfigError(f"@rayshot.actor decorates classes, not {decorated!r}")
    check_class(decorated)
    check_concurrency(decorated, options)
    declare_version(decorated, version)
    if options.get("max_concurrency", 1) == 1:
        warn_of_turns(decorated, stacklevel=4)  # the line of the user's that decorates
    metaclass: type = ActorClass
    if isinstance(decorated, ActorClass):
        metaclass = type(decorated)
    elif type(decorated) is not type:
        metaclass = type("ActorClass", (ActorClass, type(decorated)), {})
    namespace = {
        "__doc__": decorated.__doc__,
        "__module__": decorated.__module__,
        "__qualname__": decorated.__qualname__,
        "__rayshot_user_class__": decorated,
        "__rayshot_options__": options,
    }
    made = metaclass(decorated.__name__, (decorated,), namespace)
    assert isinstance(made, ActorClass)
    return made


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}


def _own_options(cls: type) -> Mapping[str, Any]:
    options = cls.__dict__.get("__rayshot_options__")
    if options is None:  # a subclass of a decorated class; Ray also asks whether it has a `remote`
        raise AttributeError(f"{cls.__qualname__} is not decorated with @rayshot.actor itself")
    assert isinstance(options, Mapping)
    return options


def _user_class(cls: type) -> type:
    found = cls.__rayshot_user_class__  # type: ignore[attr-defined]
    assert isinstance(found, type)
    return found


def _over_ray(ray_class: Any) -> _Spawner:
    own = ray_class.__ray_metadata__.modified_class.__ray_actor_class__
    given = check_options(_given(ray_class._default_options))  # noqa: SLF001
    return _Spawner(own, {**_own_options(own), **given}, None)


def _remote_over_ray(self: Any, *args: Any, **kwargs: Any) -> ActorHandle:
    return _over_ray(self).remote(*args, **kwargs)


def _options_over_ray(self: Any, **options: Any) -> _Spawner:
    return _over_ray(self).options(**options)


def _bind_over_ray(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    _over_ray(self).bind(*args, **kwargs)
