"""`python -m tests.fuzz`: atheris over all decoders, from bytes of real snapshots on. `make fuzz` is a minute."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

MEMORY_MB_MAX = 2048
INPUT_BYTES_MAX = 8192
TIMEOUT_S = 20
"""One input may take so long to be read."""


def main() -> int:
    """Fill a corpus, let a process of its own fuzz, keep nothing. The exit code is that of the fuzzer."""
    parser = argparse.ArgumentParser(prog="tests.fuzz")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    from tests.fuzz.decoders import DECODERS, seeds

    with tempfile.TemporaryDirectory(prefix="rayshot-fuzz-") as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        for number, name in enumerate(DECODERS):
            for index, data in enumerate(seeds()[name]):
                (corpus / f"{name}-{index}").write_bytes(bytes([number]) + data[: INPUT_BYTES_MAX - 1])
        command = [
            *(sys.executable, "-m", "tests.fuzz.target"),
            *(f"-max_total_time={options.seconds}", f"-seed={options.seed}", f"-rss_limit_mb={MEMORY_MB_MAX}"),
            *(f"-max_len={INPUT_BYTES_MAX}", f"-timeout={TIMEOUT_S}", "-print_final_stats=1", "-verbosity=1"),
            *(f"-artifact_prefix={folder}/", str(corpus)),
        ]
        done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
        for culprit in Path(folder).glob("*-*"):
            if culprit.is_file():
                data = culprit.read_bytes()
                name = [*DECODERS][data[0] % len(DECODERS)] if data else ""
                print(f"{culprit.name}: {name} {data[1:]!r}")
    statistics = [line.removeprefix("stat::").split() for line in done.stderr.splitlines() if line.startswith("stat::")]
    numbers = {name.rstrip(":"): number for name, number in statistics}
    runs, peak = numbers.get("number_of_executed_units", "0"), numbers.get("peak_rss_mb", "0")
    if done.returncode:
        print(done.stderr[-5000:], file=sys.stderr)
    print(f"{len(DECODERS)} readers refused or read {runs} inputs in {options.seconds} s; peak memory {peak} MB")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
