"""The tables of the pages about JSON, made from the types of the results.

A page is written by hand, but for what stands between these two lines, which `make docs` writes:

    <!-- fields: explain -->
    <!-- end of fields -->

It is a table of the keys of the schema `counterpoint.explain/1`, and one of each object in it, with
the docstring of its type above.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from result_types import fields_by_key, hints_of, kinds_in, objects_in, results

_REGION: Final = re.compile(r"(<!-- fields: (\S+) -->\n).*?(?=<!-- end of fields -->)", re.DOTALL)
_WORDS: Final = {str: "string", int: "int", float: "number", bool: "bool", type(None): "null"}


def pages_of_fields(docs: Path) -> Mapping[str, str]:
    """The pages with tables of fields, by their paths within docs, as they have to be."""
    pages: dict[str, str] = {}
    for page in sorted((docs / "reference").glob("*.md")):
        text = page.read_text("utf-8")
        if _REGION.search(text):
            made = _REGION.sub(lambda region: region[1] + "\n" + field_tables(region[2]), text)
            pages[page.relative_to(docs).as_posix()] = made
    return pages


def field_tables(schema: str) -> str:
    """The tables of a schema: its own keys, and the objects in it, outermost first."""
    top = results()[schema]
    parts = ["\n".join(_table(top, schema))]
    for kind, paths in objects_in(top).items():
        heading = ", ".join(f"`{path}`" for path in paths)
        parts.append("\n".join((f"## {heading}", "", _described(kind), "", *_table(kind))))
    return "\n\n".join(parts) + "\n\n"


def _table(kind: type[Any], schema: str | None = None) -> Iterator[str]:
    fields = fields_by_key(kind)
    yield "| key | type | meaning |"
    yield "|---|---|---|"
    if schema is not None:
        yield f"| `schema` | string | `counterpoint.{schema}/1` |"
    for key, hint in hints_of(kind).items():
        meaning = fields[key].meaning.replace("|", "\\|") if key in fields else ""
        yield f"| `{key}` | {type_words(hint)} | {meaning} |"


def _described(kind: type[Any]) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


def type_words(hint: Any) -> str:  # noqa: ANN401
    """The type of a key in words: `string or null`, `objects`, `two numbers`."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return type_words(inner[0])
    if origin is tuple:
        return _of_tuple(inner)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(type_words, inner)))
    if origin in (dict, Mapping) or next(kinds_in(hint), None):
        return "object"
    return _WORDS.get(hint, "string")


def _of_tuple(inner: tuple[Any, ...]) -> str:
    item = type_words(inner[0])
    if Ellipsis in inner:
        return f"lists of {item}" if " " in item else f"{item}s"
    return f"{ {2: 'two', 3: 'three'}[len(inner)] } {item.removesuffix(' or null')}s"
