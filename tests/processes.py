"""Processes of the tests' own that are forked from a server which has only imported."""

import multiprocessing
import multiprocessing.forkserver

START = multiprocessing.get_context("forkserver")
"""Not plain forks: one of a process that had used a cloud could not use one."""

START.set_forkserver_preload(["tests.format.judge", "tests.store.victims"])  # in one place, as the last call counts


def end_server() -> None:
    """End the server; the next process starts another one."""
    multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]
