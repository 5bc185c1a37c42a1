"""The types of results, and the columns of their tables, as the page's TypeScript reads them.

`make docs` writes web/src/records.ts; a field of a result is declared in Python alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from counterpoint.core.field import Field, Form
from counterpoint.report.json import Result
from result_types import columns_of, fields_by_key, hints_of, kinds_in, objects_in, results

RECORDS: Final = "web/src/records.ts"
_SHOWN: Final = ("explain", "predict", "network", "compare", "tune", "fleet")
"""The results that a page may hold."""
_HEAD: Final = """\
/** Results as `--json` prints them, and the columns of their tables; `make docs` writes this. */

/** A column: the key of its values, its heading, what it means, and why a value may be unknown. */
export interface FieldColumn {
  key: string;
  title: string;
  form: FORMS;
  digits: number;
  meaning: string;
  unknown: string;
}
"""
_WORDS: Final = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def web_records() -> str:
    """The text of web/src/records.ts."""
    kinds: dict[type[Any], None] = {}
    for name in _SHOWN:
        for kind in (results()[name], *objects_in(results()[name])):
            kinds.update(dict.fromkeys((*_bases(kind), kind)))
    tables = [kind for kind in kinds if columns_of(kind)]
    forms = " | ".join(json.dumps(form.value) for form in Form)
    return "\n".join(
        (_HEAD.replace("FORMS", forms), *map(_interface, kinds), *map(_columns, tables))
    )


def _bases(kind: type[Any]) -> Iterator[type[Any]]:
    if is_dataclass(kind):
        return
    for base in kind.__bases__:
        if base is not Result and issubclass(base, Result):
            yield from _bases(base)
            yield base


def _interface(kind: type[Any]) -> str:
    bases = [] if is_dataclass(kind) else [it for it in kind.__bases__ if it is not Result]
    inherited = {key for base in bases for key in hints_of(base)}
    extends = f" extends {', '.join(base.__name__ for base in bases)}" if bases else ""
    lines = [
        f"  {key}: {_typescript(hint)};"
        for key, hint in hints_of(kind).items()
        if key not in inherited
    ]
    return "\n".join((f"export interface {kind.__name__}{extends} {{", *lines, "}", ""))


def _typescript(hint: Any) -> str:  # noqa: ANN401 - a type or an annotation
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _typescript(inner[0])
    if origin is tuple and Ellipsis not in inner:
        return f"[{', '.join(map(_typescript, inner))}]"
    if origin is tuple:
        item = _typescript(inner[0])
        return f"({item})[]" if " " in item else f"{item}[]"
    if origin in (dict, Mapping):
        return f"Record<string, {_typescript(inner[1])}>"
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(map(_typescript, inner)))
    return next((it.__name__ for it in kinds_in(hint)), _WORDS.get(hint, "string"))


def _columns(kind: type[Any]) -> str:
    fields = fields_by_key(kind)
    lines = [f"  {json.dumps(_column(key, fields[key]))}," for key in columns_of(kind)]
    return "\n".join((f"export const {kind.__name__}Columns: FieldColumn[] = [", *lines, "];", ""))


def _column(key: str, field: Field) -> dict[str, Any]:
    return {
        "key": key,
        "title": field.title,
        "form": field.form.value,
        "digits": field.digits,
        "meaning": field.meaning,
        "unknown": field.unknown,
    }
