import pytest

from rayshot.errors import ConfigError
from rayshot.places.address import Address, Options, parse_address
from rayshot.places.kinds import is_local, open_store


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("s3://bucket", Address("s3", "bucket", "")),
        ("s3a://bucket/shots/", Address("s3", "bucket", "shots")),
        ("s3://bucket/year=2026/a b", Address("s3", "bucket", "year=2026/a b")),
        ("gs://bucket/a/b", Address("gs", "bucket", "a/b")),
        ("az://container/a", Address("az", "container", "a")),
        ("az://container/a?account=mine", Address("az", "container", "a", Options(account="mine"))),
        ("abfss://c1@acc1.dfs.core.windows.net/a", Address("az", "c1", "a", Options(account="acc1"))),
        ("abfs://c1@acc1.blob.core.windows.net", Address("az", "c1", "", Options(account="acc1"))),
        (
            "s3://b1/a?endpoint=http://127.0.0.1:8333/&region=eu-central-1&path_style=false&retries=0&timeout_s=2.5",
            Address(
                "s3",
                "b1",
                "a",
                Options(
                    endpoint="http://127.0.0.1:8333",
                    region="eu-central-1",
                    path_style=False,
                    retries=0,
                    timeout_s=2.5,
                ),
            ),
        ),
        (
            "gs://b1?allow_unfenced=true&connect_timeout_s=1",
            Address("gs", "b1", "", Options(allow_unfenced=True, connect_timeout_s=1)),
        ),
    ],
)
def test_an_address_is_read_and_its_one_spelling_reads_the_same(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(address.url) == address
    assert open_store(text).url == address.url
    assert not is_local(open_store(text))


def test_an_address_spells_only_what_differs_from_the_defaults() -> None:
    assert parse_address("s3a://b1/a?retries=3&region=us-east-1&timeout_s=60.0").url == "s3://b1/a?region=us-east-1"


SECRET = "hunter2/SECRET+"


@pytest.mark.acceptance("G25")
@pytest.mark.parametrize(
    "address",
    [
        "s3://",
        "s3:///shots",
        "s3://b",
        "s3://bucket:80/shots",
        f"s3://user:{SECRET}@bucket/shots",
        "s3://bucket@acc1.dfs.core.windows.net/shots",
        f"abfss://container@{SECRET}/shots",
        "s3://bucket/a//b",
        "s3://bucket/a/../b",
        "s3://bucket/a%2Fb",
        f"s3://bucket/a#{SECRET}",
        "s3://[bucket/a",
        "s3://bucket/a?endpoint",
        "s3://bucket/a?=",
        f"s3://bucket/a?{SECRET}={SECRET}",
        f"s3://bucket/a?regoin={SECRET}",
        f"s3://bucket/a?secret_access_key={SECRET}",
        f"s3://bucket/a?aws_session_token={SECRET}",
        f"az://container/a?sas={SECRET}",
        f"az://container/a?sig={SECRET}",
        "gs://bucket/a?endpoint=http://127.0.0.1:1",
        "gs://bucket/a?region=eu",
        "s3://bucket/a?account=mine",
        "s3://bucket/a?region=a&region=b",
        f"s3://bucket/a?region={SECRET}",
        f"s3://bucket/a?endpoint=http://user:{SECRET}@host",
        f"s3://bucket/a?endpoint=http://host/?key={SECRET}",
        "s3://bucket/a?endpoint=host:80",
        "s3://bucket/a?endpoint=http://",
        "s3://bucket/a?endpoint=http://host:99999",
        "s3://bucket/a?path_style=yes",
        "s3://bucket/a?retries=-1",
        "s3://bucket/a?retries=21",
        "s3://bucket/a?timeout_s=0",
        "s3://bucket/a?timeout_s=nan",
        "s3://bucket/a?timeout_s=1e9",
        "s3://bucket/a?timeout_s=soon",
        f"hdfs://{SECRET}@host/a",
        "s3://bucket/" + "a/" * 400 + "b",
    ],
)
def test_what_is_no_address_is_refused_in_one_line_that_shows_no_secret(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_store(address)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "SECRET" not in repr(caught.value.evidence)


def test_an_option_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match=r"no option 'regoin'; it takes .*endpoint.*region.*Did you mean 'region'\?$"):
        open_store("s3://bucket/shots?regoin=eu")
