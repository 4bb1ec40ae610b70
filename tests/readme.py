"""The program on the README's first screen, and what it prints there."""

import re

from tests.processes import ROOT


def bank():
    """The program's text, and the lines that the README says it prints."""
    text = (ROOT / "README.md").read_text()
    code, printed = re.search(r"```python\n(import os.*?)```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
    return code, printed.splitlines()


def said(printed):
    """The lines that a program printed itself; Ray repeats those of its workers with a prefix."""
    return [line for line in printed.splitlines() if not line.startswith(("\x1b[", "("))]
