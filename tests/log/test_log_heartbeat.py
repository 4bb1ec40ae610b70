"""Heartbeats: how long a life that was killed keeps its system."""

import re
import time

import pytest

from rayshot.errors import LivesElsewhere
from rayshot.log.heartbeat import Beating, check_nobody_lives
from rayshot.log.system import make_system
from rayshot.places.memory import MemoryStore

NO_PROCESS = 2**22 + 1
"""Larger than any number of a process, so nobody can tell whether it is gone."""


def test_whoever_comes_too_early_learns_until_when_and_what_a_takeover_means():
    now = [1_000.0]
    store = MemoryStore(clock=lambda: now[0])
    make_system(store, "bank")
    Beating(store, "bank", 3, NO_PROCESS).beat()
    now[0] += 2.0
    began = time.time()
    with pytest.raises(LivesElsewhere) as raised:
        check_nobody_lives(store, "bank")
    said = raised.value.message
    assert "said 2 s ago that it runs. If it does not say so again, it counts as dead at" in said
    at = re.search(r"at (\d\d:\d\d:\d\d), in 58 s: try again then", said)[1]
    assert at in {time.strftime("%H:%M:%S", time.localtime(began + 58 + late)) for late in range(60)}
    assert "rayshot.resume('bank', ..., takeover=True) goes on now. Should it run after all, it takes no more" in said
    assert raised.value.evidence["seconds_left"] == pytest.approx(58.0)
    now[0] += 58.0
    check_nobody_lives(store, "bank")
