"""The parts of a step as a breakdown: compute, exposed communication, idle time, and its phases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from counterpoint.diagnose.step import Breakdown, Phases
from counterpoint.report import units
from counterpoint.report.document import BreakdownBar, Fact, FactList, Section, Slice, StepPart

_APART: Final = 0.01  # of the step: lengths on single devices that are worth a word
_LABELS: Final = {
    StepPart.COMPUTE: "compute",
    StepPart.HIDDEN: "with a hidden collective",
    StepPart.COLLECTIVE: "exposed collective",
    StepPart.COPY: "exposed copy",
    StepPart.IDLE: "idle",
}
_LEAST_DECIMALS: Final = 2  # keeps small parts of a long step visible


def parts_section(
    title: str, step: Breakdown, devices: Mapping[int, Breakdown], phases: Phases | None
) -> Section:
    """Return the parts of the step with their minimum and maximum over devices, and its phases."""
    parts, by_device = _parts(step), [_parts(device_parts) for device_parts in devices.values()]
    parts = _occurring(parts)
    whole = [part for part in parts if part is not StepPart.HIDDEN]
    total = sum(parts[part] for part in whole)
    shares = dict(zip(whole, units.percentages([parts[part] for part in whole]), strict=True))
    if StepPart.HIDDEN in parts:
        shares[StepPart.HIDDEN] = units.percent(parts[StepPart.HIDDEN] / total if total else None)
    decimals = max(units.decimals_of(parts.values()), _LEAST_DECIMALS)
    slices = tuple(
        Slice(
            part=part,
            label=_LABELS[part],
            ms=ms,
            share=shares[part],
            fraction=parts[part] / total if total else 0.0,
            remark=_reach([device_parts[part] for device_parts in by_device], decimals),
            within=StepPart.COMPUTE if part is StepPart.HIDDEN else None,
        )
        for part, ms in zip(parts, units.column(parts.values(), decimals), strict=True)
    )
    summary = "mean over devices (min to max)" if len(by_device) > 1 else ""
    lasts = [sum(device_parts[part] for part in whole) for device_parts in by_device]
    if summary and max(lasts) - min(lasts) > _APART * total:
        summary += f", whose own steps take {units.span(min(lasts), max(lasts))}"
    return Section(title, summary, (BreakdownBar(slices), FactList((_phases(phases),))))


def _phases(phases: Phases | None) -> Fact:
    """Return the busy time by phase; empty phases are omitted."""
    if phases is None:
        return Fact("phases", f"{units.UNKNOWN} (no op is named by autodiff)")
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


def _parts(step: Breakdown) -> dict[StepPart, float]:
    return {
        StepPart.COMPUTE: step.compute_ms,
        StepPart.HIDDEN: step.collective_hidden_ms,
        StepPart.COLLECTIVE: step.collective_exposed_ms,
        StepPart.COPY: step.copy_exposed_ms,
        StepPart.IDLE: step.idle_ms,
    }


def _occurring(parts: dict[StepPart, float]) -> dict[StepPart, float]:
    """Return the parts that occur; hidden and exposed collectives are kept if either does."""
    absent = {part for part in (StepPart.COPY, StepPart.IDLE) if not parts[part]}
    collectives = {StepPart.HIDDEN, StepPart.COLLECTIVE}
    if not any(parts[part] for part in collectives):
        absent |= collectives
    return {part: ms for part, ms in parts.items() if part not in absent}


def _reach(values: list[float], decimals: int) -> str:
    """Return the minimum and maximum if they differ."""
    if not values:
        return ""
    least, most = units.column([min(values), max(values)], decimals)
    return "" if least == most else f"({least} to {most})"
