"""The digest of the code of a class: the same in all processes, and another one where something was edited."""

import subprocess
import sys

import cloudpickle

from rayshot.runtime.wire.class_code import digest_of_code
from tests.processes import search_path

FIRST = '''
import functools
def traced(f):
    @functools.wraps(f)
    def call(*args): return f(*args)
    return call
class Base:
    def shared(self): return 1
class Account(Base):
    """What it is."""
    RATE = 5
    def deposit(self, amount=1):
        """Take it in."""
        return amount in {"a", "b", "c"} or [one for one in (1, 2)]
    @staticmethod
    def check(): return 1
    @property
    def balance(self): return self.RATE
    @traced
    def slow(self): return 2
'''


def account(text):
    names = {"__name__": "__main__"}
    exec(compile(text, "<cell>", "exec"), names)
    return names["Account"]


def test_other_places_and_other_documentation_are_no_other_code():
    moved = "\n\n\n" + FIRST.replace("What it is", "Something else").replace("Take it in", "Else")
    assert digest_of_code(account(FIRST)) == digest_of_code(account(moved))


def test_each_edit_gives_another_digest():
    edits = [
        ("return amount", "return -amount"),
        ("amount=1", "amount=2"),
        ('"b"', '"d"'),
        ("(1, 2)", "(1, 3)"),
        ("RATE = 5", "RATE = 6"),
        ("def check(): return 1", "def check(): return 2"),
        ("return self.RATE", "return self.RATE + 1"),
        ("return 2", "return 3"),
        ("def shared(self): return 1", "def shared(self): return 4"),
        ("def slow", "def fast"),
    ]
    digests = {digest_of_code(account(FIRST.replace(*edit))) for edit in edits}
    assert len(digests | {digest_of_code(account(FIRST))}) == len(edits) + 1


def test_a_class_by_value_has_its_digest_in_each_process_whatever_its_hash_seed():
    pickled = cloudpickle.dumps(account(FIRST))
    program = (
        "import pickle, sys; from rayshot.runtime.wire.class_code import digest_of_code; "
        "print(digest_of_code(pickle.loads(sys.stdin.buffer.read())))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=pickled,
            env={**search_path(), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        assert done.stdout.decode().strip() == digest_of_code(account(FIRST))
