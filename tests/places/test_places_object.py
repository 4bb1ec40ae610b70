import json
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import rayshot
from rayshot.errors import AlreadyExists, ConfigError, KeyNotFound, StoreUnavailable
from rayshot.places.conformance import race
from rayshot.places.kinds import open_store
from rayshot.places.store import Store
from tests.places.azurite_server import ACCOUNT, CONTAINER
from tests.places.fault_proxy import FaultProxy, Plan, Spoil
from tests.places.s3_server import BUCKET, CREDENTIALS, S3Server, free_ports

SECRET = CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
RACES, CONTENDERS = 1_000, 4


def test_stores_in_one_bucket_see_nothing_of_each_other(s3: S3Server) -> None:
    one, other = (open_store(s3.address(f"isolation/{name}")) for name in ("a", "ab"))
    one.create("x/y", b"one")
    assert not list(other.list())
    other.create("x/y", b"other")
    other.delete("x/y")
    assert [entry.key for entry in one.list()] == ["x/y"]
    assert [entry.key for entry in open_store(s3.address("isolation")).list()] == ["a/x/y"]


@pytest.mark.wide("64 threads at one server")
@pytest.mark.acceptance("D9")
def test_of_64_threads_that_race_for_one_key_one_wins(s3: S3Server) -> None:
    store = open_store(s3.address("race"))
    won = race([partial(store.create, "key", b"%d" % number) for number in range(64)])
    assert store.read("key") == b"%d" % won[0]
    assert len(won) == 1


