"""How a program finds its Ray cluster, checks that it can reach it, and connects.

Ray silently takes one of several local clusters, starts one if none runs, and tries a dead address for a minute while
it prints its own lines. So this module checks an address before Ray gets it.
"""

import atexit
import json
import logging
import os
import re
import secrets
import shutil
import socket
import ssl
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import ray
from ray.exceptions import RpcError
from ray.util.client import ray as client

from rayshot.errors import ClusterRefused, ClusterUnreachable, ConfigError
from rayshot.runtime.door import private_names
from rayshot.runtime.door.private_names import (
    PRINT,
    UNIMPLEMENTED,
    AuthenticationError,
    GcsNodeInfo,
    InnerGcsClient,
    asks_for_token,
    canonical_address,
    check_version_info,
    compute_version_info,
    has_token,
    in_folder,
    last_address,
    local_control_services,
    local_node_ids,
    parse_address,
    show_token,
)
from rayshot.runtime.door.ray_tls import HOW_TLS, OWN_REFUSED, encrypt, speaks_tls, uses_tls

OWN_MEMORY_BYTES = 128 << 20
ENDING_S, LOOK_S, QUIET_LOOKS = 10.0, 0.2, 5
"""Seconds that the processes of an own cluster may take to end; seconds between looks at their files; how many looks in
a row must find the files gone."""
ANSWER_S = 3.0
"""Seconds to wait for a control service; a living one answers in milliseconds."""
AUTO: Final = "auto"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""The opening of HTTP/2 and empty settings. A server that speaks HTTP/2 answers with its own settings."""
_FRAME_LENGTH, _SETTINGS = 9, 4
_RAYS_LINE = re.compile(r"^\[\d{4}-\d\d-\d\d [\d:,]+ \w \d+ \d+\] ")
_aside = threading.Lock()
HOW = "give the address of a head, host:port, as `address` or --address, or set RAY_ADDRESS"


def connect(address: str | None = None, *, quietly: bool = False) -> str:
    """Connect this process to a running cluster, unless it is connected. Returns the address of its control service.

    Never starts a cluster.

    Args:
        address: host:port of a head. None or "auto" for the address in RAY_ADDRESS, else the only cluster of this
            machine.
        quietly: True prints nothing of what Ray tells a program about its workers.

    Raises:
        ClusterUnreachable: no cluster answers. ClusterRefused: a cluster answers, but refuses this program as it is.
        ConfigError: several clusters run on this machine, or this process is connected to another one.
    """
    refuse_client()
    if quietly:
        private_names.replace(PRINT, _drop)  # `log_to_driver` does not stop the lines of its control service
    wanted = (address if address not in (None, AUTO) else os.environ.get("RAY_ADDRESS")) or AUTO
    if ray.is_initialized():
        return _check_same(None if address in (None, AUTO) else address)
    where = _only_local() if wanted == AUTO else _canonical(wanted)
    _greet(where)
    _examine(where, found_here=wanted == AUTO)
    try:
        with _without_rays_lines():
            ray.init(where, logging_level=logging.ERROR if quietly else logging.WARNING, log_to_driver=not quietly)
    except (ConnectionError, RuntimeError, RpcError, ValueError) as error:
        raise ClusterUnreachable(
            f"the Ray cluster at {where} cannot be joined: {_line(error)}", address=where
        ) from error
    return where


def join_or_start() -> None:
    """Call `ray.init()` if nobody has.

    Raises ClusterUnreachable or ClusterRefused if RAY_ADDRESS leads nowhere, or the cluster that was started last on
    this machine, which `ray.init()` joins, does not let this program in; ClusterRefused also if a cluster of its own
    cannot have a token.
    """
    refuse_client()
    if ray.is_initialized():
        return
    wanted = os.environ.get("RAY_ADDRESS")
    if wanted not in (None, "", AUTO, "local"):
        connect()
        return
    if wanted != "local" and (last := last_address(None)) is not None:
        _greet(where := _canonical(last))  # Ray itself would try for 20 s, and not say what is wrong
        _examine(where, found_here=True)
    try:
        ray.init(include_dashboard=False, logging_level=logging.WARNING)
    except AuthenticationError as error:
        raise ClusterRefused(
            "RAY_AUTH_MODE=token asks for a token, and this program finds none that can be read: set RAY_AUTH_TOKEN, "
            "or mend or unset RAY_AUTH_TOKEN_PATH; or set RAY_AUTH_MODE=disabled"
        ) from error


def _drop(*_: Any, **__: Any) -> None:
    pass


def disconnect() -> None:
    """Leave the cluster, which may be gone. After this, the process can connect to another one."""
    with _without_rays_lines():
        ray.shutdown()


@contextmanager
def own_cluster(cpus: int) -> Iterator[None]:
    """Run a small cluster on this machine for this program only, without output; at the end, end everything in it.

    Its files are removed when the program ends. It never joins or ends a running cluster, whatever RAY_ADDRESS says.

    Raises:
        ClusterUnreachable: Ray does not start.
    """
    private_names.replace(PRINT, _drop)
    folder = f"/tmp/rayshot-own-{secrets.token_hex(4)}"  # noqa: S108 - a short path: it holds sockets
    atexit.register(_remove, folder)  # registered now, so it runs after Ray has ended what did not start
    os.mkdir(folder, 0o700)  # noqa: PTH102 - as text, as Ray wants it
    try:
        _start(cpus, folder)
        yield
    finally:
        disconnect()


def _remove(folder: str) -> None:
    """Remove the folder for good: processes that are still ending may make it again and write into it."""
    deadline, quiet = time.monotonic() + ENDING_S, 0
    while quiet < QUIET_LOOKS and time.monotonic() < deadline:
        quiet = 0 if os.path.lexists(folder) else quiet + 1
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(LOOK_S)


def _start(cpus: int, folder: str) -> None:
    try:
        with _without_rays_lines():
            ray.init(
                "local",
                num_cpus=cpus,
                object_store_memory=OWN_MEMORY_BYTES,
                include_dashboard=False,
                logging_level=logging.ERROR,
                log_to_driver=False,
                **in_folder(folder),
            )
    except Exception as error:  # Ray raises a plain Exception for a time-out
        raise ClusterUnreachable(f"Ray does not start on this machine: {_line(error)}") from error


def connected_to() -> str:
    """The address of the cluster to which this process is connected."""
    return str(ray.get_runtime_context().gcs_address)


def refuse_client() -> None:
    """Raise ClusterRefused if this process reaches its cluster through Ray Client."""
    if client.is_connected():
        raise _client_refused("ray://...")


def is_alive(where: str) -> bool:
    """Whether a control service answers at the address `where`, or may: on a busy machine it answers late."""
    try:
        return _is_settings(_hear(where))
    except (TimeoutError, ClusterRefused):
        return True
    except (OSError, ClusterUnreachable):
        return False


def _check_same(address: str | None) -> str:
    here = connected_to()
    _greet(here)
    if address is not None and _canonical(address) != here:
        raise ConfigError(
            f"this program is connected to the Ray cluster at {here}, not to {address}: call ray.shutdown() first, or "
            f"leave the address out"
        )
    return here


# Which ---------------------------------------------------------------------------------------------------------------


def _canonical(address: str) -> str:
    """The address as Ray writes it. Raises ClusterRefused for an address of Ray Client; ConfigError for other forms."""
    scheme, has_scheme, _ = address.partition("://")
    if has_scheme and scheme == "ray":
        raise _client_refused(address)
    parsed = None if has_scheme or not address.strip() else parse_address(address)
    if parsed is None or not _is_port(parsed[1]):
        door = "the address of a dashboard, for `ray job submit`, not" if scheme in ("http", "https") else "not"
        raise ConfigError(f"{address!r} is {door} the address of a Ray head: {HOW}, such as 10.0.0.5:6379")
    return str(canonical_address(address))


def _is_port(text: str) -> bool:
    return text.isdecimal() and 0 < int(text) <= 0xFFFF  # noqa: PLR2004 - the largest port


def _client_refused(address: str) -> ClusterRefused:
    return ClusterRefused(
        f"{address} is Ray Client, over which no rayshot system can be reached: set RAY_ADDRESS to host:port of the "
        f"head (port 6379) on a node of the cluster, or run this with `ray job submit`",
        address=address,
    )


def _only_local() -> str:
    """The only cluster that runs on this machine. Raises ClusterUnreachable if none does, ConfigError if several do."""
    found = local_control_services()
    if (last := last_address(None)) is not None:
        found.add(last)  # a container may see the folder of Ray but not its processes
    living = sorted(filter(is_alive, {_canonical(one) for one in found}))
    if not living:
        raise ClusterUnreachable(f"no Ray cluster runs on this machine: {HOW}")
    if len(living) > 1:
        raise ConfigError(f"{len(living)} Ray clusters run on this machine, at {', '.join(living)}: {HOW}")
    return living[0]


# Whether -------------------------------------------------------------------------------------------------------------


def _greet(where: str) -> None:
    """Raise ClusterUnreachable if nothing answers, or what answers is not a control service of Ray; ClusterRefused."""
    try:
        said = _hear(where)
    except TimeoutError:
        raise ClusterUnreachable(
            f"no Ray cluster answers at {where} within {ANSWER_S:g} s: is its head stopped, or a firewall between? "
            f"Or {HOW}",
            address=where,
        ) from None
    except OSError as error:
        raise ClusterUnreachable(
            f"no Ray cluster runs at {where} ({error.strerror or error}): start it, or {HOW}", address=where
        ) from None
    if not _is_settings(said):
        raise _no_control_service(where)


def _hear(where: str) -> bytes:
    """What answers our greeting there. Raises OSError if nothing does; ClusterRefused if only one of us uses TLS."""
    host, port = parse_address(where) or ("", "")
    with socket.create_connection((host, int(port)), ANSWER_S) as wire:
        wire.settimeout(ANSWER_S)
        said = _said_encrypted(wire, where) if uses_tls() else _said(wire)
    if not said:  # a head that uses TLS also says nothing
        with socket.create_connection((host, int(port)), ANSWER_S) as wire:
            wire.settimeout(ANSWER_S)
            _refuse_tls(wire, where)
    return said


def _is_settings(said: bytes) -> bool:
    return said[3:4] == bytes([_SETTINGS])


def _said(wire: socket.socket) -> bytes:
    """The first bytes of the other end's answer to our greeting; empty if it closes the connection."""
    wire.sendall(_GREETING)
    return wire.recv(_FRAME_LENGTH)


