"""Messages as bytes, on channels and in recorded channel state.

A message is one msgpack array. Its first element says what it is:

    [method, argument, ...]          a tell whose arguments are all flat (see FLAT)
    [PICKLED, codec, payload]        a tell of anything else: a pickle of (method, args, kwargs)
    [CALL, call id, tell]            a call whose caller waits for a reply under that id
    [REPLY, call id, ok, tell]       the reply: a tell of method "" with one argument, the result or the exception
    [CREATE, specification, tell]    number 1 on the channel from an actor's creator: the constructor's call
    [END, dropped]                   the receiver ends; with `dropped` only if no other actor can still use it

msgpack is used exactly where it loses nothing. Containers are pickled, because msgpack has no tuple, set or wide
integer, turns bytearray into bytes, and forgets that two arguments were one object. Handles are flat: a handle is an
extension with the actor's name. References to objects, and large arguments, are outside of the message in slots, see
`slots`; then the encoded message is a SlottedMessage.

A *frame* is a numbered run of messages, `[first number, count, the messages one after the other]`; a channel's
recorded state is a sequence of frames.
"""

import io
import itertools
import pickletools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgpack

from rayshot.errors import BadManifest, MessageTooLarge
from rayshot.format.msgpack_walk import ContainerBudget, count_documents
from rayshot.format.pickling import copy_value, dump_message, load_message, with_values
from rayshot.format.slots import LARGE_BYTES, Slot, SlottedMessage
from rayshot.inert.inert_object import HandleRecord, Inert

PICKLED, CALL, REPLY, CREATE, END = 0, 1, 2, 3, 4
HANDLE_EXTENSION = 1
FLAT = frozenset({type(None), bool, int, float, str, bytes})
"""Types that msgpack encodes without loss. The type of handles is added at run time."""
_all_flat = FLAT.issuperset
all_numbers = frozenset({type(None), bool, int, float}).issuperset
"""Whether an iterable of types holds only numbers: these cannot change, and are small."""
NUMBERS_MAX = 64

MESSAGE_BYTES_MAX = 256 << 20
"""The largest message in bytes. With an object store, large arguments are outside of these bytes."""
_NO_KWARGS: Mapping[str, Any] = {}


class Frame(NamedTuple):
    """Messages `first` .. `first + count - 1` of one channel, encoded one after the other in `body`."""

    first: int
    count: int  # type: ignore[assignment]  # a tuple's own `count` is of no use here
    body: bytes | memoryview

    @property
    def last(self) -> int:
        """The number of the last message; `first - 1` when the frame is empty."""
        return self.first + self.count - 1


class RecordedMessage(NamedTuple):
    """One message as a snapshot holds it; arguments are inert.

    `kind` is "tell", "call", "reply", "create" or "end". A call and its reply have the same `call_id`. It is below 0 if
    the actor that made the call holds its reply, to wait for it.
    """

    number: int
    kind: str
    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    call_id: int | None = None


