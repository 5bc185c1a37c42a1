"""Writes small nsys-jax bundles in the three layouts that Nsight Systems has given them."""

from __future__ import annotations

import io
import lzma
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

TRACE = "nvtx_gpu_proj_trace/trace.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A projected range; `text` with its domain."""

    id: int
    parent: int | None
    text: str
    start: int
    dur: int
    tid: int = 1


def module(number: int, text: str, start: int, dur: int, tid: int = 1) -> Range:
    """An execution of a module, as `name,program_id=n`."""
    return Range(
        id=number,
        parent=None,
        text=f"TSL:XlaModule:#hlo_module={text}#",
        start=start,
        dur=dur,
        tid=tid,
    )


def thunk(number: int, parent: int, op: str, start: int, dur: int, tid: int = 1) -> Range:
    """An execution of a thunk."""
    return Range(
        id=number,
        parent=parent,
        text=f"TSL:Thunk:#name=jit(f)/jit(main),hlo_op={op}#",
        start=start,
        dur=dur,
        tid=tid,
    )


def to_2024_4(ranges: Sequence[Range]) -> pl.DataFrame:
    """Ids are floats, since the profiler's own ranges have none."""
    return pl.DataFrame(
        {
            "Name": [r.text for r in ranges] + [None],
            "Projected Start": [r.start for r in ranges] + [0],
            "Projected Duration": [r.dur for r in ranges] + [1],
            "Orig Start": [float(r.start) for r in ranges] + [None],
            "Orig Duration": [float(r.dur) for r in ranges] + [None],
            "Style": ["PushPop" for _ in ranges] + [None],
            "PID": [9 for _ in ranges] + [9],
            "TID": [r.tid for r in ranges] + [1],
            "RangeId": [float(r.id) for r in ranges] + [None],
            "ParentId": [None if r.parent is None else float(r.parent) for r in ranges] + [None],
        }
    )


def to_2024_5(ranges: Sequence[Range]) -> pl.DataFrame:
    """Names lack their domain."""
    return pl.DataFrame(
        {
            "Text": [r.text.partition(":")[2] for r in ranges],
            "Start": [r.start for r in ranges],
            "End": [r.start + r.dur for r in ranges],
            "Children Count": [0 for _ in ranges],
            "Range ID": [r.id for r in ranges],
            "Parent ID": pl.Series([r.parent for r in ranges], dtype=pl.Int64),
            "PID": [9 for _ in ranges],
            "Range Stack": [[r.id] for r in ranges],
            "Stack Level": [0 for _ in ranges],
            "TID": [r.tid for r in ranges],
        }
    )


def to_2026_1(ranges: Sequence[Range]) -> pl.DataFrame:
    """Domains have a column of their own."""
    domain = pl.Series("Domain", [r.text.partition(":")[0] for r in ranges])
    return to_2024_5(ranges).with_columns(domain)


@dataclass(slots=True)
class Bundle:
    """A bundle of one rank; `launchers` are the devices by the thread that launches on them."""

    ranges: Sequence[Range]
    layout: Callable[[Sequence[Range]], pl.DataFrame] = to_2024_4
    launchers: dict[int, int] = field(default_factory=lambda: {7: 0})
    process: int = 0
    host: str = "node7"
    programs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    host_ranges: Sequence[tuple[int, int, str, int]] = ()

    def members(self) -> dict[str, bytes]:
        """Content of each file."""
        names = [
            f"XlaLauncher:#global={4 * self.process + local},local={local},process={self.process},"
            "slice=0#"
            for local in self.launchers.values()
        ]
        threads = {"Name": names, "PID": [9] * len(names), "TID": list(self.launchers)}
        system = {"name": ["Hostname"], "value": [self.host], "nameEnum": [619]}
        happened = {
            "Start (ns)": [start for start, _, _, _ in self.host_ranges],
            "End (ns)": [end for _, end, _, _ in self.host_ranges],
            "Name": [name for _, _, name, _ in self.host_ranges],
            "TID": [tid for _, _, _, tid in self.host_ranges],
            "PID": [9] * len(self.host_ranges),  # one of several columns that nobody reads
        }
        members = {
            TRACE: parquet(self.layout(self.ranges)),
            "thread-metadata.parquet": parquet(pl.DataFrame(threads)),
            "system-metadata.parquet": parquet(pl.DataFrame(system)),
            "device-metadata.parquet": parquet(self._devices(names)),
            "report_nvtx_pushpop_trace.parquet": parquet(pl.DataFrame(happened)),
        }
        for name, proto in self.programs.items():
            members[f"dump/module_{name}.sm_9.0_gpu_after_optimizations.hlo.pb.xz"] = lzma.compress(
                proto
            )
        return members

    def write(self, path: Path) -> Path:
        """The bundle as a file."""
        return write_zip(path, self.members())

    def _devices(self, names: Sequence[str]) -> pl.DataFrame:
        named = [name.replace("XlaLauncher", "Xla") for name in names]
        return pl.DataFrame(
            {
                "('TARGET_INFO_GPU', 'name')": ["NVIDIA H100"] * len(names),
                "('TARGET_INFO_GPU', 'memoryBandwidth')": [3_352] * len(names),
                "('TARGET_INFO_NVTX_CUDA_DEVICE', 'name')": named,
                "('TARGET_INFO_NVTX_CUDA_DEVICE', 'deviceId')": list(self.launchers.values()),
            }
        )


def parquet(frame: pl.DataFrame) -> bytes:
    """The frame as a Parquet file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    """Write a zip file."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def combine(path: Path, ranks: dict[str, dict[str, bytes]]) -> Path:
    """Merge the members of ranks as nsys-jax-combine does.

    A file that is the same wherever it is stays; else `A` of rank `r` becomes `A/r`.
    """
    merged: dict[str, bytes] = {}
    for rank, members in ranks.items():
        for name, content in members.items():
            versions = {other[name] for other in ranks.values() if name in other}
            merged[name if len(versions) == 1 else f"{name}/{rank}"] = content
    return write_zip(path, merged)
