"""Waiting for what nothing signals."""

import time

SOON_S, LATER_S = 0.01, 0.05
SHARE = 20
"""Each pause is a twentieth of what has passed: who asks a hundred times in a second keeps the machine busy."""


def eventually(condition, seconds=10.0):
    """Poll until `condition()` is true: for effects that nothing signals."""
    began = time.monotonic()
    while not (value := condition()):
        passed = time.monotonic() - began
        assert passed < seconds, "it never came true"
        time.sleep(min(max(passed / SHARE, SOON_S), LATER_S))
    return value
