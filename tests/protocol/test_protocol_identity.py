import pytest

from rayshot.errors import ConfigError
from rayshot.protocol.identity import NAME_LENGTH_MAX, SnapshotId


@pytest.mark.parametrize(
    "snapshot",
    [
        SnapshotId(1, "coordinator", 1),
        SnapshotId(10, "7-a.b_c-9", 0),
        SnapshotId(2**63 - 1, "a" * NAME_LENGTH_MAX, 2**63 - 1),
    ],
)
def test_the_text_of_an_id_is_read_back(snapshot):
    assert SnapshotId.parse(str(snapshot)) == snapshot


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest",
        "1-coordinator",
        "01-coordinator-1",
        "1-coordinator-01",
        "1-coordinator-+1",
        "1-coordinator-1\n",
        "1-co ordinator-1",
        "\u0661-coordinator-1",
        "1-coordinator-\u00b2",
        f"{'1' * 5000}-coordinator-1",
        f"1-coordinator-{'1' * 5000}",
        f"1-{'a' * (NAME_LENGTH_MAX + 1)}-1",
    ],
    ids=len,
)
def test_what_no_id_is_written_as_is_refused_in_a_short_line(text):
    with pytest.raises(ConfigError, match="is not a snapshot id") as caught:
        SnapshotId.parse(text)
    assert len(str(caught.value)) < 300
