"""Sound bytes, spoilt in every way that Hypothesis finds: read or refused, within bounds, and nothing done.

Derandomised: each run tries the same bytes. `make fuzz` goes on where this ends.
"""

import contextlib
import functools
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.decoders import DECODERS, REFUSALS, seeds
from tests.fuzz.watching import nothing_is_done

MEMORY_BYTES_MAX = 256 << 20
pytestmark = pytest.mark.acceptance("G1", "G2", "G11", "G12", "G15")


@functools.cache
def sound() -> dict[str, list[bytes]]:
    found = seeds()
    for name, several in found.items():
        for data in several:  # readers import what they need at their first use
            attempt(name, data)
    return found


def attempt(name: str, data: bytes) -> None:
    with contextlib.suppress(*REFUSALS):
        DECODERS[name](data)


def spoilt(data: bytes, other: bytes, changes: list[tuple[int, int, int]]) -> bytes:
    """Overwrite, remove, put in and splice, each at a place that wraps around."""
    for how, place, value in changes:
        at = place % (len(data) + 1)
        match how:
            case 0:
                data = data[:at] + bytes([value]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[at + value :]
            case 2:
                data = data[:at] + bytes([value]) + data[at:]
            case 3:
                data = data[:at] + other[place % (len(other) + 1) :]
            case 4:
                data = data[:at] + value.to_bytes(4, "big") + data[at + 4 :]
            case 5:
                data = data[:at] + b"\xdd\x7f\xff\xff\xff" + data[at:]
    return data


CHANGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=6)


def test_every_decoder_has_seeds_and_every_seed_but_the_spoilt_ones_is_read():
    assert sound().keys() == DECODERS.keys()
    refused = []
    for name, several in sound().items():
        for data in several:
            try:
                DECODERS[name](data)
            except REFUSALS:
                refused.append(name)
    assert set(refused) <= {
        "chunk",
        "document",
        "encrypted_chunk",
        "encrypted_manifest",
        "envelope",
        "format",
        "keys",
        "log",
        "messages",
    }


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=150, derandomize=True, deadline=None, database=None)
@given(
    picks=st.tuples(st.integers(0, 9), st.integers(0, 9)), changes=CHANGES, noise=st.none() | st.binary(max_size=300)
)
def test_spoilt_bytes_are_read_or_refused_and_nothing_is_done(name, picks, changes, noise):
    several = sound()[name]
    first, second = (several[pick % len(several)] for pick in picks)
    data = spoilt(first[:20_000], second, changes) if noise is None else noise
    tracemalloc.start()
    try:
        with nothing_is_done():
            attempt(name, data)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES_MAX
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "deed",
    [lambda: __import__("antigravity_of_no_kind"), lambda: [*Path("/").iterdir()], lambda: eval("1")],
)
def test_the_watch_hears_what_it_must(deed):
    with pytest.raises(AssertionError, match="must not do"), nothing_is_done(), contextlib.suppress(ImportError):
        deed()


@pytest.mark.wide("slow")
def test_a_short_run_of_the_fuzzer_finds_nothing():
    pytest.importorskip("atheris")
    command = [sys.executable, "-m", "tests.fuzz", "--seconds", "3"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "readers refused or read" in done.stdout
