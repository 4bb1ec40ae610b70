"""Messages between a prover and who asks it: bytes behind their length, and the files that come with them."""

import socket
import struct

_LENGTH = struct.Struct(">I")
_FILES_MAX = 1


def send(connection: socket.socket, message: bytes, *files: int) -> None:
    """Send a message with open files. Raises OSError if the other end is gone."""
    head = _LENGTH.pack(len(message))
    sent = socket.send_fds(connection, [head], files) if files else connection.send(head)
    connection.sendall(head[sent:] + message)


def receive(connection: socket.socket) -> tuple[bytes, list[int]] | None:
    """The next message and its files; None if the other end is gone. Raises TimeoutError."""
    try:
        head, files, _, _ = socket.recv_fds(connection, _LENGTH.size, _FILES_MAX)
        head += _exactly(connection, _LENGTH.size - len(head))
        return _exactly(connection, _LENGTH.unpack(head)[0]), files
    except TimeoutError:
        raise
    except (OSError, EOFError):
        return None


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
