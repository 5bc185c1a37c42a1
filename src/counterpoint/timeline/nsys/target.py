"""The machine of a profile: its name, GPUs, settings, and the profiler's diagnostics.

Of the environment only variables that control XLA, JAX, NCCL and CUDA are kept: others may hold
secrets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.timeline.model import Device
from counterpoint.timeline.nsys.annotations import DeviceIds, parse_device_ids
from counterpoint.timeline.nsys.database import Database

_ENVIRONMENT: Final = "TARGET_INFO_SYSTEM_ENV"
_CAPTURE: Final = "META_DATA_CAPTURE"
_EXPORT: Final = "META_DATA_EXPORT"
_GPUS: Final = "TARGET_INFO_GPU"
_CUDA_DEVICES: Final = "TARGET_INFO_CUDA_DEVICE"
_DIAGNOSTICS: Final = "DIAGNOSTIC_EVENT"

_FACTS: Final = ("NvDriverVersion", "CudaDriverVersion", "CpuDescription", "OsDescription")
_EXPORT_FACTS: Final = ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")
_SCHEMAS: Final = ((3, 0), (3, 25))
_VARIABLE: Final = re.compile(r"^(XLA_\w+|JAX_\w+|NCCL_\w+|CUDA_\w+|TF_XLA_FLAGS)=(.*)$", re.DOTALL)
_SECRET: Final = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|_KEY$")

_WARNING: Final = 2
_ERROR: Final = 3
_QUOTED: Final = 5


def read_facts(database: Database) -> dict[str, str]:
    """Return facts about the system, the export, and the environment of the profiled program."""
    export = _pairs(database, _EXPORT)
    captured = [
        value
        for name, value in database.read(_CAPTURE, (), ("name", "value")).rows()
        if name and value and name.endswith("ENVIRONMENT_VARIABLE")
    ]
    facts = select_facts(_pairs(database, _ENVIRONMENT))
    return (
        facts
        | {name: export[name] for name in _EXPORT_FACTS if name in export}
        | variables(captured)
    )


def schema_notes(facts: Mapping[str, str]) -> list[str]:
    """Return a note if the export has an unknown schema version."""
    version = facts.get("EXPORT_SCHEMA_VERSION", "")
    numbers = tuple(int(part) for part in re.findall(r"\d{1,9}", version)[:2])
    if not numbers or _SCHEMAS[0] <= numbers <= _SCHEMAS[1]:
        return []
    return [f"the export has schema {version}; the known ones are 3.0 to 3.25"]


def select_facts(system: Mapping[str, str]) -> dict[str, str]:
    """Select the useful entries of TARGET_INFO_SYSTEM_ENV."""
    facts = {name: system[name] for name in _FACTS if system.get(name)}
    return facts | variables(system.get("DeviceEnvironment", "").split(";"))


def read_hostname(database: Database) -> str | None:
    """Return the name of the machine, if the profile contains it."""
    return _pairs(database, _ENVIRONMENT).get("Hostname") or None


def host_name(hostname: str | None, places: Sequence[DeviceIds]) -> str | None:
    """Return the machine's name, with the process if the profile holds only one of the job's."""
    processes = {place.process for place in places}
    if hostname is None or len(processes) != 1:
        return hostname
    return f"{hostname} (process {processes.pop()})"


def variables(assignments: Iterable[str]) -> dict[str, str]:
    """Return the settings among `NAME=value` texts; nsys quotes those it sets itself."""
    settings: dict[str, str] = {}
    for assignment in assignments:
        match = _VARIABLE.match(assignment)
        if match and not _SECRET.search(match[1]):
            settings[match[1]] = match[2].removeprefix('"').removesuffix('"')
    return settings


def _pairs(database: Database, table: str) -> dict[str, str]:
    rows = database.read(table, (), ("name", "value")).drop_nulls()
    return dict(rows.rows())


def read_places(database: Database, strings: pl.DataFrame) -> list[DeviceIds]:
    """Return the places given by XLA's names of threads and devices."""
    threads = database.read("ThreadNames", ("nameId",))["nameId"].drop_nulls()
    names = strings.filter(pl.col("id").is_in(threads.implode()))["value"].to_list()
    names += database.read("TARGET_INFO_NVTX_CUDA_DEVICE", (), ("name",))["name"].to_list()
    places = [parse_device_ids(name) for name in names if name is not None]
    return [place for place in places if place is not None]


