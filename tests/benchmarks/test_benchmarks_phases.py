"""The throughput that snapshots cost is found from when messages were processed, though the machine's speed changes."""

import numpy as np
import pytest

from benchmarks.phases import Phases

EVERY = 32
GAP_S = 1.05


def passed_at(pace, until_s):
    """When another EVERY messages were processed, at a pace that depends on the time."""
    times = np.arange(0.0, until_s, 1e-3)
    processed = np.cumsum(pace(times)) * 1e-3
    return list(np.interp(np.arange(0, processed[-1], EVERY), processed, times))


def halting(times):
    """Half a pace in the first tenth of each gap: a twentieth is lost."""
    return 30_000.0 * np.where((times / GAP_S) % 1 < 0.1, 0.5, 1.0)


def slowing(times):
    """The same on a machine that becomes slower by a half."""
    return halting(times) * np.linspace(1.0, 0.5, len(times))


@pytest.mark.parametrize("pace", [halting, slowing])
def test_what_is_missing_after_each_beginning_is_lost(pace):
    began = [GAP_S * n for n in range(1, 60)]
    phases = Phases([passed_at(pace, 63.0)] * 3, EVERY, began, 1.0)
    lost, (low, high) = phases.loss()
    assert lost == pytest.approx(5.0, abs=0.2)
    assert low <= lost <= high
    assert phases.pace(10) == pytest.approx([50.0] + [100.0] * 9, abs=2.0)


def test_nothing_is_lost_where_nothing_is_missing():
    began = [GAP_S * n for n in range(1, 60)]
    lost, _ = Phases([passed_at(lambda times: np.full(len(times), 30_000.0), 63.0)], EVERY, began, 1.0).loss()
    assert lost == pytest.approx(0.0, abs=0.1)


def test_snapshots_out_of_rhythm_do_not_count():
    began = [GAP_S * n for n in range(1, 30)]
    passed = [passed_at(halting, 33.0)]
    in_rhythm = Phases(passed, EVERY, began, 1.0)
    assert Phases(passed, EVERY, [-9.0, *began, 40.0], 1.0).loss() == in_rhythm.loss()
    assert in_rhythm.snapshots == len(began) - 1
    assert Phases(passed, EVERY, [0.0, 2.0, 9.0], 1.0).snapshots == 0
