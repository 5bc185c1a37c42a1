"""Prices collectives within a domain: by a measured table if there is one, else by NCCL's model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from counterpoint.cost.collectives.nccl import NcclGroup, NcclMachine, estimates
from counterpoint.cost.collectives.size_curve import SizeCurve, curve
from counterpoint.cost.model import Price, PriceFamily, PriceSource, price_around
from counterpoint.hardware import Target

TABLE_OF: Final = {
    "H100": "sm_90", "H200": "sm_90", "B200": "sm_100_B200", "GB200": "sm_100_GB200",
    "B300": "sm_103", "GB300": "sm_103",
}  # fmt: skip
"""The XLA table that applies to each GPU."""
_SHEET: Final = {
    "sm_90": 450e9, "sm_100_B200": 900e9, "sm_100_GB200": 900e9, "sm_103": 900e9,
}  # fmt: skip
"""The links' rate of the measured machines."""
_TABLE_REACH: Final = (
    0.15  # versions of NCCL differ by that: H200s' all-reduce of 2025 against ours
)
_FORMULA_REACH: Final = 0.3
_LATENCY_REACH: Final = 0.6
# Shares of the data sheet's rate that large messages reach, for H100 in XLA's table.
_ALL_TO_ALL: Final = 0.75
_PERMUTE: Final = 0.63


@dataclass(frozen=True, slots=True)
class _TableRow:
    ranks: int
    groups: int
    curve: SizeCurve


def price_within(
    kind: str, size: int, ranks: int, target: Target, pattern: str = "", bus: bool = False
) -> Price:
    """Price a collective of `ranks` devices of one domain, or of one host joined by its `bus`."""
    bus = bus or not target.links.domain_bytes_per_s
    if ranks < 2 or size == 0:
        return price_around(
            _launch(), 1.0, PriceSource.ANALYTIC, PriceFamily.DOMAIN, "nothing to send", "latency"
        )
    found = None if bus else _from_table(kind, size, ranks, target, pattern)
    return found or _from_model(kind, size, ranks, target, bus)


def machine(target: Target, nic_bytes_per_s: float = 0.0, bus: bool = False) -> NcclMachine:
    """Return the machine that groups have within a domain of the target."""
    links = target.links
    nvlink = links.domain_bytes_per_s > 0 and not bus
    gpu = target.known_gpu
    capability = float(gpu.compute_capability) if gpu and not gpu.stands_in else 0.0
    # NVLink SHARP versus a ring on 8 GPUs: 480 and 367 GB/s on H200s, 735 and 700 on B200s.
    sharp = 0.0 if not nvlink or capability < 9 else 1.3 if capability < 10 else 1.05
    rate = 0.8 * links.domain_bytes_per_s if nvlink else 0.7 * links.host_bytes_per_s
    return NcclMachine(rate, nvlink, sharp, nic_bytes_per_s)


def _launch() -> float:
    return 8.4e-6


def _from_table(kind: str, size: int, ranks: int, target: Target, pattern: str) -> Price | None:
    device = TABLE_OF.get(target.gpu)
    if device is None:
        return None
    rows = _table().get((device, kind, pattern if kind == "collective-permute" else ""))
    if not rows:
        return None
    # Prefer more groups, which use more of the machine, if several layouts were measured.
    row = min(rows, key=lambda row: (abs(row.ranks - ranks), -row.groups))
    scaled_size = size * _share(kind, ranks) / _share(kind, row.ranks)
    seconds = row.curve.at(scaled_size)
    floor = min(row.curve.floor, seconds)
    slower = _SHEET[device] / target.links.domain_bytes_per_s
    seconds = floor + (seconds - floor) * slower
    other = "" if row.ranks == ranks else f", measured with {row.ranks}"
    latency = seconds < 2 * floor
    return price_around(
        seconds,
        _LATENCY_REACH if latency else _TABLE_REACH if not other else 2 * _TABLE_REACH,
        PriceSource.TABLE,
        PriceFamily.DOMAIN,
        f"{ranks} ranks{other}, XLA's table",
        "latency" if latency else "bandwidth",
        target.links.generation,
    )


def _share(kind: str, ranks: int) -> float:
    """Return the share of a message that passes one device's links."""
    if kind == "collective-permute":
        return 1.0
    return (2 if kind == "all-reduce" else 1) * (ranks - 1) / ranks


def _from_model(kind: str, size: int, ranks: int, target: Target, bus: bool) -> Price:
    links = target.links
    sheet = links.host_bytes_per_s if bus else links.domain_bytes_per_s
    if kind in ("all-to-all", "ragged-all-to-all", "collective-permute"):
        share = _PERMUTE if kind == "collective-permute" else _ALL_TO_ALL
        latency = _launch() + (ranks - 1 if kind != "collective-permute" else 1) * 1e-6
        transfer = size * _share(kind.removeprefix("ragged-"), ranks) / (sheet * share)
        how, seconds = "point to point", latency + transfer
        bound = "latency" if latency > transfer else "bandwidth"
    else:
        found = estimates(kind, size, NcclGroup(ranks, 1, ranks), machine(target, bus=bus))
        best = min(found, key=lambda estimate: estimate.seconds)
        how, seconds, bound = f"{best.algorithm} {best.protocol}", best.seconds, best.bound_by
    reach = _LATENCY_REACH if bound == "latency" else _FORMULA_REACH
    joined = "PCIe" if bus and links.domain_bytes_per_s else links.generation
    how = f"{how}, {ranks} ranks, {joined}"
    return price_around(
        seconds, reach, PriceSource.ANALYTIC, PriceFamily.DOMAIN, how, bound, joined
    )


@cache
def _table() -> dict[tuple[str, str, str], tuple[_TableRow, ...]]:
    text = resources.files("counterpoint.cost.collectives").joinpath("xla_collectives.csv")
    rows: dict[tuple[str, str, str], list[_TableRow]] = {}
    for line in text.read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        device, kind, ranks, layout, points = line.split(",")
        pairs = (point.split("=") for point in points.split())
        found = curve((int(size), float(us) * 1e-6) for size, us in pairs)
        pattern = layout if kind == "collective-permute" else ""
        groups = int(layout) if not pattern else 1
        rows.setdefault((device, kind, pattern), []).append(_TableRow(int(ranks), groups, found))
    return {key: tuple(found) for key, found in rows.items()}
