"""The pages of the errors and of the command line are made from the program: `RAYSHOT_REWRITE_PAGES=1 pytest` on this
file writes them."""

import inspect
import re
from collections import defaultdict

import click

import rayshot.errors
from rayshot.cli import main
from rayshot.cli.exits import EPILOG, exit_code
from rayshot.cli.program import SECTIONS
from rayshot.errors import RayshotError
from tests.processes import ROOT
from tests.written import check_written

ERRORS = """# Errors

Each error of rayshot has a class in `rayshot.errors`, and a kind: a name for scripts and logs that stays when the words of a message change.
`rayshot help actor_died` and `rayshot help ActorDied` show the section of an error, and so does `error.page`, which is `errors#actor_died`. `error.evidence` holds
the facts of the message. The number is the exit code of a [command](command-line.md) that ends with it.

Classes follow what their catcher can do: the heading of each part says it, and holds for all errors below it.
"""
MORE = {
    "snapshots_exist": "Call `rayshot.resume`, which goes on from them, or `init` with `fresh=True`: [begin](operating.md).",
    "lives_elsewhere": "Wait as long as the message says, or restore with `takeover=True` if you know that the other cluster is gone.",
    "state_not_serializable": "Leave the value out in `__getstate__` and make it again in `on_restore`: [what a state may hold](states.md).",
    "message_not_serializable": "The message says where the value is in the arguments: [what a state may hold](states.md).",
    "waits_for_handler": "Let the other handler end first, or declare `max_concurrency`: [actors that ask](porting.md#asking).",
    "loop_not_repeatable": "[Methods that never return](porting.md#loops) says what a loop may do.",
    "migration_failed": "[When classes change](evolution.md) says how to write `migrate`.",
    "code_mismatch": "[When classes change](evolution.md): a moved class needs `rename_classes`, a changed one `migrate`.",
    "keys_missing": "[Security](security.md) says where keys are looked for.",
    "encryption_key_needed": "[Security](security.md) says where keys are looked for.",
    "unknown_key": "Give this reader the key, or its public half: [security](security.md).",
    "unsigned": "Restore it only if you know who wrote it: [security](security.md).",
    "snapshot_aborted": "Take it again. [A system that heals itself](healing.md) says what the settings are.",
    "actor_died": '[A system that heals itself](healing.md) goes back by itself; with `scope="stop"` call `rayshot.resume`.',
    "system_stopped": "`rayshot.resume` goes on from its last snapshot.",
    "store_unavailable": "[Storage](storage.md) says what a storage must do.",
    "cluster_unreachable": "`rayshot doctor` looks at a cluster and says what is wrong: [operating](operating.md).",
    "cluster_refused": "`rayshot doctor` looks at a cluster and says what is wrong: [operating](operating.md).",
    "poison_message": "[A system that heals itself](healing.md) says what `on_poison` does.",
}
"""What to do about a kind, where there is a page about it; by the kind."""
COMMANDS = """# The command line

`rayshot --help` lists the commands, `rayshot COMMAND --help` explains one, and `rayshot help PAGE` shows a page of this documentation.
"""


def errors():
    """The page: the groups and docstrings are those of rayshot/errors.py."""
    lines = inspect.getsource(rayshot.errors).splitlines()
    groups = {
        number: found[1] for number, line in enumerate(lines) if (found := re.fullmatch(r"# (.*[.:].*?) -{10,}", line))
    }
    found = defaultdict(list)
    for kind in vars(rayshot.errors).values():
        if inspect.isclass(kind) and issubclass(kind, RayshotError) and kind is not RayshotError:
            line = inspect.getsourcelines(kind)[1]
            found[groups[max(number for number in groups if number < line)]].append(kind)
    page = ERRORS
    for group, kinds in found.items():
        page += f"\n## {group.rstrip('.')}\n"
        for kind in kinds:
            bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
            page += f'\n### <a id="{kind.kind}"></a>`{kind.__name__}`\n\n{inspect.getdoc(kind)}\n'
            page += f"\n{MORE[kind.kind]}\n" if kind.kind in MORE else ""
            page += f"\nKind `{kind.kind}`; a {bases}; exit code {exit_code(kind(''))}.\n"
    return page


def commands():
    """The page: sections, texts and options are those of the program."""
    page, root = COMMANDS, click.Context(main, info_name="rayshot")
    for section, names in SECTIONS.items():
        page += f"\n## {section}\n"
        for name in names:
            command = main.get_command(root, name)
            usage = command.get_usage(click.Context(command, root, info_name=name)).removeprefix("Usage: ")
            page += f"\n### {name}\n\n`{' '.join(usage.split())}`\n\n{inspect.cleandoc(command.help)}\n"
            context = click.Context(command, root, info_name=name)
            options = [
                one for one in command.get_params(context) if isinstance(one, click.Option) and "--help" not in one.opts
            ]
            rows = [[cell.replace("|", "\\|") for cell in one.get_help_record(context)] for one in options]
            if rows:
                page += "\n| option | |\n| --- | --- |\n" + "".join(
                    f"| `{option}` | {text} |\n" for option, text in rows
                )
    return page + f"\n## Exit codes\n\n{' '.join(EPILOG.split()).removeprefix('Exit codes: ')}\n"


def test_the_page_of_errors_is_that_of_the_classes():
    check_written(ROOT / "docs/errors.md", errors())


def test_the_page_of_the_command_line_is_that_of_the_program():
    check_written(ROOT / "docs/command-line.md", commands())


def test_no_advice_is_left_for_an_error_that_is_gone():
    kinds = {kind.kind for kind in vars(rayshot.errors).values() if isinstance(kind, type) and hasattr(kind, "kind")}
    assert not MORE.keys() - kinds
