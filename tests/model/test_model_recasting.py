"""Recorded messages of classes that moved."""

import sys
from types import ModuleType

from rayshot.format.codec import Codec
from rayshot.model.recasting import Recasting


class Settings:
    """What moved here."""


def test_the_message_that_began_a_loop_is_rewritten_with_its_state(monkeypatch):
    codec = Codec(type(None), str, str)
    module = ModuleType("yesterday")
    module.Settings = type("Settings", (), {"__module__": "yesterday"})
    with monkeypatch.context() as then:
        then.setitem(sys.modules, "yesterday", module)
        message = codec.tell("fit", (module.Settings(),))
    state = {"loop": {"number": 7, "message": message}}
    Recasting(codec, "trainer", {"yesterday.Settings": Settings}, None).state(state)
    (fields,) = codec.unpacker(state["loop"]["message"])
    method, (found,), _ = codec.decode_tell(fields)
    assert (method, type(found)) == ("fit", Settings)
    Recasting(codec, "trainer", {}, None).state({"state": {}})
