"""`rayshot keygen`: makes a new key, on the standard output or in a file that only its owner can read."""

from pathlib import Path

import click

from rayshot.errors import ConfigError
from rayshot.keys.encryption import new_encryption_key
from rayshot.keys.files import PRIVATE_MODE, PUBLIC_MODE, create_file
from rayshot.keys.finder import ENCRYPTION_VARIABLE, SIGNING_VARIABLE, TRUSTED_VARIABLE
from rayshot.keys.signing import new_private_key, new_secret, parse_key


@click.command()
@click.option(
    "--algorithm",
    type=click.Choice(["hmac", "ed25519"]),
    default="hmac",
    show_default=True,
    help="hmac: one key checks and signs; ed25519: readers get a public key that cannot sign.",
)
@click.option("--encryption", is_flag=True, help="Make a key that encrypts.")
@click.option(
    "--output", metavar="FILE", help="A new file that only its owner can read; the standard output if left out."
)
def keygen(algorithm: str, output: str | None, *, encryption: bool) -> None:
    """Make a key for signing snapshots, or for encrypting them.

    The key goes to --output, which must not exist, or to the standard output; its id, and which variable to set, to the
    standard error. The public half of an ed25519 key also goes to FILE.pub.
    """
    if encryption:
        key = new_encryption_key()
        _put(output, key.text)
        _say(f"encryption key {key.key_id}", _set(ENCRYPTION_VARIABLE, output))
        _say("keep a copy apart from the storage: without it what it encrypted is lost")
    elif algorithm == "ed25519":
        pair = new_private_key()
        _put(output, pair.text, public=pair.public.text)
        _say(f"ed25519 key {pair.key_id}", f"{_set(SIGNING_VARIABLE, output)}, where snapshots are taken")
        _say(f"public key {pair.public.text}", f"{_set(TRUSTED_VARIABLE, output and f'{output}.pub')}, for readers")
    else:
        secret = new_secret()
        _put(output, secret)
        _say(f"hmac-sha256 key {parse_key(secret.encode()).key_id}", _set(SIGNING_VARIABLE, output))


def _put(output: str | None, text: str, public: str | None = None) -> None:
    if output is None:
        click.echo(text)
        return
    path = Path(output)
    if not path.name:
        raise ConfigError(f"--output {output!r} names no file")
    beside = path.with_name(f"{path.name}.pub")
    if public is not None:
        _create(beside, public, PUBLIC_MODE)
    try:
        _create(path, text, PRIVATE_MODE)
    except ConfigError:
        if public is not None:
            beside.unlink()
        raise


def _create(path: Path, text: str, mode: int) -> None:
    try:
        create_file(path, f"{text}\n", mode)
    except FileExistsError as error:
        raise ConfigError(f"{path} exists and is not written over: name another file") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror}") from error


def _set(variable: str, output: str | None) -> str:
    return f"set {variable} to it" if output is None else f"set {variable}_FILE={output}"


def _say(*parts: str) -> None:
    click.echo(": ".join(parts), err=True)
