"""Each query of the dashboard and of the alerts, asked of a real Prometheus that reads a real system's metrics."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.places.s3_server import free_ports

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "k8s" / "monitoring"
PACKAGES = Path(sys.prefix) / "metrics"
BINARIES = Path(sys.prefix) / "prometheus" / "usr" / "bin"
PATIENCE_S = 240.0

pytestmark = pytest.mark.skipif(
    not (PACKAGES.is_dir() and BINARIES.is_dir()), reason="scripts/ensure-metrics says what is missing"
)


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["spec"]["groups"]
    return list(group["rules"])


def panels() -> list[tuple[str, str]]:
    found = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    return [(panel["title"], target["expr"]) for panel in found for target in panel["targets"]]


def selectors(query: str) -> set[str]:
    """What is asked for, without thresholds and the past."""
    return set(re.findall(r"ray_rayshot_\w+(?:\{[^}]*\})?", query))


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that reads the metrics of a busy bank."""
    folder = tmp_path_factory.mktemp("prometheus")
    path = os.pathsep.join([str(PACKAGES), str(ROOT)])
    bank = subprocess.Popen(
        [sys.executable, "-m", "tests.metrics.busy_bank", str(folder / "shots")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert bank.stdout is not None
        address = bank.stdout.readline().strip()
        assert address, bank.wait()
        yield from _running(folder, address)
    finally:
        bank.communicate(timeout=60)


def _running(folder: Path, address: str) -> Iterator[str]:
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "ray", "static_configs": [{"targets": [address]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    [port] = free_ports(1)
    server = subprocess.Popen(
        [
            BINARIES / "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def ask(prometheus: str, query: str) -> list[Any]:
    address = f"{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
            return found
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
            return []  # it reads its own data first
        pytest.fail(f"{query}: {error.read().decode()}")
    except (ConnectionError, urllib.error.URLError):
        return []  # it starts


def test_every_query_has_a_sample(prometheus: str) -> None:
    queries = {expr.replace("$system", "bank") for _, expr in panels()}
    queries |= {selector for rule in rules() for selector in selectors(rule["expr"])}
    deadline = time.monotonic() + PATIENCE_S
    while queries and time.monotonic() < deadline:
        queries = {query for query in queries if not ask(prometheus, query)}
        time.sleep(1)
    assert queries == set()


def test_the_alerts_fire_when_they_should_and_not_else(tmp_path: Path) -> None:
    spec = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["spec"]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(spec))
    story = Path(__file__).with_name("alerts.yml").read_text()
    (tmp_path / "alerts.yml").write_text(story)
    tested = {one["alertname"] for group in yaml.safe_load(story)["tests"] for one in group["alert_rule_test"]}
    assert tested == {rule["alert"] for rule in rules()}
    command = [BINARIES / "promtool", "test", "rules", tmp_path / "alerts.yml"]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_no_series_is_of_one_actor(prometheus: str) -> None:
    found = ask(prometheus, '{__name__=~"ray_rayshot_.*"}')
    assert not [one for one in found if "alice" in json.dumps(one["metric"])]