def _refuse_tls(wire: socket.socket, where: str) -> None:
    if speaks_tls(wire):
        raise ClusterRefused(f"what runs at {where} speaks TLS, and this program does not: {HOW_TLS}", address=where)


def _said_encrypted(wire: socket.socket, where: str) -> bytes:
    with encrypt(wire, where) as encrypted:
        try:
            said = _said(encrypted)
        except (ssl.SSLError, ConnectionError):
            said = b""
    if not said:
        raise ClusterRefused(OWN_REFUSED.format(where), address=where)
    return said


def _no_control_service(where: str) -> ClusterUnreachable:
    return ClusterUnreachable(
        f"what answers at {where} is not a Ray head: its port is that of `ray start --head --port`, 6379 by default",
        address=where,
    )


def _examine(where: str, *, found_here: bool) -> None:
    """Ask the control service what `ray.init` would ask. Raises ClusterUnreachable, ClusterRefused."""
    if asks_for_token() and not has_token():
        raise _token_refused(where)  # Ray would end this process
    try:
        metadata, nodes = _ask(where)
    except AuthenticationError as error:
        if not found_here or "RAY_AUTH_MODE" in os.environ or not has_token():
            raise _token_refused(where) from error
        show_token()  # as `ray.init` does for a cluster that it finds on this machine
        try:
            metadata, nodes = _ask(where)
        except AuthenticationError as again:
            raise _token_refused(where) from again
    _check_versions(where, metadata)
    living = {node.node_id.hex() for node in nodes.values() if node.state == GcsNodeInfo.ALIVE}
    if living.isdisjoint(local_node_ids()):
        raise ClusterUnreachable(
            f"no node of the Ray cluster at {where} runs on this machine, and a program can join it only there: run "
            f"this on a node of it (kubectl exec), or with `ray job submit`",
            address=where,
        )


