"""Environments of the engines: `python -m benchmarks.peers.environment [NAME ...]` makes those that are missing."""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "bytewax": ("bytewax==0.21.1",),
    "flink": ("apache-flink==2.3.0",),
    "spark": ("pyspark==4.3.0", "pandas<3", "pyarrow", "protobuf"),
    "pathway": ("pathway==0.33.0",),
}
FOLDER_VARIABLE = "RAYSHOT_PEERS"
"""Says where environments are; `.venv/peers` in this tree without it."""
_REFUSED = "not-installed"


def python_of(name: str) -> str | None:
    """The Python of an environment; None where it has not been made, or could not be. rayshot's is this one."""
    if name == "rayshot":
        return sys.executable
    python = _folder(name) / "bin" / "python"
    return str(python) if (_folder(name) / "ready").exists() else None


def why_not(name: str) -> str:
    """Why there is no environment of that name."""
    refused = _folder(name).with_suffix(f".{_REFUSED}")
    if refused.exists():
        return f"not installed: {refused.read_text(encoding='utf-8').strip()}"
    return "not installed: make peers"


def versions(name: str) -> str:
    """The engine and its version, as pip knows it."""
    package = PACKAGES[name][0].partition("==")[0]
    command = [str(_folder(name) / "bin" / "pip"), "list", "--format", "json", "--disable-pip-version-check"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return next(f"{entry['name']} {entry['version']}" for entry in listed if entry["name"] == package)


def make(name: str) -> bool:
    """Make an environment where there is none yet; says whether it is there. What pip said last is kept if not."""
    if python_of(name) is not None:
        return True
    folder = _folder(name)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    command = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *PACKAGES[name]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    refused = folder.with_suffix(f".{_REFUSED}")
    if done.returncode == 0:
        refused.unlink(missing_ok=True)
        (folder / "ready").touch()
        return True
    refused.write_text((done.stderr.strip().splitlines() or ["pip said nothing"])[-1], encoding="utf-8")
    shutil.rmtree(folder)
    return False


def _folder(name: str) -> Path:
    return Path(os.environ.get(FOLDER_VARIABLE) or ROOT / ".venv" / "peers") / name


def main(names: list[str]) -> None:
    """Make the environments of these names, or all."""
    for name in names or PACKAGES:
        print(f"== {name}: {'ready' if make(name) else why_not(name)}")


if __name__ == "__main__":
    main(sys.argv[1:])
