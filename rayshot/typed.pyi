"""What type checkers know of classes, handles, calls and answers; nothing of it runs: see `rayshot help type-checkers`.

`rayshot/__init__.py` says where the names are at run time; their docstrings there are the contracts.
"""

from abc import ABCMeta
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypedDict, TypeVarTuple, overload

from ray import ObjectRef
from typing_extensions import TypeVar, Unpack

from rayshot.runtime.opening.system import System

P = ParamSpec("P")
T = TypeVar("T", default=Any)
T_co = TypeVar("T_co", covariant=True, default=Any)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Called_co = TypeVar("Called_co", covariant=True)
Ts = TypeVarTuple("Ts")

# Answers -----------------------------------------------------------------------------------------------------------

class Reply(ObjectRef[R]):
    """What `.remote(...)` returns: a Reply inside an actor, an ObjectRef elsewhere; checkers do not know which."""

    @property
    def callee(self) -> str: ...
    @overload
    def then(self, method: Callable[[R, *Ts], object], *context: *Ts) -> None: ...
    @overload
    def then(
        self, method: Callable[[R, *Ts], object], *context: *Ts, on_error: Callable[[Exception, *Ts], object] | None
    ) -> None: ...
    def get(self, timeout: float | None = None) -> R: ...
    def result(self) -> R: ...
    async def wait(self) -> None: ...

class SeveralReplies(Generic[R]):
    @overload
    def then(self, method: Callable[[list[R], *Ts], object], *context: *Ts) -> None: ...
    @overload
    def then(
        self,
        method: Callable[[list[R], *Ts], object],
        *context: *Ts,
        on_error: Callable[[Exception, *Ts], object] | None,
    ) -> None: ...

@overload
def get(replies: Reply[R], *, timeout: float | None = None) -> R: ...
@overload
def get(replies: Iterable[Reply[R]], *, timeout: float | None = None) -> list[R]: ...
def wait(
    replies: Iterable[Reply[R]], *, num_returns: int = 1, timeout: float | None = None
) -> tuple[list[Reply[R]], list[Reply[R]]]: ...
def gather(replies: Iterable[Reply[R]]) -> SeveralReplies[R]: ...
def rays_wait(
    ray_waitables: list[R], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[R], list[R]]: ...  # where the plugin is on: ray.wait, which else takes no list of Replies

# Methods -----------------------------------------------------------------------------------------------------------

class CallOptions(TypedDict, total=False):
    num_returns: Literal[0, 1] | None
    durable: bool
    name: str
    max_task_retries: int

class Method(Generic[P, R_co]):
    """A method of a handle. It is not called: `.tell(...)` sends, `.remote(...)` asks."""

    @property
    def name(self) -> str: ...
    @property
    def receiver(self) -> str: ...
    def tell(self, *args: P.args, **kwargs: P.kwargs) -> None: ...
    def remote(self, *args: P.args, **kwargs: P.kwargs) -> Reply[R_co]: ...
    def options(self, **options: Unpack[CallOptions]) -> Method[P, R_co]: ...

class Handler(Generic[P, Called_co, R_co]):
    """A method under `@rayshot.method`: inside of the class the function itself, on a handle a Method."""

    @overload
    def __get__(self, instance: None, owner: object) -> Method[P, R_co]: ...
    @overload
    def __get__(self, instance: object, owner: object) -> Callable[P, Called_co]: ...

class MethodDecorator(Protocol):
    @overload
    def __call__(
        self, decorated: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /
    ) -> Handler[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(self, decorated: Callable[Concatenate[Any, P], Reply[R]], /) -> Handler[P, Reply[R], R]: ...
    @overload
    def __call__(self, decorated: Callable[Concatenate[Any, P], R], /) -> Handler[P, R, R]: ...
    @overload
    def __call__(self, decorated: Callable[..., Any], /) -> Handler[..., Any, Any]: ...

@overload
def method(
    decorated: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /
) -> Handler[P, Coroutine[Any, Any, R], R]: ...
@overload
def method(decorated: Callable[Concatenate[Any, P], Reply[R]], /) -> Handler[P, Reply[R], R]: ...
@overload
def method(decorated: Callable[Concatenate[Any, P], R], /) -> Handler[P, R, R]: ...
@overload  # mypy refuses **keywords behind a `self` that has a name
def method(decorated: Callable[..., Any], /) -> Handler[..., Any, Any]: ...
@overload
def method(*, num_returns: Literal[0, 1] | None = None, max_task_retries: int = 0) -> MethodDecorator: ...

# Handles -----------------------------------------------------------------------------------------------------------

class OfEveryHandle:
    @property
    def name(self) -> str: ...
    @property
    def __ray_ready__(self) -> Method[[], bool]: ...
    @property
    def __ray_call__(self) -> Method[..., Any]: ...
    @property
    def __ray_terminate__(self) -> Method[[], None]: ...

class PluginsHandle(OfEveryHandle, Generic[T_co]):
    """ActorHandle[T] where the mypy plugin is on: it gives the methods of T, whether decorated or not."""

    def __getattr__(self, method: str) -> Method[..., Any]: ...

Target: TypeAlias = type[T]  # the plugin puts PluginsHandle[T] here
ActorHandle: TypeAlias = Target[T]
"""A handle has the decorated methods of its class as Methods. So checkers take it for the class, which has them too."""

def kill(actor: ActorHandle[Any], *, no_restart: bool = True) -> None: ...

# Classes -----------------------------------------------------------------------------------------------------------

class ClassOptions(TypedDict, total=False):
    """Options of an actor: rayshot's own ones, and those of Ray that it passes on."""

    capture: Literal["auto", "fork", "inline"] | None
    on_error: Literal["continue", "stop"] | None
    deterministic: bool | None
    reload: Literal["place", "process"] | None
    prove: bool | None
    outside: Literal["encrypted", "plain"] | None
    hooks_s: int | None
    max_pending_calls: int | None
    max_concurrency: int | None
    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    object_store_memory: float | None
    resources: Mapping[str, float] | None
    accelerator_type: str | None
    label_selector: Mapping[str, str] | None
    runtime_env: Mapping[str, Any] | None
    scheduling_strategy: Any
    max_restarts: int | None
    max_task_retries: int | None

class Spawner(Generic[P, R]):
    """A class with options given."""

    def options(
        self,
        *,
        name: str | None = None,
        get_if_exists: bool = False,
        system: System | str | None = None,
        **options: Unpack[ClassOptions],
    ) -> Spawner[P, R]: ...
    def remote(self, *args: P.args, **kwargs: P.kwargs) -> ActorHandle[R]: ...

class ActorType(OfEveryHandle, ABCMeta):
    """What decorated classes have besides the user's own: those with the base Actor, and all where the plugin is on.

    Without the plugin a handle is taken for its class.
    """

    def remote(cls: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> ActorHandle[R]: ...
    def options(
        cls: Callable[P, R],
        *,
        name: str | None = None,
        get_if_exists: bool = False,
        system: System | str | None = None,
        **options: Unpack[ClassOptions],
    ) -> Spawner[P, R]: ...

class Actor(metaclass=ActorType): ...

A = TypeVar("A", bound=Actor)

class ClassDecorator(Protocol):
    @overload
    def __call__(self, decorated: type[A], /) -> type[A]: ...
    @overload
    def __call__(self, decorated: Any, /) -> Any: ...

@overload
def actor(decorated: type[A], /) -> type[A]: ...
@overload
def actor(decorated: Any, /) -> Any: ...
@overload
def actor(*, version: int = 1, **options: Unpack[ClassOptions]) -> ClassDecorator: ...
