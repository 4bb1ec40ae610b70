"""The program: its commands by name. Each is loaded only when it is used, so none waits for another's imports."""

from importlib import import_module

import click

import rayshot
from rayshot.cli.exits import EPILOG, CommandGroup

_HOMES = {
    "configure": ("rayshot.cli.system_commands", "configure"),
    "copy": ("rayshot.cli.copy", "copy"),
    "delete": ("rayshot.cli.garbage_commands", "delete"),
    "demo": ("rayshot.cli.demo", "demo"),
    "detect": ("rayshot.cli.detect", "detect"),
    "diff": ("rayshot.cli.commands", "diff"),
    "doctor": ("rayshot.cli.doctor", "doctor"),
    "drill": ("rayshot.cli.drill", "drill"),
    "gc": ("rayshot.cli.garbage_commands", "gc"),
    "help": ("rayshot.cli.help", "help_"),
    "keygen": ("rayshot.cli.keygen", "keygen"),
    "list": ("rayshot.cli.commands", "list_"),
    "outside": ("rayshot.cli.outside", "outside"),
    "replay": ("rayshot.cli.replay", "replay"),
    "report": ("rayshot.cli.report", "report"),
    "savepoint": ("rayshot.cli.system_commands", "savepoint"),
    "show": ("rayshot.cli.commands", "show"),
    "snapshot": ("rayshot.cli.system_commands", "snapshot"),
    "status": ("rayshot.cli.status", "status"),
    "stop": ("rayshot.cli.system_commands", "stop"),
    "systems": ("rayshot.cli.system_commands", "systems"),
    "topology": ("rayshot.cli.commands", "topology"),
    "trace": ("rayshot.cli.trace", "trace"),
    "ui": ("rayshot.cli.ui", "ui"),
    "verify": ("rayshot.cli.verify", "verify"),
}

SECTIONS = {
    "Start here": ("help", "demo", "doctor", "keygen"),
    "Look at snapshots": ("list", "show", "topology", "trace", "diff", "report", "ui"),
    "Prove snapshots, and try them": ("verify", "drill", "replay", "detect"),
    "A system that runs": ("systems", "status", "snapshot", "savepoint", "stop", "configure"),
    "Storage": ("copy", "delete", "gc", "outside"),
}
"""The commands as people look for them; each is in one section."""


class Program(CommandGroup):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own call
        """See click."""
        return [name for names in SECTIONS.values() for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See click, which has no sections."""
        width = formatter.width - 6 - max(map(len, _HOMES))
        for section, names in SECTIONS.items():
            commands = ((name, self.get_command(ctx, name)) for name in names)
            with formatter.section(section):
                formatter.write_dl([(name, command.get_short_help_str(width)) for name, command in commands if command])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """See click."""
        if cmd_name not in _HOMES:
            return None
        module, name = _HOMES[cmd_name]
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Program, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(rayshot.__version__, prog_name="rayshot")
def main() -> None:
    """Look into the snapshots in STORAGE, a folder or an address; or reach system NAME, which runs in a Ray cluster.

    Where --system and --snapshot are left out, the only system and its latest snapshot are meant. Nothing in
    a snapshot is ever executed by looking at it; replay runs its actors, and drill loads their states. Only copy,
    delete, demo and gc write.

    configure, savepoint, snapshot, status, stop and systems reach the cluster at --address, and read no storage.
    doctor looks at the cluster and at a storage, before a system runs there.

    RAYSHOT_STORAGE, RAYSHOT_SYSTEM and RAY_ADDRESS stand for STORAGE, for --system and NAME, and for --address.
    """
