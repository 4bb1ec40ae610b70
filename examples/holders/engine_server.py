"""A stand-in for an inference engine, a process of its own: `python examples/holders/engine_server.py ADDRESS`.

Each answer depends on all prompts before it. So an engine that lost a prompt, or saw one twice, answers otherwise from
then on. It writes its URL into the file ADDRESS. All commands are POST with JSON, and have the token of who sends them:

- `/restore`: take the engine, with the state in the file `path`, or an empty one if that is null;
- `/generate`: answer `prompt`;
- `/fix`: copy the state in memory, under the name `cut`;
- `/checkpoint`: write that copy into the file `path`, and forget it;
- `/look`: say the state.

All but `/restore` are for who holds the engine. Others get 409: nobody holds an engine that has just begun.
"""

import hashlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FIXED_MAX = 16


def answer_to(last: str, prompt: str) -> str:
    """What an engine whose last answer was `last` says to a prompt."""
    return hashlib.blake2b(f"{last} {prompt}".encode(), digest_size=6).hexdigest()


class Refused(Exception):
    """This token may not do that."""


class Engine:
    """The state, and the token of who holds it: run, life, owner."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.held: list[Any] | None = None
        self.state: dict[str, Any] = {"answered": 0, "last": ""}
        self.fixed: dict[str, dict[str, Any]] = {}
        commands = self.restore, self.generate, self.fix, self.checkpoint, self.look
        self.commands = {f"/{command.__name__}": command for command in commands}

    def obey(self, command: str, token: list[Any], **rest: Any) -> dict[str, Any]:
        """Do what is asked, if this token may. Raises Refused."""
        with self.lock:
            if command != "/restore" and token != self.held:
                raise Refused(f"{token} does not hold the engine, {self.held} does")
            do: Any = self.commands[command]
            return dict(do(token, **rest))

    def restore(self, token: list[Any], path: str | None, takeover: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - JSON
        """A later life takes the engine from an earlier one of the same run, and another run only if told so."""
        if self.held is not None and token != self.held:
            (run, life, _), (held_run, held_life, _) = token, self.held
            if not (life > held_life if run == held_run else takeover):
                raise Refused(f"{token} may not take the engine from {self.held}")
        self.state = json.loads(Path(path).read_text()) if path else {"answered": 0, "last": ""}
        self.held, self.fixed = token, {}
        return self.state

    def generate(self, _token: list[Any], prompt: str) -> dict[str, Any]:
        """Answer a prompt."""
        self.state = {"answered": self.state["answered"] + 1, "last": answer_to(self.state["last"], prompt)}
        return self.state

    def fix(self, _token: list[Any], cut: str) -> dict[str, Any]:
        """Keep a copy. Who holds the engine has few cuts open, so the oldest copy is of one that it forgot."""
        if len(self.fixed) == FIXED_MAX:
            del self.fixed[next(iter(self.fixed))]
        self.fixed[cut] = dict(self.state)
        return self.state

    def checkpoint(self, _token: list[Any], cut: str, path: str) -> dict[str, Any]:
        """Write a copy, and forget it."""
        state = self.fixed.pop(cut)
        Path(path).write_text(json.dumps(state))
        return state

    def look(self, _token: list[Any]) -> dict[str, Any]:
        """Say the state."""
        return self.state


def handler_of(engine: Engine) -> type[BaseHTTPRequestHandler]:
    """A class that takes the requests for an engine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Answer 200 with the state, or 409 with the reason."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, answer = 200, engine.obey(self.path, **body)
            except Refused as refused:
                status, answer = 409, {"refused": str(refused)}
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    return Handler


def main(address: str) -> None:
    """Serve until it is killed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(Engine()))
    half = Path(f"{address}.half")
    half.write_text(f"http://127.0.0.1:{server.server_port}")
    half.replace(address)  # whoever reads it finds a whole line
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
