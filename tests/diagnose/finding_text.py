"""A finding as text, with all that it says."""

from __future__ import annotations

from counterpoint.core.basis import Range
from counterpoint.diagnose.finding import Finding, ms_text


def finding_text(found: Finding | str) -> str:
    """A line for each part; a text stays what it is."""
    if isinstance(found, str):
        return found
    saves, remedy = found.saves_ms, found.remedy
    settings = [f"{name}={value}" for name, value in (*remedy.flags, *remedy.environment)]
    evidence = [it.what + ("" if it.ms is None else f" {ms_text(it.ms)}") for it in found.evidence]
    price = (
        f"{ms_text(saves.low)} to {ms_text(saves.high)}"
        if isinstance(saves, Range)
        else f"? ({saves.reason})"
    )
    if found.mean_step_ms is not None:
        price += f" of the mean step, {ms_text(found.mean_step_ms)}"
    lines = {
        found.code: found.title,
        "detail": found.detail,
        "saves": f"{price}, {found.basis}",
        "evidence": "; ".join(evidence),
        "doubt": found.doubt,
        "remedy": remedy.text,
        "settings": " ".join(settings),
    }
    return "\n".join(f"{name}: {line}" for name, line in lines.items() if line)