def read_thread_names(database: Database, strings: pl.DataFrame) -> dict[int, str]:
    """Return the name of each named thread."""
    rows = database.read("ThreadNames", ("nameId", "globalTid"))
    named = rows.join(strings, left_on="nameId", right_on="id").select("globalTid", "value")
    return dict(named.drop_nulls().rows())


def read_diagnostics(database: Database) -> list[str]:
    """Return warnings and errors of the profiler itself, each distinct one once."""
    rows = database.read(_DIAGNOSTICS, ("severity",), ("text",)).drop_nulls()
    diagnostics = rows.filter(pl.col("severity").is_in([_WARNING, _ERROR]))
    counts = diagnostics.group_by("text", maintain_order=True).len()
    notes = [
        f"Nsight Systems warns: {text.strip()}" + (f" ({count} times)" if count > 1 else "")
        for text, count in counts.head(_QUOTED).rows()
    ]
    if len(counts) > _QUOTED:
        notes.append(f"Nsight Systems reports {len(counts) - _QUOTED} more warnings")
    return notes


def find_devices(
    database: Database, used: pl.DataFrame
) -> tuple[list[Device], pl.DataFrame, list[str]]:
    """Return the devices that ran something, and the index of each (pid, device) of `used`.

    CUDA numbers devices per process, after CUDA_VISIBLE_DEVICES; a table of newer exports maps
    these numbers to GPUs.
    """
    gpus = _gpus(database)
    gpu_of = _gpu_of_cuda_device(database)
    index_of: dict[tuple[str, int | None, int], int] = {}
    devices: list[Device] = []
    rows: list[tuple[int | None, int, int]] = []
    pairs = used.unique().sort("device", "pid", nulls_last=True).rows()
    shared = {number for number in (d for _, d in pairs) if [d for _, d in pairs].count(number) > 1}
    unsure = False
    for pid, number in pairs:
        gpu = gpu_of.get((_plain_pid(pid), number), gpu_of.get((None, number)))
        key = ("cuda", pid if number in shared else None, number)
        if gpu is not None:
            key = ("gpu", None, gpu)
        unsure |= gpu is None and number in shared
        if key not in index_of:
            index_of[key] = len(devices)
            devices.append(_device(number if gpu is None else gpu, gpus))
        rows.append((pid, number, index_of[key]))
    schema = {"pid": pl.Int64, "device": pl.Int64, "index": pl.UInt16}
    notes = [_UNSURE] if unsure else []
    return devices, pl.DataFrame(rows, schema=schema, orient="row"), notes


_UNSURE: Final = (
    "several processes use a device of the same number, and this export does not say whether it"
    " is one GPU (table TARGET_INFO_CUDA_DEVICE): each process is assigned its own"
)


def _device(ordinal: int, gpus: Mapping[int, tuple[str | None, int | None]]) -> Device:
    name, bandwidth = gpus.get(ordinal, (None, None))
    return Device(
        ordinal=ordinal,
        kind="gpu",
        chip=name or None,
        peak_bytes=float(bandwidth) if bandwidth and 0 < bandwidth < math.inf else None,
    )


def _gpus(database: Database) -> dict[int, tuple[str | None, int | None]]:
    """Return name and memory bandwidth (bytes/s) of each GPU."""
    rows = database.read(_GPUS, ("id", "memoryBandwidth"), ("name",))
    return {
        number: (name, bandwidth)
        for number, name, bandwidth in rows.select("id", "name", "memoryBandwidth").rows()
        if number is not None
    }


def _gpu_of_cuda_device(database: Database) -> dict[tuple[int | None, int], int]:
    """Return the GPU of a process's CUDA device; key (None, device) if all processes agree."""
    rows = database.read(_CUDA_DEVICES, ("gpuId", "cudaId", "pid")).rows()
    gpu_of_device: dict[tuple[int | None, int], int] = {}
    claims: dict[int, set[int]] = {}
    for gpu, cuda, pid in rows:
        if gpu is not None and cuda is not None:
            claims.setdefault(cuda, set()).add(gpu)
            if pid is not None:
                gpu_of_device[pid, cuda] = gpu
    return gpu_of_device | {
        (None, cuda): min(gpus) for cuda, gpus in claims.items() if len(gpus) == 1
    }


