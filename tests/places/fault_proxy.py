"""A proxy in front of a real S3 server that spoils chosen requests: the faults that networks and servers have."""

import http.client
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SILENCE_MAX_S = 30.0


class Spoil(Enum):
    """What becomes of a request. AFTER: the server has done what was asked, and the client does not hear of it."""

    UNAVAILABLE = "answered 503, not passed on"
    UNAVAILABLE_AFTER = "passed on, answered 503"
    ERROR = "answered 500, not passed on"
    ERROR_AFTER = "passed on, answered 500"
    RESET = "the connection is reset, not passed on"
    RESET_AFTER = "passed on, then the connection is reset"
    SILENCE = "never answered, not passed on"
    SILENCE_AFTER = "passed on, never answered"
    DENIED = "answered 403, not passed on"
    SHORT = "passed on; the connection ends in the middle of the answer"
    CUT = "passed on; half of the answer, which says that it is whole"
    CONFLICT = "answered 409, not passed on"
    FULL = "answered 507, not passed on"
    NO_CONDITIONS = "answered 501 where a condition is asked for"
    CONDITIONS_IGNORED = "passed on without its conditions"
    KILL = "the client is killed, not passed on"
    KILL_AFTER = "passed on, then the client is killed"

    @property
    def status(self) -> int | None:
        """The status that is answered instead; None where none is."""
        return _STATUS.get(self.name.removesuffix("_AFTER"))

    @property
    def after(self) -> bool:
        return self.name.endswith("_AFTER")


_STATUS = {"UNAVAILABLE": 503, "ERROR": 500, "DENIED": 403, "CONFLICT": 409, "FULL": 507, "NO_CONDITIONS": 501}
CALL_FAULTS = list(Spoil)[: list(Spoil).index(Spoil.CUT)]
"""The faults that any call can meet."""


@dataclass(frozen=True)
class Plan:
    """Requests number `first` to `first + count - 1` are spoiled; `only` limits it to those with that method."""

    spoil: Spoil
    first: int = 1
    count: int = 1
    only: str | None = None


class FaultProxy:
    """Stands before the server on `port`. Assign `plan`; `requests` lists method and path of each since `restart`."""

    def __init__(self, port: int) -> None:
        self.server_port = port
        self.plan: Plan | None = None
        self.delay_s = 0.0
        self.victim: int | None = None
        """The process that KILL kills."""
        self.requests: list[tuple[str, str]] = []
        self.closing = threading.Event()
        self._struck = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def restart(self, plan: Plan | None = None) -> None:
        """Forget the requests up to now and follow `plan` from here on."""
        with self._lock:
            self.requests.clear()
            self._struck = 0
            self.plan = plan

    def enter(self, method: str, path: str) -> Spoil | None:
        """Count a request; say what becomes of it."""
        with self._lock:
            self.requests.append((method, path))
            plan = self.plan
            if plan is None or plan.only not in (None, method):
                return None
            self._struck += 1
            return plan.spoil if plan.first <= self._struck < plan.first + plan.count else None

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def running_proxy(port: int) -> Iterator[FaultProxy]:
    proxy = FaultProxy(port)
    thread = threading.Thread(target=proxy.serve)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    proxy: FaultProxy

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that were spoiled hang up: that is the point."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.upstream = http.client.HTTPConnection("127.0.0.1", self.server.proxy.server_port)

    def finish(self) -> None:
        self.upstream.close()
        super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class has it
        """Say nothing."""

    def relay(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        time.sleep(proxy.delay_s)
        spoil = proxy.enter(self.command, self.path)
        conditional = "If-None-Match" in self.headers
        if spoil is Spoil.NO_CONDITIONS and not conditional:
            spoil = None
        if spoil is Spoil.CONDITIONS_IGNORED:
            del self.headers["If-None-Match"]
            spoil = None
        if spoil is not None and not spoil.after and spoil not in (Spoil.SHORT, Spoil.CUT):
            self._spoil(spoil)
            return
        answer = self._pass_on(body)
        content = answer.read()
        if spoil is None:
            self._answer(answer, content, len(content))
        elif spoil is Spoil.CUT:
            half = content[: len(content) // 2]
            self._answer(answer, half, len(half))
        elif spoil is Spoil.SHORT:
            self._answer(answer, content, len(content) // 2)
            self._reset()
        else:
            self._spoil(spoil)

    do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = relay

    def _pass_on(self, body: bytes) -> http.client.HTTPResponse:
        self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            self.upstream.putheader(name, value)
        self.upstream.endheaders(body)
        return self.upstream.getresponse()

    def _answer(self, answer: http.client.HTTPResponse, content: bytes, sent: int) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in {"connection", "transfer-encoding", "content-length"}:
                self.send_header(name, value)
        length = answer.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content[:sent])

    def _spoil(self, spoil: Spoil) -> None:
        if spoil.status is not None:
            self._refuse(spoil.status)
        elif spoil in (Spoil.SILENCE, Spoil.SILENCE_AFTER):
            self.connection.settimeout(SILENCE_MAX_S)
            self.connection.recv(1)  # until the client hangs up
            self._reset()
        elif spoil in (Spoil.KILL, Spoil.KILL_AFTER):
            assert self.server.proxy.victim is not None
            os.kill(self.server.proxy.victim, signal.SIGKILL)
            self._reset()
        else:
            self._reset()

    def _refuse(self, status: int) -> None:
        content = b"<Error><Code>Spoiled</Code></Error>"
        self.send_response_only(status, "Spoiled")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
