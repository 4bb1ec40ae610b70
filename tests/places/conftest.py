"""Servers for the tests of stores, started when the first test asks for one."""

from collections.abc import Iterator

import pytest

from tests.places.azurite_server import KEY, running_azurite
from tests.places.fault_proxy import FaultProxy, running_proxy
from tests.places.moto_server import running_moto
from tests.places.s3_server import CREDENTIALS, S3Server, running_s3_server


@pytest.fixture(scope="session")
def s3_of_the_session() -> Iterator[S3Server]:
    with running_s3_server() as server:
        yield server


@pytest.fixture
def s3_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of the S3 server in the environment."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def s3(s3_of_the_session: S3Server, s3_credentials: None) -> S3Server:
    """A real S3 server, and its keys in the environment."""
    return s3_of_the_session


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultProxy]:
    """A proxy in front of the S3 server, which spoils requests as it is told."""
    with running_proxy(s3.port) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def moto_of_the_session() -> Iterator[str]:
    with running_moto() as endpoint:
        yield endpoint


@pytest.fixture
def moto(moto_of_the_session: str, s3_credentials: None) -> str:
    """The endpoint of a moto server, which takes any keys."""
    return moto_of_the_session


@pytest.fixture(scope="session")
def azurite_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_azurite(tmp_path_factory.mktemp("azurite")) as endpoint:
        yield endpoint


@pytest.fixture
def azurite(azurite_of_the_session: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The endpoint of a real Azure Blob Storage server, and the key of its account in the environment."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    return azurite_of_the_session
