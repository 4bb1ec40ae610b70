"""`rayshot ui` as a program, and what somebody says to it over HTTP."""

import http.client
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

PROGRAM = Path(sys.executable).with_name("rayshot")


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    text: str


class Served:
    """A server that runs; `link` is what it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.link = process.stdout.readline().strip()
        parts = urlsplit(self.link)
        self.port = parts.port
        self.way_in = f"/?{parts.query}"
        self.cookie = ""

    def ask(self, path, method="GET", host=None, cookie=None, body=None):
        """One request, with the cookie that `enter` got unless another is given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Host": host or f"127.0.0.1:{self.port}", "Cookie": self.cookie if cookie is None else cookie}
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                if value:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read().decode())
        finally:
            connection.close()

    def enter(self):
        """Use the link, as the first browser does."""
        answer = self.ask(self.way_in)
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return answer

    def memory_mb(self):
        """The most memory that the server had at a time."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024

    def interrupt(self):
        """As Ctrl-C. Returns how it ended, and what it printed on stderr."""
        self.process.send_signal(signal.SIGINT)
        _, complaint = self.process.communicate(timeout=30)
        return self.process.returncode, complaint


@contextmanager
def served(storage, *options):
    command = [str(PROGRAM), "ui", str(storage), "--no-open", *map(str, options)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=os.environ.copy(), **pipes) as process:
        try:
            yield Served(process)
        finally:
            process.kill()
