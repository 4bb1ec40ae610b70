"""What GitHub runs cannot run here: linters read it, and what a linter does not ask is asked here."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import rayshot
from tests.processes import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted(GITHUB.glob("workflows/*.yml"))
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.github-issue-forms": [form for form in GITHUB.glob("ISSUE_TEMPLATE/*.yml") if form.name != "config.yml"],
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE/config.yml"],
}


def run(program, *arguments):
    """Linters are beside this Python."""
    command = [Path(sys.executable).with_name(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def zizmor(folder):
    return run("zizmor", "--offline", "--no-progress", "--persona", "pedantic", folder)


def test_zizmor_finds_nothing():
    found = zizmor(GITHUB)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (r"permissions: \{\}", "permissions: write-all"),
        (r"@[0-9a-f]{40} # v[\d.]+", "@main"),
        (r" *persist-credentials: false\n", ""),
        (r"run: \.ci/run", "run: echo ${{ github.event.pull_request.title }}"),
    ],
)
def test_zizmor_finds_each_of_these_mistakes(before, behind, tmp_path):
    folder = tmp_path / ".github/workflows"
    shutil.copytree(GITHUB / "workflows", folder)
    text = (folder / "test.yml").read_text()
    (folder / "test.yml").write_text(re.sub(before, lambda _: behind, text, count=1))
    assert zizmor(tmp_path).returncode != 0


@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_file_has_the_form_that_github_reads(schema):
    assert SCHEMAS[schema]
    found = run("check-jsonschema", "--builtin-schema", schema, *SCHEMAS[schema])
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_begins_without_rights_and_each_job_ends_in_time(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {}
    assert "concurrency" in workflow
    assert [name for name, job in workflow["jobs"].items() if not 0 < job["timeout-minutes"] <= 300] == []
    assert [name for name, job in workflow["jobs"].items() if "permissions" not in job] == []
    assert [line for line in path.read_text().splitlines() if "uses:" in line and not PINNED.search(line)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_only_what_there_is(path):
    targets = re.findall(r"(?m)^([\w-]+):(?!=)", (ROOT / "Makefile").read_text())
    steps = [step.get("run", "") for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]
    steps.append((ROOT / ".ci/run").read_text())
    named = {target for run in steps for told in re.findall(r"\bmake ([\w -]+)", run) for target in told.split()}
    files = {file for run in steps for file in re.findall(r"(?:scripts|tests|\.ci)/[\w./-]+", run)}
    assert named <= {*targets}
    assert [file for file in sorted(files) if not (ROOT / file).exists()] == []


def notes(root, tag):
    command = [sys.executable, root / "scripts/release-notes", tag]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def project(tmp_path):
    """Of the whole project what the notes are made of."""
    for folder in ("scripts", "rayshot"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "scripts/release-notes", tmp_path / "scripts")
    (tmp_path / "rayshot/__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "## Unreleased\n\n- a\n\n## 1.2.3 - 2026-12-01\n\nb\n\n### Fixed\n\n- c\n\n## 1.2.2 - 2026-11-01\n\n- d\n"
    )
    return tmp_path


def test_the_notes_of_a_release_are_its_section_of_the_changelog(project):
    assert notes(project, "v1.2.3").stdout == "b\n\n### Fixed\n\n- c\n"


@pytest.mark.parametrize(
    ("tag", "said"), [("v1.2.2", "has version 1.2.3"), ("1.2.3", "has version 1.2.3"), ("v1.2.30", "has version 1.2.3")]
)
def test_a_tag_of_another_version_is_refused(project, tag, said):
    refused = notes(project, tag)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert said in refused.stderr


def test_a_version_without_a_dated_section_is_refused(project):
    text = (project / "CHANGELOG.md").read_text()
    (project / "CHANGELOG.md").write_text(text.replace("1.2.3 - 2026-12-01", "1.2.3"))
    refused = notes(project, "v1.2.3")
    assert (refused.returncode, refused.stderr) == (1, "CHANGELOG.md has no section '## 1.2.3 - YEAR-MONTH-DAY'\n")


def test_the_changelog_tells_of_this_version():
    assert notes(ROOT, f"v{rayshot.__version__}").returncode == 0
