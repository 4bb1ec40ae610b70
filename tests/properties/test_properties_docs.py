"""The table of docs/properties.md is that of the code."""

import re

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
