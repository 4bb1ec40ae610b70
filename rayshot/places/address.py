"""Addresses of object storage: a bucket, a folder in it, and how to reach it. An address never holds a secret.

Addresses are passed to other processes and written into logs, so every reader may show them. Options follow a `?`:
`s3://bucket/shots?endpoint=http://127.0.0.1:8333`. So everything that takes an address takes options.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from rayshot.errors import ConfigError
from rayshot.format.suggestion import did_you_mean

CLOUDS = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
"""Scheme of an address -> the cloud it means: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_FOLDER = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_.=@+, -]{1,255}")
_NAME = re.compile(r"[a-z_]{1,32}")
_REGION = re.compile(r"[a-z0-9-]{1,64}")
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_ACCOUNT_HOST = re.compile(r"([a-z0-9]{3,24})\.(?:dfs|blob)\.core\.windows\.net")
_OPTIONS_MAX = 20
_TIMEOUT_MAX_S = 3600.0
_RETRIES_MAX = 20
_SECRET = re.compile(r"secret|key|token|password|credential|sas|sig|account_key", re.IGNORECASE)
_PREFIX_LENGTH_MAX = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to reach a bucket. An address shows only what differs from these defaults.

    `endpoint` is the server's http or https address, if it is not the cloud's own server. `region` (S3) and `account`
    (Azure) are the cloud's names. Without `path_style` the bucket's name is part of the host (S3). A connection takes
    at most `connect_timeout_s`, a call `timeout_s`. A failed call is tried again up to `retries` times, until
    `timeout_s` has passed. `allow_unfenced` allows a store without conditional create.
    """

    endpoint: str | None = None
    region: str | None = None
    account: str | None = None
    path_style: bool = True
    connect_timeout_s: float = 5.0
    timeout_s: float = 60.0
    retries: int = 3
    allow_unfenced: bool = False


_DEFAULTS = Options()
_ALWAYS = {"connect_timeout_s", "timeout_s", "retries", "allow_unfenced"}
_TAKEN = {
    "s3": {"endpoint", "region", "path_style", *_ALWAYS},
    "gs": _ALWAYS,
    "az": {"endpoint", "account", *_ALWAYS},
}


@dataclass(frozen=True, slots=True)
class Address:
    """The folder `prefix` (empty: the whole) in `bucket` (Azure: container) of `cloud`, one of CLOUDS' values."""

    cloud: str
    bucket: str
    prefix: str
    options: Options = _DEFAULTS

    @property
    def place(self) -> str:
        """The address without its options, for messages."""
        return f"{self.cloud}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    @property
    def url(self) -> str:
        """The whole address in its only spelling; `parse_address` reads it back."""
        changed = {
            name: _spell(getattr(self.options, name))
            for name in sorted(_TAKEN[self.cloud])
            if getattr(self.options, name) != getattr(_DEFAULTS, name)
        }
        return self.place + (f"?{urlencode(changed, safe=':/')}" if changed else "")


def parse_address(text: str) -> Address:
    """Read an address whose scheme is in CLOUDS.

    Raises ConfigError for anything else than a bucket, a folder and options of that cloud. Its message has one line and
    never repeats what may be a secret.
    """
    try:
        parts = urlsplit(text)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError as error:
        raise ConfigError("the storage address cannot be read: its options are written ?name=value&...") from error
    cloud = CLOUDS[parts.scheme]
    if parts.fragment:
        raise ConfigError(f"the {parts.scheme}:// address has a '#', which no part of it may contain")
    bucket, host = _bucket(parts)
    options = _options(cloud, pairs)
    if host:
        options.setdefault("account", host)
    prefix = parts.path.strip("/")
    if prefix and not (
        len(prefix) <= _PREFIX_LENGTH_MAX and all(_FOLDER.fullmatch(part) for part in prefix.split("/"))
    ):
        raise ConfigError(
            f"the folder in the {parts.scheme}:// address may hold letters, digits and _.=@+,- between single slashes"
        )
    return Address(cloud, bucket, prefix, Options(**options))


def _bucket(parts: SplitResult) -> tuple[str, str]:
    """The bucket, and the account if `abfss://container@account.dfs.core.windows.net` names one."""
    bucket, at, host = parts.netloc.partition("@")
    named = _ACCOUNT_HOST.fullmatch(host) if CLOUDS[parts.scheme] == "az" else None
    if not _BUCKET.fullmatch(bucket) or (at and not named):
        raise ConfigError(
            f"{parts.scheme}:// needs the name of a bucket and no user or port: {parts.scheme}://bucket/folder"
            + ("; credentials come from the environment" if at else ""),
            scheme=parts.scheme,
        )
    return bucket, named[1] if named else ""


def _options(cloud: str, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    taken = ", ".join(sorted(_TAKEN[cloud]))
    options: dict[str, Any] = {}
    for name, text in pairs[:_OPTIONS_MAX]:
        if name not in _TAKEN[cloud]:
            _refuse(cloud, name, taken)
        if name in options:
            raise ConfigError(f"the {cloud}:// address gives {name} twice", option=name)
        options[name] = _CHECKS[name](name, text)
    return options


def _refuse(cloud: str, name: str, taken: str) -> None:
    if _SECRET.search(name):
        raise ConfigError(
            f"a {cloud}:// address must not hold a secret, because rayshot shows and logs addresses: "
            "set it in the environment, as for the cloud's own tools",
            scheme=cloud,
        )
    shown = repr(name) if _NAME.fullmatch(name) else "(not repeated here)"
    raise ConfigError(
        f"{cloud}:// has no option {shown}; it takes {taken}{did_you_mean(name, _TAKEN[cloud])}", scheme=cloud
    )


def _endpoint(name: str, text: str) -> str:
    try:
        parts = urlsplit(text)
        sound = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound or not re.fullmatch(r"[A-Za-z0-9.:/_\[\]-]{1,255}", text):
        raise ConfigError(f"{name} must be like https://host:port, without user, password or query", option=name)
    return text.rstrip("/")


def _matching(pattern: re.Pattern[str], example: str) -> Callable[[str, str], str]:
    def check(name: str, text: str) -> str:
        if not pattern.fullmatch(text):
            raise ConfigError(f"{name} must be like {example}", option=name)
        return text

    return check


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _TIMEOUT_MAX_S:
        raise ConfigError(f"{name} must be seconds, above 0 and up to {_TIMEOUT_MAX_S:g}", option=name)
    return seconds


def _count(name: str, text: str) -> int:
    if text not in map(str, range(_RETRIES_MAX + 1)):
        raise ConfigError(f"{name} must be a number from 0 to {_RETRIES_MAX}", option=name)
    return int(text)


def _truth(name: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise ConfigError(f"{name} must be true or false", option=name)
    return text == "true"


_CHECKS: dict[str, Callable[[str, str], Any]] = {
    "endpoint": _endpoint,
    "region": _matching(_REGION, "eu-central-1"),
    "account": _matching(_ACCOUNT, "mystorageaccount"),
    "path_style": _truth,
    "connect_timeout_s": _seconds,
    "timeout_s": _seconds,
    "retries": _count,
    "allow_unfenced": _truth,
}
assert _CHECKS.keys() == {field.name for field in fields(Options)}


def _spell(option: object) -> str:
    match option:
        case bool():
            return str(option).lower()
        case float():
            return f"{option:g}"
        case _:
            return str(option)
