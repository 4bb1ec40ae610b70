"""What the program of a page imports: it runs the page's commands, and says where the output of each block ends."""

import subprocess

from tests.pages.page import is_read_only, words

END = "\x1e"
COMMAND = "\x1d"
ANSWERS = ["rayshot", "diff"], ["rayshot", "detect"]
"""Commands for which an exit code of 1 is an answer."""


def run(commands):
    """Run the commands of a block; each must end well."""
    for command in commands:
        print(COMMAND, flush=True)
        if not is_read_only(command):
            done = subprocess.run(
                command, shell=True, check=False, capture_output=True, text=True, executable="/bin/bash"
            )
            print(done.stdout, end="", flush=True)
            fine = (0, 1) if words(command)[:2] in ANSWERS else (0,)
            assert done.returncode in fine, f"{command} ended with {done.returncode}: {done.stderr}"


def end(line):
    """Say that the block that begins at this line of the page has ended."""
    print(f"{END}{line}", flush=True)
