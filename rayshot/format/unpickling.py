"""The one module that unpickles: bytes become live objects here and nowhere else; only `pickling` calls it.

It runs code that the bytes choose. A restore checks the signature of the bytes before. Between the processes of one
Ray cluster the bytes are trusted, as Ray trusts its own.
"""

import io
import operator
import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rayshot.format.classes_by_value import ClassMakers, Names
from rayshot.format.exceptions import fill_leniently, make_leniently
from rayshot.format.global_names import MOVED_MODULES, find_global
from rayshot.format.late_keys import REFUSALS, LateKeys
from rayshot.format.object_state import fill, lent
from rayshot.format.references import plain_handles
from rayshot.format.reshaping import Attributes, Reshaped, must_reshape, reshapings


def unpickle(
    stream: bytes | memoryview, buffers: Sequence[Any] = (), names: Names | None = None, own: object = None
) -> Any:
    """The value of a pickle with these out-of-band buffers, where `names` stand for globals that moved.

    `own` is the bare instance of an actor whose state this is, which gets it later.

    What pickle cannot make is made by gentler rules, see `_LenientUnpickler`. So code of the classes may run twice.

    Raises whatever the classes of the pickle raise.
    """
    if (keeping := _kept.by) is not None:
        return keeping.load(stream, buffers, names or {}, own)
    if names and must_reshape(stream, names):
        return _LenientUnpickler(stream, buffers, names, own).load()
    try:
        return _Unpickler(stream, buffers, names).load() if names else pickle.loads(stream, buffers=buffers)
    except (*REFUSALS, AssertionError, ModuleNotFoundError) as error:
        # An assertion of Ray's, which cannot make a handle in another cluster; or a module that an older rayshot had.
        if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("rayshot."):
            raise
        return _LenientUnpickler(stream, buffers, names or {}, own).load()


class Keeping:
    """Within `with keeping:`, this thread's loads keep alive all that they make, also half-made objects if one fails.

    `exactly`: from now on by the slow reader only, which knows where it fails.
    """

    def __init__(self) -> None:
        self.exactly = False
        self._readers: list[Any] = []

    def __enter__(self) -> None:
        _kept.by = self

    def __exit__(self, *_: object) -> None:
        _kept.by = None

    def load(self, stream: bytes | memoryview, buffers: Sequence[Any], names: Names, own: object) -> Any:
        """As `unpickle`."""
        if not self.exactly and not must_reshape(stream, names):
            try:
                return self._reader(_Unpickler(stream, buffers, names)).load()
            except REFUSALS:
                pass
        return self._reader(_LenientUnpickler(stream, buffers, names, own)).load()

    @property
    def position(self) -> int | None:
        """The byte behind the opcode at which the first stream's load is, or has failed; None if it is not known."""
        return self._readers[0].position if self.exactly and self._readers else None

    def _reader(self, reader: Any) -> Any:
        self._readers.append(reader)
        return reader


class _Kept(threading.local):
    by: Keeping | None = None


_kept = _Kept()


class _Moved:
    """Finds what stands for globals and classes by value that moved."""

    def __init__(self, names: Names) -> None:
        self._names = {name: one.to if isinstance(one, Reshaped) else one for name, one in names.items()}
        self._makers = ClassMakers(self._names)

    def find(self, module: str, name: str) -> Any:
        """What stands for this global; None if it did not move."""
        if module in MOVED_MODULES:
            return find_global(module, name)
        moved = self._names.get(f"{module}.{name}")
        return self._makers.find(module, name) if moved is None else moved


class _Unpickler(pickle.Unpickler):
    """Reads a pickle in which some globals and classes by value have moved."""

    def __init__(self, stream: bytes | memoryview, buffers: Sequence[Any], names: Names) -> None:
        super().__init__(io.BytesIO(stream), buffers=buffers)
        self._moved = _Moved(names)

    def find_class(self, module: str, name: str) -> Any:
        """See pickle.Unpickler."""
        moved = self._moved.find(module, name)
        return super().find_class(module, name) if moved is None else moved


_InPython: Any = pickle._Unpickler  # noqa: SLF001 - the other one's steps cannot be changed


