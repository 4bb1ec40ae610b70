from pathlib import Path
from typing import Any

import pytest

from rayshot.errors import ConfigError
from rayshot.places.kinds import is_local, open_store
from rayshot.places.local import LocalStore


def test_a_path_and_a_file_address_open_the_same_folder(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    for address in (str(folder), folder, folder.as_uri(), f"file://localhost{folder}"):
        store = open_store(address)
        assert isinstance(store, LocalStore)
        assert store.folder == folder
    assert is_local(open_store(folder))


def test_a_memory_address_opens_the_same_store_each_time() -> None:
    open_store("memory://locate").create("a", b"x")
    assert open_store("memory://locate").read("a") == b"x"


@pytest.mark.acceptance("G25")
@pytest.mark.parametrize(
    "address",
    [
        "",
        "ftp://host/shots",
        "file://host/shots",
        "file://",
        "memory://",
        "memory://a/b",
        "a\0b",
        "file:///a%00b",
        "~nobody-of-that-name/shots",
        "\ud800",
        None,
        5,
    ],
)
def test_an_address_that_names_no_store_is_refused_in_one_line(address: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        open_store(address)
    assert "\n" not in str(caught.value)


@pytest.mark.acceptance("G25")
def test_a_password_in_an_address_is_not_repeated() -> None:
    for address in ("s3://user:hunter2@bucket/shots", "file://user:hunter2@host/shots", "user:hunter2@host://shots"):
        with pytest.raises(ConfigError) as caught:
            open_store(address)
        assert "hunter2" not in f"{caught.value} {caught.value.evidence}"


@pytest.mark.acceptance("G25")
@pytest.mark.parametrize("address", ["s3:/bucket/shots", "S3:/b", "gs:/b", "az:/b", "abfss:/b", "s3:b", "memory:/b"])
def test_an_address_that_lost_a_slash_is_no_folder(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scheme = address.partition(":")[0]
    for given in (address, Path(address)):
        with pytest.raises(ConfigError, match=f"write {scheme.lower()}://"):
            open_store(given)
    with pytest.raises(ConfigError, match="write s3://"):
        open_store(Path("s3://bucket/shots"))
    folder = open_store(f"./{address}")
    assert isinstance(folder, LocalStore)
    assert folder.folder == tmp_path / address
