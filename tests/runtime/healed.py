"""Actors of systems that go back to their last snapshot by themselves, and what tests say of such systems."""

import contextlib
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import ray

import rayshot
from rayshot import FailureConfig, SnapshotConfig
from rayshot.runtime.actor import loading
from rayshot.runtime.door import failpoints
from rayshot.runtime.opening.from_snapshot import order_restore
from tests.waiting import eventually

STOPS = FailureConfig(scope="stop")
HEALS = FailureConfig(scope="system", backoff_s=0.0)
"""Without a pause where one actor dies again and again."""
BACK_S = 30.0
"""Seconds until a system must run again; it takes two or three on a busy machine."""


def is_new(path):
    """Whether this file is made now."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def spoil(_host):
    """From now on no actor can be loaded in this process, for a reason that nobody expects."""

    def load_process(*_):
        raise RuntimeError("a defect")

    loading.load_process = load_process


@rayshot.actor
class Post:
    """Passes a token round, and counts how often it came; keeps what it was told, in order."""

    def __init__(self):
        self.rounds = 0
        self.following = None
        self.heard = []
        self.naps = 0

    def lead_to(self, following):
        self.following = following

    def token(self):
        self.rounds += 1
        self.following.token.tell()

    def hear(self, number):
        self.heard.append(number)

    def told(self):
        return list(self.heard)

    def read(self):
        return self.rounds

    def nap(self, seconds, done):
        """Only the first time: the message comes again after the system went back."""
        until = time.monotonic() + (seconds if is_new(done) else 0.0)
        while time.monotonic() < until:
            time.sleep(0.01)

    def hang(self, done):
        """Only the first time, but then it does not let itself be interrupted."""
        while is_new(done) or self.naps:
            self.naps += 1
            with contextlib.suppress(BaseException):
                time.sleep(0.05)

    def poison(self, path):
        if not os.path.exists(path):  # noqa: PTH110
            os.kill(os.getpid(), signal.SIGKILL)


@rayshot.actor
class StopsAtItsFirstLoad:
    def __init__(self, path):
        self.path = path

    def __setstate__(self, state):
        self.__dict__.update(state)
        if is_new(self.path):
            os.kill(os.getpid(), signal.SIGSTOP)

    def read(self):
        return self.path


@rayshot.actor
class NapsWhileItBegins:
    """For ever where `place` says, but only the first time; the file `path` has the id of the process then."""

    def __init__(self, place, path):
        self.place, self.path, self.heard = place, path, []
        self.nap("__init__")

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.nap("__setstate__")

    def on_restore(self):
        self.nap("on_restore")

    def nap(self, place):
        if place == self.place and is_new(self.path):
            Path(self.path).write_text(f"{os.getpid()}\n")
            while True:
                time.sleep(0.05)

    def hear(self, number):
        self.heard.append(number)

    def told(self):
        return list(self.heard)


@rayshot.actor
class Counter:
    def __init__(self):
        self.count = 0
        self.child = None

    def add(self, amount=1):
        self.count += amount

    def read(self):
        return self.count

    def variable(self):
        return os.environ.get("HOME_OF_COUNTER")

    def make(self, name, done):
        """Make a child, but only the first time that this message comes."""
        if is_new(done):
            self.child = Counter.options(name=name).remote()
        return True


@rayshot.actor
class Till:
    def __init__(self):
        self.count = 0
        self.lock = None

    def add(self, _about):
        self.count += 1

    def read(self):
        return self.count

    def hold_lock(self):
        """From now on the state cannot be recorded."""
        self.lock = threading.Lock()

    def drop_lock(self):
        self.lock = None


@rayshot.actor
class Ledger:
    def __init__(self):
        self.lines = []

    def write(self, line):
        self.lines.append(line)

    def read(self):
        return list(self.lines)


def ring(count=3):
    """A ring of posts with a token on its way."""
    posts = [Post.options(name=f"post{k}").remote() for k in range(count)]
    for k, post in enumerate(posts):
        post.lead_to.tell(posts[(k + 1) % count])
    ray.get([post.read.remote() for post in posts])
    posts[0].token.tell()
    return posts


def pid_of(system, name):
    return system.status().actors[name].pid


def pid_behind(handle):
    """The process of a Ray actor."""
    return ray.get(handle.__ray_call__.remote(lambda _: os.getpid()))


def kill(system, *names):
    """SIGKILL, to all at once."""
    pids = [pid_of(system, name) for name in names]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def kill_in(report, name):
    """SIGKILL for an actor in the coordinator's report."""
    os.kill(report["actors"][name]["pid"], signal.SIGKILL)


