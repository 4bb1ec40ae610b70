"""What a commit comes to for each answer that a real S3 server, or the way to it, can give."""

import uuid

import pytest

from rayshot.errors import CommitUnknown, ConfigError, Fenced, StoreFull
from rayshot.log.layout import log_key
from rayshot.log.log import CommitLog
from rayshot.log.records import encode_record
from rayshot.places.calls import ATTEMPTS_MAX
from rayshot.places.kinds import open_store
from rayshot.places.store import Store
from tests.log.test_log_log import commit
from tests.places.fault_proxy import FaultProxy, Plan, Spoil, running_proxy
from tests.places.moto_server import BUCKET as MOTO_BUCKET
from tests.places.s3_server import S3Server

PATIENCE = "&retries=0&timeout_s=0.4"
FOR_GOOD = 10_000


@pytest.fixture
def prefix() -> str:
    return f"outcomes/{uuid.uuid4().hex}"


@pytest.fixture
def direct(s3: S3Server, prefix: str) -> Store:
    return open_store(s3.address(prefix))


@pytest.fixture
def log(direct: Store, proxy: FaultProxy, s3: S3Server, prefix: str) -> CommitLog:
    """A log that began its epoch, seen through the proxy."""
    log = CommitLog(open_store(s3.address(prefix, proxy.endpoint) + PATIENCE), "bank")
    log.begin_epoch(1, "w")
    return log


def committed_positions(direct: Store) -> list[int]:
    return [record.position for record in CommitLog(direct, "bank").refresh().retained.values()]


ONCE = [
    Spoil.RESET,
    Spoil.SILENCE,
    Spoil.UNAVAILABLE,
    Spoil.ERROR,
    Spoil.DENIED,
    Spoil.CONFLICT,
    Spoil.RESET_AFTER,
    Spoil.SILENCE_AFTER,
    Spoil.UNAVAILABLE_AFTER,
    Spoil.ERROR_AFTER,
]


@pytest.mark.acceptance("D3", "D4")
@pytest.mark.parametrize("spoil", ONCE, ids=lambda spoil: spoil.name.lower())
def test_a_commit_whose_answer_is_lost_or_bad_is_there_once_and_its_writer_goes_on(
    log: CommitLog, direct: Store, proxy: FaultProxy, spoil: Spoil
) -> None:
    proxy.restart(Plan(spoil, only="PUT"))
    log.append(commit(1, "w", 1))
    log.append(commit(2, "w", 2))
    assert committed_positions(direct) == [1, 2]


@pytest.mark.acceptance("D3")
def test_a_commit_that_the_client_itself_tried_again_is_there_once(
    direct: Store, s3: S3Server, proxy: FaultProxy, prefix: str
) -> None:
    log = CommitLog(open_store(s3.address(prefix, proxy.endpoint)), "bank")
    log.begin_epoch(1, "w")
    for position, spoil in enumerate((Spoil.UNAVAILABLE_AFTER, Spoil.ERROR_AFTER, Spoil.RESET_AFTER), start=1):
        proxy.restart(Plan(spoil, only="PUT"))
        log.append(commit(position, "w", position))
    assert committed_positions(direct) == [1, 2, 3]


SILENT = [Spoil.SILENCE, Spoil.RESET, Spoil.UNAVAILABLE, Spoil.ERROR, Spoil.DENIED, Spoil.CONFLICT]


@pytest.mark.acceptance("D5")
@pytest.mark.parametrize("spoil", SILENT, ids=lambda spoil: spoil.name.lower())
def test_a_commit_that_gets_no_answer_for_good_is_unknown_and_the_next_start_settles_that_it_is_not_there(
    log: CommitLog, direct: Store, proxy: FaultProxy, spoil: Spoil
) -> None:
    proxy.restart(Plan(spoil, count=FOR_GOOD))
    with pytest.raises(CommitUnknown, match="not known"):
        log.append(commit(1, "w", 1))
    assert len(proxy.requests) <= 2 * ATTEMPTS_MAX
    successor = CommitLog(direct, "bank")
    assert successor.begin_epoch(2, "w2").position == 1
    assert committed_positions(direct) == []
    proxy.restart()
    with pytest.raises(Fenced):
        log.append(commit(1, "w", 1))


