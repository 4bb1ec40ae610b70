"""For all tests: a signing key of their own, never the user's; the count of acceptance cases."""

import logging
import os
import signal
import tempfile
from pathlib import Path

import pytest
import ray
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from tests import durations, wide
from tests.acceptance import AcceptancePlugin, cases, in_full

__all__ = ["cases", "in_full"]  # fixtures
SHARED = {
    "volume": ("tests/simulation/test_simulation_replay.py", "tests/simulation/test_simulation_schedules.py"),
    "spark": ("tests/spark/",),
}
"""Fixtures of the session that take a minute of a processor to make, or a JVM, and who asks for them."""

settings.register_profile("rayshot", deadline=None, derandomize=True)
settings.load_profile("rayshot")  # no test asserts a time, and each run tries the same


def pytest_addoption(parser):
    parser.addoption(wide.PART_OF, metavar="COMMIT", help="only a tenth of the tests, chosen by the id of a commit")


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell began this in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # else programs of tests would ignore Ctrl-C too
    config.pluginmanager.register(AcceptancePlugin(), "rayshot-acceptance")
    config.pluginmanager.register(wide, "rayshot-wide")


def pytest_collection_modifyitems(items):
    """The longest come first. The short ones behind them fill up what time is left to each process."""
    units = {file: unit_of(file) for file in map(file_of, items)}
    order = {unit: place for place, unit in enumerate(durations.longest_first(units, durations.recorded()))}
    items.sort(key=lambda item: order[units[file_of(item)]])


def file_of(item):
    return item.nodeid.partition("::")[0]


def unit_of(file):
    return next((fixture for fixture, sharing in SHARED.items() if file.startswith(sharing)), file)


class FilesAndFixtures(LoadFileScheduling):
    """Where several processes share the tests, each file stays in one, and all files that share a dear fixture."""

    def _split_scope(self, nodeid):
        return unit_of(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return FilesAndFixtures(config, log)


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory):
    """Keys made by tests lie in a folder that goes away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        for name in ("SIGNING_KEY", "TRUSTED_KEYS", "ENCRYPTION_KEY"):
            patch.delenv(f"RAYSHOT_{name}", raising=False)
            patch.delenv(f"RAYSHOT_{name}_FILE", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def quickly_compiled_spark():
    """Spark's JVM leaves the second compiler out, which pays after minutes and takes a third of the time until then.

    One thread collects its garbage: more have to be started, and take the processors from the tests.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", prepend=" ")
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_workers():
    """Ray's workers are forked from one that has imported Ray and rayshot: see tests/forks."""
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="rayshot-forks-") as folder,  # a short path: it holds sockets
    ):
        patch.setenv("RAYSHOT_FORKS", folder)
        patch.setenv("PYTHONPATH", str(Path(__file__).parent / "forks"), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session", autouse=True)
def workers_as_nice_as_others():
    """Ray puts its workers at a nice value of 15: beside what else runs on two cores, one took a minute to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        yield


@pytest.fixture(scope="session", autouse=True)
def own_ray_folder():
    """Ray keeps here which cluster runs: without a folder of its own, a test may join one that is not its own."""
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(
            prefix="rs-", dir="/tmp", ignore_cleanup_errors=True
        ) as folder,  # short: it holds sockets
    ):
        patch.setenv("RAY_TMPDIR", folder)
        yield


@pytest.fixture(scope="session")
def cluster(own_ray_folder):
    """A local cluster, ended with everything in it."""
    ray.init("local", num_cpus=32, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    yield
    ray.shutdown()
