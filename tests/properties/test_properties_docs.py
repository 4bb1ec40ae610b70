"""docs/properties.md cannot lie: its table is that of the code, and its examples print what it says."""

import contextlib
import io
import re

import pytest

from rayshot.properties import (
    conserved_sum,
    counter_reached,
    deadlock,
    lost_reply,
    quantity,
    termination,
    token_census,
    unreferenced,
)
from tests.processes import ROOT

PAGE = ROOT / "docs" / "properties.md"
READY_MADE = {
    "termination()": termination(),
    "lost_reply()": lost_reply(),
    "deadlock(...)": deadlock("waits_for"),
    'token_census("has_token", "take")': token_census("has_token", "take"),
    "token_census(..., expected=0)": token_census("a", "b", expected=0),
    "token_census(..., expected=2, or_more=True)": token_census("a", "b", expected=2, or_more=True),
    "conserved_sum(quantity(...), total)": conserved_sum(quantity("a"), 1),
    'counter_reached("bob", "done", 330)': counter_reached("bob", "done", 330),
    'unreferenced("bob", roots=[...])': unreferenced("bob", roots=[]),
}


def test_the_table_has_the_conditions_of_the_code():
    (table,) = re.findall(r"<!-- ready-made -->\n(.*?)\n?<!-- end -->", PAGE.read_text(), re.DOTALL)
    rows = [f"| `{call}` | {one.kind} | {'; '.join(one.conditions)} |" for call, one in READY_MADE.items()]
    assert table == "\n".join(["| property | | as long as |", "| --- | --- | --- |", *rows])


def test_the_examples_print_what_the_page_shows(monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    examples = re.findall(r"```python\n((?:(?!```).)*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 7
    for code, promised in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        assert printed.getvalue().strip() == promised.strip()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
def test_all_examples_are_python(code):
    compile(code, "example", "exec")