@pytest.mark.acceptance("D5")
@pytest.mark.parametrize("spoil", [Spoil.SILENCE_AFTER, Spoil.RESET_AFTER, Spoil.UNAVAILABLE_AFTER, Spoil.ERROR_AFTER])
def test_a_commit_that_came_through_without_any_answer_is_unknown_and_the_next_start_settles_that_it_is_there(
    log: CommitLog, direct: Store, proxy: FaultProxy, spoil: Spoil
) -> None:
    proxy.restart(Plan(spoil, count=FOR_GOOD))
    with pytest.raises(CommitUnknown):
        log.append(commit(1, "w", 1))
    successor = CommitLog(direct, "bank")
    assert successor.begin_epoch(2, "w2").position == 2
    assert committed_positions(direct) == [1]


@pytest.mark.acceptance("D5")
def test_an_unknown_commit_is_settled_by_its_own_writer_when_the_storage_is_back(
    log: CommitLog, direct: Store, proxy: FaultProxy
) -> None:
    for position, spoil in ((1, Spoil.SILENCE), (2, Spoil.RESET_AFTER)):
        proxy.restart(Plan(spoil, count=FOR_GOOD))
        with pytest.raises(CommitUnknown):
            log.append(commit(position, "w", position))
        proxy.restart()
        log.append(commit(position, "w", position))
    assert committed_positions(direct) == [1, 2]


@pytest.mark.acceptance("E1")
@pytest.mark.parametrize("spoil", [None, Spoil.RESET_AFTER, Spoil.CONFLICT, Spoil.SILENCE, Spoil.UNAVAILABLE])
def test_who_finds_anothers_record_is_fenced_whatever_the_answer_was(
    log: CommitLog, direct: Store, proxy: FaultProxy, spoil: Spoil | None
) -> None:
    CommitLog(direct, "bank").begin_epoch(2, "rival")
    proxy.restart(None if spoil is None else Plan(spoil, only="PUT"))
    with pytest.raises(Fenced, match="rival has written record 1"):
        log.append(commit(1, "w", 1))
    assert committed_positions(direct) == []


@pytest.mark.acceptance("D7")
def test_a_server_that_is_full_says_so_with_place_and_bytes(log: CommitLog, direct: Store, proxy: FaultProxy) -> None:
    record = commit(1, "w", 1)
    proxy.restart(Plan(Spoil.FULL, count=FOR_GOOD, only="PUT"))
    with pytest.raises(StoreFull, match="no room") as caught:
        log.append(record)
    assert caught.value.evidence["bytes"] == len(encode_record(record))
    assert caught.value.evidence["path"].endswith(log_key("bank", 1))
    proxy.restart()
    log.append(record)
    assert committed_positions(direct) == [1]


@pytest.mark.acceptance("D9")
@pytest.mark.parametrize(
    ("spoil", "reason"), [(Spoil.CONDITIONS_IGNORED, "overwrites"), (Spoil.NO_CONDITIONS, "no conditional create")]
)
def test_a_server_without_conditional_create_is_refused_unless_that_is_typed_out(
    moto: str, prefix: str, spoil: Spoil, reason: str
) -> None:
    with running_proxy(int(moto.rpartition(":")[2])) as proxy:  # before moto, which checks no signature of conditions
        proxy.restart(Plan(spoil, count=FOR_GOOD))
        address = f"s3://{MOTO_BUCKET}/{prefix}?endpoint={proxy.endpoint}&retries=0"
        with pytest.raises(ConfigError, match=f"{reason}.*allow_unfenced"):
            open_store(address).check()
        store = open_store(f"{address}&allow_unfenced=true")
        store.check()
        log = CommitLog(store, "bank")
        log.begin_epoch(1, "w")
        log.append(commit(1, "w", 1))
        assert committed_positions(store) == [1]
        assert [entry.key.partition("/")[0] for entry in store.list()] == ["bank", "bank"]


@pytest.mark.acceptance("D11")
def test_a_server_slower_than_the_deadline_is_given_up_in_time(
    log: CommitLog, direct: Store, proxy: FaultProxy
) -> None:
    proxy.restart()
    proxy.delay_s = 1.0
    with pytest.raises(CommitUnknown):
        log.append(commit(1, "w", 1))
    assert len(proxy.requests) <= 2 * ATTEMPTS_MAX
    proxy.delay_s = 0.0
    log.append(commit(1, "w", 1))
    assert committed_positions(direct) == [1]