def _ask(where: str) -> tuple[bytes | None, dict[Any, Any]]:
    """The cluster's metadata and its nodes."""
    try:
        with _without_rays_lines():
            client = InnerGcsClient.standalone(where, cluster_id=None, timeout_ms=int(ANSWER_S * 1000))
            return client.internal_kv_get(b"CLUSTER_METADATA", b"cluster", ANSWER_S), client.get_all_node_info(ANSWER_S)
    except RpcError as error:
        if error.rpc_code == UNIMPLEMENTED:
            raise _no_control_service(where) from error
        raise ClusterUnreachable(
            f"the Ray cluster at {where} gives no answer: {_line(error)}", address=where
        ) from error


def _token_refused(where: str) -> ClusterRefused:
    if not asks_for_token():
        said = "asks for a token, and this program shows none: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or"
    elif not has_token():
        said = "is to get a token, and this program finds none that can be read: set RAY_AUTH_TOKEN or"
    else:
        said = "refuses this program's token: set RAY_AUTH_TOKEN or"
    return ClusterRefused(
        f"the Ray cluster at {where} {said} RAY_AUTH_TOKEN_PATH to the cluster's own, which `ray get-auth-token` "
        "prints on its head",
        address=where,
    )


def _check_versions(where: str, metadata: bytes | None) -> None:
    if metadata is None:
        return
    theirs = json.loads(metadata)
    try:
        check_version_info(theirs, "this machine")
    except RuntimeError:
        ours = compute_version_info()
        raise ClusterRefused(
            f"the Ray cluster at {where} runs Ray {theirs['ray_version']} on Python {theirs['python_version']}, this "
            f"program Ray {ours[0]} on Python {ours[1]}: run it in an environment with the cluster's versions",
            address=where,
        ) from None


def _line(error: Exception) -> str:
    """The text of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _without_rays_lines() -> Iterator[None]:
    """Drop the lines that Ray's libraries write to stderr inside the block. Other lines are written after the block."""
    if sys.stderr is None:  # the program was started without stderr: file descriptor 2 may be another file by now
        yield
        return
    with _aside:  # with two at once, the second would restore the temporary file of the first
        try:
            own = os.dup(2)
        except OSError:  # stderr is closed
            yield
            return
        sys.stderr.flush()
        yield from _kept_aside(own)


def _kept_aside(own: int) -> Iterator[None]:
    with warnings.catch_warnings(), tempfile.TemporaryFile() as kept:
        warnings.simplefilter("ignore", FutureWarning)  # some releases of Ray have a tip for each program that joins
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(own, 2)
            os.close(own)
            kept.seek(0)
            lines = kept.read().decode(errors="replace").splitlines(keepends=True)
            os.write(2, "".join(line for line in lines if not _RAYS_LINE.match(line)).encode())
