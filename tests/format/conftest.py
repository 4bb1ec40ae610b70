"""Objects that lie elsewhere, and a process that has learned no errors, for each test that asks for them."""

import copyreg

import pytest

from rayshot.format import pickling
from tests.format.objects import Ref


@pytest.fixture
def values(monkeypatch):
    there = []

    def put(value):
        there.append(value)
        return Ref(len(there) - 1)

    for name, given in (("kind", Ref), ("get", lambda ref: there[ref.number]), ("put", put)):
        monkeypatch.setattr(pickling._references, name, given, raising=False)
    return there


@pytest.fixture
def nothing_learned():
    before = set(copyreg.dispatch_table)
    yield
    for learned in copyreg.dispatch_table.keys() - before:
        del copyreg.dispatch_table[learned]
