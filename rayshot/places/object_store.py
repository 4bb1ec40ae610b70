"""Object storage as a store: S3 and compatible servers, Google Cloud Storage, Azure Blob Storage.

Only this file uses obstore. Three facts shape it. An obstore client of a parent process hangs for ever in a forked
child, so a child refuses to use one. A pickled client would hold its secret, so a store is pickled as its address, and
each process finds the credentials in its own environment. A write whose answer is lost looks like a write that came too
late, so AlreadyExists alone proves nothing (see `create_once`).
"""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rayshot.errors import AlreadyExists, KeyNotFound, StoreUnavailable, UnsafePath
from rayshot.places.address import Address, Options
from rayshot.places.object_failure import failure, is_behind_the_end
from rayshot.places.store import Bytes, Data, Entry, buffers, check_key, is_key, prove_create_only, size_bytes

if TYPE_CHECKING:
    from obstore.store import AzureConfig, AzureStore, ClientConfig, GCSStore, RetryConfig, S3Config, S3Store

PAGE_ENTRIES = 1000
UPLOAD_BYTES_MIN, UPLOADS_MAX = 16 << 20, 9_000
"""A large file is sent in requests of so many bytes, and of more if it would take more requests than servers allow."""
_VARIABLES = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
"""The prefix of the environment variables that configure the client of each cloud."""

_BACKOFF_MAX = timedelta(seconds=5)


class _Process:
    """Whether this process has used obstore, and whether its parent had before the fork."""

    used = False
    forked = False


def _forked() -> None:
    _Process.forked = _Process.used


os.register_at_fork(after_in_child=_forked)


