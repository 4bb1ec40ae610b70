"""A quiet Spark session on this machine, for demos, notebooks and tests."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from rayshot.errors import ConfigError

JAVA_VERSION_MIN = 17
JAVA_TIMEOUT_S = 30
STDERR_SHOWN_BYTES = 4096
_PACKAGES = ("rayshot", "pyspark_rayshot")
_LOGGING = Path(__file__).with_name("quiet-log4j2.properties")


def local_session(app_name: str) -> Any:
    """Start a SparkSession in this process's machine, or return the one that runs.

    Its workers are this Python and import rayshot and pyspark_rayshot from where this process has them. It hides what
    Spark's JVM writes to its standard error, unless Spark does not start. Sets
    PYSPARK_PYTHON and PYTHONPATH of this process, which Spark's workers inherit.

    Raises ConfigError in one line if Java 17 or newer is missing, or Spark does not start.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - workers, which never start one, import this module

    _check_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(_python_path())
    builder = SparkSession.builder.appName(app_name).master("local[*]")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    with _standard_error_aside() as noise:
        try:
            session = builder.getOrCreate()
        except RuntimeError as error:  # PySpark's own, when its JVM ends before it answers
            raise ConfigError(f"Spark did not start: {error}; its JVM wrote: {_tail(noise)}") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def _check_java() -> None:
    """Raise ConfigError unless the Java that Spark will run is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    found = f"no java in JAVA_HOME={home}" if home else "no java on the PATH"
    if java is not None:
        version = _java_version(java)
        if version >= JAVA_VERSION_MIN:
            return
        found = f"{java} is Java {version}" if version else f"{java} does not run"
    raise ConfigError(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer and there is {found}: install one "
        f"(apt install openjdk-{JAVA_VERSION_MIN}-jre-headless, brew install openjdk@{JAVA_VERSION_MIN}) "
        "and let JAVA_HOME or the PATH lead to it",
        java=java,
    )


def _java_version(java: str) -> int:
    """17 for a Java 17; 8 for "1.8.0"; 0 if Java does not say it."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own java
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match[1]) if match and answer.returncode == 0 else 0


def _python_path() -> list[str]:
    """PYTHONPATH, and before it the folders that rayshot's packages are in."""
    specs = [find_spec(package) for package in _PACKAGES]
    origins = [spec.origin for spec in specs if spec is not None and spec.origin is not None]
    folders = [str(Path(origin).resolve().parents[1]) for origin in origins]
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return list(dict.fromkeys([*folders, *given]))


@contextmanager
def _standard_error_aside() -> Iterator[IO[bytes]]:
    """Let processes that start now write their standard error into a file without a name, removed with the last one."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as noise:
        os.dup2(noise.fileno(), 2)
        try:
            yield noise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _tail(noise: IO[bytes]) -> str:
    noise.seek(max(0, noise.seek(0, os.SEEK_END) - STDERR_SHOWN_BYTES))
    return " ".join(noise.read().decode(errors="replace").split()) or "nothing"
