"""The JSON Schema of every `--json` output and of the records on disk, made from their types.

make docs        (tools/make_docs.py writes them to docs/reference/schema/)
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec

from counterpoint import report
from counterpoint.report.json import Result
from counterpoint.runs.records import RankManifest, RunManifest
from counterpoint.tune.study.records import Record

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_JOURNAL = {
    "n": {"type": "integer", "description": "The line's number, from 0."},
    "is": {"type": "string", "description": "The record's name in $defs."},
    "says": {"type": "object"},
    "crc": {
        "type": "string",
        "description": "CRC-32 of the line before this key.",
    },
}


def json_schemas() -> Mapping[str, str]:
    """The text of each schema, by the name of its file."""
    made = {f"{name}.json": _whole(_schema(name, kind)) for name, kind in results().items()}
    made["run.json"] = _schema("run", RunManifest)
    made["rank.json"] = _schema("rank", RankManifest)
    made["journal.json"] = _journal()
    return {name: json.dumps(text, indent=1) + "\n" for name, text in sorted(made.items())}


def results() -> Mapping[str, type[Result]]:
    """The types of what commands print, by name: `explain`, `flags.check`, `pgle-make`."""
    for module in pkgutil.walk_packages(report.__path__, f"{report.__name__}."):
        importlib.import_module(module.name)
    return {str(tag).split(".", 1)[1].partition("/")[0]: kind for tag, kind in _tagged(Result)}


def _tagged(kind: type[Result]) -> Iterator[tuple[object, type[Result]]]:
    if kind.__struct_config__.tag is not None:
        yield kind.__struct_config__.tag, kind
    for one in kind.__subclasses__():
        yield from _tagged(one)


def _schema(name: str, kind: type[Any]) -> dict[str, Any]:
    return {
        "$schema": _DIALECT,
        "$id": _id(name),
        "title": name,
        **msgspec.json.schema(kind, schema_hook=_other),
    }


def _id(name: str) -> str:
    """Return the name of a schema, for those that refer to it: it has no address of its own."""
    return f"urn:counterpoint:{name}:1"


def _whole(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a result, in which dataclasses, too, have all of their keys and no other."""
    for kind in schema["$defs"].values():
        if "properties" in kind:
            kind |= {"required": [*kind["properties"]], "additionalProperties": False}
            for key in kind["properties"].values():
                key.pop("default", None)
    return schema


def _journal() -> dict[str, Any]:
    """A line of `journal.jsonl`, and the records that it may hold."""
    records = get_args(Record)
    references, definitions = msgspec.json.schema_components(records, schema_hook=_other)
    lines = [
        {"properties": {"is": {"const": kind.__name__}, "says": reference}}
        for kind, reference in zip(records, references, strict=True)
    ]
    return {
        "$schema": _DIALECT,
        "$id": _id("journal"),
        "title": "journal",
        "type": "object",
        "properties": _JOURNAL,
        "required": [*_JOURNAL],
        "oneOf": lines,
        "$defs": definitions,
    }


def _other(kind: type) -> dict[str, Any]:
    """Return the schema of a type that JSON lacks: a path is a text."""
    del kind
    return {"type": "string"}
