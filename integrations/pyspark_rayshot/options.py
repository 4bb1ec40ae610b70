"""What a read was asked for: the options of `spark.read`, checked before anything is opened."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark_rayshot.views import ENTRY_OPTIONS, VIEWS, View
from rayshot.errors import BadManifest, ConfigError, LimitExceeded
from rayshot.format.bounds import check_process
from rayshot.format.encryption_key import EncryptionKey, find_encryption_keys, parse_encryption_keys
from rayshot.format.key_files import read_text
from rayshot.format.redaction import check_hidden
from rayshot.protocol.identity import SnapshotId, check_name

LATEST = "latest"
DEFAULT_VIEW = "snapshots"
COMMON_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "path": "the storage, as `load` takes it",
        "view": f"which table; `{DEFAULT_VIEW}` if left out",
        "system": "whose snapshots; needed only where the storage holds several systems",
        "snapshot": f"the id of one snapshot, or `{LATEST}`; all of them if left out",
        "encryptionKeyFile": "a file with the keys of encrypted snapshots, on the driver; else its environment",
        "showSecrets": "`true` shows what is named like a secret, `token,db_password` what has one of these names; "
        "`<redacted>` if left out",
    }
)
"""Options of every view -> what they say."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A read that can be planned.

    `snapshot` is an id, "latest", or None for all; `entry` holds (option, name) for each of ENTRY_OPTIONS that
    was given: only actors or channels that fit all of them are read. `show_secrets` names what is shown, None all.
    """

    storage: str
    view_name: str
    system: str | None
    snapshot: SnapshotId | str | None
    entry: tuple[tuple[str, str], ...]
    show_secrets: frozenset[str] | None = frozenset()
    key_file: str | None = None

    @property
    def view(self) -> View:
        """The table that is read."""
        return VIEWS[self.view_name]

    def encryption_keys(self) -> tuple[EncryptionKey, ...]:
        """The keys of this process, to be looked up on the driver. Raises ConfigError."""
        if self.key_file is None:
            return find_encryption_keys()
        return parse_encryption_keys(read_text(Path(self.key_file), "encryptionKeyFile is "), self.key_file)

    def selects(self, entry: Any) -> bool:
        """Whether that actor or channel of a manifest is asked for."""
        return all(getattr(entry, ENTRY_OPTIONS[option].field) == name for option, name in self.entry)


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """Check what `spark.read` was given; raises ConfigError, which shows option, expectation and value."""
    options = {name.lower(): value for name, value in given.items()}
    view = VIEWS.get(options.get("view", DEFAULT_VIEW))
    if view is None:
        raise _refused("view", f"one of {', '.join(VIEWS)}", options["view"], exists=list(VIEWS))
    known = [*COMMON_OPTIONS, *view.options]
    for name, value in options.items():
        if name not in map(str.lower, known):
            raise ConfigError(
                f"the view {view.name!r} has no option {name!r} (given as {value!r}); it has {', '.join(known)}",
                option=name,
                value=value,
                exists=known,
            )
    return ReadOptions(
        storage=_storage(options.get("path", "")),
        view_name=view.name,
        system=None if "system" not in options else _system(options["system"]),
        snapshot=None if "snapshot" not in options else _snapshot(options["snapshot"]),
        entry=tuple((option, _process(option, options[option])) for option in view.options if option in options),
        show_secrets=_secrets(options.get("showsecrets", "false")),
        key_file=options.get("encryptionkeyfile"),
    )


def _secrets(text: str) -> frozenset[str] | None:
    if text.lower() in {"true", "false"}:
        return None if text.lower() == "true" else frozenset()
    names = frozenset(name.strip() for name in text.split(","))
    try:
        check_hidden(names)
    except ConfigError as error:
        raise _refused(
            "showSecrets", "true, false, or names of what is hidden with commas between them", text
        ) from error
    return names


def _storage(address: str) -> str:
    if not address:
        raise _refused("path", "a storage, as in .load('./shots')", address)
    if address.startswith("memory:"):
        raise _refused("path", "a storage that Spark's worker processes can reach too", address)
    return address


def _system(name: str) -> str:
    try:
        return check_name(name, "a system")
    except ConfigError as error:
        raise _refused("system", "the name of a system", name) from error


def _snapshot(text: str) -> SnapshotId | str:
    try:
        return LATEST if text == LATEST else SnapshotId.parse(text)
    except ConfigError as error:
        raise _refused("snapshot", f"the id of a snapshot, like 1-coordinator-3, or {LATEST!r}", text) from error


def _process(option: str, name: str) -> str:
    try:
        return check_process(name, option)
    except (BadManifest, LimitExceeded) as error:
        raise _refused(option, ENTRY_OPTIONS[option].about, name) from error


def _refused(option: str, expected: str, value: str, **evidence: Any) -> ConfigError:
    return ConfigError(
        f"the option {option!r} must be {expected}; it is {value!r}",
        option=option,
        expected=expected,
        value=value,
        **evidence,
    )
