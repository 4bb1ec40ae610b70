import signal
import uuid
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from rayshot.log.log import CommitLog
from rayshot.log.records import CommitRecord, EpochRecord
from rayshot.places.kinds import open_store
from rayshot.places.local import LocalStore
from rayshot.places.store import Store
from tests.acceptance import Cases
from tests.log.test_log_log import put
from tests.places.fault_proxy import FaultProxy, Plan, Spoil
from tests.places.s3_server import CREDENTIALS, S3Server
from tests.processes import START, end_server
from tests.snapshots.scenarios import SCENARIOS, Scenario, in_memory, prepare, prove
from tests.snapshots.victims import MortalStore, act_at, act_on_folder, race_for_positions

DEATH_MAX_S = 60.0
KILLED = -signal.SIGKILL
LOGS = 20
RACES = 1_000


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    end_server()


def run(target: Callable[..., None], *args: object) -> int:
    """Run `target` in a process; return its exit code."""
    process = START.Process(target=target, args=args)
    process.start()
    return exit_code(process)


def exit_code(process: BaseProcess) -> int:
    process.join(DEATH_MAX_S)
    assert process.exitcode is not None, "the process neither ended nor died"
    return process.exitcode


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("D2")
@pytest.mark.parametrize(
    ("number", "after"),
    [
        pytest.param(number, after, id=f"{scenario}-{'after' if after else 'before'}")
        for number, scenario in enumerate(SCENARIOS)
        for after in ([False, True] if scenario.commits or scenario.deletes else [False])
    ],
)
def test_a_process_killed_at_any_call_to_a_folder_leaves_nothing_half_there(
    tmp_path: Path, number: int, after: bool, cases: Cases, in_full: bool
) -> None:
    counting = MortalStore(tmp_path / "counted")
    prepare(LocalStore(counting.folder))
    SCENARIOS[number].act(counting)
    deadly = counting.effects if after else range(1, counting.calls + 1)
    for call in deadly if in_full else deadly[::3]:
        folder = tmp_path / str(call)
        prepare(LocalStore(folder))
        assert run(act_on_folder, number, folder, call, after) == KILLED
        prove(SCENARIOS[number], LocalStore(folder), "killed")
        cases.held()


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("D2")
@pytest.mark.parametrize("spoil", [Spoil.KILL, Spoil.KILL_AFTER], ids=["before", "after"])
@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=map(str, SCENARIOS))
def test_a_process_killed_at_any_call_to_an_s3_server_leaves_nothing_half_there(
    s3: S3Server, proxy: FaultProxy, number: int, spoil: Spoil, cases: Cases, in_full: bool
) -> None:
    calls = death_on_s3(s3, proxy, SCENARIOS[number], None)
    for call in range(1, calls + 1, 1 if in_full else 4):
        assert death_on_s3(s3, proxy, SCENARIOS[number], Plan(spoil, call)) >= call  # reads go several at a time
        cases.held()


def death_on_s3(s3: S3Server, proxy: FaultProxy, scenario: Scenario, plan: Plan | None) -> int:
    """Let a process act on a prepared storage until `plan` kills it; prove what is there; return its calls."""
    prefix = f"deaths/{uuid.uuid4().hex}"
    direct = open_store(s3.address(prefix))
    prepare(direct)
    hear, tell = START.Pipe(duplex=False)
    process = START.Process(
        target=act_at, args=(SCENARIOS.index(scenario), s3.address(prefix, proxy.endpoint), CREDENTIALS, hear)
    )
    process.start()
    proxy.restart(plan)
    proxy.victim = process.pid
    tell.send("go")
    code = exit_code(process)
    hear.close()
    tell.close()
    assert code == (0 if plan is None else KILLED)
    calls = len(proxy.requests)
    prove(scenario, in_memory(direct), "done" if plan is None else "killed")
    return calls


@pytest.mark.acceptance("E1")
def test_of_two_processes_that_race_for_every_position_of_logs_on_disk_one_gets_each(
    tmp_path: Path, in_full: bool, cases: Cases
) -> None:
    race_in_processes(str(tmp_path), LocalStore(tmp_path), RACES if in_full else RACES // 5, cases)


@pytest.mark.acceptance("E1")
def test_of_two_processes_that_race_for_every_position_of_logs_on_an_s3_server_one_gets_each(
    s3: S3Server, in_full: bool, cases: Cases
) -> None:
    address = s3.address(f"positions/{uuid.uuid4().hex}")
    race_in_processes(address, open_store(address), RACES if in_full else RACES // 5, cases)


def race_in_processes(address: str, store: Store, races: int, cases: Cases) -> None:
    """Let two coordinators contend, one committing and one taking over; prove that each position has one winner."""
    for number in range(LOGS):
        put(store, EpochRecord(0, 1, "a"), system=f"bank{number}")
    starts = [START.Barrier(2) for _ in range(LOGS)]
    pipes = {name: START.Pipe(duplex=False) for name in ("a", "b")}
    racers = [
        START.Process(target=race_for_positions, args=(name, address, CREDENTIALS, races // LOGS, starts, answer))
        for name, (_, answer) in pipes.items()
    ]
    for racer in racers:
        racer.start()
    won = {name: result.recv() for name, (result, _) in pipes.items()}
    assert [exit_code(racer) for racer in racers] == [0, 0]
    for number in range(LOGS):
        first, *records = CommitLog(store, f"bank{number}").records()
        assert first == EpochRecord(0, 1, "a")
        assert len(records) == races // LOGS
        for record, a_won, b_won in zip(records, won["a"][number], won["b"][number], strict=True):
            assert a_won != b_won
            assert record.writer.startswith("a" if a_won else "b")
            cases.held()
    kinds = {type(record) for number in range(LOGS) for record in CommitLog(store, f"bank{number}").records()[1:]}
    assert kinds == {CommitRecord, EpochRecord}, "one side won always: nothing was raced"
