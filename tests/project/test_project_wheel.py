"""What is published: the wheel, the archive of the sources, and what the package index shows of them."""

import email
import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import PurePath

import pytest

import rayshot
from tests.processes import ROOT
from tests.wheel.building import build

URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
TAG = f"v{rayshot.__version__}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The archive of the sources."""
    return build("sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def contents(wheel):
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


@pytest.fixture(scope="module")
def metadata(contents):
    return email.message_from_bytes(contents[f"rayshot-{rayshot.__version__}.dist-info/METADATA"])


def tracked(*folders):
    """What git knows or would take of these folders."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    return {name for name in listed if name and (ROOT / name).exists()}


def test_the_wheel_holds_both_packages_with_their_types_and_pages_and_nothing_else(contents):
    packages = {name.removeprefix("integrations/") for name in tracked("rayshot", "integrations/pyspark_rayshot")}
    pages = {f"rayshot/pages/{name.removeprefix('docs/')}" for name in (*tracked("docs"), "zensical.toml")}
    packages |= {name for name in pages if name.endswith((".md", ".toml"))}
    about = {name for name in contents if name.startswith(f"rayshot-{rayshot.__version__}.dist-info/")}
    assert set(contents) - about == packages
    assert "rayshot/py.typed" in packages
    assert {PurePath(name).name for name in about} == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "LICENSE"}


def test_the_wheel_holds_no_tests_no_benchmarks_and_no_notebooks(contents):
    code = {name: text for name, text in contents.items() if not name.startswith("rayshot/pages/")}
    folders = {part for name in code for part in PurePath(name).parent.parts}
    assert folders.isdisjoint({"tests", "test", "benchmarks", "examples", "docs", "scripts", "k8s"})
    assert [name for name in code if re.search(r"(^|/)(test_|conftest)|\.ipynb$", name)] == []
    imported = [name for name, text in code.items() if re.search(rb"(?m)^\s*(from|import) (tests|pytest)\b", text)]
    assert imported == []


def test_the_archive_of_the_sources_builds_the_same_wheel(sources, wheel, tmp_path):
    with tarfile.open(sources) as opened:
        opened.extractall(tmp_path, filter="data")
    again = build("wheel", tmp_path / "dist", tmp_path / f"rayshot-{rayshot.__version__}")
    assert (again.name, again.read_bytes()) == (wheel.name, wheel.read_bytes())


def test_the_version_is_written_once_and_the_metadata_has_it(metadata):
    assert metadata["Version"] == rayshot.__version__
    images = {
        tag
        for name in tracked("k8s")
        for tag in re.findall(r"(?:rayshot:|newTag: )(\d[\w.]*)-ray", (ROOT / name).read_text())
    }
    assert images == {rayshot.__version__}


def test_the_metadata_says_who_made_it_where_it_is_at_home_and_what_it_needs(metadata):
    assert metadata["Author"] == "The rayshot authors"
    assert metadata["License-Expression"] == "Apache-2.0"
    shown = dict(line.split(", ") for line in metadata.get_all("Project-URL"))
    assert shown == URLS
    assert set(shown) == {"Documentation", "Source", "Changelog", "Issues"}
    assert not [line for line in metadata.get_all("Requires-Dist") if "extra" not in line and "pytest" in line]


def test_each_link_and_picture_on_the_index_leads_to_a_file_of_this_version(metadata):
    text = re.sub(r"(?ms)^```.*?^```$", "", metadata.get_payload())
    links = re.findall(r"\]\(([^)]+)\)", text) + re.findall(r"\b(?:src|srcset|href)=\"([^\"]+)\"", text)
    files = [link.split("#")[0] for link in links if link.startswith(f"{URLS['Source']}/")]
    paths = [re.fullmatch(rf"{re.escape(URLS['Source'])}/(?:blob|raw)/{TAG}/(.*)", file)[1] for file in files]
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_no_file_has_another_home_for_the_project():
    """A move of the project is an edit of `project.urls` and of the files that this test then names."""
    homes = (URLS["Source"], URLS["Documentation"].rstrip("/"))
    address = re.compile(r"https://(?:github\.com/[\w-]+|[\w-]+\.github\.io)/rayshot\b")
    found = {(name, home) for name in tracked(".") for home in address.findall(_text(name))}
    assert [(name, home) for name, home in sorted(found) if home not in homes] == []


def _text(name):
    try:
        return (ROOT / name).read_text()
    except UnicodeDecodeError:
        return ""  # a picture, or a kept storage