class _LenientUnpickler(_InPython):  # type: ignore[misc]  # as far as types go, it is anything
    """As `_Unpickler`, but slow. It also makes what pickles well and cannot be made by pickle's own rules.

    These are exceptions whose classes refuse their arguments; objects with a `__getattr__` that needs their attributes;
    keys of sets and dicts whose hash needs a state that comes later; objects whose `__new__` wants arguments that
    their pickle does not have; and values of classes whose shape changed.
    """

    dispatch: ClassVar = dict(_InPython.dispatch)

    def __init__(self, stream: bytes | memoryview, buffers: Sequence[Any], names: Names, own: object) -> None:
        self._own = own
        self._file = io.BytesIO(stream)
        super().__init__(self._file, buffers=buffers)
        self._moved = _Moved(names)
        self._late = LateKeys()
        self._reshapings = reshapings(names)

    @property
    def position(self) -> int:
        """The byte behind the opcode that was read last."""
        frame = self._unframer.current_frame
        return self._file.tell() - (0 if frame is None else len(frame.getbuffer()) - frame.tell())

    def load(self) -> Any:
        """See pickle.Unpickler."""
        value = super().load()
        if self._late.wait_for(self._own):  # the instance gets its state when all of it is loaded
            with lent(self._own, value["state"]):
                self._late.put_all()
        else:
            self._late.put_all()
        return value

    def find_class(self, module: str, name: str) -> Any:
        """See pickle.Unpickler."""
        moved = self._moved.find(module, name)
        return super().find_class(module, name) if moved is None else moved

    def load_reduce(self) -> None:
        """Call a class or function."""
        arguments = self.stack.pop()
        called = self.stack[-1]
        self._check_complete(called, arguments)
        is_exception = isinstance(called, type) and issubclass(called, BaseException)
        self.stack[-1] = self._made(make_leniently if is_exception else _call, called, arguments)

    def load_newobj(self) -> None:
        """Make an object by its `__new__`."""
        arguments = self.stack.pop()
        self._check_complete(self.stack[-1], arguments)
        self.stack[-1] = self._made(_new, self.stack[-1], arguments)

    def load_build(self) -> None:
        """Give an object its state."""
        recorded, made = self.stack.pop(), self.stack[-1]
        state = self._reshaped(type(made), recorded)
        self._late.gets_state(made)
        if isinstance(state, Attributes):
            state.fill(made)
        elif isinstance(made, BaseException) and isinstance(state, dict):
            fill_leniently(made, state)
        else:
            if self._late.wait_for(self._own) and hasattr(type(made), "__setstate__"):
                self._check_complete(type(made), state.values() if isinstance(state, dict) else (state,))
            fill(made, state)
        self._late.object_filled(made)

    def load_setitem(self) -> None:
        """Put one key and its value into a dict."""
        value, key = self.stack.pop(), self.stack.pop()
        self._late.put(self.stack[-1], operator.setitem, [(key, value)])

    def load_setitems(self) -> None:
        """Put keys and values into a dict."""
        items = self.pop_mark()
        self._late.put(self.stack[-1], operator.setitem, [*zip(items[::2], items[1::2], strict=True)])

    def load_additems(self) -> None:
        """Put members into a set."""
        members = self.pop_mark()
        target = self.stack[-1]
        self._late.put(target, type(target).add, [(member,) for member in members])

    def _reshaped(self, kind: Any, values: Any) -> Any:
        """The values for an object of this class, if its shape changed."""
        reshaping = self._reshapings.get(kind) if self._reshapings and isinstance(kind, type) else None
        return values if reshaping is None else reshaping.values(values)

    def _made(self, make: Callable[[Any, Any], Any], kind: Any, arguments: Any) -> Any:
        """An object of these arguments, or with the fields that they are now."""
        values = self._reshaped(kind, arguments)
        if not isinstance(values, Attributes):
            return make(kind, values)
        made = _new(kind, ())
        values.fill(made)
        return made

    def _check_complete(self, called: Any, arguments: Any) -> None:
        """Nothing may copy a set or dict before all its keys are there."""
        if (waiting := self._late.first_of(arguments)) is not None:
            raise pickle.UnpicklingError(
                f"{called!r} is made of a {type(waiting).__name__}, and keys of it refer to what is made"
            )

    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.NEWOBJ[0]] = load_newobj
    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems
    dispatch[pickle.ADDITEMS[0]] = load_additems


def _call(called: Any, arguments: tuple[Any, ...]) -> Any:
    """The result of a call, or what stands for a handle of Ray's that older snapshots hold as Ray pickles it."""
    try:
        return called(*arguments)
    except AssertionError:
        if (stand_in := plain_handles.stand_in(called, arguments)) is not None:
            return stand_in
        raise


def _new(cls: Any, arguments: tuple[Any, ...]) -> Any:
    """An object by `__new__` of its class; if that refuses the arguments, by that of a base."""
    try:
        return cls.__new__(cls, *arguments)
    except TypeError:
        for base in cls.__mro__[1:]:
            if "__new__" in vars(base):
                try:
                    return base.__new__(cls, *arguments)
                except TypeError:
                    continue
        raise
