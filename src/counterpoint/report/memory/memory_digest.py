"""The digest of `memory`: the verdict, the owners, and what makes it fit."""

from __future__ import annotations

from typing import Final

from counterpoint.report import units
from counterpoint.report.digest import Digest, DigestLine, notes, short_name, short_place
from counterpoint.report.memory.memory_document import headline
from counterpoint.workflow.memory.report import MemoryReport

_RARELY: Final = 90


def memory_digest(report: MemoryReport, next_command: str) -> Digest:
    """Return the digest of a report."""
    analysis, basis = report.analysis, report.basis
    lines = [DigestLine(f"memory [{basis}]: {headline(report)}", 0)]
    lines += [
        DigestLine(f"memory space {space.name} [{basis}]: {units.size(space.needs)}", 3)
        for space in analysis.spaces
        if space.name != "device"
    ]
    for at, (owner, size) in enumerate(analysis.by_owner.items()):
        share = units.percent(size / max(analysis.needs, 1))
        lines.append(
            DigestLine(f"{owner} [{basis}]: {units.size(size)} ({share})", 4 + at, "owner")
        )
    for at, row in enumerate(analysis.held[:12]):
        place = f", {short_place(row.source)}" if row.source else ""
        name, held = short_name(row.name or row.made_by), units.size(row.bytes)
        text = f"array {name} [{basis}]: {held} of {row.owner}{place}"
        lines.append(DigestLine(text, 20 + at, "array"))
    for one in report.tries:
        said = "fits" if one.fits else "does not fit" if one.fits is False else "not compiled"
        step = "" if one.step_ms is None else f", step {units.milliseconds(one.step_ms)}"
        needs = "" if one.needs is None else f": {units.size(one.needs)}"
        lines.append(DigestLine(f"with {one.settings} [{basis}]{needs}, {said}{step}", 2, "change"))
    return Digest((*lines, *notes((*report.unknown, *report.notes), _RARELY)), next_command)
