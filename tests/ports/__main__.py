"""`python -m tests.ports [part of a name ...]`: what rayshot does with each behaviour, as a table."""

import collections
import logging
import sys
import tempfile
from pathlib import Path

import ray

from tests.ports.all_behaviours import BEHAVIOURS
from tests.ports.worlds import Worlds, judge, seen


def main(wanted: list[str]) -> None:
    """Run the behaviours whose name or group has one of these words in it, or all."""
    ray.init("local", num_cpus=32, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        worlds = Worlds(Path(folder))
        for behaviour in BEHAVIOURS:
            if wanted and not any(word in f"{behaviour.group}.{behaviour.name}" for word in wanted):
                continue
            plain, outcome = worlds.run(behaviour)
            told, why = seen(behaviour, plain, outcome), judge(behaviour, plain, outcome)
            counts[told] += 1
            print(f"{behaviour.kind:8} {told:20} {behaviour.group}.{behaviour.name}", flush=True)
            if why:
                print(f"    NOT SO: {why[:600]}", flush=True)
        worlds.close()
    print(dict(counts))
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
