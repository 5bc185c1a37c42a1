"""What the agent writes of a Python process, read with tolerance: versions of it may differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from counterpoint.core.documents import parse_json
from counterpoint.runs.records import Records
from counterpoint.runs.run import Process, ProfileWindow


def read_processes(agent: Path) -> Records[Process]:
    """The processes of a rank that the agent was in."""
    found: list[Process] = []
    notes: list[str] = []
    for file in sorted(agent.glob("process-*.json")):
        try:
            made: object = parse_json(file.read_text(encoding="utf-8"))
            found.append(_process(file, cast("Mapping[str, object]", made)))
        except (OSError, ValueError, TypeError, AttributeError) as damage:
            notes.append(f"{file.name} is left out: {damage}")
    return Records(tuple(found), tuple(notes))


def _process(file: Path, facts: Mapping[str, object]) -> Process:
    pid = facts.get("pid")
    return Process(
        pid=pid if isinstance(pid, int) else int(file.stem.rpartition("-")[2]),
        versions=_versions(facts),
        platform=_text(facts.get("platform")),
        devices=tuple(map(str, _list(facts.get("devices")))),
        process_index=_number(facts.get("process_index")),
        process_count=_number(facts.get("process_count")),
        peak_memory=_peak(facts),
        window=_window(facts.get("window")),
        facts=facts,
    )


def _versions(facts: Mapping[str, object]) -> dict[str, str]:
    names = ("python", "jax", "jaxlib")
    versions = {name: str(facts[name]) for name in names if facts.get(name)}
    plugins = facts.get("plugins")
    if isinstance(plugins, dict):
        versions |= {str(n): str(v) for n, v in cast("dict[object, object]", plugins).items()}
    return versions


def _peak(facts: Mapping[str, object]) -> dict[str, int]:
    """Bytes by device, or by what the agent calls it."""
    told = facts.get("peak_memory")
    if isinstance(told, int):
        return {"device": told}
    if not isinstance(told, dict):
        return {}
    items = cast("dict[object, object]", told).items()
    return {str(name): value for name, value in items if isinstance(value, int)}


def _window(value: object) -> ProfileWindow | None:
    if not isinstance(value, dict):
        return None
    told = cast("Mapping[str, object]", value)
    return ProfileWindow(
        str(told.get("state", "waiting")),
        _text(told.get("reason")),
        _number(told.get("start_step")),
        _number(told.get("steps")),
        _text(told.get("path")),
        _seconds(told.get("opened_s")),
        _seconds(told.get("closed_s")),
        tuple(map(str, _list(told.get("files")))),
        _number(_mapping(told.get("asked")).get("start_step")),
        _text(told.get("counted")),
    )


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
