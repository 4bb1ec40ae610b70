"""Keys as texts in files, and their names: read with a bound, written for their owner, over no other."""

import contextlib
import hashlib
import os
import secrets
from pathlib import Path

from rayshot.errors import ConfigError

KEYS_BYTES_MAX = 1 << 20
"""The largest variable or file of keys."""

KEYS_MAX = 1_000
KEY_ID_DIGITS = 32
PRIVATE_MODE, PUBLIC_MODE = 0o600, 0o644


def key_id_of(domain: str, secret: bytes) -> str:
    """The name of a key, a hash of it: two keys never share a name, and a name tells nothing about its key."""
    return hashlib.sha256(f"rayshot {domain} key id\0".encode() + secret).hexdigest()[:KEY_ID_DIGITS]


def read_text(path: Path, said: str = "") -> bytes:
    """The bytes of a file of keys. Errors begin with `said`. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            text = file.read(KEYS_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{said}{path}, which cannot be read: {error.strerror}") from error
    return bounded(text, str(path))


def lines_of(text: bytes, source: str) -> list[bytes]:
    """The lines of a list of keys, without empty lines and comments (`#`). Raises ConfigError."""
    lines = [line for line in map(bytes.strip, text.splitlines()) if line and not line.startswith(b"#")]
    if len(lines) > KEYS_MAX:
        raise ConfigError(f"{source} holds {len(lines)} keys; the limit is {KEYS_MAX}")
    return lines


def create_file(path: Path, text: str, mode: int) -> None:
    """Write `text` into a new file with this mode, whole or not at all. Raises FileExistsError and OSError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:  # noqa: PTH123
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(temporary)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    _sync_folder(path.parent)


def bounded(text: bytes, source: str) -> bytes:
    """`text`, or ConfigError if it is larger than KEYS_BYTES_MAX."""
    if len(text) > KEYS_BYTES_MAX:
        raise ConfigError(f"{source} holds more than the {KEYS_BYTES_MAX} bytes that keys may take")
    return text


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
