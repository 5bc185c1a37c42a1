"""The host's NVIDIA GPUs, their driver and links, from nvidia-smi and the kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from counterpoint.doctor.facts import NO_DRIVER, GpuState, HostGpus
from counterpoint.doctor.gather.kernel_files import text_of
from counterpoint.doctor.gather.tools import RunTool

_FIELDS: Final = (
    "index,name,driver_version,persistence_mode,ecc.mode.current,memory.total"
    ",clocks_throttle_reasons.active"
)
_QUERY: Final = ("nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits")
_TOPOLOGY: Final = ("nvidia-smi", "topo", "-m")
_SLOWED: Final = {
    0x08: "the hardware (slowdown)",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "the power brake",
}
"""Bits of NVML's clocks event reasons; idle, application clocks and power cap are not faults."""

_VERSION: Final = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_ROW: Final = re.compile(r"GPU(\d+)\s")


def gather_gpus(root: Path, ask: RunTool) -> HostGpus:
    """Return the driver, and its GPUs if nvidia-smi lists them."""
    version = _VERSION.search(text_of(root / "proc/driver/nvidia/version") or "")
    driver = version[1] if version else None
    listed = ask(_QUERY)
    cards = tuple(_cards(listed or ""))
    driver = driver or _driver(listed or "")
    if driver is None:
        return HostGpus(driver=None, why_none=NO_DRIVER)
    return HostGpus(
        driver=driver,
        why_none="nvidia-smi lists no GPUs" if listed is not None else "nvidia-smi can't be run",
        cards=cards,
        admin_only=_admin_only(root),
        links=tuple(_links(ask(_TOPOLOGY) or "")) if len(cards) > 1 else (),
    )


def _rows(listed: str) -> Iterator[list[str]]:
    for line in listed.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == _FIELDS.count(",") + 1 and cells[0].isdecimal():
            yield cells


def _driver(listed: str) -> str | None:
    return next((cells[2] for cells in _rows(listed) if cells[2][:1].isdecimal()), None)


def _cards(listed: str) -> Iterator[GpuState]:
    for index, name, _, persistence, ecc, memory, reasons in _rows(listed):
        yield GpuState(
            index=int(index),
            name=name,
            persistence=_switch(persistence),
            ecc=_switch(ecc),
            memory_bytes=int(memory) * 2**20 if memory.isdecimal() else None,
            slowed_by=_slowed_by(reasons),
        )


def _switch(text: str) -> bool | None:
    return {"enabled": True, "disabled": False}.get(text.lower())


def _slowed_by(text: str) -> tuple[str, ...]:
    try:
        bits = int(text, 16)
    except ValueError:
        return ()
    return tuple(words for bit, words in _SLOWED.items() if bits & bit)


def _admin_only(root: Path) -> bool | None:
    params = text_of(root / "proc/driver/nvidia/params") or ""
    match = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", params, re.MULTILINE)
    return None if match is None else match[1] != "0"


def _links(matrix: str) -> Iterator[tuple[int, int, str]]:
    """Yield each pair once. The columns of the matrix are GPUs first, then network cards."""
    for line in _COLOUR.sub("", matrix).splitlines():
        row = _ROW.match(line)
        if row is None:
            continue
        gpu = int(row[1])
        for other_gpu, kind in enumerate(line.split()[1 : gpu + 1]):
            if re.fullmatch(r"[A-Z]+\d*", kind) and kind != "X":
                yield other_gpu, gpu, kind
