"""Servers for the tests of sinks, started when the first test asks for one."""

from collections.abc import Iterator

import pytest

from tests.places.conftest import s3, s3_credentials, s3_of_the_session
from tests.sinks.postgres_server import PostgresServer, running_postgres

__all__ = ["s3", "s3_credentials", "s3_of_the_session"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """The address of a broker."""
    from tests.sinks.kafka_broker import running_kafka

    with running_kafka() as address:
        yield address
