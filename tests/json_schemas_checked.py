"""Every JSON that a test prints here, held to its type, and the first of each schema to that.

The committed schema is generated from the type, and jsonschema takes a hundred times as long as
msgspec, so to hold one result of each kind to the schema is enough.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
from jsonschema import Draft202012Validator

from counterpoint.report.json import Result

SCHEMAS = Path(__file__).parents[1] / "docs" / "reference" / "schema"
_LONGEST = 200_000
"""Characters up to which a text is held to the schema, too."""
_held: set[str] = set()
"""The schemas that a result of this process was held to."""


def checked(result: Result) -> dict[str, Any]:
    """What `report.json.plain` gives, when it is what the schema says."""
    data = cast("dict[str, Any]", msgspec.to_builtins(result))
    text = json.dumps(data, allow_nan=False)
    read = json.loads(text)
    msgspec.convert(read, type(result))
    if "schema" not in data or not result.__struct_config__.tag:  # a row of a table
        return data
    if data["schema"] not in _held and len(text) < _LONGEST:
        validator(name_of(data["schema"])).validate(read)
        _held.add(data["schema"])
    return data


def name_of(schema: str) -> str:
    """`explain` of `counterpoint.explain/1`."""
    return schema.removeprefix("counterpoint.").partition("/")[0]


@cache
def validator(name: str) -> Draft202012Validator:
    """What holds an object to a committed schema."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)