def _plain_pid(global_pid: int | None) -> int | None:
    return None if global_pid is None else (global_pid >> 24) & 0xFFFFFF


RANGES: Final = "NVTX_EVENTS"
CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"

_PUSH_POP: Final = (59, 70)
_START_END: Final = (60, 71)
_DOMAIN: Final = 75
_PID: Final = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class HostRanges:
    """NVTX ranges, and their distinct `texts`.

    `ranges` has thread, start, end (null: open when the profile stopped), text (row of `texts`)
    and nests (push/pop).
    """

    ranges: pl.DataFrame
    texts: pl.Series


def read_ranges(database: Database, strings: pl.DataFrame) -> HostRanges:
    """Read NVTX_EVENTS; empty if the table or its times are missing.

    The table holds ranges (push/pop ranges nest on a thread, start/end ranges need not), marks, and
    names of domains. A text is either inline or registered (`textId`); the domain's name is
    prefixed, as in Nsight's own reports.
    """
    if not database.has(RANGES, "start", "end", "globalTid"):
        return HostRanges(_empty(), pl.Series("text", [], pl.String))
    numbers = ("start", "end", "eventType", "globalTid", "textId", "domainId")
    rows = database.read(RANGES, numbers, ("text",))
    registered = rows.select(id="textId").join(strings, on="id", how="left", maintain_order="left")[
        "value"
    ]
    rows = rows.with_columns(
        text=pl.coalesce(pl.col("text"), registered),
        pid=pl.col("globalTid") // _PID,
        kind=pl.col("eventType").fill_null(_PUSH_POP[0]),
    )
    domains = (
        rows.filter(pl.col("kind") == _DOMAIN)
        .select("pid", "domainId", domain="text")
        .unique(["pid", "domainId"], keep="first")
    )
    kept = rows.filter(
        pl.col("kind").is_in([*_PUSH_POP, *_START_END])
        & pl.all_horizontal(pl.col("start", "globalTid", "text").is_not_null())
    ).join(domains, on=["pid", "domainId"], how="left", maintain_order="left")
    prefix = pl.when(pl.col("domain").is_null()).then(pl.lit("")).otherwise(pl.col("domain") + ":")
    texts, codes = intern(kept.select(text=prefix + pl.col("text")).to_series())
    ranges = kept.select(
        "start",
        "end",
        thread="globalTid",
        text=codes,
        nests=pl.col("kind").is_in(_PUSH_POP),
    )
    return HostRanges(ranges, texts)


def _empty() -> pl.DataFrame:
    return pl.DataFrame(
        schema={
            "start": pl.Int64,
            "end": pl.Int64,
            "thread": pl.Int64,
            "text": pl.UInt32,
            "nests": pl.Boolean,
        }
    )


def read_calls(database: Database, strings: pl.DataFrame) -> pl.DataFrame:
    """Read CUDA API calls: thread, pid, start, end, correlation, name."""
    needed = database.has(CALLS, "start", "end", "globalTid")
    calls = database.read(
        CALLS if needed else "", ("start", "end", "globalTid", "correlationId", "nameId")
    )
    name = calls.select(id="nameId").join(strings, on="id", how="left", maintain_order="left")
    return calls.select(
        "start",
        "end",
        thread="globalTid",
        pid=pl.col("globalTid") // _PID * _PID,
        correlation="correlationId",
        name=name["value"].fill_null("unnamed CUDA API call"),
    ).filter(pl.all_horizontal(pl.col("start", "end", "thread").is_not_null()))


def intern(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the distinct texts, and for each row the index of its text."""
    frame = texts.alias("text").to_frame()
    distinct = frame.unique(maintain_order=True).with_row_index("code")
    codes = frame.join(distinct, on="text", how="left", maintain_order="left", nulls_equal=True)
    return distinct["text"], codes["code"]
