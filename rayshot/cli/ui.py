"""`rayshot ui`: shows the page about a system in the browser, with what is in the storage now."""

import os
import sys
import threading
import webbrowser

import click

from rayshot.cli.exits import FINE
from rayshot.cli.secrets_option import secrets_option
from rayshot.errors import ConfigError
from rayshot.snapshots.catalog import open as open_storage

PORT_MAX = 65535


@click.command()
@click.argument("storage", envvar="RAYSHOT_STORAGE")
@click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several.")
@click.option(
    "--port", type=click.IntRange(0, PORT_MAX), default=0, help="The port of the page; a free one if left out."
)
@click.option("--no-open", is_flag=True, help="Only print the link, and open no browser.")
@secrets_option
def ui(storage: str, system: str | None, port: int, *, no_open: bool) -> None:
    """Show a page with the snapshots of a system in the browser, until Ctrl-C.

    It is the page of `rayshot report`, read again at each click. The link works once, in one browser of this machine.
    The page changes nothing and executes nothing.
    """
    view = open_storage(storage).system(system)
    try:
        from rayshot.explorer.server import Server  # noqa: PLC0415 - it needs an extra
    except ModuleNotFoundError as error:
        raise ConfigError("the page is served with starlette and uvicorn: pip install 'rayshot[ui]'") from error
    server = Server(view, port)
    click.echo(server.link)
    click.echo("Ctrl-C ends it", err=True)
    if not no_open and _has_screen():
        threading.Thread(target=webbrowser.open, args=[server.link], daemon=True).start()
    try:
        server.run()
    except KeyboardInterrupt:
        raise click.exceptions.Exit(FINE) from None


def _has_screen() -> bool:
    """Whether a browser would open a window: a text browser would take over this terminal."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(one) for one in ("DISPLAY", "WAYLAND_DISPLAY"))
