"""A plugin of pytest: writes down the first failure of a run, for who wants to know whether it notices a mistake."""

import json
import os
import re
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

import pytest
import ray
from hypothesis import Phase, settings

from rayshot.errors import RayshotError

FILE = "RAYSHOT_NOTICE"
"""The variable with the file to write."""
NOTICES = (AssertionError, pytest.fail.Exception, RayshotError, ray.exceptions.RayError, TimeoutError, TimeoutExpired)
"""An assertion of a test or of the code, also where the system reports it; and what a test waits for in vain."""
MISFITS = re.compile(r"\b(Type|Name|UnboundLocal|Attribute|Import|ModuleNotFound|Syntax|Indentation)Error\b")
"""Errors of an edit that does not go with the code around it: they say nothing of the tests."""


@pytest.hookimpl(trylast=True)  # the profile of the tests is loaded then
def pytest_configure() -> None:
    """Nobody reads an example, so hypothesis need not make it shorter, which takes minutes."""
    settings.register_profile("notice", settings.default, phases=(Phase.explicit, Phase.generate))
    settings.load_profile("notice")


@pytest.hookimpl(trylast=True)  # the tests' own order is that of a whole run: the longest files first
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The files in the order in which they are named."""
    places = {name.partition("::")[0]: place for place, name in enumerate(config.args)}
    items.sort(key=lambda item: places[item.nodeid.partition("::")[0]])


def pytest_exception_interact(node: Any, call: Any, report: Any) -> None:
    """A test or one of its fixtures failed."""
    file = Path(os.environ[FILE])
    if file.exists():
        return
    error = call.excinfo.value
    said = "\n".join(line for line in str(report.longrepr).splitlines() if line.startswith("E "))
    notices = all(isinstance(one, NOTICES) for one in _each(error)) and not MISFITS.search(said)
    last = said.splitlines()[0][2:].strip() if said else repr(error)
    file.write_text(json.dumps({"test": node.nodeid, "notices": notices, "error": f"{type(error).__name__}: {last}"}))


def _each(error: BaseException) -> list[BaseException]:
    """Hypothesis may find several failures at once."""
    return [one for of in error.exceptions for one in _each(of)] if isinstance(error, BaseExceptionGroup) else [error]
