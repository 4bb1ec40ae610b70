"""From actors to Spark and back: what actors learnt is in a snapshot, Spark fits a model, and actors begin with it.

`python examples/round_trip.py [FOLDER]`: four shops try prices, Spark finds the price at which each earns most, and the
next four begin with that. Snapshots go into a new FOLDER, or one for temporary files.
"""

import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.data

import rayshot
from pyspark_rayshot import local_session

CUSTOMERS = {"lagos": (100, 4), "osaka": (90, 3), "paris": (120, 6), "quito": (80, 5)}
"""Of each town: how many buy at a price of 0, and how many fewer with each 1 more. No shop knows it."""
FIRST_PRICES = range(4, 12)
FIT = """
    select actor as town, regr_intercept(sold, price) / (-2 * regr_slope(sold, price)) as price
    from (select actor, key::double as price, value_long as sold from entries where attribute = 'sold')
    group by actor order by actor
"""
"""A line through what was sold at each price; it earns most, price * sold, at half of where it comes to 0."""


@rayshot.actor
class Shop:
    """Sells at a price that it may change, and remembers how much it sold at each."""

    def __init__(self, town: str, price: float) -> None:
        self.town = town
        self.price = price
        self.sold: dict[float, int] = {}

    def ask(self, price: float) -> None:
        """Sell at another price from now on."""
        self.price = price

    def day(self) -> None:
        """Serve those who come today."""
        most, fewer = CUSTOMERS[self.town]
        self.sold[self.price] = round(most - fewer * self.price)

    def earned(self) -> float:
        """By all days."""
        return sum(price * count for price, count in self.sold.items())


def try_prices(storage: Path) -> None:
    """The first shops try one price after the other. All that they learn goes into a snapshot."""
    with rayshot.init("first-shops", storage=storage, snapshots=rayshot.SnapshotConfig()) as system:
        shops = [Shop.options(name=town).remote(town, 0.0) for town in CUSTOMERS]
        for price in FIRST_PRICES:
            for shop in shops:
                shop.ask.tell(float(price))
                shop.day.tell()
        ray.get([shop.earned.remote() for shop in shops])
        system.snapshot()


def fit(storage: Path) -> list[Any]:
    """Spark reads the snapshot and fits a line for each shop; returns rows of town and price."""
    spark = local_session("round trip")
    entries = spark.read.format("rayshot").options(view="entries", system="first-shops", snapshot="latest")
    entries.load(str(storage)).createOrReplaceTempView("entries")
    rows = spark.sql(FIT).collect()
    spark.stop()
    return list(rows)


def open_anew(storage: Path, rows: list[Any]) -> dict[str, float]:
    """The next shops begin with what Spark found; returns what each earned on a day."""
    with rayshot.init("next-shops", storage=storage) as system:
        shops = {row.town: Shop.options(name=row.town).remote(**row.asDict()) for row in rows}
        for shop in shops.values():
            shop.day.tell()
        earned = ray.get([shop.earned.remote() for shop in shops.values()])
        system.snapshot()
    return dict(zip(shops, earned, strict=True))


def for_ray_data(storage: Path) -> ray.data.Dataset:
    """The same rows for Ray's own tools, through Arrow."""
    table = rayshot.open(storage).system("first-shops").table("entries", snapshot="latest", attribute="sold")
    return ray.data.from_arrow(table.to_arrow())


def main(storage: str | None = None) -> None:
    """Go round once."""
    ray.init("local", num_cpus=6, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    folder = Path(storage or tempfile.mkdtemp(prefix="round-trip-"))
    try_prices(folder)
    print(f"{for_ray_data(folder).count()} prices were tried, says Ray Data")
    rows = fit(folder)
    earned = open_anew(folder, rows)
    for row in rows:
        most, fewer = CUSTOMERS[row.town]
        best = max(price * round(most - fewer * price) for price in FIRST_PRICES)
        print(f"{row.town}: {row.price:.2f} by Spark; a day earns {earned[row.town]:.2f}, the best before {best:.2f}")
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
