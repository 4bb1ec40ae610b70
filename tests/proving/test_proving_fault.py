"""Whose fault an error of a load is: the same answer for trials and for loads."""

import http.client
import sqlite3

import botocore.exceptions
import grpc
import obstore.exceptions
import pytest
import ray

from rayshot.errors import NoAnswer
from rayshot.proving.fault import is_of_outside, is_own

pytestmark = pytest.mark.acceptance("S2", "S3")


class Bug(ValueError):
    """A mistake by another name."""


class Away(RuntimeError):
    """A client's own error."""


@pytest.mark.parametrize(
    "error",
    [
        *(OSError(5, "x"), TimeoutError(), EOFError(), MemoryError(), Away()),
        *(http.client.IncompleteRead(b""), sqlite3.OperationalError(), grpc.RpcError()),
        *(botocore.exceptions.EndpointConnectionError(endpoint_url="x"), obstore.exceptions.GenericError()),
        *(ray.exceptions.RayActorError(), ray.exceptions.GetTimeoutError(), NoAnswer("x")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_client_raises_is_of_the_outside_also_behind_an_error_of_its_own(error):
    assert is_of_outside(error)
    assert not is_own(error)
    behind = KeyError("x")
    behind.__cause__ = error
    assert is_of_outside(behind)


@pytest.mark.parametrize(
    "kind",
    [
        *(TypeError, AttributeError, KeyError, ValueError, ZeroDivisionError, AssertionError, NameError, Bug),
        *(NotImplementedError, RecursionError, SyntaxError),
    ],
)
def test_a_mistake_is_of_its_own(kind):
    assert is_own(kind("x"))
    assert not is_of_outside(kind("x"))


@pytest.mark.parametrize("kind", [RuntimeError, Exception, ImportError, SystemExit])
def test_what_may_be_either_refutes_nothing_and_is_not_tried_for_long(kind):
    assert not is_own(kind("x"))
    assert not is_of_outside(kind("x"))
