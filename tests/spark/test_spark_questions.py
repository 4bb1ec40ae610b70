"""The ten questions that an analyst asks, one line of SQL each, of the storage that ships with the docs."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from pyspark_rayshot import tables
from rayshot.analysis.query import COMMON_OPTIONS
from rayshot.analysis.views import VIEWS
from rayshot.errors import ConfigError

STORAGE = Path(__file__).parents[2] / "docs" / "learners"
TOTAL = 400
"""What the four accounts have together, money on its way included."""


@pytest.fixture
def ask(spark: Any) -> Any:
    tables(spark, str(STORAGE))
    yield lambda text: [tuple(row) for row in spark.sql(text).collect()]
    for name in VIEWS:
        spark.catalog.dropTempView(name)
    spark.sql("drop temporary function history")


def test_every_text_that_holds_json_says_so() -> None:
    for view in VIEWS.values():
        for column in view.columns:
            assert column.json == (column.type == "string" and "JSON" in column.about), (view.name, column.name)


@pytest.mark.spark
def test_all_views_are_there_of_one_moment_with_variants_and_comments(spark: Any, ask: Any) -> None:
    for view in VIEWS.values():
        frame = spark.table(view.name)
        kinds = [(column.name, "variant" if column.json else column.type) for column in view.columns]
        assert frame.dtypes == kinds
        assert [field.metadata["comment"] for field in frame.schema] == [column.about for column in view.columns]


@pytest.mark.spark
def test_options_of_tables_are_those_of_all_views(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no option 'actor'"):
        tables(spark, str(STORAGE), actor="alice")
    with pytest.raises(Exception, match="SystemNotFound"):
        tables(spark, str(tmp_path / "nowhere"))
    names = tables(spark, str(STORAGE), snapshot="latest", show_secrets=True)
    assert names == list(VIEWS)
    assert {row.snapshot for row in spark.table("actors").collect()} == {"1-coordinator-4"}
    assert "showSecrets" in COMMON_OPTIONS


@pytest.mark.spark
def test_1_how_a_balance_moved(ask: Any) -> None:
    found = ask("select position, state:balance::long from objects where actor = 'alice' order by 1")
    assert [balance for _, balance in found] == ask_balances(ask)


def ask_balances(ask: Any) -> list[int]:
    return [
        row[0]
        for row in ask(
            "select value_long from state where actor = 'alice' and attribute = 'balance' order by log_index"
        )
    ]


@pytest.mark.spark
def test_1_how_a_balance_moved_by_a_function(ask: Any) -> None:
    found = ask("select log_index, value::long from history('alice', 'balance')")
    assert [balance for _, balance in found] == ask_balances(ask)
    assert found == sorted(found)
    assert len(found) == 4


@pytest.mark.spark
def test_2_who_holds_the_token(ask: Any) -> None:
    found = ask("select snapshot, actor from objects where state:has_token::boolean order by 1")
    assert len(found) <= 4
    assert set(found) == set(ask("select snapshot, actor from state where attribute = 'has_token' and value::boolean"))


@pytest.mark.spark
def test_2_who_holds_the_token_by_attribute(ask: Any) -> None:
    held = ask("select snapshot, actor from state where attribute = 'has_token' and value_bool")
    flying = ask("select snapshot, receiver from messages where method = 'take'")
    assert len({snapshot for snapshot, _ in held + flying}) == len(held + flying) == 4


@pytest.mark.spark
def test_3_what_is_in_flight_by_route(ask: Any) -> None:
    found = ask("select sender, receiver, in_flight from channels where in_flight > 0 and snapshot = '1-coordinator-4'")
    assert ("alice", "dave", 4) in found


@pytest.mark.spark
def test_4_the_total_is_the_same_in_every_snapshot(ask: Any) -> None:
    found = ask(
        """
        select position, sum(held) + sum(moving) total from (
            select position, state:balance::long held, 0 moving from objects
            union all select position, 0, args:[0]::long from messages where method = 'deposit'
        ) group by position
        """
    )
    assert [total for _, total in found] == [TOTAL] * 4


@pytest.mark.spark
def test_4_the_total_by_attribute(ask: Any) -> None:
    found = ask(
        """
        select snapshot, sum(amount) from (
            select snapshot, value_long amount from state where attribute = 'balance'
            union all select snapshot, args:[0]::long from messages where method = 'deposit'
        ) group by snapshot
        """
    )
    assert [total for _, total in found] == [TOTAL] * 4


@pytest.mark.spark
def test_5_the_largest_attributes(ask: Any) -> None:
    found = ask("select attribute from state where snapshot = '1-coordinator-4' order by bytes desc limit 4")
    assert {attribute for (attribute,) in found} == {"prices"}


@pytest.mark.spark
def test_6_what_is_inside_of_a_dataclass(ask: Any) -> None:
    found = ask(
        """
        select actor, key, value:amount::decimal(10,2) from objects, lateral variant_explode(state:orders)
        where snapshot = '1-coordinator-4' order by actor, key
        """
    )
    assert [(actor, key, str(amount)) for actor, key, amount in found if key.startswith("o")] == [
        ("alice", "o0", "12.50"),
        ("bob", "o1", "13.50"),
        ("carol", "o2", "14.50"),
        ("dave", "o3", "15.50"),
    ]


@pytest.mark.wide("slow")
@pytest.mark.spark
def test_7_who_is_behind(ask: Any) -> None:
    found = ask(
        """
        select receiver, sum(sent - received) behind from channels where snapshot = '1-coordinator-4'
        group by 1 order by 2 desc limit 1
        """
    )
    assert found[0][0] == "dave"
    assert found[0][1] > 4


@pytest.mark.spark
def test_8_how_much_a_state_grew(ask: Any) -> None:
    found = ask(
        "select actor, state_bytes - lag(state_bytes) over (partition by actor order by clock) grown from actors"
    )
    assert len(found) == 16
    assert sum(grown is None for _, grown in found) == 4


@pytest.mark.spark
def test_9_who_is_stuck(ask: Any) -> None:
    found = ask(
        """
        select sender, receiver from channels group by 1, 2
        having count(*) >= 3 and min(in_flight) > 0 and min(received) = max(received)
        """
    )
    assert found == [("alice", "dave")]


@pytest.mark.spark
def test_10_one_key_of_a_large_dict_over_time(ask: Any) -> None:
    found = ask("select position, state:prices.k007::double from objects where actor = 'bob' order by 1")
    assert [price for _, price in found] == [2.0, 2.25, 2.5, 2.75]


@pytest.mark.spark
def test_10_one_key_by_attribute(ask: Any) -> None:
    found = ask("select value:k007::double from history('bob', 'prices')")
    assert [price for (price,) in found] == [2.0, 2.25, 2.5, 2.75]


@pytest.mark.spark
def test_a_function_of_a_view_that_is_gone_says_so(spark: Any, ask: Any) -> None:
    spark.catalog.dropTempView("state")
    with pytest.raises(AnalysisException, match="state"):
        ask("select * from history('alice', 'balance')")
