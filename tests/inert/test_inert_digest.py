"""Digests stay what they are: tables and lakes hold them, and compare them with those of another day."""

import array
import collections
import datetime as dt
import decimal
import math

import numpy as np
import pytest

from rayshot.inert.digest import content_digest
from rayshot.inert.inert_object import HandleRecord, Inert


def cycle():
    loop = [1]
    loop.append({"inner": (loop,)})
    return loop


def called(name, *args, **kwargs):
    return Inert(name, args, kwargs)


def filled(name, state):
    made = Inert(name, ())
    made.state = state
    return made


def objects(*items):
    made = np.empty(len(items), dtype=object)
    made[:] = items
    return made


SHARED = [1, [2]]

DIGESTS = {
    "none": "af2edc674154ff129d9e826727ada082",
    "truth": "189a74b37b4c29fe3bc409128ff5960e",
    "integer": "f9f9885fb02cefa238d9d116589051eb",
    "wide integer": "a4af4af794658b060838b257c72570de",
    "real": "a6b8a44b0fcce35fad25b5d51b0843b0",
    "not a number": "f6771373655ee0a390b6e4ecb180b883",
    "text": "4343860511c8d160168b98f6dd9200c6",
    "half of a pair": "a16c90e6d5ddcf5fb694f99ea46b3c3e",
    "long text": "6b40e7ac538554135e1aea0107b01ed5",
    "bytes": "2afbbc8ef02d17a495a281ca948c672d",
    "memory": "2feb373fa2c67adcc9638b7ccd313a7e",
    "bytearray": "cbed2ea9056dad3a4f3281b9db0516a0",
    "list": "c21c00adb4b9add3fcb7ee0548c532f4",
    "long list": "1ff864407ed79c04ec43d3323da16a47",
    "nested list": "440beac034b4fc1bdb5e923b14d33144",
    "tuple": "8d00983f7902706707bddc98fbd5df27",
    "set": "535da6d506de2d4433dca886740dad3c",
    "frozenset": "0a9be41baa5d51dee71baaa2351b427c",
    "dict": "4bc0d382b31dcde28908f3decbe08694",
    "dict of integers": "af7c0bfcdaae5a3a0bb1a6f6fe8d96ce",
    "ordered dict": "ee09d7486030b026398368835f21e841",
    "default dict": "569a1f2d9cfe923a17214429e1620dc0",
    "counter": "7a467e471b25e6befb9a38bf6543e9df",
    "deque": "a1ebf069e5112f5ea7838e44cd3c34e3",
    "bounded deque": "24d8b3eab009b18b00562f693f49df0b",
    "array": "4c1fa8fe6880de1ee081e30ff579097a",
    "moment": "f5a292ef480ffa02dd060d4fd4afbe59",
    "span": "a6a06fe38ffc392d0266fcf46b6aacf7",
    "decimal": "0e683f9e34ec18f22faad36de4c526b5",
    "complex": "65d694b1c0b417fcf83cf7585fa9e75e",
    "range": "c499f92a12997829a5ac4df6959dbab1",
    "handle": "486a9d81ad54c04948a04f6e5d0f1233",
    "class": "3e281bf1f4fe703a3bf34bc5990414bc",
    "record": "7f09ab2bd21eb5c389c93c848b0e189c",
    "object": "59ccc148d060ddc0d8f97a76d6639d3e",
    "object with slots": "61829e98fbef1f646c30c15fc1811234",
    "numbers": "cb24f3140671283ecfbec22b7b3cb9bb",
    "number": "9c5e09c32f48cfce16e09c71da38470b",
    "times": "6cf72151d6e8cd045352b722ff01a489",
    "texts": "79f814e3fb45125da11ff326fbd37e71",
    "fields": "30b80b74f056e229a0d0870e7a3f0ebc",
    "aligned fields": "c0587f7dea9c395a58f139b8b8ac11ba",
    "secret fields": "6886a567412edd31204de482c92a6514",
    "objects": "fa62fe6f2855176173ce53be8f4bdeee",
    "secret": "93b7d60a85743613ffd7b9ddba075553",
    "flag of a secret": "3e16a6af67455ab248486a69f92e374c",
    "cycle": "d545db8812482b36a8ca7bb9f69e902f",
    "shared": "718e02715bae78c7e600bee80000b25a",
}


VALUES = {
    "none": None,
    "truth": True,
    "integer": -7,
    "wide integer": 2**200,
    "real": 1.5,
    "not a number": math.nan,
    "text": "Zürich",
    "half of a pair": "\udc80",
    "long text": "x" * 10_000,
    "bytes": b"\x00\x01",
    "memory": memoryview(b"\x00\x01"),
    "bytearray": bytearray(b"\x00\x01"),
    "list": [1, "a", None],
    "long list": list(range(100)),
    "nested list": [[1], [[2]], ()],
    "tuple": (1, 2),
    "set": {3, 1, 2},
    "frozenset": frozenset({"a", (1,)}),
    "dict": {"b": 1, "a": [2]},
    "dict of integers": {2: "b", 1: "a"},
    "ordered dict": collections.OrderedDict(b=1, a=2),
    "default dict": collections.defaultdict(list, {"a": [1]}),
    "counter": collections.Counter("abba"),
    "deque": collections.deque([1, [2]]),
    "bounded deque": collections.deque([1, 2], 5),
    "array": array.array("d", [1.0, 2.0]),
    "moment": dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    "span": dt.timedelta(seconds=3),
    "decimal": decimal.Decimal("1.50"),
    "complex": 1 + 2j,
    "range": range(3),
    "handle": HandleRecord("bank", "alice"),
    "class": Inert("shop.Cart"),
    "record": called("shop.Cart", 1, [2], size=3),
    "object": filled("shop.Account", {"balance": 3, "names": ["a", "b"]}),
    "object with slots": filled("shop.Account", ({"balance": 3}, {"names": ()})),
    "numbers": np.arange(6, dtype="i4").reshape(2, 3),
    "number": np.float64(2.5),
    "times": np.array(["2020-01-02"], "M8[D]"),
    "texts": np.array(["a", "bc"]),
    "fields": np.zeros(2, [("a", "i1"), ("b", "f8")]),
    "aligned fields": np.zeros(2, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "secret fields": np.ones(2, [("password", "U8")]),
    "objects": objects(1, [2], "c"),
    "secret": {"password": "a", "n": 1},
    "flag of a secret": {"password": True, "n": 1},
    "cycle": cycle(),
    "shared": [SHARED, SHARED, {"again": SHARED}],
}


@pytest.mark.parametrize("name", VALUES)
def test_a_digest_is_what_it_was(name):
    assert content_digest(VALUES[name]) == DIGESTS[name]


def test_no_two_of_them_are_the_same():
    assert len(set(DIGESTS.values())) == len(VALUES)
