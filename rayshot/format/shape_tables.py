"""The tables of shapes in a manifest: one for each actor; an actor whose table an earlier row has says which row.

table    [[module and qualified name, kind, [part, ...]], ...], sorted by the names, never empty
part     [name, value] of a member where the kind is "enum" or "flag", else the name of a field
"""

from typing import Any

from rayshot.errors import BadManifest
from rayshot.format import canonical
from rayshot.format.bounds import check_length, check_text
from rayshot.format.shapes import (
    FIELDS,
    MEMBERS,
    NAMED,
    PARTS_MAX,
    ROW,
    SHAPES_MAX,
    TEXT_LENGTH_MAX,
    Shape,
    Shapes,
    is_scalar,
)

_KINDS = {*MEMBERS, FIELDS, ROW, NAMED}


def check_shapes(shapes: Shapes, what: str) -> None:
    """Check the table of one actor. Raises BadManifest and LimitExceeded."""
    check_length(shapes, f"shapes of {what}", SHAPES_MAX)
    if list(shapes) != sorted(shapes):
        raise BadManifest(f"the shapes of {what} are not sorted by the names of their classes")
    for name, shape in shapes.items():
        check_text(name, f"a class of {what}", TEXT_LENGTH_MAX)
        if shape.kind not in _KINDS:
            raise BadManifest(
                f"{name} of {what} has a shape that is neither an enum's, nor a flag's, nor one of fields"
            )
        check_length(shape.parts, f"members or fields of {name} of {what}", PARTS_MAX)
        for part, value in shape.parts:
            check_text(part, f"a member or field of {name} of {what}", TEXT_LENGTH_MAX)
            if not is_scalar(value) or (shape.kind not in MEMBERS and value is not None):
                raise BadManifest(f"{name}.{part} of {what} has a value that no member has")
        if len(set(shape.names)) != len(shape.parts):
            raise BadManifest(f"{name} of {what} has a member or field twice")


def shapes_tree(shapes: Shapes) -> list[Any]:
    """A table as plain lists."""
    return [
        [name, shape.kind, [list(part) for part in shape.parts] if shape.kind in MEMBERS else list(shape.names)]
        for name, shape in shapes.items()
    ]


def read_shapes(tree: Any) -> dict[str, Shape]:
    """The table that `shapes_tree` wrote, not yet checked. Raises BadManifest."""
    shapes = dict(map(_read_shape, _list(tree, "the shapes of an actor")))
    if not shapes or len(shapes) != len(tree):
        raise BadManifest("the shapes of an actor are empty, or have a class twice")
    return shapes


def _read_shape(tree: Any) -> tuple[str, Shape]:
    if type(tree) is not list or len(tree) != 3 or type(tree[0]) is not str or type(tree[1]) is not str:  # noqa: PLR2004
        raise BadManifest("a shape of an actor is not a list of a name, a kind and parts")
    name, kind, parts = tree
    read = _read_member if kind in MEMBERS else _read_field
    return name, Shape(kind, tuple(map(read, _list(parts, "a shape"))))


def _read_member(tree: Any) -> tuple[str, Any]:
    if type(tree) is not list or len(tree) != 2 or type(tree[0]) is not str:  # noqa: PLR2004
        raise BadManifest("a member in a shape is not a list of a name and a value")
    return tree[0], tree[1]


def _read_field(tree: Any) -> tuple[str, None]:
    if type(tree) is not str:
        raise BadManifest("a field in a shape is not a text")
    return tree, None


def _list(tree: Any, what: str) -> list[Any]:
    if type(tree) is not list:
        raise BadManifest(f"{what} are of the type {type(tree).__name__}, not list")
    return tree


def pack_shapes(*tables: Shapes) -> bytes:
    """These tables as one, the last of them first where they differ; no bytes where they are empty."""
    shapes = {name: shape for table in tables for name, shape in table.items()}
    return canonical.pack(shapes_tree(dict(sorted(shapes.items())[:SHAPES_MAX]))) if shapes else b""


def unpack_shapes(packed: bytes) -> Shapes:
    """What `pack_shapes` packed."""
    return read_shapes(canonical.unpack(packed, what="a table of shapes", bytes_max=len(packed))) if packed else {}


class ShapeTables:
    """The tables of the rows of one manifest, in their order. Each occurs in it once."""

    def __init__(self) -> None:
        self._rows: dict[bytes, int] = {}
        self._tables: dict[int, Shapes] = {}

    def tree(self, row: int, shapes: Shapes) -> list[Any] | int:
        """What stands for the table in this row: itself, or the number of the first row that has it."""
        tree = shapes_tree(shapes)
        first = self._rows.setdefault(canonical.pack(tree), row)
        return tree if first == row else first

    def read(self, row: int, tree: Any) -> Shapes:
        """The table of this row. Raises BadManifest where `tree` would have written it otherwise."""
        if type(tree) is int:
            if tree not in self._tables:
                raise BadManifest(f"an actor has the shapes of row {tree}, which has none of its own")
            return self._tables[tree]
        self._tables[row] = shapes = read_shapes(tree)
        if self._rows.setdefault(canonical.pack(tree), row) != row:
            raise BadManifest("a table of shapes is in the manifest twice")
        return shapes
