"""Waiting for what nothing signals."""

import time


def eventually(condition, seconds=10.0):
    """Poll until `condition()` is true: for effects that nothing signals."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
    return value
