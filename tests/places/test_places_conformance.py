import uuid
from typing import Any

import pytest

from rayshot.places.conformance import StoreConformance
from rayshot.places.kinds import open_store
from rayshot.places.local import LocalStore
from rayshot.places.memory import named_memory_store
from rayshot.places.store import Store
from tests.places.azurite_server import ACCOUNT, CONTAINER
from tests.places.moto_server import BUCKET as MOTO_BUCKET
from tests.places.s3_server import S3Server


class TestLocalStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Any) -> LocalStore:
        return LocalStore(tmp_path / "deep" / "shots")


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def store(self, request: pytest.FixtureRequest) -> Any:
        return named_memory_store(request.node.name)


class TestS3OnSeaweedFS(StoreConformance):
    @pytest.fixture
    def store(self, s3: S3Server) -> Store:
        return open_store(s3.address(f"conformance/{uuid.uuid4().hex}"))


class TestS3OnMoto(StoreConformance):
    test_a_race_for_a_key_has_one_winner = None  # moto looks, and then writes: two may win

    @pytest.fixture
    def store(self, moto: str) -> Store:
        return open_store(f"s3a://{MOTO_BUCKET}/conformance/{uuid.uuid4().hex}?endpoint={moto}")


class TestAzureOnAzurite(StoreConformance):
    @pytest.fixture
    def store(self, azurite: str) -> Store:
        return open_store(f"az://{CONTAINER}/conformance/{uuid.uuid4().hex}?endpoint={azurite}&account={ACCOUNT}")
