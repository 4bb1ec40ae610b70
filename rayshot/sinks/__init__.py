"""Sinks: actors whose rows become visible once, behind a durable snapshot, and the places into which they write.

`Sink` is inherited from. Each backend is imported from its module, as it needs a library of its own:
`rayshot.sinks.sql.Sql`, `rayshot.sinks.parquet.Parquet`, `rayshot.sinks.delta.Delta`, `rayshot.sinks.iceberg.Iceberg`,
`rayshot.sinks.kafka.Kafka`.
"""

from rayshot.sinks.backend import Backend, Held
from rayshot.sinks.sink import Sink

__all__ = ["Backend", "Held", "Sink"]
