"""`python -m examples.flights`: see the package."""

import argparse
import logging
import sys
from pathlib import Path

from examples.flights.demo import Disproved, Plan, run

INTERRUPTED = 130
"""What shells say of a program that ended by Ctrl-C."""


def main() -> int:
    """Run the demo; 1 where it disproves what it set out to prove, INTERRUPTED after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description="Photograph the sky.")
    parser.add_argument("--rows", type=_positive, help="replay only so many rows of the file; all 336,776 by default")
    parser.add_argument("--airports", type=_positive, default=30, help="how many airports are actors of their own")
    parser.add_argument("--storage", type=Path, default=Path("shots"), help="where snapshots go; ./shots by default")
    parser.add_argument("--seed", type=int, default=2013, help="chooses which airports are killed")
    given = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    try:
        run(Plan(given.rows, given.airports, given.storage, given.seed))
    except Disproved as error:
        print(f"DISPROVED: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: nothing is proved", file=sys.stderr)
        return INTERRUPTED
    return 0


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return number


if __name__ == "__main__":
    sys.exit(main())
