"""Objects that lie elsewhere, for each test that asks for them."""

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
