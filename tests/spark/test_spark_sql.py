"""The format from SQL alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

pytestmark = pytest.mark.spark


@pytest.fixture
def sql(spark: Any) -> Iterator[Any]:
    """Runs SQL, and drops the tables and views that it made."""
    yield lambda text: [tuple(row) for row in spark.sql(text).collect()]
    spark.catalog.dropTempView("flights")
    spark.sql("drop table if exists kept")


def test_a_temp_view_takes_its_options_in_sql(sql: Any, storage: Path) -> None:
    sql(f"create temp view flights using rayshot options (path '{storage}', view 'messages', snapshot 'latest')")
    assert sql("select sender, count(*) from flights group by 1 order by 1") == [("alice", 3), ("bob", 1)]


def test_a_table_takes_its_options_where_it_is_read(sql: Any, storage: Path) -> None:
    sql("create table kept (sender string, in_flight bigint) using rayshot location '/nowhere'")
    asked = f"select sum(in_flight) from kept with (path = '{storage}', view = 'channels', snapshot = 'latest')"
    assert sql(asked) == [(4,)]


def test_a_table_that_spark_gives_no_options_says_what_to_write(sql: Any, storage: Path) -> None:
    said = r"Spark forgets .* of CREATE TABLE: write CREATE TEMP VIEW name USING rayshot OPTIONS \(path './shots', "
    with pytest.raises(AnalysisException, match=said):
        sql(f"create table kept using rayshot options (path '{storage}', view 'channels')")
    sql(f"create table kept (sender string) using rayshot options (path '{storage}', view 'channels')")
    with pytest.raises(
        AnalysisException, match=r"ConfigError: .*Spark forgets the one of CREATE TABLE: write CREATE TEMP VIEW"
    ):
        sql("select * from kept")
