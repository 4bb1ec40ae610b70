"""Snapshots as Spark tables: `spark.read.format("rayshot").option("view", "messages").load("./shots")`.

Spark 4 finds this package by its name and registers `DefaultSource` by itself, wherever it is importable. Spark imports
it for that even when another format is read, so what may be missing (pyarrow, Java) is first needed when reading.
"""

from pyspark_rayshot.session import local_session
from pyspark_rayshot.source import DefaultSource
from pyspark_rayshot.tables import tables
from pyspark_rayshot.verdicts import verdicts

__all__ = ["DefaultSource", "local_session", "tables", "verdicts"]
