"""A real system on the fake: its coordinator, hosts, vaults and drivers are rayshot's own; its storage is in memory."""

from itertools import count

import pytest

import rayshot
from rayshot.keys.signing import new_private_key
from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.places.kinds import open_store
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import coordinator_name
from rayshot.runtime.opening import from_snapshot
from rayshot.runtime.opening.start import start
from rayshot.runtime.opening.system import System
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.settings import SystemSettings

KEYRING = Keyring(new_private_key())
_numbers = count(1)


def new_storage():
    """The address of an empty storage."""
    return f"memory://fake-{next(_numbers)}"


def settings_of(name="bank", *, storage=None, snapshots=None, failure=None, **more):
    """Those of a system that takes snapshots only when it is asked to."""
    configs = snapshots or SnapshotConfig(), failure or FailureConfig()
    return SystemSettings(name, storage or new_storage(), KEYRING.names, *configs, **more)


def begin(name="bank", **settings):
    """Begin a system, as `rayshot.init` does; the program that acts now is its driver."""
    return System(start(settings_of(name, **settings), KEYRING))


def restore(storage, **settings):
    """Begin a life from a snapshot, as `rayshot.restore` does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_snapshot, "locate", lambda address: (address, open_store(address)))
        patch.setattr(from_snapshot, "load_keyring", lambda **_: KEYRING)
        patch.setattr(from_snapshot, "find_trusted_keys", lambda: (KEYRING.signing.public,))
        return rayshot.restore(storage=storage, **settings)


def read(handle):
    """What the method `read` of that actor returns."""
    return door.get(handle.read.remote())


def coordinator(cluster):
    """The process of the bank's; `run.instance` is the coordinator that works now."""
    return cluster.named[coordinator_name("bank")]


def actor(cluster, name):
    """The process of that actor, whatever life made it."""
    return next(one for key, one in cluster.named.items() if key.endswith(f"/actor/{name}") and one.works)


def process_of(cluster, name):
    """The parts of that actor's process, in its present life."""
    return actor(cluster, name).run.instance._process


def await_life(cluster, system, life):
    """Until that life runs."""

    def runs():
        now = system.status()
        assert now.state != "stopped", now.detail
        return (now.state, now.incarnation) == ("running", life)

    cluster.until(runs)


def await_stop(cluster, system):
    """Until it is stopped; returns why."""
    cluster.until(lambda: system.status().state == "stopped")
    return system.status().detail
