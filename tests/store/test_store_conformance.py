from typing import Any

import pytest

from rayshot.store.conformance import StoreConformance
from rayshot.store.local import LocalStore
from rayshot.store.memory import named_memory_store


class TestLocalStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Any) -> LocalStore:
        return LocalStore(tmp_path / "deep" / "shots")


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def store(self, request: pytest.FixtureRequest) -> Any:
        return named_memory_store(request.node.name)
