"""Where the key that signs manifests comes from: the environment, a file, or on local storage one made at first use."""

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rayshot.errors import ConfigError

KEY_VARIABLE = "RAYSHOT_SIGNING_KEY"
FILE_VARIABLE = "RAYSHOT_SIGNING_KEY_FILE"
SECRET_BYTES_MIN = 32
SECRET_BYTES_MAX = 64 << 10
_ID_DOMAIN = b"rayshot signing key id\0"
_ID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A secret of SECRET_BYTES_MIN to SECRET_BYTES_MAX bytes that never shows in a repr.

    `key_id` follows from the secret by a hash, so that two secrets never share one and nobody chooses it.
    """

    secret: bytes = field(repr=False)
    key_id: str = field(init=False)

    def __post_init__(self) -> None:
        if not SECRET_BYTES_MIN <= len(self.secret) <= SECRET_BYTES_MAX:
            raise ConfigError(
                f"a signing key has {len(self.secret)} bytes; use {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}, "
                "for example what `openssl rand -hex 32` prints"
            )
        digest = hashlib.sha256(_ID_DOMAIN + self.secret).hexdigest()
        object.__setattr__(self, "key_id", digest[:_ID_DIGITS])


def load_key(*, local: bool) -> SigningKey:
    """The key to sign with: KEY_VARIABLE, else the file that FILE_VARIABLE names, else the user's own.

    The user's own is made at first use, and only for `local` storage: a key that lived on a lost node would make the
    snapshots in a shared storage useless. Raises ConfigError where there is no key or it cannot be read; no message
    holds a secret.
    """
    key = find_key()
    if key is not None and (local or _is_given(os.environ)):
        return key
    if not local:
        raise ConfigError(
            f"this storage outlives the machine, so its signing key must be given: set {KEY_VARIABLE} to at least "
            f"{SECRET_BYTES_MIN} characters, or {FILE_VARIABLE} to a file that holds them"
        )
    path = key_path()
    _create(path)
    return _read_own(path)


def find_key() -> SigningKey | None:
    """The key that `load_key` would find, or None; makes nothing. Raises ConfigError for one that is not usable."""
    if KEY_VARIABLE in os.environ:
        return _key(os.fsencode(os.environ[KEY_VARIABLE]), KEY_VARIABLE)
    if FILE_VARIABLE in os.environ:
        return _read(Path(os.environ[FILE_VARIABLE]), f"{FILE_VARIABLE} names ")
    path = key_path()
    return _read_own(path) if path.exists() else None


def key_path() -> Path:
    """Where the user's own key lies, whether it exists or not."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        folder = Path(configured) if Path(configured).is_absolute() else Path.home() / ".config"
    except RuntimeError as error:
        raise ConfigError(f"there is no home folder for a signing key: set {KEY_VARIABLE}") from error
    return folder / "rayshot" / "signing.key"


def _is_given(environment: Mapping[str, str]) -> bool:
    return KEY_VARIABLE in environment or FILE_VARIABLE in environment


def _key(text: bytes, source: str) -> SigningKey:
    try:
        return SigningKey(text.strip())
    except ConfigError as error:
        raise ConfigError(f"{source}: {error.message}") from error


def _read(path: Path, said: str = "") -> SigningKey:
    try:
        with path.open("rb") as file:
            text = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{said}{path}, which cannot be read: {error.strerror}") from error
    return _key(text, str(path))


def _read_own(path: Path) -> SigningKey:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise ConfigError(f"the signing key {path} cannot be read: {error.strerror}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"others may use the signing key {path} (mode {mode:o}): run `chmod 600 {path}`")
    return _read(path)


def _create(path: Path) -> None:
    """Put a new key at `path`, whole or not at all; where another process was faster, its key stays."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            _write_private(temporary, f"{secrets.token_hex(SECRET_BYTES_MIN)}\n".encode())
            with contextlib.suppress(FileExistsError):
                path.hardlink_to(temporary)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as error:
        raise ConfigError(
            f"a signing key cannot be made at {path}: {error.strerror}; set {KEY_VARIABLE} instead"
        ) from error


def _write_private(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:  # noqa: PTH123
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
