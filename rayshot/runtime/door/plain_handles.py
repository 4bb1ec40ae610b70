"""Handles of plain Ray actors in states and messages: Ray can make them again in the cluster of their actor only.

In another cluster Ray refuses, or makes the handle of another actor: ids begin anew in each cluster. So a pickle holds
a record with the cluster's id in the place of such a handle, and elsewhere a `PlainHandle` stands for it. Ray's queues
and pools are plain objects around such handles.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import ray

from rayshot.errors import OutsideHandler, StaleHandle
from rayshot.format.paths import find_paths
from rayshot.format.references import provide_plain_handles
from rayshot.model.cell import Cell
from rayshot.model.current import current
from rayshot.runtime.door import private_names
from rayshot.runtime.door.private_names import SerializedHandle, cluster_id, global_worker, make_handle


class _Record(NamedTuple):
    """A handle in a pickle: what Ray serializes, and the same for readers without Ray.

    `cluster` is the id of the actor's cluster, in hex; empty if an older rayshot wrote the pickle.
    """

    serialized: bytes
    weak: bool
    cluster: str
    actor: str
    class_name: str
    name: str
    namespace: str

    @classmethod
    def of(cls, serialized: bytes, cluster: str, *, weak: bool) -> "_Record":
        """The record of a handle."""
        said: Any = SerializedHandle.FromString(serialized)
        made_by = said.actor_creation_task_function_descriptor.python_function_descriptor
        class_name = f"{made_by.module_name}.{made_by.class_name}"
        return cls(serialized, weak, cluster, said.actor_id.hex(), class_name, said.name, said.ray_namespace)


def know_plain_handles() -> None:
    """Let states and messages of this process hold handles of plain Ray actors."""
    provide_plain_handles(_reduce, _stand_in)


def plain_handle(*fields: Any) -> Any:
    """The handle of a record, or what stands for it. Snapshots hold this function by name: keep it here."""
    record = _Record(*fields)
    if global_worker.connected and record.cluster == cluster_id():
        with suppress(AssertionError):  # the program that defined the actor's class is over, and so is the actor
            return make_handle(record.serialized, record.weak)
    return PlainHandle(record)


def _reduce(handle: Any) -> tuple[Any, ...]:
    _, (serialized, weak, _) = handle.__reduce__()
    return plain_handle, tuple(_Record.of(serialized, cluster_id(), weak=weak))


def _stand_in(called: Any, arguments: tuple[Any, ...]) -> Any:
    """What stands for a handle in the pickle of an older rayshot; None for other calls."""
    return PlainHandle(_Record.of(arguments[0], "", weak=arguments[1])) if called == make_handle else None


class _Loading(threading.local):
    """The load that runs on this thread: the stand-ins that it made."""

    made: "list[PlainHandle] | None" = None


_loading = _Loading()


class PlainHandle:
    """Stands for the handle of a plain actor that is not in this cluster.

    It can be kept, copied, compared, and pickled as the same record. Its methods raise StaleHandle when they are
    called, unless this cluster has an actor of the recorded name, which is looked up then.
    """

    def __init__(self, record: _Record) -> None:
        self._record = record
        self._path = ""
        self._found: Any = None
        if _loading.made is not None:
            _loading.made.append(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and not name.startswith("__ray_"):  # what Python asks of any object
            raise AttributeError(f"{self!r} has no attribute {name!r}")
        return _Method(self, name)

    def _actor_method_call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Ray's methods that were got from the handle before call this."""
        return private_names.call(self._find(method), method, *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return plain_handle, tuple(self._record)

    def __copy__(self) -> "PlainHandle":
        return self

    def __deepcopy__(self, _: Any) -> "PlainHandle":
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainHandle) and self._record.actor == other._record.actor

    def __hash__(self) -> int:
        return hash(self._record.actor)

    def __repr__(self) -> str:
        return f"PlainHandle({self._record.class_name}, {self._record.actor})"

    def _find(self, use: str) -> Any:
        """Ray's handle of the actor that has the recorded name here. Raises StaleHandle, which names `use`."""
        name, namespace = self._record.name, self._record.namespace
        if self._found is None and name and global_worker.connected:
            with suppress(ValueError):
                self._found = ray.get_actor(name, namespace)
        if self._found is None:
            why = f"no actor here is named {name!r} in namespace {namespace!r}" if name else "it has no name"
            raise StaleHandle(
                f"{self._place()} is the handle of a plain Ray actor of {self._record.class_name} that is not in this "
                f"Ray cluster, and {why}: .{use} cannot be called. In on_restore, make that actor again and keep its "
                "new handle there; or give it a name and a namespace: then it is looked up here by these",
                handle=repr(self),
            )
        return self._found

    def _place(self) -> str:
        """Where the actor's state had the handle when it was loaded."""
        try:
            return self._path or f"a value in a message to {current().name}"
        except OutsideHandler:
            return "a value"


class _Method:
    """A method of a `PlainHandle`."""

    def __init__(self, handle: PlainHandle, name: str) -> None:
        self._handle = handle
        self._name = name

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call it. Raises StaleHandle."""
        return self._found().remote(*args, **kwargs)

    def options(self, **options: Any) -> Any:
        """It with options. Raises StaleHandle."""
        return self._found().options(**options)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node of a graph. Raises StaleHandle."""
        return self._found().bind(*args, **kwargs)

    def _found(self) -> Any:
        return getattr(find_actor(self._handle, self._name), self._name)


@contextmanager
def knowing_paths(cell: Cell) -> Iterator[None]:
    """Within it, this thread loads the state of an actor: the stand-ins that it makes then know where they are."""
    made: list[PlainHandle] = []
    _loading.made = made
    try:
        yield
    finally:
        _loading.made = None
    for path, handle in zip(find_paths(cell.instance, "", made), made, strict=True):
        handle._path = path and f"{cell.name}{path}"  # noqa: SLF001 - its own kind


def find_actor(handle: PlainHandle, use: str) -> Any:
    """The actor that has the recorded name in this cluster, to be used like this. Raises StaleHandle."""
    return handle._find(use)  # noqa: SLF001 - a public name could be that of a method of the actor
