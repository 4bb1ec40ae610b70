"""All that rayshot uses of Ray and Ray does not promise: private names, and public ones that not each release has.

No other module says such a name; a test looks for them. Each row has its path, what rayshot does with it, since when
Ray has it (2.50 for older ones too: rayshot knows no older release), and the way without it. No lookup fails here: who
uses a name that this Ray lacks gets an error that says so. `check_ray` is called before anything else of this room is
loaded, and refuses a Ray that lacks what rayshot cannot do without. `lacking` says what is lost without the others, for
`rayshot doctor`.
"""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from rayshot.errors import UnsupportedVersion

OLDEST, MAJOR = (2, 50), 2
"""The oldest release of Ray that rayshot runs on, and the only major one."""
HOW = f"pip install 'ray>={OLDEST[0]}.{OLDEST[1]},<{MAJOR + 1}'"

try:
    import ray
except ModuleNotFoundError as error:
    if error.name != "ray":
        raise
    raise UnsupportedVersion(
        f"a system runs on Ray, and Ray is not installed here: {HOW}. To read snapshots, nobody needs it", ray=None
    ) from None


class PrivateName(NamedTuple):
    """One row.

    Without it there is a way: `instead` says which, or `lost` says what users lose on a Ray that lacks it. If both are
    empty, rayshot cannot work without it.
    """

    path: str
    since: str
    use: str
    instead: str = ""
    lost: str = ""


ROWS: list[PrivateName] = []
_lacking: list[PrivateName] = []


class _Lacking:
    """Stands for what this Ray does not have."""

    def __init__(self, row: PrivateName) -> None:
        self._row = row

    def __bool__(self) -> bool:
        return False

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise _refused(self._row)


def _row(path: str, use: str, since: str = "2.50", *, instead: str = "", lost: str = "") -> Any:
    """Note a row. Returns what has this path, or what stands for it: that is false, and raises when it is called."""
    row = PrivateName(path, since, use, instead, lost)
    ROWS.append(row)
    owner, _, name = path.rpartition(".")
    try:
        return getattr(_at(owner), name)
    except (ImportError, AttributeError):
        _lacking.append(row)
        return _Lacking(row)


def _at(path: str) -> Any:
    """What has this path: a module, or something in one."""
    try:
        return import_module(path)
    except ModuleNotFoundError:
        owner, _, name = path.rpartition(".")
        if not owner:
            raise
        return getattr(_at(owner), name)


def _behaviour(path: str, since: str, use: str, *, instead: str = "", lost: str = "") -> PrivateName:
    """Note a row for what no name shows: Ray does it from that release on."""
    row = PrivateName(path, since, use, instead, lost)
    ROWS.append(row)
    if _release(ray.__version__) < _release(since):
        _lacking.append(row)
    return row


