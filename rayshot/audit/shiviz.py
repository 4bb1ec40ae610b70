"""A trace as a log that ShiViz (https://bestchai.bitbucket.io/shiviz/) draws as a space-time diagram."""

import json
from collections.abc import Iterator

from rayshot.audit.computation import Computation, describe

PARSER = r"(?<host>\S+) (?<clock>\{.*?\}) (?<event>.*)"
"""The regular expression that ShiViz is to be given for these lines."""


def shiviz(computation: Computation) -> Iterator[str]:
    """One line an event: host, vector clock as JSON, event. Hosts that a clock leaves out stand at 0 in it."""
    for step in computation.steps():
        clock = {actor: count for actor, count in zip(computation.actors, step.clock, strict=True) if count}
        yield f"{step.actor} {json.dumps(clock)} {describe(step.event)}"
