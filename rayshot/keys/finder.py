"""Finds keys: in the environment, in files, or for local storage a signing key that is made at first use.

One key signs: that of SIGNING_VARIABLE, or of the file that SIGNING_VARIABLE_FILE names. Readers accept it, and any
number of other keys, one a line, in TRUSTED_VARIABLE or the file that TRUSTED_VARIABLE_FILE names. To rotate a key,
sign with a new one and list the old one (of a pair, its public key). To retire a key, remove it from the list.

In ENCRYPTION_VARIABLE, or its file, the key of the first line encrypts new snapshots; all keys decrypt. To rotate a
key, put a new one above it. Remove a key when the last snapshot that needs it is gone.
"""

import contextlib
import os
import stat
from pathlib import Path

from rayshot.errors import ConfigError
from rayshot.keys.encryption import EncryptionKey, parse_encryption_keys
from rayshot.keys.files import PRIVATE_MODE, bounded, create_file, lines_of, read_text
from rayshot.keys.signing import PrivateKey, Prover, PublicKey, Signer, SigningKey, new_secret, parse_key

SIGNING_VARIABLE = "RAYSHOT_SIGNING_KEY"
TRUSTED_VARIABLE = "RAYSHOT_TRUSTED_KEYS"
ENCRYPTION_VARIABLE = "RAYSHOT_ENCRYPTION_KEY"


def load_key(*, local: bool) -> Signer:
    """The key to sign with: of SIGNING_VARIABLE, else of its file, else the user's own.

    The user's own key is made at first use, and only for `local` storage. If a shared storage depended on a key on one
    node, the loss of the node would make its snapshots useless. Raises ConfigError if there is no key or it cannot be
    read; no message holds a secret.
    """
    key = find_key()
    if key is not None and (local or SIGNING_VARIABLE in os.environ or _file(SIGNING_VARIABLE) in os.environ):
        return key
    if not local:
        raise ConfigError(
            f"this storage outlives the machine, so its signing key must be given: set {SIGNING_VARIABLE}, or "
            f"{_file(SIGNING_VARIABLE)} to a file that holds it, to what `rayshot keygen` makes"
        )
    path = key_path()
    _create(path)
    return _read_own(path)


def find_key() -> Signer | None:
    """The key that `load_key` would find, or None. It makes no key. Raises ConfigError for an unusable key."""
    found = _given(SIGNING_VARIABLE)
    if found is not None:
        return _signer(*found)
    path = key_path()
    return _read_own(path) if path.exists() else None


def find_trusted_keys() -> tuple[Prover, ...]:
    """The trusted keys: the key of `find_key`, and all keys of TRUSTED_VARIABLE.

    Raises ConfigError for an unusable key. A private key in the list is refused, because readers do not need it.
    """
    own = find_key()
    found = _given(TRUSTED_VARIABLE)
    listed = [] if found is None else [_prover(line, found[1]) for line in lines_of(*found)]
    return tuple(dict.fromkeys([*([] if own is None else [own.public]), *listed]))


def key_path() -> Path:
    """The path of the user's own key, which need not exist."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        folder = Path(configured) if Path(configured).is_absolute() else Path.home() / ".config"
    except RuntimeError as error:
        raise ConfigError(f"there is no home folder for a signing key: set {SIGNING_VARIABLE}") from error
    return folder / "rayshot" / "signing.key"


def find_encryption_keys() -> tuple[EncryptionKey, ...]:
    """The keys in this process's environment, the encrypting one first; none if none is set.

    Raises ConfigError for a malformed key; the message never repeats it.
    """
    found = _given(ENCRYPTION_VARIABLE)
    return () if found is None else parse_encryption_keys(*found)


def _given(variable: str) -> tuple[bytes, str] | None:
    """The bytes of `variable`, or of the file that `_file` names, and their source in words.

    None if neither is set. Raises ConfigError for a file that cannot be read, or for more than KEYS_BYTES_MAX.
    """
    if variable in os.environ:
        return bounded(os.fsencode(os.environ[variable]), variable), variable
    file_variable = _file(variable)
    if file_variable in os.environ:
        path = Path(os.environ[file_variable])
        return read_text(path, f"{file_variable} names "), str(path)
    return None


def _parse(text: bytes, source: str) -> SigningKey | PrivateKey | PublicKey:
    try:
        return parse_key(text)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error.message}") from error


def _signer(text: bytes, source: str) -> Signer:
    key = _parse(text, source)
    if isinstance(key, PublicKey):
        raise ConfigError(
            f"{source} holds a public key, which cannot sign: "
            f"sign with the private key, and give readers the public key as {TRUSTED_VARIABLE}"
        )
    return key


def _prover(text: bytes, source: str) -> Prover:
    key = _parse(text, source)
    if isinstance(key, PrivateKey):
        raise ConfigError(f"{source} holds a private key, which only the signer should have: list its public key")
    return key


def _read_own(path: Path) -> Signer:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise ConfigError(f"the signing key {path} cannot be read: {error.strerror}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"others may use the signing key {path} (mode {mode:o}): run `chmod 600 {path}`")
    return _signer(read_text(path), str(path))


def _create(path: Path) -> None:
    """Write a new key to `path`, whole or not at all. If another process was faster, its key stays."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            create_file(path, f"{new_secret()}\n", PRIVATE_MODE)
    except OSError as error:
        raise ConfigError(
            f"a signing key cannot be made at {path}: {error.strerror}; set {SIGNING_VARIABLE} instead"
        ) from error


def _file(variable: str) -> str:
    """The variable that names a file with what the other one would hold."""
    return f"{variable}_FILE"
