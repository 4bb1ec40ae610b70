"""What the user asks of a table: its options, checked before anything is opened."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from rayshot.analysis.pairs import NO_STEP
from rayshot.analysis.selection import SELECTION_OPTIONS, Selection, parse_selection
from rayshot.analysis.view import ENTRY_OPTIONS, Block, Column, View
from rayshot.analysis.views import VIEWS
from rayshot.errors import BadManifest, ConfigError, LimitExceeded
from rayshot.format.bounds import check_process
from rayshot.inert.redaction import check_hidden
from rayshot.log.records import CommitRecord
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import Storage, SystemView

DEFAULT_VIEW = "snapshots"
COMMON_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "view": f"the table; `{DEFAULT_VIEW}` if left out",
        "showSecrets": "`true` shows values whose names are those of secrets, `token,db_password` values with one of "
        "these names; `<redacted>` if left out",
    }
)
"""Options of every view -> their meaning."""

PAIR_OPTIONS: Mapping[str, str] = MappingProxyType(
    {"from": "the id of the snapshot to compare with; if left out the one before it, by life and then by position"}
)
"""Options of the views of two snapshots -> their meaning."""


class Condition(NamedTuple):
    """Only rows for which `compare(cell of column, value)` is true are wanted."""

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

    `selection` says which snapshots, and `compared_with` which snapshot is the earlier one; None: each one's own.
    `entry` holds (option, name) for each given one of ENTRY_OPTIONS: only actors or channels that fit all of them are
    read. `within` is the same for ROW_OPTIONS, which select rows. `show_secrets` names the values to show, None all.
    `conditions` leave out snapshots and entries that have no wanted row; what is read may have unwanted rows too.
    """

    view_name: str
    selection: Selection
    compared_with: SnapshotId | None
    entry: tuple[tuple[str, str], ...]
    show_secrets: frozenset[str] | None = frozenset()
    within: tuple[tuple[str, str], ...] = ()
    conditions: tuple[Condition, ...] = ()

    @property
    def view(self) -> View:
        """The table that is read."""
        return VIEWS[self.view_name]

    def selects(self, entry: Any) -> bool:
        """Whether the user asks for that actor or channel; always true for NO_STEP, the one row of its pair."""
        return entry is NO_STEP or (
            all(getattr(entry, ENTRY_OPTIONS[option].field) == name for option, name in self.entry)
            and all(
                compare(getattr(entry, ENTRY_OPTIONS[column].field), value)
                for column, compare, value in self.conditions
                if column in self.view.options
            )
        )

    def selects_record(self, record: CommitRecord) -> bool:
        """Whether that snapshot may have rows that fit the conditions."""
        return all(
            compare(RECORD_CELLS[column](record), value)
            for column, compare, value in self.conditions
            if column in RECORD_CELLS
        )

    def narrowed(self, conditions: Iterable[Condition]) -> "Query":
        """The query for only the rows that fit `conditions`, as far as this is known before reading."""
        known = {*RECORD_CELLS, *self.view.options}
        told = (condition for condition in conditions if condition.column in known)
        return replace(self, conditions=(*self.conditions, *told))

    def rows(self, subject: Any, entry: Any) -> Iterable[Any]:
        """The rows of that entry that the user asks for."""
        return self.view.rows(subject, entry, **dict(self.within))

    def blocks(self, subject: Any, entry: Any, columns: Sequence[Column]) -> Iterable[Block]:
        """The cells of these rows, for a view that has blocks."""
        assert self.view.blocks is not None
        return self.view.blocks(subject, entry, columns, **dict(self.within))


def parse_query(given: Mapping[str, str], others: Collection[str] = ()) -> Query:
    """Check options, given with lower-case names; raises ConfigError with option, expectation and value.

    `others` are options that the caller takes itself; they are listed in the error.
    """
    view = VIEWS.get(given.get("view", DEFAULT_VIEW))
    if view is None:
        refuse("view", f"one of {', '.join(VIEWS)}", given["view"], exists=list(VIEWS))
    known = [*others, *COMMON_OPTIONS]
    if view.of_snapshots:
        known += [*SELECTION_OPTIONS, *(PAIR_OPTIONS if view.of_pairs else ()), *view.options, *view.row_options]
    for name, value in given.items():
        if name not in map(str.lower, known):
            raise ConfigError(
                f"the view {view.name!r} has no option {name!r} (given as {value!r}); it has {', '.join(known)}",
                option=name,
                value=value,
                exists=known,
            )
    selection = parse_selection(given)
    return Query(
        view_name=view.name,
        selection=selection,
        compared_with=None if "from" not in given else _compared_with(given["from"], selection),
        entry=tuple((option, _process(option, given[option])) for option in view.options if option in given),
        show_secrets=_secrets(given.get("showsecrets", "false")),
        within=tuple((option, given[option]) for option in view.row_options if option in given),
    )


def system_for(query: Query, storage: Storage, name: str | None = None) -> SystemView:
    """The system of that name; None: the only one. For a table of a whole storage any of its systems is good.

    Raises as `Storage.system`.
    """
    names = list(storage.systems) if name is None and query.view.subject == "storage" else []
    return storage.system(names[0] if names else name)


def option_texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Options with Python names and values, such as `show_secrets=True`, in the form of `parse_query` and Spark."""
    return {name.replace("_", "").lower(): _text(value) for name, value in given.items()}


def _text(value: Any) -> str:
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def refuse(option: str, expected: str, value: str, **evidence: Any) -> NoReturn:
    """Raise ConfigError for an option that cannot have this value."""
    raise ConfigError(
        f"the option {option!r} must be {expected}; it is {value!r}",
        option=option,
        expected=expected,
        value=value,
        **evidence,
    )


def _compared_with(text: str, selection: Selection) -> SnapshotId:
    if not selection.is_one:
        raise ConfigError(
            f"the option 'from' ({text!r}) says what one snapshot is compared with: say which one in 'snapshot' or "
            "'asOf'",
            option="from",
            value=text,
        )
    try:
        return SnapshotId.parse(text)
    except ConfigError:
        refuse("from", "the id of a snapshot, like 1-coordinator-3", text)


def _secrets(text: str) -> frozenset[str] | None:
    if text.lower() in {"true", "false"}:
        return None if text.lower() == "true" else frozenset()
    names = frozenset(name.strip() for name in text.split(","))
    try:
        check_hidden(names)
    except ConfigError:
        refuse("showSecrets", "true, false, or names of what is hidden with commas between them", text)
    return names


def _process(option: str, name: str) -> str:
    try:
        return check_process(name, option)
    except (BadManifest, LimitExceeded):
        refuse(option, ENTRY_OPTIONS[option].about, name)
