"""Kept snapshots with a payload and files of an actor: every version reads, proves and copies them."""

import subprocess
import sys
from pathlib import Path

import pytest

import rayshot
from rayshot.audit import prove
from rayshot.keys.signing import SigningKey
from tests.golden.release import KEY, storages

HERE = Path(__file__).parent

pytestmark = [pytest.mark.parametrize("kept", storages("outside")), pytest.mark.acceptance("S10")]


def payday(kept):
    return rayshot.open(HERE / kept).system("bank").latest()


def test_it_is_proved_with_its_files_and_says_them(kept):
    snapshot = payday(kept)
    assert snapshot.verify([SigningKey(KEY.encode())]).trusted
    assert prove(snapshot, [snapshot]).sound
    assert snapshot.manifest.format == 2
    trainer = snapshot.outside["trainer"]
    assert trainer.payload == {"steps": 3, "names": ["ä", None, 0.5]}
    assert [(file.path, file.size) for file in trainer.files] == [(".metadata", 0), ("rank 0/shard.pt", 12)]
    assert Path(trainer.folder, "rank 0/shard.pt").read_bytes() == b"zerozerozero"


def test_a_copy_of_it_has_its_files(kept, tmp_path):
    copied = rayshot.copy(HERE / kept, tmp_path)
    assert copied.verify([SigningKey(KEY.encode())]).trusted
    assert Path(copied.outside["trainer"].folder).is_relative_to(tmp_path)


def test_a_program_that_knows_the_format_alone_reads_it(kept):
    reader = HERE.parents[1] / "examples" / "read_snapshot.py"
    done = subprocess.run([sys.executable, reader, HERE / kept, "bank"], capture_output=True, text=True, check=True)
    assert "chunks intact" in done.stdout
    assert "trainer: rank 0/shard.pt intact" in done.stdout
