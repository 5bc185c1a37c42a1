"""A Recording on its way from one process to another: its columns as Arrow files, the rest as JSON.

A profile has millions of rows, and none of them becomes a Python object here. The HLO of a program
lies once for all hosts, under the digest of what it holds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import polars as pl

from counterpoint.core.basis import Basis
from counterpoint.timeline.device import Device
from counterpoint.timeline.recording import EmbeddedProgram, Recording

_MANIFEST: Final = "recording.json"


def write_parcel(recording: Recording, into: Path, hlo: Path) -> None:
    """Write a Recording as a new directory; its HLO goes to the directory `hlo`."""
    into.mkdir()
    rest: dict[str, Any] = {}
    for name in (field.name for field in fields(recording)):
        value = getattr(recording, name)
        if isinstance(value, pl.DataFrame):
            value.write_ipc(into / f"{name}.arrow")
        else:
            rest[name] = value
    rest["devices"] = [asdict(device) for device in recording.devices]
    rest["programs"] = {
        key: (program.name, program.fingerprint, _store(program.load(), hlo))
        for key, program in recording.programs.items()
    }
    rest["environment"] = dict(recording.environment)
    (into / _MANIFEST).write_text(json.dumps(rest), encoding="utf-8")


def _store(content: bytes, hlo: Path) -> str:
    digest = sha256(content).hexdigest()
    place = hlo / digest
    if not place.exists():
        # Two hosts may bring the same HLO at the same time: the name appears with the whole of it.
        partial = place.with_name(f"{digest}.{os.getpid()}")
        partial.write_bytes(content)
        partial.rename(place)
    return digest


def open_parcel(place: Path, hlo: Path, known: dict[str, bytes]) -> Recording:
    """The Recording again. `known` keeps the HLO met so far, so that hosts share it."""
    rest: dict[str, Any] = json.loads((place / _MANIFEST).read_text(encoding="utf-8"))
    # From memory, so that nothing points into files that are about to go.
    tables: dict[str, Any] = {
        file.stem: pl.read_ipc(file.read_bytes()) for file in sorted(place.glob("*.arrow"))
    }
    programs = {
        key: EmbeddedProgram(name, _loader(digest, hlo, known), fingerprint)
        for key, (name, fingerprint, digest) in rest["programs"].items()
    }
    rest |= {name: tuple(rest[name]) for name in ("lines", "host_names", "notes")}
    rest |= {
        "devices": tuple(Device(**device) for device in rest["devices"]),
        "basis": Basis(rest["basis"]),
        "programs": programs,
    }
    return Recording(**rest, **tables)


def _loader(digest: str, hlo: Path, known: dict[str, bytes]) -> Callable[[], bytes]:
    if digest not in known:
        known[digest] = (hlo / digest).read_bytes()
    content = known[digest]
    return lambda: content
