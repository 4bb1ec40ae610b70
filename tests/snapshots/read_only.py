"""Folders that cannot be written: really mounted read-only, or so that no right is needed to make them so."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _mount(*arguments: object) -> None:
    """Mount something; skip the test where that is not allowed. The variant with loops runs everywhere."""
    done = subprocess.run(["mount", *map(str, arguments)], check=False, capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.decode().strip()}")


@contextmanager
def view_of(folder: Path, there: Path) -> Iterator[Path]:
    """`folder` once more, read-only: what is changed in it shows `there`, as on a file server."""
    there.mkdir()
    _mount("--bind", folder, there)
    try:
        _mount("-o", "remount,ro,bind", there)
        yield there
    finally:
        subprocess.run(["umount", str(there)], check=True)


@contextmanager
def disk(there: Path) -> Iterator[Path]:
    """A disk of its own."""
    there.mkdir()
    _mount("-t", "tmpfs", "-o", "size=64m", "tmpfs", there)
    try:
        yield there
    finally:
        subprocess.run(["umount", str(there)], check=True)


@contextmanager
def remounted(there: Path) -> Iterator[None]:
    """Inside, that disk is read-only."""
    _mount("-o", "remount,ro", there)
    try:
        yield
    finally:
        _mount("-o", "remount,rw", there)


@contextmanager
def looped(folder: Path) -> Iterator[None]:
    """Inside, whatever is done in `folder` fails, as it is a symbolic link to itself; what was in it comes back."""
    away = folder.with_name(f".{folder.name}")
    folder.mkdir(exist_ok=True)
    folder.rename(away)
    folder.symlink_to(folder)
    try:
        yield
    finally:
        folder.unlink()
        away.rename(folder)
