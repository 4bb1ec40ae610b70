"""A program that is worked on while its system runs, as in a notebook: `python edited.py FOLDER`, which is importable.

Prints a line of JSON: by what had happened, the warnings that the next `resume` logged, and what a deposit of 1 gave
then.
"""

import importlib
import json
import logging
import sys
from pathlib import Path

import ray

import rayshot

CELL = """
@rayshot.actor
class Account:
    def __init__(self):
        self.balance = 0

    def deposit(self, amount):
        return amount
"""
MODULE = """
import rayshot

@rayshot.actor
class Book:
    def note(self, amount):
        return amount
"""


class Heard(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def main(folder):
    sys.dont_write_bytecode = True  # a file that changes twice in a second
    heard, said = Heard(), {}
    logging.getLogger("rayshot").addHandler(heard)
    (folder / "ledger.py").write_text(MODULE)
    ledger = importlib.import_module("ledger")
    exec(CELL, globals())

    def begin(_system):
        for name in ("alice", "bob"):
            globals()["Account"].options(name=name).remote()
        ledger.Book.options(name="book").remote()

    def resume(when):
        heard.lines.clear()
        system = rayshot.resume("notebook", storage=folder / "shots", begin=begin)
        given = [ray.get(system.get_actor("alice").deposit.remote(1)), ray.get(system.get_actor("book").note.remote(1))]
        said[when] = [[line for line in heard.lines if "another code" in line], given]
        return system

    resume("begun")
    resume("nothing")
    exec(CELL.replace("return amount", "return amount + 1"), globals())
    (folder / "ledger.py").write_text(MODULE.replace("return amount", "return amount + 1"))
    resume("class of the program")
    importlib.reload(ledger)
    resume("both").restart()
    resume("restart").shutdown()
    print(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
