"""Serves the page to the browser of the user who started the server, and to nobody else.

The server only reads: it answers only GET, on the loopback interface. It refuses a foreign name that DNS leads here,
and a request without the cookie. Only the link gives the cookie, and the link works once. So no other user of the
machine, and no page of another site in the same browser, gets any data.
"""

import secrets
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rayshot.errors import ConfigError, NotFound, RayshotError, UsageError
from rayshot.explorer.data import snapshot_document, storage_document
from rayshot.explorer.report import page, policy
from rayshot.snapshots.catalog import SystemView

LOOPBACK = "127.0.0.1"
CONNECTIONS_MAX = 50
GRACE_S = 1
_ON = '<!doctype html><meta http-equiv="refresh" content="0; url=/"><title>rayshot</title>'
"""A page of our own origin: after a redirect from another site a browser would not send the cookie."""


class Server:
    """Serves the page of one system, from `listen` on. `link` opens the page, once."""

    def __init__(self, view: SystemView, port: int = 0) -> None:
        """`port` 0 takes a free one. Raises ConfigError if the port is not free."""
        self._socket = _listen(port)
        self._port = self._socket.getsockname()[1]
        token = secrets.token_urlsafe(32)
        self.link = f"http://{LOOPBACK}:{self._port}/?token={token}"
        self._app = _application(view, f"rayshot-{self._port}", token)

    def run(self) -> None:
        """Serve until Ctrl-C, which raises KeyboardInterrupt when everything is closed."""
        config = uvicorn.Config(
            self._app,
            http="h11",
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=GRACE_S,
        )
        uvicorn.Server(config).run(sockets=[self._socket])


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"port {port} of {LOOPBACK} cannot be used: {error.strerror}; give another one, or none for a free port",
            port=port,
        ) from error
    return listening


def _application(view: SystemView, cookie: str, token: str) -> Starlette:
    text = page()
    reading = threading.Lock()  # one at a time, as each may hold the manifest of a large snapshot

    def html(_: Request) -> Response:
        return HTMLResponse(text)

    def storage(_: Request) -> Response:
        return _answer(reading, lambda: storage_document(view))

    def snapshot(request: Request) -> Response:
        before, actors = request.query_params.get("before"), request.query_params.getlist("actors")

        def read() -> dict[str, Any]:
            found = view.snapshot(request.path_params["id"])
            return snapshot_document(found, before=view.snapshot(before) if before else None, actors=actors)

        return _answer(reading, read)

    routes = [Route("/", html), Route("/data/storage", storage), Route("/data/snapshot/{id}", snapshot)]
    guards = [
        Middleware(_Headers, policy=policy(text, "'self'") + "; frame-ancestors 'none'"),
        Middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost"], www_redirect=False),
        Middleware(_Door, cookie=cookie, token=token),
    ]
    return Starlette(routes=routes, middleware=guards)


def _answer(reading: threading.Lock, read: Callable[[], dict[str, Any]]) -> Response:
    """A document; or the reason why it cannot be made, which the page shows in its place."""
    try:
        with reading:
            return JSONResponse(read())
    except RayshotError as error:
        status = 404 if isinstance(error, NotFound | UsageError) else 500
        return JSONResponse(error.document, status)


class _Door:
    """Passes on requests that read and have the cookie; gives the cookie to the first request with the token."""

    def __init__(self, app: ASGIApp, cookie: str, token: str) -> None:
        self._app = app
        self._cookie = cookie
        self._token: str | None = token
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on. There is no `await` between the check of the token and its use."""
        request = Request(scope)
        answer: ASGIApp = self._app
        shown = request.query_params.get("token") if scope["path"] == "/" else None
        if request.method != "GET":
            answer = PlainTextResponse("Only GET: this page reads, and changes nothing.\n", 405, {"Allow": "GET"})
        elif _same(request.cookies.get(self._cookie), self._session):
            answer = self._app if shown is None else HTMLResponse(_ON)
        elif _same(shown, self._token):
            self._token = None
            answer = HTMLResponse(_ON)
            answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict")
        else:
            reason = "This needs the link that `rayshot ui` printed, which opens in one browser, once."
            answer = PlainTextResponse(f"{reason} Start it again for another one.\n", 403)
        await answer(scope, receive, send)


def _same(shown: str | None, secret: str | None) -> bool:
    return shown is not None and secret is not None and secrets.compare_digest(shown.encode(), secret.encode())


class _Headers:
    """Adds headers to every answer, refusals too: what may run, and that nothing may store or frame the answer."""

    def __init__(self, app: ASGIApp, policy: str) -> None:
        self._app = app
        self._headers = [
            (b"content-security-policy", policy.encode()),
            (b"cache-control", b"no-store"),
            (b"referrer-policy", b"no-referrer"),
            (b"x-content-type-options", b"nosniff"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        await self._app(scope, receive, send_with_headers)