@pytest.mark.wide("64 threads at one server")
@pytest.mark.acceptance("D9")
def test_of_all_who_race_for_a_key_one_wins_for_every_key(s3: S3Server, in_full: bool) -> None:
    store = open_store(s3.address("races"))
    winners: list[list[int]] = [[] for _ in range(RACES if in_full else RACES // 10)]

    def contend(contender: int, number: int) -> None:
        try:
            store.create(f"{number}", b"%d" % contender)
        except AlreadyExists:
            return
        winners[number].append(contender)

    with ThreadPoolExecutor(64) as threads:
        for number in range(len(winners)):
            for contender in range(CONTENDERS):
                threads.submit(contend, contender, number)
    assert [len(won) for won in winners] == [1] * len(winners)
    for number in range(0, len(winners), 10):
        assert store.read(f"{number}") == b"%d" % winners[number][0]


def test_the_address_and_the_pickle_of_a_store_hold_no_secret(s3: S3Server) -> None:
    store = open_store(s3.address("pickled"))
    store.create("a", b"x")
    stream = pickle.dumps(store)
    assert SECRET.encode() not in stream
    assert SECRET not in store.url + repr(store)
    assert pickle.loads(stream).read("a") == b"x"


def test_foreign_objects_whose_names_are_no_keys_are_left_out_of_listings(s3: S3Server) -> None:
    store = open_store(s3.address("foreign"))
    store.create("a/b", b"x")
    for name in ("a/.hidden", "a/with space", ".rayshot-tmp"):
        store._connected().put(name, b"x")
    assert [entry.key for entry in store.list()] == ["a/b"]
    assert [entry.key for entry in store.list(shallow=True)] == ["a/"]
    assert [entry.key for entry in store.list("a", shallow=True)] == ["a/b"]


@pytest.mark.acceptance("D1")
@pytest.mark.parametrize("spoil", [Spoil.SHORT, Spoil.CUT])
def test_an_answer_that_was_cut_is_noticed(s3: S3Server, proxy: FaultProxy, spoil: Spoil) -> None:
    store = open_store(s3.address("cut", proxy.endpoint) + "&retries=0&timeout_s=5")
    store.create(f"{spoil.name}", b"0123456789" * 1000)
    proxy.restart(Plan(spoil, count=100))
    with pytest.raises(StoreUnavailable):
        store.read_range(f"{spoil.name}", 0, 20_000)
    with pytest.raises(StoreUnavailable):
        store.read_range(f"{spoil.name}", 100, 9_000)


def refusal(store: Store) -> str:
    """The line with which `check` refuses; the secret is not in it."""
    with pytest.raises(ConfigError) as caught:
        store.check()
    line = str(caught.value)
    assert "\n" not in line
    assert SECRET not in line
    assert SECRET not in repr(caught.value.evidence)
    return line


@pytest.mark.acceptance("G25")
def test_a_bucket_that_does_not_exist_is_refused_at_check(s3: S3Server) -> None:
    store = open_store(f"s3://no-such-bucket/a?endpoint={s3.endpoint}")
    assert "no bucket 'no-such-bucket'" in refusal(store)
    with pytest.raises(StoreUnavailable, match="no bucket"):
        store.read("a")
    with pytest.raises(StoreUnavailable, match="no bucket"):
        list(store.list())
    with pytest.raises(ConfigError, match="no bucket") as caught:
        rayshot.open(store.url)
    assert "\n" not in str(caught.value)


@pytest.mark.acceptance("G25")
@pytest.mark.parametrize(
    ("name", "word"), [("AWS_ACCESS_KEY_ID", "InvalidAccessKeyId"), ("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch")]
)
def test_keys_that_do_not_fit_are_refused_at_check(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, name: str, word: str
) -> None:
    monkeypatch.setenv(name, "another")
    assert f"access is refused (403 {word})" in refusal(open_store(s3.address("denied")))


@pytest.mark.acceptance("G25")
@pytest.mark.parametrize(
    ("variable", "value"),
    [("AWS_ACCESS_KEY_ID", "rayshot-tests\n"), ("AWS_SESSION_TOKEN", "token\r\n"), ("AWS_ENDPOINT_URL", "not a url")],
)
def test_a_variable_of_which_the_client_breaks_down_is_refused_at_check(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert (variable if "\n" in value else "AWS_") in refusal(open_store("s3://rayshot-tests/broken?retries=0"))


def test_no_variable_turns_off_what_commits_are_built_on(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    store = open_store(s3.address("conditional"))
    store.check()
    store.create("a", b"x")
    with pytest.raises(AlreadyExists):
        store.create("a", b"y")


@pytest.mark.acceptance("G25")
def test_no_credentials_at_all_are_refused_at_check(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1/169.254.169.254")
    address = s3.address("nobody") + "&retries=0&timeout_s=2"
    assert "no usable credentials were found; set AWS_ACCESS_KEY_ID" in refusal(open_store(address))


@pytest.mark.acceptance("G25")
@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:{}", "https://127.0.0.1:{}", "http://no-such-host.invalid"])
@pytest.mark.usefixtures("s3")
def test_a_server_that_is_not_there_is_refused_at_check(endpoint: str) -> None:
    [port] = free_ports(1)
    address = f"s3://{BUCKET}/a?endpoint={endpoint.format(port)}&retries=0&timeout_s=2"
    assert "it cannot be reached" in refusal(open_store(address))


@pytest.mark.acceptance("G25")
def test_azure_says_what_is_missing(azurite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no storage account is named" in refusal(open_store(f"az://{CONTAINER}"))
    missing = open_store(f"az://no-such/a?endpoint={azurite}&account={ACCOUNT}")
    assert "no bucket 'no-such' (ContainerNotFound)" in refusal(missing)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", f"{SECRET}!")
    garbled = open_store(f"az://{CONTAINER}/a?endpoint={azurite}&account={ACCOUNT}")
    assert "AZURE_STORAGE_ACCOUNT_KEY is not the base64 text" in refusal(garbled)


@pytest.mark.acceptance("G25")
def test_google_cloud_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    assert "GOOGLE_APPLICATION_CREDENTIALS names cannot be opened" in refusal(open_store("gs://bucket/shots"))
    (tmp_path / "garbled.json").write_text(json.dumps({"private_key": SECRET}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "garbled.json"))
    assert "cannot be written" in refusal(open_store("gs://bucket/shots"))


def test_an_unfenced_store_still_refuses_what_it_can_see(s3: S3Server) -> None:
    store = open_store(s3.address("unfenced") + "&allow_unfenced=true")
    store.check()
    store.create("a", [b"fi", b"rst"])
    with pytest.raises(AlreadyExists):
        store.create("a", b"second")
    assert store.read("a") == b"first"


def test_a_forked_child_of_a_process_that_used_the_store_refuses_instead_of_hanging(s3: S3Server) -> None:
    store = open_store(s3.address("forked"))
    with pytest.raises(KeyNotFound):
        store.read("a")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store.read("a")
        except StoreUnavailable as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert b"forked child" in os.read(reader, 1000)
    os.close(reader)


def test_a_store_is_used_by_many_threads_at_once(s3: S3Server) -> None:
    store = open_store(s3.address("threads"))
    start = threading.Barrier(16)

    def work(number: int) -> bytes:
        start.wait()
        store.create(f"{number}", b"%d" % number)
        return store.read(f"{number}")

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(work, range(16))) == [b"%d" % number for number in range(16)]


def test_neither_importing_rayshot_nor_naming_a_bucket_loads_the_cloud_client() -> None:
    code = (
        "import sys, rayshot; from rayshot.places.kinds import open_store; open_store('s3://bucket/shots'); "
        "assert not {'obstore'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
