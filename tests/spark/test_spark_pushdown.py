"""Spark may push filters down and may not: a query means the same, and so do the queries after it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rayshot.analysis.views import VIEWS
from tests.spark.test_spark_moment import pushdown  # noqa: F401 - a fixture

pytestmark = pytest.mark.spark
Table = Callable[..., Any]
SECOND = "snapshot = '1-coordinator-2'"


@pytest.mark.sampled("more cases of one kind", keeps=4)
@pytest.mark.parametrize("view", [view.name for view in VIEWS.values() if view.subject == "snapshot"])
def test_a_filter_of_one_query_leaves_nothing_out_of_another(
    table: Table,
    storage: Path,
    pushdown: None,  # noqa: F811 - the fixture
    view: str,
) -> None:
    frame = table(storage, view)
    rows = frame.count()
    second = frame.filter(SECOND).count()
    assert 0 < second <= rows
    assert frame.count() == rows
    assert frame.filter(f"{SECOND} or position = 7").count() == second
    assert frame.filter(f"not ({SECOND})").union(frame.filter(SECOND)).count() == rows
    assert frame.filter(SECOND).union(frame.filter("snapshot = '1-coordinator-1'")).count() == rows
