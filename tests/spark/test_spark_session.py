import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyspark_rayshot.session import local_session
from rayshot.errors import ConfigError

ROOT = Path(__file__).parents[2]


def fake_java(folder: Path, says: str, code: int = 0) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    java.chmod(0o755)
    return folder


def test_a_missing_java_is_one_line_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ConfigError, match=r"needs Java 17 or newer and there is no java on the PATH: install"
    ) as caught:
        local_session("none")
    assert "openjdk-17" in caught.value.message
    assert "\n" not in caught.value.message
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=f"no java in JAVA_HOME={tmp_path}"):
        local_session("none")


@pytest.mark.parametrize(
    ("says", "code", "complaint"),
    [
        ('openjdk version "11.0.2" 2019-01-15', 0, "is Java 11"),
        ('java version "1.8.0_381"', 0, "is Java 8"),
        ("cannot execute", 1, "does not run"),
    ],
)
def test_a_java_that_is_too_old_or_broken_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, code: int, complaint: str
) -> None:
    home = fake_java(tmp_path / "jdk", says, code)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(ConfigError, match=f"{home}/bin/java {complaint}"):
        local_session("none")


def test_a_jvm_that_does_not_start_shows_what_it_wrote(tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    fake_java(home, 'openjdk version "17.0.1"')
    (home / "bin" / "java").write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' >&2 && exit 0\necho no room >&2\nexit 3\n'
    )
    program = (
        "from pyspark_rayshot import local_session\n"
        "from rayshot.errors import ConfigError\n"
        "try:\n    local_session('none')\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "integrations")])
    ended = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "JAVA_HOME": str(home)},
    )
    assert ended.stdout.startswith("Spark did not start: ")
    assert "no room" in ended.stdout
    assert ended.stderr == ""


@pytest.mark.spark
def test_a_session_is_quiet_local_and_runs_this_python(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert local_session("again") is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.pythonExec == sys.executable
    assert spark.sparkContext.uiWebUrl is None
    assert spark.range(10).count() == 10
    assert capfd.readouterr().err == ""