def _release(version: str) -> tuple[int, int]:
    """The major and minor number; the oldest release that fits for a version without any."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else OLDEST


def _error(path: str, use: str, since: str, *, instead: str = "", lost: str = "") -> Any:
    """As `_row`, for a class of errors. Where Ray lacks it, nothing raises what stands for it, but `door` may."""
    found = _row(path, use, since, instead=instead, lost=lost)
    return found or type(path.rpartition(".")[2], (ValueError, ray.exceptions.RayError), {})


def replace(path: str, value: Any) -> None:
    """Put `value` in the place of what a row names."""
    assert any(row.path == path for row in ROWS), path
    owner, _, name = path.rpartition(".")
    setattr(_at(owner), name, value)


# Clusters, and how a program joins one -------------------------------------------------------------------------------

parse_address = _row("ray._common.network_utils.parse_address", "host and port of an address, as Ray reads them")
canonical_address = _row(
    "ray._private.services.canonicalize_bootstrap_address", "the address of a cluster as Ray itself writes it"
)
last_address = _row("ray._private.services.find_bootstrap_address", "the cluster that was started last on this machine")
_found_by_flag = _row(
    "ray._private.services._find_address_from_flag", "what runs on this machine, by the arguments of Ray's processes"
)
InnerGcsClient = _row("ray._raylet.InnerGcsClient", "asks a control service before Ray joins it, which would wait long")
UNIMPLEMENTED = _row("ray._raylet.GRPC_STATUS_CODE_UNIMPLEMENTED", "what another server than Ray's answers to it")
GcsNodeInfo = _row("ray.core.generated.gcs_pb2.GcsNodeInfo", "which nodes of a cluster live")
check_version_info = _row("ray._private.utils.check_version_info", "whether a cluster has our versions")
compute_version_info = _row("ray._private.utils.compute_version_info", "our versions, to say them")
PRINT = "ray._private.worker.print_to_stdstream"
_row(PRINT, "commands print no lines of workers between their own", lost="commands print lines of workers too")
global_worker = _row("ray._private.worker.global_worker", "whether this process is connected, and to which cluster")
_after_joining = _row("ray._private.worker._post_init_hooks", "a program that joins a cluster again learns of it")

# Tokens --------------------------------------------------------------------------------------------------------------

_TOKENS = "Ray has no tokens: anybody who reaches a port of the cluster can run programs in it"
AuthenticationError = _error("ray.exceptions.AuthenticationError", "a cluster refuses our token", "2.52", lost=_TOKENS)
_mode = _row("ray._raylet.get_authentication_mode", "whether Ray asks for a token here", "2.52", lost=_TOKENS)
_modes = _row("ray._raylet.AuthenticationMode", "the modes to compare that with", "2.52", lost=_TOKENS)
_tokens = _row("ray._raylet.AuthenticationTokenLoader", "whether this program finds a token", "2.52", lost=_TOKENS)
show_token = _row(
    "ray._private.authentication.authentication_token_setup._enable_token_auth",
    "a program shows its token to a cluster of this machine that asks for one, though no variable says so",
    "2.60",
    lost="a program shows its token only if RAY_AUTH_MODE=token is set",
)

# Calls and objects ---------------------------------------------------------------------------------------------------

_row("ray.ObjectRef._on_completed", "tells of an answer on one of Ray's threads, so that nobody waits for it")
_ready = _row(
    "ray.ObjectRef._on_ready",
    "tells that an object is ready, and fetches nothing",
    "2.60",
    instead="a thread looks 50 times a second, see `readiness`",
)
unpack_buffers = _row(
    UNPACK := "ray._private.serialization.unpack_pickle5_buffers",
    "which memory of the object store an actor reads: a fork must keep it",
)
ActorAlreadyExistsError = _error(
    "ray.exceptions.ActorAlreadyExistsError",
    "two programs begin one system: the second one attaches",
    "2.53",
    instead="the same is told from the words of a ValueError",
)
object_locations = _row("ray.experimental.get_local_object_locations", "how large an object is, without fetching it")
note_put = _row("ray.experimental.internal_kv._internal_kv_put", "notes for a coordinator that is started again")
note_get = _row("ray.experimental.internal_kv._internal_kv_get", "the same, to read")
note_list = _row("ray.experimental.internal_kv._internal_kv_list", "the same, to find")
note_del = _row("ray.experimental.internal_kv._internal_kv_del", "the same, to remove")

_DEATHS = _behaviour(
    "ray.ObjectRef._on_completed(OwnerDiedError)",
    "2.51",
    "who waits for an object is told within seconds that the owner of the object is dead",
    instead="a coordinator asks once a second whether the drivers live",
    lost="who waits for an object whose owner was killed waits a minute more, with `ray.get` too",
)
_STOPPED = _behaviour(
    "ray.kill(no_restart=False)",
    "2.52",
    "a coordinator or vault that stands still, as a stopped process does, is ended and begun again",
    lost="a coordinator or vault that stands still is not begun again before somebody kills its process",
)

# Actors and their handles --------------------------------------------------------------------------------------------

_row("ray.actor.ActorHandle._actor_id", "which actor a handle is for")
_row("ray.actor.ActorHandle._actor_method_call", "methods that were got from the handle of an actor that is gone")
make_handle = _row(
    "ray.actor.ActorHandle._deserialization_helper", "handles of plain actors in states; their pickles call it"
)
SerializedHandle = _row(
    "ray.core.generated.core_worker_pb2.ActorHandle", "who was meant by such a handle, for readers without Ray"
)
LOG_NAME = _row(
    "ray._private.ray_constants.LOG_PREFIX_ACTOR_NAME",
    "an actor's own repr before its lines in the log",
    lost="lines in the log begin with Ray's name of the actor",
)
actors = _row("ray._private.state.actors", "which actors Ray starts anew, and which are in the making")
draining_nodes = _row("ray._private.state.state.get_draining_nodes", "nodes that Ray will remove: actors leave them")
WorkerTableData = _row("ray.core.generated.gcs_pb2.WorkerTableData", "whether the process of a driver lives")
_state = _row("ray._private.state.state", "asks the control service for that")
_accessor = _row(
    "ray._private.state.state._connect_and_get_accessor",
    "the connection that asks it",
    "2.52",
    instead="two names that Ray had before it",
)

# Classes that are pickled by value -----------------------------------------------------------------------------------

TABLES = ("_DYNAMIC_CLASS_TRACKER_BY_ID", "_DYNAMIC_CLASS_TRACKER_BY_CLASS", "_DYNAMIC_CLASS_TRACKER_LOCK")
"""The tables of classes of cloudpickle, and of Ray's copy of it, which rayshot makes one; see `class_tables`."""
ARGUMENTS, REDUCE, LOOK_UP = "_class_getnewargs", "_class_reduce", "_lookup_class_or_track"
for _name in (*TABLES, ARGUMENTS, REDUCE, LOOK_UP):
    _row(f"ray.cloudpickle.cloudpickle.{_name}", "a class of a script is one class for rayshot and for Ray")

