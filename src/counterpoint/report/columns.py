"""The columns of a table whose rows are those of a result.

Headings, units and ranks are those of the result's fields (`core.field`), and so is their order: a
class of rows names the fields that its tables show in `COLUMNS`. A table adds by hand what is not a
field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from counterpoint.core.field import Field, Form, fields_of
from counterpoint.report import units
from counterpoint.report.document import CellColumn, ColumnKind
from counterpoint.report.json import fill, plain
from counterpoint.report.places import distinct, short_path
from counterpoint.timeline.kernel_names import kernel_labels

Row: TypeAlias = Mapping[str, Any] | object
"""The fields by name, or what a Result of the class is filled from."""

_LONGEST_NAME: Final = 72
_KINDS: Final = {
    Form.WORD: ColumnKind.WORD,
    Form.NAME: ColumnKind.NAME,
    Form.LABEL: ColumnKind.LABEL,
    Form.PLACE: ColumnKind.PLACE,
    Form.RANGE: ColumnKind.WORD,
}


def field_columns(
    kind: type[Any],
    rows: Iterable[Row],
    fields: Iterable[str] | None = None,
    totals: Mapping[str, str] | None = None,
) -> list[CellColumn]:
    """Return the columns of these rows: those that the class names, or these fields of it.

    `totals` are texts of the last row, by field.
    """
    all_fields, ends = fields_of(kind), totals or {}
    values = [_values(kind, row) for row in rows]
    return [
        field_column(all_fields[name], [row[name] for row in values], ends.get(name, ""))
        for name in (kind.COLUMNS if fields is None else fields)
    ]


def _values(kind: type[Any], row: Row) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return cast("Mapping[str, Any]", row)
    return plain(fill(kind, row))


def field_column(field: Field, values: Sequence[Any], total: str = "") -> CellColumn:
    """Return the column of a field with these values; None is unknown."""
    kind = _KINDS.get(field.form, ColumnKind.NUMBER)
    return CellColumn(kind, field.title, _cells(field, values), field.rank, total)


def total_of(kind: type[Any], name: str, value: float | None) -> str:
    """Return a sum as the column of its field shows it."""
    return _cells(fields_of(kind)[name], [value])[0]


def _cells(field: Field, values: Sequence[Any]) -> list[str]:
    if field.form is Form.SHARE:
        return [units.percent(value, field.digits) for value in values]
    return _TEXTS[field.form](values)


def _ranges(values: Sequence[tuple[float, float] | None]) -> list[str]:
    decimals = units.decimals_of(end for ends in values if ends is not None for end in ends)
    return [
        units.UNKNOWN if ends is None else " to ".join(units.column(ends, decimals))
        for ends in values
    ]


def _places(values: Sequence[Any]) -> list[str]:
    return [units.UNKNOWN if value is None else short_path(str(value)) for value in values]


def _names(values: Sequence[Any]) -> list[str]:
    """Return short names: those of C++ kernels would push every other column off."""
    return distinct(kernel_labels(_texts(values)), _LONGEST_NAME)


def _texts(values: Sequence[Any]) -> list[str]:
    return [units.UNKNOWN if value is None else str(value) for value in values]


_TEXTS: Final[Mapping[Form, Callable[[Sequence[Any]], list[str]]]] = {
    Form.MS: units.column,
    Form.US: lambda values: units.column(values, 3),
    Form.DIFFERENCE: units.differences,
    Form.RANGE: _ranges,
    Form.GBPS: lambda values: units.column(values, 1),
    Form.BYTES: lambda values: [units.size(value) for value in values],
    Form.COUNT: lambda values: [units.count(value) for value in values],
    Form.PLACE: _places,
    Form.NAME: _names,
    Form.LABEL: _texts,
    Form.WORD: _texts,
}
"""The texts of a column, by what its values are; a share's depend on its field, too."""


def known_columns(columns: Sequence[CellColumn]) -> list[CellColumn]:
    """Return the columns with any known value."""
    return [column for column in columns if any(cell != units.UNKNOWN for cell in column.cells)]


def with_others(
    columns: Sequence[CellColumn],
    kind: type[Any],
    texts: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]],
    sums: Mapping[str, float],
) -> list[CellColumn]:
    """Return the columns with a row for what is not shown.

    Args:
        columns: The columns.
        kind: The class of the rows.
        texts: Cells of that row by heading.
        rows: The rows that are shown: a sum gets as many digits.
        sums: Sums over what is not shown, by field.
    """
    all_fields, cells = fields_of(kind), dict(texts)
    for name, value in sums.items():
        field = all_fields[name]
        cells[field.title] = _cells(field, [*(row[name] for row in rows), value])[-1]
    return [replace(column, others=cells.get(column.title, "")) for column in columns]