class Codec:
    """Writes and reads live messages. An instance of `handle_type` is written as the name that `name_of` returns.

    `bind(name)` makes the receiver's own handle of that name.
    """

    def __init__(self, handle_type: type, name_of: Callable[[Any], str], bind: Callable[[str], Any]) -> None:
        self.flat = FLAT | {handle_type}
        self._name_of = name_of
        self._bind = bind
        self._handle_type: Any = handle_type
        # Threads share it, so nothing may call back into Python while it packs: handles are made flat before.
        self.pack: Callable[[Any], bytes] = msgpack.Packer(strict_types=True, use_bin_type=True).pack

    def tell(self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any] = _NO_KWARGS) -> bytes:
        """Encode a one-way message. Raises MessageNotSerializable or MessageTooLarge, and then keeps nothing."""
        try:
            if _all_flat(map(type, args)) and not kwargs:
                message = self.pack([method, *args])
            elif kwargs or not self.flat.issuperset(map(type, args)):
                return self._pickled(method, args, kwargs)
            else:
                message = self.pack([method, *map(self._flatten, args)])
        except (OverflowError, UnicodeEncodeError, ValueError):
            # An integer wider than 64 bits, a text that is not Unicode, more bytes than msgpack takes, a handle
            # that is more than a name.
            return self._pickled(method, args, kwargs)
        return message if len(message) <= LARGE_BYTES else self._pickled(method, args, kwargs)

    def tell_all(self, tells: Sequence[list[Any]]) -> list[bytes]:
        """Encode tells, each given as its method followed by its arguments, which are numbers. Raises as `tell`."""
        try:
            return list(map(self.pack, tells))
        except (OverflowError, UnicodeEncodeError):  # as in `tell`; a method's name may not be Unicode either
            return [self.tell(tell[0], tell[1:]) for tell in tells]

    def call(self, call_id: int, tell: bytes) -> bytes:
        """Wrap a tell so that its receiver replies under `call_id`."""
        return self._around(tell, CALL, call_id)

    def reply(self, call_id: int, value: object, *, ok: bool) -> bytes:
        """Encode the outcome of a call: its result, or with `ok=False` the exception it raised."""
        return self._around(self.result(value), REPLY, call_id, ok)

    def result(self, value: object) -> bytes:
        """Encode a result as a tell of method "": a reference stays one."""
        if type(value) in self.flat:
            return self.tell("", (value,))
        return self._pickled("", (value,), _NO_KWARGS, as_they_are=True)

    def copied(self, value: object) -> tuple[Any, int]:
        """A copy of a result, as a message makes it, and its bytes. Raises what pickling raises."""
        return copy_value(value, (self._handle_type, self._name_of))

    def create(self, specification: bytes, tell: bytes) -> bytes:
        """Wrap a constructor's call with the specification of the actor that it makes."""
        return self._around(tell, CREATE, specification)

    def _around(self, tell: bytes, *head: Any) -> bytes:
        if tell.__class__ is bytes:
            return self.pack([*head, tell])
        assert isinstance(tell, SlottedMessage)
        return SlottedMessage.of(self.pack([*head, bytes(tell)]), tell.slots)

    def end(self, *, dropped: bool) -> bytes:
        """Encode the order to end. `dropped`: the creator has dropped the only handle, see `Cell`."""
        return self.pack([END, dropped])

    def unpacker(self, body: bytes | memoryview) -> msgpack.Unpacker:
        """Iterates over the messages in `body`, each still the list that the module's docstring describes."""
        unpacker = msgpack.Unpacker(
            None, ext_hook=self._unpack_handle, strict_map_key=False, max_buffer_size=0, **_UNBOUNDED
        )
        unpacker.feed(body)
        return unpacker

    def decode_tell(
        self, message: bytes | list[Any], slots: Sequence[Slot] = ()
    ) -> tuple[str, Sequence[Any], Mapping[str, Any]]:
        """(method, args, kwargs) of a tell, given as bytes or as `unpacker` yields it. Unpickles: live use only."""
        fields: list[Any] = message if isinstance(message, list) else next(self.unpacker(message))
        head = fields[0]
        if head.__class__ is str:
            return head, fields[1:], _NO_KWARGS
        method, args, kwargs = load_message(fields[1], fields[2], None, slots)
        return method, args, kwargs

    def filled(self, message: bytes | list[Any], slots: Sequence[Slot]) -> bytes:
        """A message, given as `decode_tell` takes it, with the values that lie beside it inside. Unpickles these."""
        *head, last = message if isinstance(message, list) else next(self.unpacker(message))
        return self.pack([*head, with_values(last, slots) if head[0] == PICKLED else self.filled(last, slots)])

    def _pickled(
        self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, as_they_are: bool = False
    ) -> bytes:
        heed = (self._handle_type, self._name_of)
        codec, payload, slots = dump_message(method, tuple(args), dict(kwargs), heed, as_they_are=as_they_are)
        if len(payload) > MESSAGE_BYTES_MAX:
            raise MessageTooLarge(
                f"the arguments of .{method} take {len(payload):,} bytes; the limit is {MESSAGE_BYTES_MAX:,} "
                "without an object store, as in the simulator: send them in parts",
                method=method,
                size_bytes=len(payload),
            )
        message = self.pack([PICKLED, codec, payload])
        return SlottedMessage.of(message, slots) if slots else message

    def _flatten(self, value: Any) -> Any:
        """A handle as an extension that holds its name; anything else as it is.

        Raises ValueError for a handle that knows of calls without a result: it takes that along, which a pickle does.
        """
        if type(value) is self._handle_type:
            if value._silent:  # noqa: SLF001 - said nowhere else
                raise ValueError
            return msgpack.ExtType(HANDLE_EXTENSION, self._name_of(value).encode())
        return value

    def _unpack_handle(self, code: int, data: bytes) -> Any:
        if code != HANDLE_EXTENSION:
            raise BadManifest(f"a message holds an unknown extension type {code}", code=code)
        return self._bind(data.decode())


_READ_BYTES = 1 << 20
_UNBOUNDED: dict[str, Any] = {"max_bin_len": MESSAGE_BYTES_MAX, "max_str_len": MESSAGE_BYTES_MAX}


def creation_of(frame: Frame) -> bytes | None:
    """The specification in the message that creates the frame's receiver; None if the frame begins with another one."""
    if frame.first != 1 or frame.count == 0:
        return None
    unpacker = msgpack.Unpacker(None, max_buffer_size=0, **_UNBOUNDED)
    unpacker.feed(frame.body)
    if unpacker.read_array_header() == 0 or unpacker.unpack() != CREATE:
        return None
    specification = unpacker.unpack()
    return specification if isinstance(specification, bytes) else None


