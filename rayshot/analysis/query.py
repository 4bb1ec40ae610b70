"""What a table was asked for: its options, checked before anything is opened."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from rayshot.analysis.view import ENTRY_OPTIONS, View
from rayshot.analysis.views import VIEWS
from rayshot.errors import BadManifest, ConfigError, LimitExceeded
from rayshot.format.bounds import check_process
from rayshot.format.redaction import check_hidden
from rayshot.protocol.identity import SnapshotId
from rayshot.store.records import CommitRecord

LATEST = "latest"
DEFAULT_VIEW = "snapshots"
COMMON_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "view": f"which table; `{DEFAULT_VIEW}` if left out",
        "snapshot": f"the id of one snapshot, or `{LATEST}`; all of them if left out",
        "showSecrets": "`true` shows what is named like a secret, `token,db_password` what has one of these names; "
        "`<redacted>` if left out",
    }
)
"""Options of every view -> what they say."""


class Condition(NamedTuple):
    """Only rows are wanted for which `compare(cell of column, value)` holds."""

    column: str
    compare: Callable[[Any, Any], bool]
    value: Any


RECORD_CELLS: Mapping[str, Callable[[CommitRecord], Any]] = MappingProxyType(
    {
        "snapshot": lambda record: str(record.snapshot),
        "position": lambda record: record.sealed_for,
        "log_index": lambda record: record.position,
        "life": lambda record: record.snapshot.incarnation,
    }
)
"""Columns whose cells follow from a COMMIT record alone."""


@dataclass(frozen=True, slots=True)
class Query:
    """A table that can be planned.

    `snapshot` is an id, "latest", or None for all; `entry` holds (option, name) for each of ENTRY_OPTIONS that
    was given: only actors or channels that fit all of them are read. `show_secrets` names what is shown, None all.
    `conditions` leave out snapshots and entries that have no row which is wanted; what is read may have others too.
    """

    view_name: str
    snapshot: SnapshotId | str | None
    entry: tuple[tuple[str, str], ...]
    show_secrets: frozenset[str] | None = frozenset()
    conditions: tuple[Condition, ...] = ()

    @property
    def view(self) -> View:
        """The table that is read."""
        return VIEWS[self.view_name]

    def selects(self, entry: Any) -> bool:
        """Whether that actor or channel of a manifest is asked for."""
        return all(getattr(entry, ENTRY_OPTIONS[option].field) == name for option, name in self.entry) and all(
            compare(getattr(entry, ENTRY_OPTIONS[column].field), value)
            for column, compare, value in self.conditions
            if column in self.view.options
        )

    def selects_record(self, record: CommitRecord) -> bool:
        """Whether that snapshot may have rows which fit the conditions."""
        return all(
            compare(RECORD_CELLS[column](record), value)
            for column, compare, value in self.conditions
            if column in RECORD_CELLS
        )

    def narrowed(self, conditions: Iterable[Condition]) -> "Query":
        """The same for rows that fit `conditions` only, as far as that can be told before anything is read."""
        known = {*RECORD_CELLS, *self.view.options}
        told = (condition for condition in conditions if condition.column in known)
        return replace(self, conditions=(*self.conditions, *told))


def parse_query(given: Mapping[str, str], others: Collection[str] = ()) -> Query:
    """Check options, whose names are in small letters; raises ConfigError, which shows option, expectation and value.

    `others` are names of options that its caller takes, for the list in the error.
    """
    view = VIEWS.get(given.get("view", DEFAULT_VIEW))
    if view is None:
        refuse("view", f"one of {', '.join(VIEWS)}", given["view"], exists=list(VIEWS))
    known = [*others, *COMMON_OPTIONS, *view.options]
    for name, value in given.items():
        if name not in map(str.lower, known):
            raise ConfigError(
                f"the view {view.name!r} has no option {name!r} (given as {value!r}); it has {', '.join(known)}",
                option=name,
                value=value,
                exists=known,
            )
    return Query(
        view_name=view.name,
        snapshot=None if "snapshot" not in given else _snapshot(given["snapshot"]),
        entry=tuple((option, _process(option, given[option])) for option in view.options if option in given),
        show_secrets=_secrets(given.get("showsecrets", "false")),
    )


def option_texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Options with names and values of Python, `show_secrets=True`, as `parse_query` takes them, and Spark."""
    return {name.replace("_", "").lower(): _text(value) for name, value in given.items()}


def _text(value: Any) -> str:
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def refuse(option: str, expected: str, value: str, **evidence: Any) -> NoReturn:
    """Raise ConfigError for an option that has no such value."""
    raise ConfigError(
        f"the option {option!r} must be {expected}; it is {value!r}",
        option=option,
        expected=expected,
        value=value,
        **evidence,
    )


def _secrets(text: str) -> frozenset[str] | None:
    if text.lower() in {"true", "false"}:
        return None if text.lower() == "true" else frozenset()
    names = frozenset(name.strip() for name in text.split(","))
    try:
        check_hidden(names)
    except ConfigError:
        refuse("showSecrets", "true, false, or names of what is hidden with commas between them", text)
    return names


def _snapshot(text: str) -> SnapshotId | str:
    try:
        return LATEST if text == LATEST else SnapshotId.parse(text)
    except ConfigError:
        refuse("snapshot", f"the id of a snapshot, like 1-coordinator-3, or {LATEST!r}", text)


def _process(option: str, name: str) -> str:
    try:
        return check_process(name, option)
    except (BadManifest, LimitExceeded):
        refuse(option, ENTRY_OPTIONS[option].about, name)
