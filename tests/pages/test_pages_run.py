"""Every block of code in README.md and docs is run as it stands, or says why not; what it prints is what the page says.

`page.py` says which block is taken how. A page is one program, with a folder of its own.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from rayshot.cli.program import main
from tests.pages.page import LANGUAGES, Page, fits, is_read_only, pages, words
from tests.pages.shell import COMMAND, END
from tests.processes import ROOT, kill_marked, search_path

PAGES = pages()
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = set(re.findall(r"(?m)^([\w-]+):", (ROOT / "Makefile").read_text()))
OF_RAY = re.compile(r"(?m)^(?:\x1b\[\d+m)*\((?:\w+ )?(?:pid=|raylet|autoscaler)[^\n]*\n")
"""What Ray prints of its workers."""
READ = {"json": json.loads, "yaml": lambda text: list(yaml.safe_load_all(text)), "toml": tomllib.loads}
OF_A_CLUSTER = re.compile(r"rayshot\.(init|resume|restore|attach)\(|rayshot demo|import ray\b")
OF_SPARK = re.compile(r"\blocal_session\(")


def running(*, spark: bool):
    """The pages with code that runs, those with Spark or the others; who starts a cluster is marked."""
    for page in (one for one in PAGES if one.runs):
        code = "".join(block.code for block in page.blocks if block.runs)
        if bool(OF_SPARK.search(code)) == spark:
            yield pytest.param(page, id=page.name, marks=[pytest.mark.ray] if OF_A_CLUSTER.search(code) else [])


@pytest.mark.parametrize("page", [*running(spark=False)])
def test_every_block_of_a_page_runs_and_prints_what_the_page_says(page, tmp_path):
    run(page, tmp_path)


@pytest.mark.wide("slow")
@pytest.mark.spark
@pytest.mark.parametrize("page", [*running(spark=True)])
def test_every_block_of_a_page_that_asks_spark_prints_what_the_page_says(page, tmp_path):
    run(page, tmp_path)


def run(page: Page, folder: Path) -> None:
    """Run a page as a program in this folder, and compare."""
    script = folder / Path(page.name).name.replace(".md", ".py").replace("-", "_")
    script.write_text(page.script())
    (folder / "docs").mkdir()
    (folder / "docs/learners").symlink_to(ROOT / "docs/learners")
    mark = f"RAYSHOT_PAGE={uuid4()}"
    tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, **search_path(), "RAY_DEDUP_LOGS": "0", "PATH": tools, "COLUMNS": "120"}
    name, _, value = mark.partition("=")
    try:
        done = subprocess.run(
            [sys.executable, script], check=False, capture_output=True, text=True, timeout=240, cwd=folder,
            env={**environment, name: value},
        )  # fmt: skip
    finally:
        kill_marked(mark)
    printed = printed_by_block(done.stdout)
    assert done.returncode == 0, f"{printed}\n{done.stderr[-4000:]}"
    assert [*complaints(page, printed)] == []


def printed_by_block(output: str) -> dict[int, str]:
    """What each block printed, by the line where it begins; the last entry is that of the one that failed, if any."""
    parts = re.split(rf"{END}(\d+)\n", OF_RAY.sub("", output))
    return dict(zip(map(int, [*parts[1::2], 0]), parts[::2], strict=True))


def complaints(page: Page, printed: dict[int, str]):
    for block in (one for one in page.blocks if one.runs):
        if block.language == "python":
            pairs = [(page.promised(block), printed[block.line])]
        else:
            outputs = printed[block.line].split(f"{COMMAND}\n")[1:]
            pairs = [
                ("\n".join(said), shown)
                for (command, said), shown in zip(block.commands, outputs, strict=True)
                if said and not is_read_only(command)
            ]
        for promised, found in pairs:
            if promised is not None and not fits(promised, found, exact=block.language == "python"):
                yield f"{page.name}:{block.line} says\n{promised}\nand prints\n{found}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_block_that_is_not_run_says_why_and_is_sound(page):
    for block in page.blocks:
        where = f"{page.name}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: a block is one of {sorted(LANGUAGES)}"
        assert not block.about or re.fullmatch(r"not run: \w.{5,}", block.about), f"{where}: not run: WHY"
        if block.language == "python":
            compile(block.code, where, "exec", dont_inherit=True)
        if block.language in READ:
            READ[block.language](block.code)
        for command, _ in block.commands if block.language in {"console", "sh"} else ():
            assert not (fault := fault_of(command)), f"{where}: {command}: {fault}"


def fault_of(command: str) -> str | None:
    """What is wrong with a command as far as one can see without running it; None if nothing is."""
    match words(command):
        case ["rayshot", *rest]:
            return fault_of_rayshot(rest)
        case ["pip", "install", *rest]:
            named = [extra for word in rest for extra in re.findall(r"rayshot\[([\w,]+)\]", word)]
            return ", ".join(extra for one in named for extra in one.split(",") if extra not in EXTRAS)
        case ["make", *rest]:
            return ", ".join(word for word in rest if "=" not in word and word not in TARGETS)
        case ["python", "-m", module, *_]:
            path = module.replace(".", "/")
            homes = (ROOT, ROOT / "integrations")
            there = any((home / f"{path}.py").exists() or (home / path).is_dir() for home in homes)
            return None if there or module in {"venv", "pip", "pydoc"} else f"no module {module}"
    return None


def fault_of_rayshot(arguments: list[str]) -> str | None:
    """What click says to these arguments before a command begins."""
    if not arguments or arguments[0].startswith("-"):
        return None
    context = main.make_context("rayshot", arguments, resilient_parsing=True)
    command = main.get_command(context, arguments[0])
    if command is None:
        return "no such command"
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = {word.partition("=")[0] for word in arguments[1:] if word.startswith("--")}
    return ", ".join(sorted(given - known - {"--help"}))


def test_what_a_page_promises_is_compared():
    assert fits("a\n...\nb 12", "a\nx\ny\nb 12\n", exact=True)
    assert not fits("a\n...\nb 12", "a\nb 13\n", exact=True)
    assert fits(" bank  running  1.5 MiB\n ────", "bank running 812 B\n ──\n", exact=False)
    assert not fits("bank  running", "bank  stopped", exact=False)
    assert fault_of("pip install 'rayshot[nothing]'") == "nothing"
    assert fault_of("rayshot lst ./shots") == "no such command"
    assert fault_of("FOO=1 rayshot show ./shots --systme bank | less") == "--systme"
    assert fault_of("make nothing") == "nothing"
