"""`python -m tests.mistakes`: makes one mistake after the other in a copy of the project, and runs its tests.

A mistake dies by the first failed assertion of a test or of the code. That test must pass without the mistake, and run
the line where it is made. Where the code has changed so that an edit does not fit any more, write the edit anew: so
the mistakes are the same before and behind a refactoring, and no fewer may die.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click

from tests.mistakes.mistake import MARK, DoesNotFit, Mistake, read_mistakes
from tests.mistakes.notice import FILE
from tests.processes import ROOT

TEST_S, RUN_S, END_S = 180, 1800, 60
"""Seconds for one test, for all tests of a mistake, and for the end of a run behind a failed test."""
LOOK_S = 0.1
DIED, SURVIVED = "died", "survived"


class Failure(NamedTuple):
    """The first failure of a run: which test, whether by an assertion, and the error."""

    test: str
    notices: bool
    error: str


class Copy:
    """A copy of the project in `folder`, in which one mistake at a time is made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notice, self._reached = folder / "notice.json", folder / "reached"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        (folder / f"{MARK}.py").write_text(f"from pathlib import Path\n\nPath({str(self._reached)!r}).touch()\n")

    def try_out(self, mistake: Mistake) -> tuple[str, str]:
        """What becomes of a mistake, and more about it."""
        file = self._folder / mistake.file
        right = file.read_text()
        try:
            wrong = mistake.edit(right, mistake.new)
            marked = mistake.edit(right, mistake.old)
            failure = self._run(file, wrong, mistake.tests)
            if failure is None:
                return SURVIVED, "" if self._reached.exists() else "no test runs the line"
            if not failure.notices:
                return "broke", f"by no assertion: {failure}"
            without = self._run(file, marked, (failure.test,))
            if without is not None:
                return "broke", f"a test that fails without it too: {without}"
            return (DIED if self._reached.exists() else "broke"), f"{failure.test}: {failure.error[:120]}"
        except DoesNotFit as error:
            return "does not fit", f"{error}: write the edit anew"
        finally:
            self._write(file, right)

    def _write(self, file: Path, text: str) -> None:
        file.write_text(text)
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
            compiled.unlink()  # two texts of the same second and length would be taken for one

    def _run(self, file: Path, text: str, tests: tuple[str, ...]) -> Failure | None:
        """Run these tests with this text until one fails."""
        self._write(file, text)
        self._notice.unlink(missing_ok=True)
        self._reached.unlink(missing_ok=True)
        search = os.pathsep.join(filter(None, (str(self._folder), os.environ.get("PYTHONPATH"))))
        limits = ("--timeout", str(TEST_S), "--timeout-method", "signal")
        said = self._folder / "said.txt"
        with said.open("w") as output:
            program = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    "-x",
                    "-m",
                    "not long",
                    "-p",
                    "tests.mistakes.notice",
                    *limits,
                    *tests,
                ],
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": search, FILE: str(self._notice)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._await(program)
        finally:
            with suppress(ProcessLookupError):  # what the tests left, if the mistake kept them from ending it
                os.killpg(program.pid, signal.SIGKILL)
            code = program.wait()
        if self._notice.exists():
            return Failure(**json.loads(self._notice.read_text()))
        return None if code == 0 else Failure("pytest", notices=False, error=said.read_text()[-2000:])

    def _await(self, program: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a run, or of what a failed test leaves it time for: a mistake may keep it from ending."""
        until = time.monotonic() + RUN_S
        while program.poll() is None and time.monotonic() < until:
            if self._notice.exists():
                until = min(until, time.monotonic() + END_S)
            time.sleep(LOOK_S)


@click.command()
@click.argument("words", nargs=-1)
def main(words: tuple[str, ...]) -> None:
    """Make the mistakes whose room or sentence has one of these WORDS; all mistakes without any."""
    chosen = [
        one for one in read_mistakes() if not words or any(word in (one.room, *one.says.split()) for word in words)
    ]
    counts = {DIED: 0, SURVIVED: 0}
    with tempfile.TemporaryDirectory(prefix="rayshot-mistakes-", ignore_cleanup_errors=True) as folder:
        copy = Copy(Path(folder))
        for mistake in chosen:
            began = time.monotonic()
            verdict, more = copy.try_out(mistake)
            counts[verdict] = counts.get(verdict, 0) + 1
            click.echo(f"{verdict}: {mistake.room}: {mistake.says} ({time.monotonic() - began:.0f} s)\n    {more}")
    click.echo(f"{len(chosen)} mistakes: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    sys.exit(counts[DIED] < len(chosen))


if __name__ == "__main__":
    main()
