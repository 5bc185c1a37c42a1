"""The JSON Schema of every `--json` output and of the records on disk, made from their types.

make docs        (tools/make_docs.py writes them to docs/reference/schema/)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from counterpoint.runs.records import RankManifest, RunManifest
from counterpoint.tune.study.records import Record
from result_types import fields_by_key, objects_in, results

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
    made = {f"{name}.json": _whole(_schema(name, kind), kind) for name, kind in results().items()}
    made["run.json"] = _schema("run", RunManifest)
    made["rank.json"] = _schema("rank", RankManifest)
    made["journal.json"] = _journal()
    return {name: json.dumps(text, indent=1) + "\n" for name, text in sorted(made.items())}


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


def _whole(schema: dict[str, Any], top: type[Any]) -> dict[str, Any]:
    """The schema of a result, with the meaning of each key.

    Dataclasses, too, have all of their keys and no other.
    """
    fields = {kind.__name__: fields_by_key(kind) for kind in (top, *objects_in(top))}
    for name, kind in schema["$defs"].items():
        if "properties" in kind:
            kind |= {"required": [*kind["properties"]], "additionalProperties": False}
            for key, value in kind["properties"].items():
                value.pop("default", None)
                if key in fields[name]:
                    value["description"] = fields[name][key].meaning
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
