"""The short way of a snapshot on one node: from its vault to the actors there, and back with what they recorded.

A call of Ray costs two processor milliseconds, and a snapshot one for each actor. So the coordinator calls the vault of
a node, which passes the call on over sockets of that node, and brings the reports together. Nothing depends on it: whom
the relay does not reach is called over Ray, and whatever does not go over it is brought over Ray.
"""

import logging
import os
import selectors
import socket
import struct
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

from rayshot.runtime.failpoints import failpoint
from rayshot.runtime.priority import go_beside_programs

log = logging.getLogger("rayshot")
GATHER_S = 0.02
"""The first report waits so long for others, unless all are there before."""
MESSAGE_BYTES_MAX = 96 << 10
"""What is larger goes over Ray. A socket has room for two of these by default, and one lies inside of a call of Ray."""
_BACKLOG = 4096
_CREDENTIALS = struct.Struct("iII")
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
        self._selector = selectors.DefaultSelector()
        if sys.platform == "linux":  # elsewhere there are no addresses that go with their process
            address = f"rayshot-{uuid.uuid4().hex}"
            try:
                self._listener = _socket()
                self._listener.bind(f"\0{address}")
                self._listener.listen(_BACKLOG)
            except OSError as error:
                log.warning("no socket on this node, so every actor is called over Ray: %s", error)
                return
            self.address = address
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
            log.exception("the relay failed, so every actor of this node is called over Ray")
            with self._lock:  # whoever had sent a report sees that it must be brought
                self.address = ""
                self._ends.clear()
                for key in tuple(self._selector.get_map().values()):
                    assert isinstance(key.fileobj, socket.socket)
                    key.fileobj.close()

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
                for portion in _portions(reports):
                    self._bring(portion)
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
        message = _received(end)
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
    """An actor's end. On a thread of the relay's own `take_call` gets each call that comes; at the end there is `lost`.

    Then it is not known which of the reports that were sent have been brought.
    """

    def __init__(self, name: str, take_call: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        self._name = name
        self._take_call = take_call
        self._lost = lost
        self._address = ""
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def connect(self, address: str) -> None:
        """Go to the relay that is there now, unless this end is there already. In vain where it cannot be reached."""
        with self._lock:
            if not address or (self._socket is not None and self._address == address):
                return
            try:
                end = _connected(address)
            except OSError as error:  # gone, another user's, in a container of its own; or no descriptor is left
                log.debug("%s: no way to the relay of the node: %s", self._name, error)
                return
            try:
                threading.Thread(target=self._take_all, args=(end,), name="rayshot-relay", daemon=True).start()
            except RuntimeError as error:  # there may be no more threads
                log.debug("%s: no thread for the relay of the node: %s", self._name, error)
                end.close()
                return
            if _sent(end, self._name.encode()):
                self._address, self._socket = address, end
            else:
                end.shutdown(socket.SHUT_RDWR)  # its thread closes it

    def send(self, report: bytes) -> bool:
        """Send a report. False where it does not go over the relay."""
        with self._lock:
            return self._socket is not None and _sent(self._socket, report)

    def _take_all(self, end: socket.socket) -> None:
        go_beside_programs()
        while call := _received(end):
            self._take_call(call)
        with self._lock:
            if self._socket is end:
                self._socket = None
            end.close()
        self._lost()


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _connected(address: str) -> socket.socket:
    end = _socket()
    try:
        end.connect(f"\0{address}")
        if not _is_of_same_user(end):
            raise PermissionError(f"{address} is another user's")
    except OSError:
        end.close()
        raise
    return end


def _received(end: socket.socket) -> bytes:
    """The next message; empty where there will be none."""
    while True:
        try:
            return end.recv(MESSAGE_BYTES_MAX)
        except ConnectionResetError:  # it died with something unread: what it had sent before can still be read
            continue
        except OSError:
            return b""


def _portions(reports: Sequence[bytes]) -> Iterator[list[bytes]]:
    """All of them in order, as many at a time as one message may hold: Ray makes objects of larger arguments."""
    portion: list[bytes] = []
    for report in reports:
        if portion and sum(map(len, portion)) + len(report) > MESSAGE_BYTES_MAX:
            yield portion
            portion = []
        portion.append(report)
    if portion:
        yield portion


def _sent(end: socket.socket, message: bytes) -> bool:
    """Whether there was room for a message; it goes whole or not at all, and nobody waits."""
    if len(message) > MESSAGE_BYTES_MAX:
        return False
    try:
        end.send(message, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except OSError:
        return False
    return True


def _is_of_same_user(end: socket.socket) -> bool:
    """Reports hold pickles, and everybody on a machine sees the addresses of its sockets."""
    _, user, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(user == os.geteuid())
