"""`python -m tests.simulation`: plays of actors that ask, wait in queues, loop, and do much at once, by volume."""

import sys
import traceback
from collections import Counter

import click

from tests.simulation import asking_bank, at_once_play, gate_play, loop_play, queue_play

PLAYS = {
    "asking": asking_bank.play,
    "queues": queue_play.play,
    "loops": loop_play.play,
    "at-once": at_once_play.play,
    "gates": gate_play.play,
}
TOLD_MAX = 3
"""So many plays that went wrong are told in full."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(PLAYS)))
@click.option("--schedules", type=click.IntRange(1), default=1000, show_default=True, help="How many of each.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The seed of the first one.")
def main(names: tuple[str, ...], schedules: int, seed: int) -> None:
    """Run the plays NAMES, all without any, in one process; print what happened in them, and which were bad."""
    bad = 0
    for name in names or PLAYS:
        counts, failed = Counter(), []
        for number in range(seed, seed + schedules):
            try:
                counts.update(PLAYS[name](number))
            except Exception:  # noqa: BLE001 - whatever a play raises, the next one is run
                failed.append(number)
                if len(failed) <= TOLD_MAX:
                    click.echo(f"{name}, seed {number}:\n{traceback.format_exc()}", err=True)
        told = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
        click.echo(f"{name}: {schedules:,} schedules, {told}; {len(failed)} bad {failed[:20] or ''}")
        bad += len(failed)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
