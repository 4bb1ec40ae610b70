import uuid
from dataclasses import replace

import pytest

from rayshot.errors import StoreFull, StoreUnavailable
from rayshot.places.kinds import open_store
from rayshot.places.store import Store
from tests.acceptance import Cases
from tests.places.fault_proxy import CALL_FAULTS, FaultProxy, Plan, Spoil
from tests.places.faulty_store import Fault, FaultEffect, FaultyStore
from tests.places.s3_server import S3Server
from tests.snapshots.scenarios import SCENARIOS, Scenario, in_memory, outcome_of, prepare, prove

IMPATIENT = "&retries=0&timeout_s=0.4"


def memory_after(scenario: Scenario, fault: Fault | None) -> tuple[FaultyStore, str, int]:
    """A memory store on which `scenario` was done under `fault`, what came of it, and the number of its calls."""
    store = FaultyStore()
    prepare(store)
    before = store.calls
    store.fault = None if fault is None else replace(fault, first=before + fault.first)
    outcome = outcome_of(scenario, store)
    store.fault = None
    return store, outcome, store.calls - before


@pytest.mark.sampled("more cases of one kind", keeps=4)
@pytest.mark.acceptance("D1")
@pytest.mark.parametrize("count", [1, 10_000], ids=["once", "for good"])
@pytest.mark.parametrize("effect", [FaultEffect.BEFORE, FaultEffect.AFTER], ids=["before", "after"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_whichever_call_fails_in_memory_nothing_is_half_there(
    scenario: Scenario, effect: FaultEffect, count: int, cases: Cases
) -> None:
    _, outcome, calls = memory_after(scenario, None)
    assert outcome == "done"
    for number in range(1, calls + 1):
        store, outcome, _ = memory_after(scenario, Fault(number, effect, count))
        prove(scenario, store, outcome)
        cases.held()


@pytest.mark.acceptance("D7")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_whichever_call_finds_the_store_full_nothing_is_half_there(scenario: Scenario, cases: Cases) -> None:
    for number in range(1, memory_after(scenario, None)[2] + 1):
        fault = Fault(number, count=10_000, error=lambda: StoreFull("no room", path="p", bytes=1))
        store, outcome, _ = memory_after(scenario, fault)
        assert outcome in {"StoreFull", "ConfigError"}  # the latter while it was tried whether the store is fit
        prove(scenario, store, outcome)
        cases.held()


class S3World:
    """A prepared storage on the real server, and the same place through the proxy."""

    def __init__(self, s3: S3Server, proxy: FaultProxy) -> None:
        self.prefix = f"faults/{uuid.uuid4().hex}"
        self.direct = open_store(s3.address(self.prefix))
        self.proxy = proxy
        prepare(self.direct)

    def spoiled(self, plan: Plan | None, patience: str = IMPATIENT) -> Store:
        """The place under `plan`."""
        self.proxy.restart(plan)
        return open_store(S3Server(0, 0).address(self.prefix, self.proxy.endpoint) + patience)


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("D1")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_whichever_call_to_a_real_s3_server_fails_nothing_is_half_there(
    scenario: Scenario, s3: S3Server, proxy: FaultProxy, cases: Cases, in_full: bool
) -> None:
    world = S3World(s3, proxy)
    assert outcome_of(scenario, world.spoiled(None, "")) == "done"
    calls = len(proxy.requests)
    for number in range(1, calls + 1):
        for spoil in CALL_FAULTS if in_full else [CALL_FAULTS[number % len(CALL_FAULTS)]]:
            world = S3World(s3, proxy)
            outcome = outcome_of(scenario, world.spoiled(Plan(spoil, number)))
            assert outcome == "StoreUnavailable" or scenario.commits or scenario.deletes, "what was read was not cut"
            prove(scenario, in_memory(world.direct), outcome)
            cases.held()


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.acceptance("D6")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_storm_of_503_ends_in_a_typed_error_after_a_bounded_number_of_calls(
    scenario: Scenario, s3: S3Server, proxy: FaultProxy
) -> None:
    world = S3World(s3, proxy)
    store = world.spoiled(Plan(Spoil.UNAVAILABLE, count=10_000), "&retries=2&timeout_s=10")
    with pytest.raises(StoreUnavailable):
        list(store.list())
    assert len(proxy.requests) == 3
    proxy.restart(Plan(Spoil.UNAVAILABLE, 4, count=10_000))
    outcome = outcome_of(scenario, store)
    assert outcome in {"StoreUnavailable", "ConfigError"}
    assert len(proxy.requests) < 30
    prove(scenario, in_memory(world.direct), outcome)
