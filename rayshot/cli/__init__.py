"""The command line: `rayshot list | show | verify | diff STORAGE`. Reads only, needs no Ray, executes nothing."""

from rayshot.cli.commands import main

__all__ = ["main"]