def method_of(message: list[Any]) -> str:
    """The method that a live message calls, given as `unpacker` yields it; "" for a reply and an end.

    It unpickles nothing, and reads nothing behind the name.
    """
    if message[0] == END:
        return ""
    is_tell = isinstance(message[0], str) or message[0] == PICKLED
    return _named(iter(message) if is_tell else _fields(message[-1]))


def method_of_encoded(message: bytes) -> str:
    """As `method_of`, of a message that is given as bytes."""
    return method_of(_unpacked(message))


def may_be_lost(message: bytes) -> bool:
    """Whether nobody misses a message, given as bytes, whose receiver has ended.

    It is the order to end, or the answer to a question: nobody waits for it there any more.
    """
    kind, *fields = _unpacked(message)
    return bool(kind == END or (kind == REPLY and fields[0] < 0))


def _unpacked(message: bytes) -> Any:
    unpacker = msgpack.Unpacker(None, ext_hook=_inert_extension, max_buffer_size=0, **_UNBOUNDED)
    unpacker.feed(message)
    return unpacker.unpack()


def _fields(tell: bytes) -> Iterator[Any]:
    """The fields of a tell, each decoded on demand."""
    unpacker = msgpack.Unpacker(io.BytesIO(tell), max_buffer_size=0, **_UNBOUNDED)
    for _ in range(unpacker.read_array_header()):
        yield unpacker.unpack()


def _named(fields: Iterator[Any]) -> str:
    head = next(fields)
    if isinstance(head, str):
        return head
    _, payload = next(fields), next(fields)
    return next(str(text) for code, text, _ in pickletools.genops(payload) if "UNICODE" in code.name)  # it comes first


def cut_frame(frame: Frame, first: int, last: int) -> Frame:
    """The part of `frame` with the messages `first` .. `last`. It decodes none.

    Raises BadManifest if the frame must be cut and does not hold what it promises.
    """
    first, last = max(first, frame.first), min(last, frame.last)
    if (first, last) == (frame.first, frame.last):
        return frame
    if first > last:
        return Frame(first, 0, b"")
    ends = _ends(frame)
    return Frame(first, last - first + 1, frame.body[ends[first - frame.first] : ends[last - frame.first + 1]])


def split_frame(frame: Frame) -> list[bytes]:
    """The frame's messages, one by one, not decoded. Raises BadManifest if it does not hold what it promises."""
    return [bytes(frame.body[begin:end]) for begin, end in itertools.pairwise(_ends(frame))]


def pack_frames(frames: Iterable[Frame]) -> bytes:
    """Join frames into one blob: a channel's recorded state."""
    pack = msgpack.Packer(use_bin_type=True).pack
    return b"".join(pack(list(frame)) for frame in frames)


def read_frames(blob: bytes) -> Iterator[Frame]:
    """Split what `pack_frames` joined. Raises BadManifest on anything else."""
    budget = ContainerBudget(1)
    unpacker = msgpack.Unpacker(
        io.BytesIO(blob),  # not fed: msgpack takes 2 GiB at once, and a channel's state may be larger
        read_size=_READ_BYTES,
        max_buffer_size=0,
        max_array_len=3,
        max_map_len=0,
        **budget.hooks,
        **_UNBOUNDED,
    )
    try:
        for fields in unpacker:
            budget.next()
            match fields:
                case [int(first), int(count), bytes(body)] if first > 0 and count >= 0:
                    yield Frame(first, count, body)
                case _:
                    raise BadManifest("the recorded messages of a channel hold something that is not a frame")
    except (ValueError, msgpack.UnpackException) as error:
        raise BadManifest(f"the recorded messages of a channel cannot be read: {error}") from error
    if unpacker.tell() != len(blob):
        raise BadManifest("the recorded messages of a channel end in the middle of a frame")


def read_messages(
    frame: Frame, slots_of: Callable[[int], Sequence[Any]] = lambda _number: ()
) -> Iterator[RecordedMessage]:
    """Decode a frame's messages inertly: it imports and calls nothing of them.

    `slots_of` returns the contents of a message's slots by its number, also inert. Without it, a record stands in the
    place of each slot.
    """
    budget = ContainerBudget(1)  # a message is one list of scalars; what is nested lies in pickles
    unpacker = msgpack.Unpacker(
        None,
        ext_hook=_inert_extension,
        strict_map_key=False,
        max_buffer_size=0,
        **budget.hooks,
        **_UNBOUNDED,
    )
    unpacker.feed(frame.body)
    number = frame.first
    try:
        found = count_documents(frame.body, frame.count)
        for fields in unpacker if found == frame.count else ():
            yield _recorded(number, fields, slots_of(number))
            number += 1
            budget.next()
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise BadManifest(f"message {number} cannot be read: {error}", number=number) from error
    if found != frame.count:
        raise BadManifest(
            f"a frame promises {frame.count} messages from {frame.first} on and holds "
            f"{'more' if found > frame.count else found}",
            first=frame.first,
            count=frame.count,
        )


