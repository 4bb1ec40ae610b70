"""Hosts that say nothing, and a coordinator that stood still itself."""

import os
import signal

import pytest
import ray

from rayshot.runtime.coordinator.silence import Silence

pytestmark = pytest.mark.ray


@ray.remote(num_cpus=0)
class Greeter:
    def hello(self):
        return os.getpid()


def test_who_stood_still_itself_asks_anew_before_it_takes_others_for_silent(cluster, monkeypatch):
    host, killed = Greeter.remote(), []
    os.kill(ray.get(host.hello.remote()), signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(ray, "kill", killed.append)
        silence = Silence(30.0)
        silence.look({"greeter": host}, 100.0)
        for now in range(500, 530):
            silence.look({"greeter": host}, now)
        assert killed == []
        silence.look({"greeter": host}, 530.0)
        assert killed == [host]
    ray.kill(host)
