"""States that a scratch process loads, or does not."""

import fcntl
import os
import threading
import time
from decimal import Decimal
from pathlib import Path

REGISTRY = {}


class Actor:
    """Whose states these are."""


class Plain:
    """Loads like any object."""

    def __init__(self):
        self.number = 7


class Refusing:
    """Raises what it holds when it is made again."""

    def __init__(self, error):
        self.error = error

    def __setstate__(self, state):
        raise state["error"]


class Calling:
    """Calls a plain Ray actor when it is made again, and says what was wrong in its own words."""

    def __init__(self, handle):
        self.handle = handle

    def __setstate__(self, state):
        try:
            state["handle"].note.remote()
        except Exception as error:
            raise ValueError("no side") from error


class Moody(Refusing):
    """Raises another error in each process."""

    def __setstate__(self, state):
        raise (KeyError if os.getpid() % 2 else ValueError)(os.getpid())


class Fussy:
    """Loads unless its number is negative."""

    def __init__(self, number):
        self.number = number

    def __setstate__(self, state):
        if state["number"] < 0:
            raise ValueError(state["number"])
        self.__dict__ |= state


class Registered:
    """Is what the registry of its module has under its name."""

    def __init__(self, name):
        self.name = name
        REGISTRY[name] = self

    def __reduce__(self):
        return look_up, (self.name,)


def look_up(name):
    """What is registered under this name."""
    return REGISTRY[name]


class Locked:
    """Has a file for itself while it lives."""

    def __init__(self, path):
        self.__setstate__({"path": path})

    def __getstate__(self):
        return {"path": self.path}

    def __setstate__(self, state):
        self.path = state["path"]
        self._file = Path(self.path).open("w")  # noqa: SIM115 - as long as it lives
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Folder:
    """Removes its file when it goes."""

    def __init__(self, path):
        self.path = path
        Path(path).touch()

    def __del__(self):
        Path(self.path).unlink(missing_ok=True)


class Disconnected(Plain):
    """Turns an error of the outside into one of its own."""

    def __setstate__(self, state):
        try:
            Path("/no/such/folder/socket").read_bytes()
        except OSError as error:
            raise ValueError("no connection") from error


class Hanging(Plain):
    """Never comes back."""

    def __setstate__(self, state):
        time.sleep(1000)


class Deadly(Plain):
    """Ends its process."""

    def __setstate__(self, state):
        os.kill(os.getpid(), 9)


class Murderous:
    """Ends the process that forked its own, and notes it in a file."""

    def __init__(self, path):
        self.path = path

    def __setstate__(self, state):
        with Path(state["path"]).open("a") as file:
            file.write("x")
        os.kill(os.getppid(), 9)
        time.sleep(1000)


class Hungry(Plain):
    """Wants more memory than there is for it."""

    def __setstate__(self, state):
        self.much = bytearray(8 << 30)


class Threaded(Plain):
    """Begins a thread that never ends."""

    def __setstate__(self, state):
        threading.Thread(target=time.sleep, args=(1000,)).start()


class Namespaced(Plain):
    """Asks Ray for its namespace."""

    def __setstate__(self, state):
        import ray

        self.namespace = ray.get_runtime_context().namespace


class Member:
    """Holds groups with itself, hashed by its name."""

    def __init__(self, name, hold):
        self.name = name
        self.groups = [hold(self)]

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self is other


class Choosy(Member):
    """The same, and takes its state by itself."""

    def __setstate__(self, state):
        self.__dict__ |= state


class Missing:
    """Is looked up in a plain class that does not have it."""

    def __reduce__(self):
        return getattr, (Decimal, "nothere")
