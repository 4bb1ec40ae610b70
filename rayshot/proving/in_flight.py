"""Messages in flight in a scratch process: read as their receiver reads them after a restore, and handed to nobody."""

from collections.abc import Iterator, Sequence

from rayshot.format.by_value import Names
from rayshot.format.codec import CALL, CREATE, END, REPLY, Codec
from rayshot.format.slots import FAILED, VALUE, Slot, StoredValue
from rayshot.model.handle import ActorHandle
from rayshot.model.recasting import Recasting
from rayshot.proving.trial import Trial


def load_messages(trial: Trial, parts: Sequence[memoryview], names: Names) -> Iterator[tuple[int, object]]:
    """The number of each message before it is loaded, and again with what it holds.

    Raises CodeMismatch for what this program does not have, and whatever the classes of the values raise.
    """
    codec = Codec(ActorHandle, lambda handle: handle.name, lambda name: ActorHandle("", name, None, None))
    recasting = Recasting(codec, trial.actor, names, None)
    rest = iter(parts)
    for number, kinds in trial.messages:
        yield number, None
        message = recasting.message(number, bytes(next(rest)))
        slots = []
        for kind, count in kinds:
            content = StoredValue(recasting.parts(number, [next(rest) for _ in range(count)]))
            slots.append(Slot(VALUE if kind == FAILED else kind, content=content))  # an error is loaded, not raised
        yield number, _decoded(codec, message, slots)


def _decoded(codec: Codec, message: bytes, slots: Sequence[Slot]) -> object:
    fields = next(codec.unpacker(message))
    if fields[0] == END:
        return None
    return codec.decode_tell(fields[-1] if fields[0] in (CALL, REPLY, CREATE) else fields, slots)
