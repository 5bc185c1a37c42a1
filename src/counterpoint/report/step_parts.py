"""Where a median step goes: the parts that add up to it, and what is hidden within compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from counterpoint.diagnose.step import Breakdown as StepBreakdown
from counterpoint.diagnose.step import Phases
from counterpoint.report import units
from counterpoint.report.document import Breakdown, Fact, Facts, Part, Section, Slice

_LABELS: Final = {
    Part.COMPUTE: "compute",
    Part.HIDDEN: "with a hidden collective",
    Part.COLLECTIVE: "exposed collective",
    Part.COPY: "exposed copy",
    Part.IDLE: "idle",
}

_LEAST_DECIMALS: Final = 2  # small parts of a long step are worth their digits


def parts_section(
    title: str, step: StepBreakdown, devices: Mapping[int, StepBreakdown], phases: Phases | None
) -> Section:
    """The step's parts in order, with the least and the most of any device, and its phases."""
    parts, by_device = _parts(step), [_parts(one) for one in devices.values()]
    parts = _occurring(parts)
    whole = [part for part in parts if part is not Part.HIDDEN]
    total = sum(parts[part] for part in whole)
    shares = dict(zip(whole, units.percentages([parts[part] for part in whole]), strict=True))
    if Part.HIDDEN in parts:
        shares[Part.HIDDEN] = units.percent(parts[Part.HIDDEN] / total if total else None)
    decimals = max(units.decimals_of(parts.values()), _LEAST_DECIMALS)
    slices = tuple(
        Slice(
            part=part,
            label=_LABELS[part],
            ms=ms,
            share=shares[part],
            fraction=parts[part] / total if total else 0.0,
            remark=_reach([one[part] for one in by_device], decimals),
            within=Part.COMPUTE if part is Part.HIDDEN else None,
        )
        for part, ms in zip(parts, units.column(parts.values(), decimals), strict=True)
    )
    many = len(by_device) > 1
    summary = "mean over devices (from the least to the most)" if many else ""
    return Section(title, summary, (Breakdown(slices), Facts((_phases(phases),))))


def _phases(phases: Phases | None) -> Fact:
    """The busy time by phase; phases without any are left out."""
    if phases is None:
        return Fact("phases", f"{units.UNKNOWN} (no op tells the one it belongs to)")
    parts = {
        "forward": phases.forward_ms,
        "backward": phases.backward_ms,
        "remat": phases.remat_ms,
        "optimizer": phases.optimizer_ms,
        "other": phases.other_ms,
    }
    shown = zip(
        parts, units.column(parts.values()), units.percentages([*parts.values()]), strict=True
    )
    words = [f"{name} {ms} ms {share}" for name, ms, share in shown if parts[name] > 0]
    return Fact("phases", "   ".join(words) or "nothing ran")


def _parts(step: StepBreakdown) -> dict[Part, float]:
    return {
        Part.COMPUTE: step.compute_ms,
        Part.HIDDEN: step.collective_hidden_ms,
        Part.COLLECTIVE: step.collective_exposed_ms,
        Part.COPY: step.copy_exposed_ms,
        Part.IDLE: step.idle_ms,
    }


def _occurring(parts: dict[Part, float]) -> dict[Part, float]:
    """Without what no device did; of collectives, hidden and exposed tell of each other."""
    absent = {part for part in (Part.COPY, Part.IDLE) if not parts[part]}
    collectives = {Part.HIDDEN, Part.COLLECTIVE}
    if not any(parts[part] for part in collectives):
        absent |= collectives
    return {part: ms for part, ms in parts.items() if part not in absent}


def _reach(values: list[float], decimals: int) -> str:
    """From the least to the most, where they differ."""
    if not values:
        return ""
    least, most = units.column([min(values), max(values)], decimals)
    return "" if least == most else f"({least} to {most})"