# Metrics -------------------------------------------------------------------------------------------------------------

METRICS_PORT = "MetricsAgentPort"
_NODE = PrivateName(
    f"ray.nodes()[...][{METRICS_PORT!r}]",
    "2.53",
    "whether Ray exports metrics on a node, or drops them",
    lost="nobody is told that Ray drops the metrics on a node",
)
ROWS.append(_NODE)
if GcsNodeInfo and "metrics_agent_port" not in GcsNodeInfo.DESCRIPTOR.fields_by_name:
    _lacking.append(_NODE)


def in_folder(folder: str) -> dict[str, Any]:
    """Arguments of `ray.init` for a cluster of one's own, which has its files in a folder."""
    return {"_temp_dir": folder, "_system_config": {"worker_niceness": 0}}  # somebody waits for its workers


def local_control_services() -> set[str]:
    """The addresses of the clusters that have a process on this machine."""
    return set(_found_by_flag("--gcs-address"))


def local_node_ids() -> set[str]:
    """The ids of the nodes of this machine, in hex."""
    return set(_found_by_flag("--node_id"))


def asks_for_token() -> bool:
    """Whether Ray in this process shows a token, and asks for one."""
    return bool(_mode) and bool(_mode() == _modes.TOKEN)


def has_token() -> bool:
    """Whether this program finds a token that can be read."""
    if not _tokens:
        return False
    try:
        return bool(_tokens.instance().has_token(ignore_auth_mode=True))
    except AuthenticationError:  # the file for the token cannot be read, or is empty
        return False


def when_joined(tell: Callable[[], None]) -> None:
    """Call `tell` each time that this process has joined a cluster."""
    _after_joining.append(tell)


def cluster_id() -> str:
    """The id of the cluster of this process, in hex."""
    found: str = global_worker.current_cluster_and_job[0].hex()
    return found


def on_completed(reference: Any, tell: Callable[[Any], None]) -> None:
    """Call `tell` on one of Ray's threads, with the value, or with the error that Ray has instead."""
    reference._on_completed(tell)


def on_ready(reference: Any, tell: Callable[[Any], None]) -> None:
    """As `on_completed`, but fetches nothing: `tell` gets None or the error. Not in each release: see `tells_ready`."""
    reference._on_ready(tell)


def tells_ready() -> bool:
    """Whether Ray has `on_ready`."""
    return bool(_ready)


def tells_of_owners_at_once() -> bool:
    """Whether an object fails within seconds when the process that owns it dies, and not a minute later."""
    return _DEATHS not in _lacking


def ends_stopped() -> bool:
    """Whether a process that stands still is ended, and begun again, when Ray is asked for that."""
    return _STOPPED not in _lacking


def id_of(handle: Any) -> Any:
    """Which actor a handle of Ray's is for."""
    return handle._actor_id


def call(handle: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """What a method that was got from a handle of Ray's does when it is called."""
    return handle._actor_method_call(method, *args, **kwargs)


def accessor() -> Any:
    """The connection to the control service that knows of processes. Raises an error of Ray's if there is none."""
    if _accessor:
        return _state._connect_and_get_accessor()
    _state._check_connected()
    return _state.global_state_accessor


# Whether this Ray is fit ---------------------------------------------------------------------------------------------


def check_ray(version: str = ray.__version__) -> None:
    """Raise UnsupportedVersion if Ray is too old or too new, or lacks a name that rayshot cannot do without.

    A nightly build of Ray, which calls itself 3.0.0.dev0, is taken for the newest release.
    """
    release = _release(version)
    if release < OLDEST or (release[0] > MAJOR and "dev" not in version):
        raise UnsupportedVersion(
            f"Ray {version} is installed, and this rayshot runs on Ray {OLDEST[0]}.{OLDEST[1]} or newer, below "
            f"{MAJOR + 1}: {HOW}",
            ray=version,
        )
    for row in _lacking:
        if not (row.instead or row.lost):
            raise _refused(row)


def lacking() -> list[str]:
    """What users lose on this Ray, in sentences; a release that has all names gives none."""
    return list(dict.fromkeys(f"{row.lost} (not from Ray {row.since} on)" for row in _lacking if row.lost))


def _refused(row: PrivateName) -> UnsupportedVersion:
    return UnsupportedVersion(
        f"Ray {ray.__version__} has no {row.path}, which rayshot needs ({row.use}): install a release of Ray that "
        f"`rayshot help support` names, with {HOW}",
        ray=ray.__version__,
        name=row.path,
    )
