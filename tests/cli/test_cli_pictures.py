"""What a person at a terminal sees beside the tables, and a script at a pipe does not."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from rayshot.documents import words
from rayshot.places.local import LocalStore
from tests.snapshots.snapshot_builder import KEY, Bank, Flow, make_snapshot, open_bank

PROGRAM = Path(sys.executable).with_name("rayshot")


def at_a_terminal(columns, *arguments):
    """What `rayshot` shows on a real terminal of this width, as lines without colours."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    environment |= {"TERM": "xterm-256color", "RAYSHOT_SIGNING_KEY": KEY.secret.decode()}
    command = [str(PROGRAM), *map(str, arguments)]
    with subprocess.Popen(command, stdout=its, stderr=its, env=environment) as program:
        os.close(its)
        shown = b""
        try:
            while piece := os.read(own, 65536):
                shown += piece
        except OSError:
            pass  # the program has ended, and the terminal with it
    os.close(own)
    assert program.returncode in (0, 1)
    return [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", shown.decode()).splitlines()]


@pytest.fixture
def shots(tmp_path):
    repository = open_bank(LocalStore(tmp_path / "shots"))
    make_snapshot(repository, Bank(flows={("alice", "bob"): Flow(sent=5, arrived=4, received=2)}), 1)
    later = {
        ("alice", "bob"): Flow(sent=13, arrived=9, received=5),
        ("bob", "alice"): Flow(sent=200, received=100, arrived=200),
    }
    make_snapshot(repository, Bank(flows=later), 2)
    return tmp_path / "shots"


@pytest.mark.parametrize("columns", [80, 120])
def test_a_cell_is_a_message_between_what_was_received_and_what_was_sent(shots, columns):
    shown = at_a_terminal(columns, "show", shots, "--snapshot", "1-coordinator-1")
    assert shown[-4].split() == [
        "sender",
        "receiver",
        "received",
        "█",
        "in",
        "the",
        "mailbox",
        "░",
        "in",
        "the",
        "outbox",
        "sent",
    ]
    assert shown[-2].split() == ["alice", "bob", "2", "██░", "5"]
    assert shown[-1] == " a cell is one message"
    assert max(map(len, shown)) <= columns


def test_many_messages_share_a_cell_and_few_beside_them_do_not_vanish(shots):
    shown = at_a_terminal(80, "show", shots)
    assert shown[-3].split() == ["bob", "alice", "100", "█" * 24, "200"]
    assert shown[-2].split() == ["alice", "bob", "5", "█░", "13"]
    assert shown[-1] == " a cell is about 4 messages"


def test_a_diff_shows_what_was_handled_and_what_waits_more(shots):
    shown = at_a_terminal(80, "diff", shots)
    assert shown[-2].split() == ["bob", "alice", "100", "█" * 12, "100", "▓" * 12]
    assert shown[-1].split() == ["alice", "bob", "3", "█", "8", "█▓"]


def test_a_pipe_gets_no_pictures(shots):
    command = [str(PROGRAM), "show", str(shots)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "in flight" in printed
    assert not set("█▓░") & set(printed)


@pytest.mark.parametrize(
    ("name", "number", "said"),
    [
        ("recorded_s", 0.8907807599998705, "recorded 891 ms"),
        ("hold_max_s", 0.00068, "hold max 0.68 ms"),
        ("stored_s", 1.5, "stored 1.50 s"),
        ("stored_s", 59.7, "stored 60 s"),
        ("stored_s", 600, "stored 10 min"),
        ("stored_s", 0, "stored 0 ms"),
        ("duration_ms", 12.5, "duration 12 ms"),
        ("state_bytes", 1266, "state 1.2 KiB"),
        ("final", 1, "final"),
        ("retries", 1, "retries 1"),
        ("chunks", 1234567, "chunks 1,234,567"),
        ("odd", 0.1234567891, "odd 0.123457"),
        ("_s", 3, "s 3"),
        ("\x1b[2J_s", 1, "\\x1b[2J 1.00 s"),
    ],
)
def test_figures_are_said_with_their_units(name, number, said):
    assert words.figure(name, number) == said
