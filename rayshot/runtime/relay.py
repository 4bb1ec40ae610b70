"""The short way of a snapshot on one node: from its vault to the actors there, and back with what they recorded.

A call of Ray costs two processor milliseconds, and a snapshot one for each actor. So the coordinator calls the vault of
a node, which passes the call on over sockets of that node, and brings the reports together. Nothing depends on it: whom
the relay does not reach is called over Ray, and whatever does not go over it is brought over Ray.
"""

import contextlib
import logging
import os
import selectors
import socket
import struct
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence

from rayshot.runtime.failpoints import failpoint
from rayshot.runtime.priority import go_beside_programs

log = logging.getLogger("rayshot")
GATHER_S = 0.02
"""The first report waits so long for others, unless all are there before."""
MESSAGE_BYTES_MAX = 128 << 10
"""What is larger goes over Ray. A socket has room for one and a half of these by default."""
_BACKLOG = 4096
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of who is at the other end; see unix(7), SO_PEERCRED."""


class Relay:
    """The vault's end. `address` is where actors find it; empty where the system has no such sockets.

    `bring` gets reports that arrived, in the order of arrival; it is called on the relay's own thread.
    """

    def __init__(self, bring: Callable[[Sequence[bytes]], None]) -> None:
        self.address = ""
        self._bring = bring
        self._ends: dict[str, socket.socket] = {}
        self._awaited: set[str] = set()
        self._lock = threading.Lock()
        if sys.platform == "linux":  # elsewhere there are no addresses that go with their process
            self.address = f"rayshot-{uuid.uuid4().hex}"
            self._listener = _socket()
            self._listener.bind(f"\0{self.address}")
            self._listener.listen(_BACKLOG)
            self._selector = selectors.DefaultSelector()
            self._selector.register(self._listener, selectors.EVENT_READ)
            threading.Thread(target=self._run, name="rayshot-relay", daemon=True).start()

    def call(self, calls: Sequence[tuple[str, bytes]]) -> list[str]:
        """Pass on to each actor its call. Returns those who were not reached."""
        self._awaited = {name for name, _ in calls}
        unreached = [name for name, call in calls if not self._passed_on(name, call)]
        self._awaited.difference_update(unreached)
        return unreached

    def _passed_on(self, name: str, call: bytes) -> bool:
        with self._lock:
            end = self._ends.get(name)
            return end is not None and _sent(end, call)

    def _run(self) -> None:
        try:
            self._take_all()
        except Exception:
            log.exception("the relay failed, a defect of rayshot: actors are called over Ray")
            for end in (self._listener, *self._ends.values()):
                end.close()

    def _take_all(self) -> None:
        reports: list[bytes] = []
        due = 0.0
        while True:
            patience = max(0.0, due - time.monotonic()) if reports else None
            for key, _ in self._selector.select(patience):
                if key.fileobj is self._listener:
                    self._accept()
                elif report := self._received(key):
                    if not reports:
                        due = time.monotonic() + GATHER_S
                    reports.append(report)
            if reports and (not self._awaited or time.monotonic() >= due):
                failpoint("relay_gathered")
                self._bring(reports)
                reports = []

    def _accept(self) -> None:
        end, _ = self._listener.accept()
        if _is_of_same_user(end):
            self._selector.register(end, selectors.EVENT_READ)
        else:
            end.close()

    def _received(self, key: selectors.SelectorKey) -> bytes:
        """A report; empty where an actor said its name, or is gone."""
        end, name = key.fileobj, key.data
        assert isinstance(end, socket.socket)
        message = b""
        with contextlib.suppress(OSError):  # the actor died
            message = end.recv(MESSAGE_BYTES_MAX)
        if not message:
            self._selector.unregister(end)
            with self._lock:  # nobody sends while it is closed
                if self._ends.get(name) is end:
                    del self._ends[name]
                end.close()
        elif name is None:
            name = message.decode()
            self._selector.modify(end, selectors.EVENT_READ, name)
            self._ends[name] = end
            return b""
        self._awaited.discard(name)
        return message


class RelayEnd:
    """An actor's end. `take_call` gets each call that comes, on a thread of the relay's own."""

    def __init__(self, name: str, take_call: Callable[[bytes], None]) -> None:
        self._name = name
        self._take_call = take_call
        self._address = ""
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def connect(self, address: str) -> None:
        """Go to the relay that is there now, unless this end is there already. In vain where it cannot be reached."""
        with self._lock:
            if not address or (self._socket is not None and self._address == address):
                return
            end = _socket()
            try:
                end.connect(f"\0{address}")
            except OSError as error:  # the vault has died, or lives in a container of its own
                log.debug("%s: no way to the relay of the node: %s", self._name, error)
                end.close()
                return
            if not _is_of_same_user(end) or not _sent(end, self._name.encode()):
                end.close()
                return
            self._address, self._socket = address, end
        threading.Thread(target=self._take_all, args=(end,), name="rayshot-relay", daemon=True).start()

    def send(self, report: bytes) -> bool:
        """Send a report. False where it does not go over the relay."""
        with self._lock:
            return self._socket is not None and _sent(self._socket, report)

    def _take_all(self, end: socket.socket) -> None:
        go_beside_programs()
        try:
            while call := end.recv(MESSAGE_BYTES_MAX):
                self._take_call(call)
        except OSError:
            log.debug("%s: the relay of the node is gone", self._name)
        except Exception:
            log.exception("%s: a call over the relay failed, a defect of rayshot: the next comes over Ray", self._name)
        finally:
            with self._lock:
                if self._socket is end:
                    self._socket = None
                end.close()


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _sent(end: socket.socket, message: bytes) -> bool:
    """Whether there was room for a message; it goes whole or not at all, and nobody waits."""
    if len(message) > MESSAGE_BYTES_MAX:
        return False
    try:
        end.send(message, socket.MSG_DONTWAIT)
    except OSError:
        return False
    return True


def _is_of_same_user(end: socket.socket) -> bool:
    """Reports hold pickles, and everybody on a machine sees the addresses of its sockets."""
    _, user, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(user == os.geteuid())
