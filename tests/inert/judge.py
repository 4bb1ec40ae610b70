"""Reads hostile bytes in a process of its own, within bounds of memory and processor time, and says what came of it."""

import json
import resource
from multiprocessing.connection import Connection

import numpy as np

from rayshot.errors import Damaged
from rayshot.inert.inert_object import short_repr
from rayshot.inert.jsonable import jsonable
from rayshot.inert.likeness import alike
from rayshot.inert.reader import read
from tests.processes import START

MEMORY_BYTES_MAX = 2 << 30
CPU_SECONDS_MAX = 30
REPR_MAX = 10_000
assert np  # imported here, once, for all who read arrays


def judged(stream: bytes) -> str:
    """The error's name, or "same" where the bytes are read and shown, twice alike; fails where the reader dies."""
    hear, tell = START.Pipe(duplex=False)
    process = START.Process(target=_judge, args=(stream, tell))
    process.start()
    tell.close()
    try:
        verdict = str(hear.recv())
    except EOFError:
        verdict = "it died"
    process.join()
    assert process.exitcode == 0, f"{verdict}: exit code {process.exitcode}"
    return verdict


def _judge(stream: bytes, answer: Connection) -> None:
    for limit, most in ((resource.RLIMIT_AS, MEMORY_BYTES_MAX), (resource.RLIMIT_CPU, CPU_SECONDS_MAX)):
        resource.setrlimit(limit, (most, most))
    try:
        one, other = read(stream), read(stream)
    except Damaged as error:
        answer.send(type(error).__name__)
        return
    json.dumps(jsonable(one))
    assert len(short_repr(one)) < REPR_MAX
    answer.send("same" if alike(one, other) else "different")
