"""The site of the documentation: it is built without a complaint, every page is in its navigation, every name in its
reference."""

import importlib
import re
import subprocess
import sys
import tomllib

import pytest

import rayshot.cli.help as help_
from tests.processes import ROOT

DOCS = ROOT / "docs"
NAVIGATION = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
REFERENCES = {
    "rayshot": "reference",
    "rayshot.simulation": "reference-simulation",
    "rayshot.properties": "reference-properties",
    "pyspark_rayshot": "reference-spark",
}


def test_the_site_is_built_without_a_complaint_and_has_all_places_that_errors_may_name():
    built = subprocess.run(
        [sys.executable, ROOT / "scripts/site"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (built.returncode, built.stderr) == (0, ""), built.stdout
    assert built.stdout.endswith(" 0 wrong\n")
    for name, page in help_.pages().items():
        file = ROOT / "build/site" / ("" if name == "index" else name) / "index.html"
        assert not help_.places(page.text).keys() - set(re.findall(r'\bid="([^"]+)"', file.read_text())), name


def test_every_page_is_in_the_navigation_once():
    listed = [page for section in NAVIGATION for pages in section.values() for page in pages]
    assert sorted(listed) == sorted(file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md"))


def test_every_design_page_is_on_the_page_that_lists_them():
    listed = re.findall(r"(?m)^- \[(\d+\. .*)\]\((.*)\)$", (DOCS / "design/README.md").read_text())
    headings = {file.name: file.read_text().partition("\n")[0] for file in DOCS.glob("design/0*.md")}
    assert {file: f"# {int(title.split('.')[0]):d}. {title.split('. ', 1)[1]}" for title, file in listed} == headings


@pytest.mark.parametrize("module", REFERENCES)
def test_every_public_name_is_in_the_reference(module):
    described = re.findall(r"(?m)^::: (\S+)$", (DOCS / f"{REFERENCES[module]}.md").read_text())
    assert len(set(described)) == len(described)
    missing = set(importlib.import_module(module).__all__) - {name.rpartition(".")[2] for name in described}
    assert not missing
