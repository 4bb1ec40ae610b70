"""Has a fork take the place of each Ray worker that starts; see parent.py.

Python imports this module first of all in each process that has this folder in its PYTHONPATH, so that it imports as
little as it can itself.
"""

import os
import sys

TRIES, PAUSE_S = 1_000, 0.02
UNUSED = ("/log_monitor.py", "/autoscaler/_private/monitor.py")
"""Daemons of Ray that the tests do not need: they only wait for their end."""


def hand_over() -> None:
    """Where this is a Ray worker, live as long as the fork that does its work; without a parent, do it oneself.

    A daemon that is not needed does not come back from here.
    """
    script = next((place for place, argument in enumerate(sys.orig_argv) if argument.endswith(".py")), 0)
    folder = os.environ.get("RAYSHOT_FORKS")
    if folder is None:
        return
    if sys.orig_argv[script].endswith(UNUSED):
        import _signal

        _signal.pause()
    if not sys.orig_argv[script].endswith("/default_worker.py"):
        return
    import _socket
    import array
    import marshal
    import time

    address = f"{folder}/{life(os.environ['RAY_RAYLET_PID'])}"
    start_parent(address)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    for _ in range(TRIES):
        try:
            connection.connect(address)
            break
        except FileNotFoundError:  # it is still importing
            time.sleep(PAUSE_S)
        except OSError:  # it has ended
            return
    else:
        return
    request = marshal.dumps((sys.orig_argv[script:], dict(os.environ), os.getcwd(), os.getpid()))  # noqa: PTH109
    files = array.array("i", [0, 1, 2])
    connection.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
    connection.sendall(request)
    if connection.recv(1) == b"y":
        connection.recv(1)  # nothing comes, but the end of the fork
        os._exit(0)


def life(pid: str) -> str:
    """What no other process of this machine is called, also not an earlier one with this pid."""
    with open(f"/proc/{pid}/stat") as facts:  # noqa: PTH123
        began = facts.read().rpartition(")")[2].split()[19]
    return f"{pid}-{began}"


def start_parent(address: str) -> None:
    """Start the process that forks for this cluster, unless another worker has."""
    try:
        os.close(os.open(f"{address}.starting", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if os.fork() == 0:
        os.setpgid(0, 0)  # a raylet ends a worker with its whole group
        parent = f"{os.path.dirname(__file__)}/parent.py"  # noqa: PTH120
        os.execv(sys.executable, [sys.executable, parent, address])


hand_over()
