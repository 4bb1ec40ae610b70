"""Snapshots as Spark tables: `spark.read.format("rayshot").option("view", "messages").load("./shots")`.

Spark 4 finds this package by its name and registers `DefaultSource` by itself, wherever it can import the package.
It imports the package even if it reads another format. So only reading needs what may be missing (pyarrow, Java).

`pipeline` is the function here; the module of that name is its command line, `python -m pyspark_rayshot.pipeline`.
"""

from pyspark_rayshot.running import pipeline
from pyspark_rayshot.session import local_session
from pyspark_rayshot.source import DefaultSource
from pyspark_rayshot.tables import tables
from pyspark_rayshot.verdicts import verdicts

__all__ = ["DefaultSource", "local_session", "pipeline", "tables", "verdicts"]
