"""Objects that mean something by being themselves are the same ones when a state is loaded."""

import dataclasses
import sys
import types

import pytest

from rayshot.format.pickling import dump_state, load_state
from rayshot.format.sentinels import named
from rayshot.inert.reader import read

pytestmark = pytest.mark.acceptance("S11")

UNSET = object()
ALSO_UNSET = UNSET
TABLE: dict[str, int] = {}


class Missing:
    """Has no attributes."""


class Settings:
    """Has some."""

    def __init__(self):
        self.rate = 1


MISSING = Missing()
SETTINGS = Settings()


@pytest.fixture(params=[(), (lambda: 1,)], ids=["plain", "by value"])
def there_and_back(request):
    def copied(value):
        pickled = dump_state({"state": [value, *request.param]}, "alice")
        return load_state(pickled.stream, pickled.buffers)["state"][0]

    return copied


@pytest.mark.parametrize("sentinel", [UNSET, MISSING, dataclasses.MISSING])
def test_what_stands_for_itself_is_itself_again(sentinel, there_and_back):
    assert there_and_back({"a": [sentinel]})["a"][0] is sentinel


@pytest.mark.parametrize("value", [SETTINGS, TABLE, object(), Missing()], ids=lambda value: type(value).__name__)
def test_what_has_content_or_no_name_is_a_copy(value, there_and_back):
    first, second = there_and_back([value, value])
    assert first is second
    assert first is not value
    assert type(first) is type(value)


def test_an_object_is_found_by_any_of_its_names_and_is_another_one_if_all_are_gone(monkeypatch, caplog):
    bare, missing = (dump_state({"state": one}, "alice").stream for one in (UNSET, MISSING))
    monkeypatch.delattr(sys.modules[__name__], "UNSET")
    assert load_state(bare)["state"] is ALSO_UNSET
    for name in ("ALSO_UNSET", "MISSING"):
        monkeypatch.delattr(sys.modules[__name__], name)
    assert type(load_state(missing)["state"]) is Missing
    assert not caplog.records
    assert type(load_state(bare)["state"]) is object
    assert "test_format_sentinels.UNSET or " in caplog.text


@pytest.mark.parametrize("later", [None, 5, Settings(), object()], ids=lambda later: type(later).__name__)
def test_a_name_that_means_something_else_when_the_state_is_loaded_gives_a_copy(monkeypatch, later):
    stream = dump_state({"state": MISSING}, "alice").stream
    monkeypatch.setattr(sys.modules[__name__], "MISSING", later)
    assert type(load_state(stream)["state"]) is Missing


def test_an_object_that_got_attributes_meanwhile_does_not_keep_them(monkeypatch):
    stream = dump_state({"state": MISSING}, "alice").stream
    monkeypatch.setattr(MISSING, "count", 1, raising=False)
    assert not hasattr(load_state(stream)["state"], "count")


@pytest.mark.parametrize(("first", "second"), [("variable", "CONSTANT"), ("original", "alias")])
def test_a_constant_is_more_likely_to_stay_and_the_first_name_of_all(monkeypatch, first, second):
    module, before = sys.modules[__name__], object()
    monkeypatch.setattr(module, first, before, raising=False)
    monkeypatch.setattr(module, second, before, raising=False)
    stream = dump_state({"state": before}, "alice").stream
    setattr(module, first if second.isupper() else second, object())
    assert load_state(stream)["state"] is before


def test_a_state_that_names_no_class_has_a_bare_object():
    assert named(((__name__, "UNSET"),)) is UNSET


def test_a_module_that_was_imported_later_has_names_too(there_and_back, monkeypatch):
    late = types.ModuleType("imported_late")
    late.NONE_SUCH = object()
    there_and_back(object())
    monkeypatch.setitem(sys.modules, "imported_late", late)
    assert there_and_back(late.NONE_SUCH) is late.NONE_SUCH


class NoModule:
    """Says that it is a module, as libraries of cffi do, and has nothing of one."""

    __slots__ = ()
    __class__ = types.ModuleType


def test_what_only_looks_like_a_module_is_passed_over(there_and_back, monkeypatch):
    monkeypatch.setitem(sys.modules, "looks_like_a_module", NoModule())
    assert there_and_back(UNSET) is UNSET


def test_a_name_that_means_another_object_by_now_is_not_recorded(there_and_back, monkeypatch):
    before = UNSET
    there_and_back(before)
    for name in ("UNSET", "ALSO_UNSET"):
        monkeypatch.setattr(sys.modules[__name__], name, object())
    assert there_and_back(before) not in (before, UNSET, ALSO_UNSET)


def test_a_reader_that_runs_nothing_shows_the_name():
    (shown,) = read(dump_state({"state": [UNSET]}, "alice").stream, ())["state"]
    assert shown.class_name in {f"{__name__}.UNSET", f"{__name__}.ALSO_UNSET"}
