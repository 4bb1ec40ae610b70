"""A stream that cannot run, and says why."""

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from rayshot.errors import RayshotError


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # Spark has no types
    """Raises `error` at every call.

    Spark 4.3 hides an error that is raised while a stream is made behind an UnboundLocalError of its own.
    """

    def __init__(self, error: RayshotError) -> None:
        self._error = error

    def _refuse(self, *_: Any) -> NoReturn:
        raise self._error

    initialOffset = latestOffset = partitions = read = prepareForTriggerAvailableNow = _refuse  # noqa: N815 - Spark's names
