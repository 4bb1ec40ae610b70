"""From the address of a storage to the store. Only this module knows all kinds of stores."""

import os
import re
from dataclasses import replace
from urllib.parse import unquote, urlsplit

from rayshot.errors import ConfigError
from rayshot.places.address import CLOUDS, parse_address
from rayshot.places.local import LocalStore
from rayshot.places.memory import named_memory_store
from rayshot.places.object_store import ObjectStore
from rayshot.places.store import Store
from rayshot.protocol.identity import check_name

_SCHEME = re.compile(r"[A-Za-z0-9+.-]{1,20}")
SUPPORTED = (
    "a folder ('./shots', 'file:///data/shots'), a bucket ('s3://bucket/shots', 'gs://...', 'az://...') "
    "or 'memory://<name>'"
)


def open_store(url: str | os.PathLike[str]) -> Store:
    """Return the store at `url`.

    A folder or `file://<folder>`; `s3://`, `s3a://`, `gs://`, `az://`, `abfs://` or `abfss://` with a bucket, a folder
    in it and options (`rayshot help storage`); `memory://<name>` inside this process.

    Touches nothing: use `check` before writing. Raises ConfigError for an address that names no known kind of
    store; the message never repeats what may be a password in it.
    """
    text = os.fspath(url) if isinstance(url, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in unquote(text):
        raise ConfigError(f"a storage address is a path or a string, and not empty; give {SUPPORTED}")
    if "://" not in text:
        _refuse_half_address(text)
        return LocalStore(text)
    scheme, rest = text.split("://", 1)
    match scheme:
        case "file":
            return LocalStore(_folder(rest))
        case "memory":
            return named_memory_store(check_name(rest, "a memory store"))
        case _ if scheme in CLOUDS:
            return ObjectStore(parse_address(text))
        case _:
            kind = repr(scheme) if _SCHEME.fullmatch(scheme) else "(not repeated here)"
            raise ConfigError(f"rayshot does not support storage of the kind {kind}; give {SUPPORTED}")


def _refuse_half_address(text: str) -> None:
    """Raise if an address lost a slash, as in a Path: it would name a folder like `s3:`."""
    scheme = text.partition(":")[0].lower()
    if ":" in text and scheme in {*CLOUDS, "file", "memory"}:
        rest = {"file": "/folder", "memory": "name"}.get(scheme, "bucket/folder")
        raise ConfigError(
            f"{scheme}: without two slashes begins no storage address: write {scheme}://{rest}, as a text and not as a "
            f"Path, or ./{scheme}:... if a folder of that name is meant",
            scheme=scheme,
        )


def is_local(store: Store) -> bool:
    """Whether only this machine can reach `store`."""
    return urlsplit(store.url).scheme in {"file", "memory"}


def address_of(store: Store, key: str) -> str:
    """Where programs without rayshot find an object or a folder: a path, or an address without options."""
    parts = urlsplit(store.url)
    place = unquote(parts.path) if parts.scheme == "file" else f"{parts.scheme}://{parts.netloc}{parts.path}"
    return f"{place.rstrip('/')}/{key}"


def below(url: str, folder: str) -> str:
    """The address of a folder of letters and digits in a storage, with the same options. Raises ConfigError."""
    store = open_store(url)
    if isinstance(store, ObjectStore):
        return replace(store.address, prefix=f"{store.address.prefix}/{folder}".lstrip("/")).url
    return f"{store.url}-{folder}" if store.url.startswith("memory://") else f"{store.url.rstrip('/')}/{folder}"


def _folder(rest: str) -> str:
    """The path in a `file://` address, whose host must be empty or this one."""
    host, slash, path = rest.partition("/")
    if host not in {"", "localhost"} or not slash:
        raise ConfigError("a file address needs a whole path and names no host: file:///folder")
    return unquote(slash + path)
