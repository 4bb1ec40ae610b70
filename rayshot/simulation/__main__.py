"""`python -m rayshot.simulation --schedules N --seed S`: volume. Exit code 1 if a schedule failed."""

import argparse
import sys
import time
import traceback
from collections.abc import Sequence

from rayshot.simulation.schedule import Outcome, Summary, add, run_seed

WIDTH = 40
STORY_LINES = 60


def main(arguments: Sequence[str] | None = None) -> int:
    """Run schedules `seed` .. `seed + schedules - 1`; report on standard output, progress on standard error."""
    parser = argparse.ArgumentParser(prog="python -m rayshot.simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=2000, help="how many (default: 2000)")
    parser.add_argument("--seed", type=int, default=0, help="the first one's seed (default: 0)")
    options = parser.parse_args(arguments)
    summary, began = Summary(), time.perf_counter()
    for seed in range(options.seed, options.seed + options.schedules):
        add(summary, seed, run_seed(seed))
        show_progress(summary, options.schedules, time.perf_counter() - began)
    print(report(summary, time.perf_counter() - began, options.seed))  # noqa: T201 - a command's answer
    for seed, outcome in list(summary.failures.items())[:1]:
        print(tell(seed, run_seed(seed, tell=True)))  # noqa: T201 - a command's answer
        print(f"choices of seed {seed}: {list(outcome.choices)}")  # noqa: T201 - a command's answer
    return 1 if summary.failures else 0


def show_progress(summary: Summary, schedules: int, seconds: float) -> None:
    """Draw the bar anew, about a hundred times in all."""
    done = summary.schedules
    if done % max(1, schedules // 100) and done != schedules:
        return
    bar = "#" * (WIDTH * done // schedules)
    failures = f"  {len(summary.failures)} FAILED" if summary.failures else ""
    line = f"\r[{bar:<{WIDTH}}] {done:,}/{schedules:,}  {done / seconds:,.0f}/s{failures}"
    sys.stderr.write(line + ("\n" if done == schedules else ""))
    sys.stderr.flush()


def report(summary: Summary, seconds: float, seed: int) -> str:
    """All numbers of a run, one a line."""
    counts = summary.counts
    first = {
        "schedules": summary.schedules,
        "first seed": seed,
        "failed": len(summary.failures),
        "schedules a second": round(summary.schedules / seconds),
    }
    return "\n".join(f"{value:>12,}  {name}" for name, value in {**first, **dict(sorted(counts.items()))}.items())


def tell(seed: int, outcome: Outcome) -> str:
    """The end of a failed schedule's story, and why it failed."""
    assert outcome.failure is not None
    error = "".join(traceback.format_exception(outcome.failure))
    return "\n".join([f"seed {seed}: {outcome.settings}", *outcome.story[-STORY_LINES:], error])


if __name__ == "__main__":
    sys.exit(main())
