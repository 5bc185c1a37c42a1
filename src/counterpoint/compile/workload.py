"""A Workload to compile: one module as it was before XLA's passes, and where it came from."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoint.compile.job import Form

_NAME: Final = re.compile(rb"module @\"?([\w.$-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One module before XLA's passes."""

    name: str
    form: Form
    program: bytes = field(repr=False)
    origin: str
    replicas: int | None = None
    partitions: int | None = None


def load_workload(path: Path, module: str | None = None) -> Workload:
    """The program in that file."""
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    found = _NAME.search(data)
    return Workload(
        name=found[1].decode() if found else path.stem,
        form=Form.MLIR,
        program=data,
        origin=str(path),
    )
