"""What `spark.read` was given: where the snapshots lie, and what a table was asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from rayshot.analysis.query import Query, parse_query, refuse, system_for
from rayshot.errors import ConfigError
from rayshot.format.encryption_key import EncryptionKey, find_encryption_keys, parse_encryption_keys
from rayshot.format.key_files import read_text
from rayshot.protocol.identity import check_name
from rayshot.store.catalog import SystemView
from rayshot.store.repository import open as open_storage

PLACE_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "path": "the storage, as `load` takes it",
        "system": "whose snapshots; needed only where the storage holds several systems",
        "encryptionKeyFile": "a file with the keys of encrypted snapshots, on the driver; else its environment",
    }
)
"""Options that say where the snapshots lie -> what they say."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A read that can be planned."""

    storage: str
    system: str | None
    key_file: str | None
    query: Query

    def encryption_keys(self) -> tuple[EncryptionKey, ...]:
        """The keys of this process, to be looked up on the driver. Raises ConfigError."""
        if self.key_file is None:
            return find_encryption_keys()
        return parse_encryption_keys(read_text(Path(self.key_file), "encryptionKeyFile is "), self.key_file)

    def open_system(self) -> SystemView:
        """The system whose snapshots are read. Raises what `rayshot.open` raises, and SystemNotFound."""
        return system_for(self.query, open_storage(self.storage), self.system)


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """Check what `spark.read` was given; raises ConfigError, which shows option, expectation and value."""
    options = {name.lower(): value for name, value in given.items()}
    query = parse_query(options, PLACE_OPTIONS)
    return ReadOptions(
        storage=_storage(options.get("path", "")),
        system=None if "system" not in options else _system(options["system"]),
        key_file=options.get("encryptionkeyfile"),
        query=query,
    )


def _storage(address: str) -> str:
    if not address:
        refuse("path", "a storage, as in .load('./shots')", address)
    if address.startswith("memory:"):
        refuse("path", "a storage that Spark's worker processes can reach too", address)
    return address


def _system(name: str) -> str:
    try:
        return check_name(name, "a system")
    except ConfigError:
        refuse("system", "the name of a system", name)
