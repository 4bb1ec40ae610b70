"""What a released version left stays as it was, and nothing that it promised by name is gone."""

import shutil

import pytest

from tests.golden import names
from tests.golden.release import DIGESTS, NAMES, RELEASED, digests

RELEASES = sorted(path.name for path in RELEASED.iterdir())
DEPRECATED_IN: dict[str, str] = {}
"""For each name that is gone, the version that deprecated it, two minor releases ago at least: docs/versioning.md."""

pytestmark = pytest.mark.parametrize("version", RELEASES)


def changed(folder):
    """The files that are not what they were, are gone, or are new."""
    lines = (folder / DIGESTS).read_text().splitlines()
    recorded = {file: digest for digest, file in (line.split("  ", 1) for line in lines)}
    return {file for file, _ in recorded.items() ^ digests(folder).items()}


def test_no_byte_of_it_has_changed(version):
    assert changed(RELEASED / version) == set()


def test_a_changed_byte_a_lost_file_and_a_new_one_are_seen(version, tmp_path):
    copy = tmp_path / version
    shutil.copytree(RELEASED / version, copy)
    log = sorted((copy / "format/bank/log").iterdir())
    log[0].write_bytes(log[0].read_bytes()[:-1] + b"!")
    log[1].unlink()
    (copy / "added").touch()
    assert changed(copy) == {"added", *(file.relative_to(copy).as_posix() for file in log[:2])}


def test_what_it_promised_by_name_is_there(version):
    promised = (RELEASED / version / NAMES).read_text().splitlines()
    assert len(promised) > 1000
    assert sorted({*promised} - names.of_today() - {*DEPRECATED_IN}) == []
