"""The members of an nsys-jax bundle.

`nsys-jax` writes the files of one rank. `nsys-jax-combine` merges such bundles: a file that differs
between ranks becomes a directory of that name with one file per rank, named like the rank's bundle;
a file that does not differ, or that only one rank has, stays as it is.

Damage is detected by the zip's own checksums, before the Parquet reader sees the data.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

import polars as pl

from counterpoint.core import InputError
from counterpoint.core.unpacking import member as unzipped
from counterpoint.core.unpacking import unpack
from counterpoint.timeline.model import EmbeddedProgram

TRACE: Final = "nvtx_gpu_proj_trace/trace.parquet"

_HLO: Final = re.compile(
    r"dump/module_(\d+)\.(.+?)\.[^/]*after_optimizations\.hlo\.pb(\.xz)?(?:/(.+))?$"
)
_TARGET: Final = re.compile(r"dump/[^/]*gpu_target_config\.pbtxt(\.xz)?(?:/(.+))?$")
_DESCRIPTION: Final = re.compile(rb'device_description_str: "([^"]*)"')


def is_nsys_jax(archive: zipfile.ZipFile) -> bool:
    """Return whether an archive is a bundle: it contains the trace of projected ranges."""
    return any(name == TRACE or name.startswith(TRACE + "/") for name in archive.namelist())


class Archive:
    """The members of a bundle, by their names in a bundle of one rank."""

    def __init__(self, archive: zipfile.ZipFile, source: str) -> None:
        self.source = source
        self._archive = archive
        self._names = set(archive.namelist())

    def ranks(self) -> list[str | None]:
        """Return the ranks in the bundle; [None] for a single, unnamed rank."""
        prefix = TRACE + "/"
        merged = sorted(
            name.removeprefix(prefix) for name in self._names if name.startswith(prefix)
        )
        return [name for name in merged if name] or [None]

    def has(self, name: str, rank: str | None) -> bool:
        """Return whether the rank has this file."""
        return self._locate(name, rank) is not None

    def read(self, name: str, rank: str | None) -> bytes | None:
        """Return the bytes of a rank's file, None if it has none."""
        member = self._locate(name, rank)
        return None if member is None else self._read(member)

    def table(self, name: str, rank: str | None) -> pl.DataFrame | None:
        """Read a rank's Parquet file."""
        data = self.read(name, rank)
        if data is None:
            return None
        try:
            return pl.read_parquet(io.BytesIO(data))
        except (
            pl.exceptions.PolarsError,
            pl.exceptions.PanicException,
            ValueError,
            OSError,
        ) as failure:
            raise self.broken(name, str(failure).partition("\n")[0]) from None

    def select(self, name: str, table: pl.DataFrame, columns: Sequence[pl.Expr]) -> pl.DataFrame:
        """Return columns of a member; raise InputError where one has a type without a number."""
        try:
            return table.select(columns)
        except pl.exceptions.PolarsError as failure:
            raise self.broken(name, str(failure).partition("\n")[0]) from None

    def programs(self, rank: str | None) -> dict[str, EmbeddedProgram]:
        """Return a rank's optimized modules by program id; each is decompressed on first use."""
        programs: dict[str, EmbeddedProgram] = {}
        for name in sorted(self._names):
            match = _HLO.match(name)
            if match and match[4] in (None, rank):
                data = self._read(name)
                load = self._loader(name, data) if match[3] else _constant(data)
                content_hash = sha256(data).digest()
                programs[str(int(match[1]))] = EmbeddedProgram(
                    match[2], load, content_hash=content_hash
                )
        return programs

    def chip(self, rank: str | None) -> str | None:
        """Return the GPU that XLA compiled for, as it names it; None if no module's dump says."""
        for name in sorted(self._names):
            match = _TARGET.match(name)
            if match and match[2] in (None, rank):
                data = self._read(name)
                text = unpack(data, f"{self.source}: {name}") if match[1] else data
                description = _DESCRIPTION.search(text)
                return description[1].decode(errors="replace") if description else None
        return None

    def broken(self, name: str, why: str) -> InputError:
        """Return the error for a member that can't be read."""
        return InputError(
            f"{self.source}: {name} can't be read",
            why=why,
            next="copy the bundle again, or run nsys-jax again",
        )

    def _locate(self, name: str, rank: str | None) -> str | None:
        own = f"{name}/{rank}"
        if rank is not None and own in self._names:
            return own
        return name if name in self._names else None

    def _read(self, member: str) -> bytes:
        return unzipped(self._archive, member, self.source)

    def _loader(self, name: str, data: bytes) -> Callable[[], bytes]:
        held: list[bytes] = []

        def load() -> bytes:
            # A program is loaded to compare it with those of other hosts, and then to read it.
            if held:
                return held.pop()
            held.append(unpack(data, f"{self.source}: {name}"))
            return held[0]

        return load


def _constant(data: bytes) -> Callable[[], bytes]:
    return lambda: data
