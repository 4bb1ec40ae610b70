"""The pages of the errors and of the command line are made from the program: `RAYSHOT_REWRITE_PAGES=1 pytest` on this
file writes them."""

import inspect
import re
from collections import Counter, defaultdict

import click

import rayshot.errors
from rayshot.cli import main
from rayshot.cli.exits import EPILOG, exit_code
from rayshot.cli.program import SECTIONS
from rayshot.errors import RayshotError
from tests.processes import ROOT
from tests.written import check_written

ERRORS = """# Errors

This page lists the errors of rayshot, all in `rayshot.errors`, in parts that say what you can do. `rayshot help ActorDied` shows one.

`error.kind` is a name for scripts and logs, which stays: the class in small letters, `actor_died`. `error.evidence` holds the facts of the message,
`error.page` is `errors#actor_died`. Each part begins with the exit code of a [command](command-line.md)
that ends with one of its errors. Where nothing else is said, an error is a subclass of the first one of its part.
"""
MORE = {
    "snapshots_exist": "Call `rayshot.resume`, which goes on from them, or [`init` with `fresh=True`](operating.md).",
    "lives_elsewhere": "Wait as long as the message says, or use `takeover=True` if the other cluster is gone.",
    "state_not_serializable": "Leave it out in `__getstate__`, make it again in `on_restore`: [states](states.md).",
    "message_not_serializable": "The message says where the value is: [states](states.md).",
    "waits_for_handler": "Let the other handler end first, or declare `max_concurrency`: [actors that ask](porting.md#asking).",
    "loop_not_repeatable": "[Methods that never return](porting.md#loops).",
    "migration_failed": "[How to write `migrate`](evolution.md).",
    "code_mismatch": "A moved class needs `rename_classes`, a changed one [`migrate`](evolution.md).",
    "keys_missing": "[Where keys are looked for](security.md#where-the-keys-are).",
    "encryption_key_needed": "[Where keys are looked for](security.md#encryption-who-may-read).",
    "unknown_key": "Give this reader the key, or its [public half](security.md).",
    "unsigned": "Restore it only if you know who wrote it: [security](security.md).",
    "snapshot_aborted": "Take it again.",
    "outside_failed": "Mend the hook; [what happens when](outside.md#what-happens-when).",
    "outside_conflict": "[Each case](outside.md#when-it-does-not-fit).",
    "sink_ahead": "[Which snapshot fits](outside.md#ahead).",
    "sink_behind": "[What to do](outside.md#behind).",
    "sink_taken": "[Whose it is](outside.md#taken).",
    "sink_fenced": "[What to do](outside.md#fenced).",
    "sink_refused": "[Mend the table, and resume](outside.md#refused).",
    "actor_died": '[A system that heals itself](healing.md) goes back; with `scope="stop"` call `rayshot.resume`.',
    "system_stopped": "`rayshot.resume` goes on from its last snapshot.",
    "store_unavailable": "[What a storage must do](storage.md).",
    "cluster_unreachable": "`rayshot doctor` says what is wrong.",
    "cluster_refused": "`rayshot doctor` says what is wrong.",
    "poison_message": "[What `on_poison` does](healing.md#a-message-that-kills-its-actor).",
}
"""What to do about a kind, where there is a page about it; by the kind."""
COMMANDS = """# The command line

This page lists the commands of `rayshot`, with their options and exit codes. `rayshot COMMAND --help` explains one in the terminal.
"""
SHARED = 4
"""An option with the same text in so many commands is explained once."""


def errors():
    """The page: the groups and docstrings are those of rayshot/errors.py."""
    lines = inspect.getsource(rayshot.errors).splitlines()
    groups = {
        number: found[1] for number, line in enumerate(lines) if (found := re.fullmatch(r"# (.*[.:].*?) -{10,}", line))
    }
    found = defaultdict(list)
    for kind in vars(rayshot.errors).values():
        if inspect.isclass(kind) and issubclass(kind, RayshotError) and kind is not RayshotError:
            assert kind.kind == re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower()
            line = inspect.getsourcelines(kind)[1]
            found[groups[max(number for number in groups if number < line)]].append(kind)
    page = ERRORS
    for group, kinds in found.items():
        usual = exit_code(kinds[0](""))
        page += f"\n## {group.rstrip('.')}\n\nExit code {usual}.\n"
        for kind in kinds:
            text = " ".join(f"{inspect.getdoc(kind)} {MORE.get(kind.kind, '')}".split())
            ours = [base for base in kind.__bases__ if issubclass(base, RayshotError) and base is not kinds[0]]
            bases = [f"a `{base.__name__}`" for base in ours if kind is not kinds[0]]
            facts = [*bases, *([f"exit code {code}"] if (code := exit_code(kind(""))) != usual else [])]
            more = f" ({', '.join(facts)})" if facts else ""
            page += f'\n<a id="{kind.kind}"></a>**`{kind.__name__}`** {text}{more}\n'
    return page


def commands():
    """The page: sections, texts and options are those of the program."""
    root = click.Context(main, info_name="rayshot")
    rows = {name: options_of(name, root) for names in SECTIONS.values() for name in names}
    uses = Counter(row for each in rows.values() for row in each)
    shared = {row: row[0].partition(" ")[0] for row, count in uses.items() if count >= SHARED}
    page = COMMANDS + "".join(f"\n- {head}: {', '.join(map(linked, names))}" for head, names in SECTIONS.items()) + "\n"
    for section, names in SECTIONS.items():
        page += f"\n## {section}\n"
        for name in names:
            command = main.get_command(root, name)
            usage = command.get_usage(click.Context(command, root, info_name=name)).removeprefix("Usage: ")
            page += f"\n### {name}\n\n`{' '.join(usage.replace(' [OPTIONS]', '').split())}`\n\n{inspect.cleandoc(command.help)}\n"
            page += listed([row for row in rows[name] if row not in shared])
            if also := [f"`{shared[row].rstrip(',')}`" for row in rows[name] if row in shared]:
                page += f"\n[Also](#options-of-several-commands) {', '.join(also)}.\n"
    page += f"\n## Options of several commands\n{listed(shared)}"
    codes = re.split(r"[;.] (?=\d+ )", " ".join(EPILOG.split()).removeprefix("Exit codes: "))
    return page + "\n## Exit codes\n\n" + "".join(f"- {line}\n" for line in codes)


def options_of(name, root):
    """The options of a command, each with its text, as its help has them."""
    command = main.get_command(root, name)
    context = click.Context(command, root, info_name=name)
    options = [one for one in command.get_params(context) if isinstance(one, click.Option) and "--help" not in one.opts]
    return [one.get_help_record(context) for one in options]


def linked(name):
    return f"[{name}](#{name})"


def listed(rows):
    return (
        "".join(["\n", *(f"- `{option}`: {text.replace('<redacted>', '`<redacted>`')}\n" for option, text in rows)])
        if rows
        else ""
    )


def test_the_page_of_errors_is_that_of_the_classes():
    check_written(ROOT / "docs/errors.md", errors())


def test_the_page_of_the_command_line_is_that_of_the_program():
    check_written(ROOT / "docs/command-line.md", commands())


def test_no_advice_is_left_for_an_error_that_is_gone():
    kinds = {kind.kind for kind in vars(rayshot.errors).values() if isinstance(kind, type) and hasattr(kind, "kind")}
    assert not MORE.keys() - kinds