def unpack_messages(frame: Frame, most: int) -> Iterator[list[list[Any]]]:
    """The frame's messages as the lists that the module's docstring describes, up to `most` at once.

    As inert as `read_messages` and much faster. Raises BadManifest for the same messages, but only `read_messages` says
    which message is damaged.
    """
    budget = ContainerBudget(most)
    unpacker = msgpack.Unpacker(
        None,
        ext_hook=_inert_extension,
        strict_map_key=False,
        max_buffer_size=0,
        **budget.hooks,
        **_UNBOUNDED,
    )
    try:
        if count_documents(frame.body, frame.count) != frame.count:
            raise BadManifest(f"a frame does not hold {frame.count} messages", first=frame.first, count=frame.count)
        unpacker.feed(frame.body)
        while messages := list(itertools.islice(unpacker, most)):
            if budget.taken != len(messages) or set(map(type, messages)) != {list}:
                raise BadManifest("a frame holds a message that is not a list of scalars", first=frame.first)
            budget.next()
            yield messages
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise BadManifest(f"a frame cannot be read: {error}", first=frame.first) from error


def _ends(frame: Frame) -> list[int]:
    """The start of each message in the frame, and the end of the last. Raises BadManifest."""
    unpacker = msgpack.Unpacker(None, max_buffer_size=0, **_UNBOUNDED)
    ends = [0]
    try:
        unpacker.feed(frame.body)
        while ends[-1] < len(frame.body):
            unpacker.skip()
            ends.append(unpacker.tell())
    except msgpack.UnpackException as error:
        raise BadManifest(f"a frame cannot be divided into its messages: {error}", first=frame.first) from error
    if len(ends) != frame.count + 1:
        raise BadManifest(f"a frame promises {frame.count} messages and holds {len(ends) - 1}", first=frame.first)
    return ends


def recorded_message(number: int, fields: Any, slots: Sequence[Any]) -> RecordedMessage:
    """Read one message of `unpack_messages`; `slots` are the contents of its slots. As `read_messages`."""
    try:
        return _recorded(number, fields, slots)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise BadManifest(f"message {number} cannot be read: {error}", number=number) from error


def _recorded(number: int, fields: Any, slots: Sequence[Any]) -> RecordedMessage:
    match fields:
        case [str() | 0, *_]:
            return RecordedMessage(number, "tell", *_inert_tell(fields, slots))
        case [1, int(call_id), bytes(tell)]:
            return RecordedMessage(number, "call", *_inert_tell(_one(tell), slots), call_id)
        case [2, int(call_id), bool(), bytes(tell)]:
            return RecordedMessage(number, "reply", *_inert_tell(_one(tell), slots), call_id)
        case [3, bytes(), bytes(tell)]:
            return RecordedMessage(number, "create", *_inert_tell(_one(tell), slots))
        case [4, bool(dropped)]:
            return RecordedMessage(number, "end", "", (dropped,), _NO_KWARGS)
        case _:
            raise BadManifest(f"message {number} has an unknown kind", number=number)


def _inert_tell(fields: Any, slots: Sequence[Any]) -> tuple[str, tuple[Any, ...], Mapping[str, Any]]:
    from rayshot.inert.reader import read  # noqa: PLC0415 - an actor's process, which reads nothing inertly, starts sooner

    match fields:
        case [str(method), *args]:
            return method, tuple(args), _NO_KWARGS
        case [0, str(), bytes(payload)]:
            match read(payload, (), slots):
                case (str(method), tuple(arguments), dict(kwargs)) | (
                    _,
                    (str(method), tuple(arguments), dict(kwargs)),
                    None,
                ):
                    return method, arguments, kwargs
                case (str(method), Inert() as unfilled, None):
                    return method, (unfilled,), _NO_KWARGS
    raise BadManifest("a message's call cannot be read")


def _one(message: bytes) -> Any:
    if count_documents(message, 1) != 1:
        raise ValueError("a call is not one document")
    hooks = ContainerBudget(1).hooks
    return msgpack.unpackb(message, ext_hook=_inert_extension, strict_map_key=False, **hooks, **_UNBOUNDED)


def _inert_extension(code: int, data: bytes) -> Any:
    if code != HANDLE_EXTENSION:
        raise BadManifest(f"a message holds an unknown extension type {code}", code=code)
    return HandleRecord("", data.decode(errors="replace"))