def report(system):
    """What the coordinator says, as it is: also where another life runs than the program knows."""
    coordinator = system._identity.coordinator
    try:
        return ray.get(coordinator.status.remote(), timeout=10)
    except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
        return {"state": "silent", "incarnation": 0}


def words_of_processes():
    """All that they wrote to stderr."""
    logs = Path(ray._private.worker._global_node.get_session_dir_path()) / "logs"
    return "".join(file.read_text(errors="replace") for file in logs.glob("worker-*.err"))


def until_it_runs(system, life=2):
    """Wait until a life runs that is not earlier than this one; returns the coordinator's report."""

    def look():
        now = report(system)
        assert now["state"] != "stopped", now["stop"].detail
        return now if now["state"] == "running" and now["incarnation"] >= life else None

    return eventually(look, BACK_S)


@contextlib.contextmanager
def unable_to_roll_back(system, folder, victim):
    """An actor has died, and the storage `shots` in that folder is away. Behind the block the system runs again."""
    (folder / "shots").rename(folder / "unmounted")
    try:
        kill(system, victim)
        eventually(lambda: "is its volume mounted?" in report(system)["recovering"], 20)
        yield
    finally:
        if (folder / "shots").exists():  # a beat of the system may have made it
            (folder / "shots").rename(folder / "other")
        (folder / "unmounted").rename(folder / "shots")
    until_it_runs(system)


def until_it_stops(system):
    """Wait until the system has stopped for good; returns why."""
    return eventually(lambda: (now := report(system))["state"] == "stopped" and now["stop"], BACK_S).detail


def restoring_where(monkeypatch, prepare):
    """Each coordinator that restores a system from now on calls `prepare(coordinator)` before it begins."""

    def order(identity, *rest):
        ray.get(identity.coordinator.__ray_call__.remote(prepare))
        order_restore(identity, *rest)

    monkeypatch.setattr("rayshot.runtime.opening.from_snapshot.order_restore", order)


def starts_processes(times):
    """For `restoring_where`: it starts a process so many times at most, and without a pause."""

    def be(_):
        from rayshot.protocol import recovery

        recovery.START_PAUSE_S, recovery.STARTS_MAX = 0.1, times

    return be


def be_impatient(system):
    """It starts a process again without a pause, and few times."""
    ray.get(system._identity.coordinator.__ray_call__.remote(starts_processes(4)))


def rounds(system):
    """How often the token came to each post, by the counters of their mailboxes in the present life."""
    hosts = ray.get(system._identity.coordinator.actors.remote())
    return {name: ray.get(host.figures.remote())[1] for name, host in hosts.items()}


def goes_round(system):
    """Whether the token is there once: each post hears of it again, and none has heard of it two times more."""
    before = rounds(system)
    eventually(lambda: all(now > before[name] for name, now in rounds(system).items()), 10)
    return True


def die_at(system, place, count=1):
    """The coordinator that lives now dies when it passes a failpoint for the `count`-th time."""
    coordinator = system._identity.coordinator
    ray.get(coordinator.__ray_call__.remote(lambda _: failpoints._table.update({place: count})))


def started(new_system, interval_s=None, **failure):
    """A system with a ring whose first snapshot is there."""
    system = new_system(failure=replace(HEALS, **failure), snapshots=SnapshotConfig(interval_s=interval_s))
    posts = ring()
    system.snapshot()
    return system, posts
