"""A trace as a log that ShiViz (https://bestchai.bitbucket.io/shiviz/) draws as a space-time diagram."""

import json
from collections.abc import Iterator
from urllib.parse import quote

from rayshot.audit.computation import Computation, describe

PARSER = r"(?<host>\S+) (?<clock>\{.*?\}) (?<event>.*)"
"""The regular expression that ShiViz needs for these lines."""


def shiviz(computation: Computation) -> Iterator[str]:
    """One line for each event: host, vector clock as JSON, event. A clock leaves out hosts that stand at 0."""
    hosts = {actor: _host(actor) for actor in computation.actors}
    for step in computation.steps():
        clock = {hosts[actor]: count for actor, count in zip(computation.actors, step.clock, strict=True) if count}
        yield f"{hosts[step.actor]} {json.dumps(clock)} {describe(step.event)}"


def _host(actor: str) -> str:
    """The name, with unprintable characters and those at which the regular expression stops quoted as in a URL."""
    return "".join(char if char.isprintable() and char not in " %{}" else quote(char) for char in actor)
