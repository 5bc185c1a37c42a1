"""The tables of the pages about JSON, made from the types of the results.

A page is written by hand, but for what stands between these two lines, which `make docs` writes:

    <!-- fields: explain -->
    <!-- end of fields -->

It is a table of the keys of the schema `counterpoint.explain/1`, and one of each object in it, with
the docstring of its type above. Between `<!-- figures -->` and `<!-- end of figures -->` stand the
numbers for trackers.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from counterpoint.report.summary import FIGURES
from result_types import fields_by_key, hints_of, kinds_in, objects_in, results

_REGION: Final = re.compile(r"(<!-- fields: (\S+) -->\n).*?(?=<!-- end of fields -->)", re.DOTALL)
_FIGURES: Final = re.compile(r"(<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)
_WORDS: Final = {
    str: "string",
    int: "int",
    float: "number",
    bool: "bool",
    type(None): "null",
    Any: "object",
}


def pages_of_fields(docs: Path) -> Mapping[str, str]:
    """The pages with such tables, by their paths within docs, as they have to be."""
    pages: dict[str, str] = {}
    for page in sorted((docs / "reference").glob("*.md")):
        text = page.read_text("utf-8")
        if _REGION.search(text) or _FIGURES.search(text):
            made = _REGION.sub(_filled, text)
            made = _FIGURES.sub(lambda region: f"{region[1]}\n{_figures_table()}\n", made)
            pages[page.relative_to(docs).as_posix()] = made
    return pages


def _filled(region: re.Match[str]) -> str:
    """The region with its tables; their headings are below the one that the page has above it."""
    above = _REGION.sub("", region.string[: region.start()])
    own = re.findall(r"^(#+) ", above, re.MULTILINE)[-1]
    return f"{region[1]}\n{field_tables(region[2], f'{own}#')}"


def field_tables(schema: str, level: str = "##") -> str:
    """The tables of a schema: its own keys, and the objects in it, outermost first."""
    top = results()[schema]
    parts = ["\n".join(_table(top, schema))]
    for kind, paths in objects_in(top).items():
        heading = ", ".join(f"`{path}`" for path in paths)
        parts.append("\n".join((f"{level} {heading}", "", _described(kind), "", *_table(kind))))
    return "\n\n".join(parts) + "\n\n"


def _figures_table() -> str:
    rows = (f"| `{name}` | {unit} | {meaning} |\n" for name, (unit, meaning) in FIGURES.items())
    return "".join(("| number | unit | meaning |\n", "|---|---|---|\n", *rows))


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
