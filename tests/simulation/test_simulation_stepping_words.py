"""Messages and steps of a world as words."""

import pytest

from rayshot.format.codec import Codec
from rayshot.model.handle import ActorHandle
from rayshot.simulation.actors.stepping import Pending, Step, message_words
from rayshot.snapshots.diff import ValueChange


@pytest.mark.acceptance("G25")
def test_what_is_printed_of_a_step_hides_values_that_are_named_like_secrets() -> None:
    pending = Pending("alice", "bob", 1, "tell", "set_password", ("hunter2",), {"user": "hunter2"})
    login = Pending("alice", "bob", 2, "tell", "login", ("bob",), {"password": "hunter2"})
    step = Step(pending, (ValueChange("api_key", "hunter1", "hunter2"),), (login,))
    assert str(step).splitlines() == [
        "alice -> bob 1: set_password(<redacted>, user=<redacted>)",
        "    bob.api_key: <redacted> -> <redacted>",
        "    sends alice -> bob 2: login('bob', password=<redacted>)",
    ]


@pytest.mark.acceptance("G25")
def test_a_timer_in_words_hides_what_it_will_call_with() -> None:
    codec = Codec(ActorHandle, str, str)
    assert message_words(codec.tell("use_token", ("hunter2",))) == "use_token(<redacted>)"
    assert message_words(codec.tell("ring", (3,), {"secret": "hunter2"})) == "ring(3, secret=<redacted>)"
