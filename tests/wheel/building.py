"""Builds what is published, from the sources as they are."""

import subprocess
import sys

from tests.processes import ROOT


def build(kind, folder, root=ROOT):
    """A `wheel` or an `sdist` of the project at `root`, in a new folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder]
    subprocess.run(command, cwd=root, capture_output=True, check=True, timeout=120)
    (built,) = folder.iterdir()
    return built
