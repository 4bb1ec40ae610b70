"""Whatever dies: rows become visible once, behind a durable snapshot; what runs ahead outside comes back as it was."""

import pytest

from tests.fake.outside_play import play


@pytest.mark.sampled("more cases of one kind", keeps=30)
@pytest.mark.parametrize("seed", range(150))
def test_whatever_dies_what_is_outside_is_as_the_snapshots_say(seed):
    play(seed)