class ObjectStore:
    """The store at `address`. Only its verbs use the network."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._client: S3Store | GCSStore | AzureStore | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStore, (self.address,)

    @property
    def url(self) -> str:
        """The address with its options; no secret is part of it."""
        return self.address.url

    def create(self, key: str, data: Data) -> None:
        """See Store.create. It uses one request, however large, because only one request can be conditional."""
        with self._translated(check_key(key), size_bytes(data)):
            client = self._connected()
            if self.address.options.allow_unfenced:
                self._create_unfenced(key, data)
            else:
                client.put(key, buffers(data), mode="create", use_multipart=False)

    def read(self, key: str) -> bytes:
        """See Store.read."""
        with self._translated(check_key(key)):
            return bytes(self._connected().get(key).bytes())

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See Store.read_range."""
        from obstore.exceptions import BaseError  # noqa: PLC0415 - a heavy import, only for users of a cloud

        with self._translated(check_key(key)):
            client = self._connected()
            if length <= 0:
                client.head(key)
                return b""
            try:
                answer = client.get(key, options={"range": (start, start + length)})
                content = bytes(answer.bytes())
            except BaseError as error:
                if is_behind_the_end(error):
                    return b""
                raise
        expected = max(min(answer.meta["size"] - start, length), 0)
        if len(content) != expected:
            raise StoreUnavailable(
                f"{self.address.place}/{key} was answered with {len(content):,} bytes instead of {expected:,}", key=key
            )
        return content

    def list(self, prefix: str = "", *, after: str = "", shallow: bool = False) -> Iterator[Entry]:
        """See Store.list.

        It sorts itself, because not every server sorts by whole keys. It applies `after` itself, because a server with
        folders would skip the folder of that key.
        """
        folder = check_key(prefix) if prefix else None
        with self._translated(prefix):
            entries = list(self._list_shallow(folder) if shallow else self._list_all(folder))
        return iter(sorted((entry for entry in entries if entry.key > after), key=lambda entry: entry.key))

    def delete(self, key: str) -> None:
        """See Store.delete."""
        try:
            with self._translated(check_key(key)):
                self._connected().delete(key)
        except KeyNotFound:
            return

    def check(self) -> None:
        """See Store.check."""
        prove_create_only(self)

    def adopt(self, folder: str) -> None:
        """See Store.adopt. What an object storage has accepted is durable."""
        with self._translated(check_key(folder)):
            for page in self._connected().list(folder, chunk_size=PAGE_ENTRIES):
                for found in page:
                    if not is_key(found["path"]):
                        raise UnsafePath(
                            f"{self.address.place}/{found['path']!r} has a name that rayshot does not take: give the "
                            "file another",
                            path=found["path"],
                        )

    def write(self, key: str, parts: Iterable[Bytes], size: int) -> None:
        """See Store.write."""
        upload_bytes = max(UPLOAD_BYTES_MIN, size // UPLOADS_MAX)
        with self._translated(check_key(key), size):
            self._connected().put(key, iter(parts), use_multipart=True, chunk_size=upload_bytes, max_concurrency=2)

    def clear(self, folder: str) -> None:
        """See Store.clear."""
        with self._translated(check_key(folder)):
            client = self._connected()
            for page in client.list(folder, chunk_size=PAGE_ENTRIES):
                client.delete([found["path"] for found in page])

    def _create_unfenced(self, key: str, data: Data) -> None:
        """Refuse a key that is taken. It cannot see that another writer takes it at the same moment."""
        client = self._connected()
        try:
            client.head(key)
        except FileNotFoundError:
            client.put(key, buffers(data), use_multipart=False)
        else:
            raise AlreadyExists(f"{self.address.place}/{key} exists already", key=key)

    def _list_all(self, folder: str | None) -> Iterator[Entry]:
        for page in self._connected().list(folder, chunk_size=PAGE_ENTRIES):
            for found in page:
                if is_key(found["path"]):
                    yield Entry(found["path"], found["size"], found["last_modified"].timestamp())

    def _list_shallow(self, folder: str | None) -> Iterator[Entry]:
        found = self._connected().list_with_delimiter(folder)
        for name in found["common_prefixes"]:
            if is_key(name):
                yield Entry(f"{name}/", 0, 0.0)
        for one in found["objects"]:
            if is_key(one["path"]):
                yield Entry(one["path"], one["size"], one["last_modified"].timestamp())

    def _connected(self) -> "S3Store | GCSStore | AzureStore":
        """The client, made at first use."""
        if _Process.forked:
            raise StoreUnavailable(
                f"{self.address.place} cannot be used in a forked child of a process that had used it", key=""
            )
        with self._lock:
            if self._client is None:
                _Process.used = True
                self._client = _connect(self.address)
            return self._client

    @contextmanager
    def _translated(self, key: str, size: int = 0) -> Iterator[None]:
        """Turn what obstore raises inside into our errors."""
        from obstore.exceptions import BaseError  # noqa: PLC0415 - as above

        try:
            yield
        except (BaseError, OSError) as error:
            raise failure(error, self.address, key, size) from None  # its text may show signatures
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # no module exports this class by name
                raise
            raise StoreUnavailable(
                f"{self.address.place}: the client for this storage broke down; look for what is neither an address "
                f"nor a key in the environment variables that begin with {_VARIABLES[self.address.cloud]}"
            ) from None


def _check_environment(cloud: str) -> None:
    """Refuse a key that holds the end of its line, because the client would break down."""
    for name, value in sorted(os.environ.items()):
        if cloud != "gs" and name.startswith(_VARIABLES[cloud]) and not value.isprintable():  # gs: whole documents
            raise StoreUnavailable(f"the environment variable {name} holds a line break or other control characters")


def _connect(address: Address) -> "S3Store | GCSStore | AzureStore":
    """A client for `address`, with the credentials of this process's environment; connects to nothing yet."""
    _check_environment(address.cloud)
    from obstore.store import AzureStore, GCSStore, S3Store  # noqa: PLC0415 - as above

    options = address.options
    client: ClientConfig = {
        "connect_timeout": timedelta(seconds=options.connect_timeout_s),
        "timeout": timedelta(seconds=options.timeout_s),
    }
    if options.endpoint is not None and options.endpoint.startswith("http://"):
        client["allow_http"] = True
    retry: RetryConfig = {
        "max_retries": options.retries,
        "retry_timeout": timedelta(seconds=options.timeout_s),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": _BACKOFF_MAX, "base": 2},
    }
    prefix = address.prefix or None
    match address.cloud:
        case "s3":
            return S3Store(
                address.bucket, prefix=prefix, config=_s3(options), client_options=client, retry_config=retry
            )
        case "gs":
            return GCSStore(address.bucket, prefix=prefix, client_options=client, retry_config=retry)
        case _:
            azure: AzureConfig = {}
            if options.account is not None:
                azure["account_name"] = options.account
            if options.endpoint is not None:
                azure["endpoint"] = options.endpoint
            return AzureStore(address.bucket, prefix=prefix, config=azure, client_options=client, retry_config=retry)


def _s3(options: Options) -> "S3Config":
    config: S3Config = {
        "virtual_hosted_style_request": not options.path_style,
        "disable_bulk_delete": True,
        "conditional_put": "etag",  # or AWS_CONDITIONAL_PUT in the environment could turn it off
    }
    if options.region is not None:
        config["region"] = options.region
    if options.endpoint is not None:
        config["endpoint"] = options.endpoint
        config["aws_endpoint_url_s3"] = options.endpoint  # or one in the environment would be preferred
    return config
