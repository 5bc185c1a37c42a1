"""The findings of `explain`: the largest losses in a line each, then each finding in detail.

The line of a loss has its code, its sentence, the possible saving and its basis. On a narrow screen
the basis is dropped first, then the share, then the end of the sentence: the details repeat them.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from counterpoint.core import Basis, Range, Unknown
from counterpoint.diagnose.explanation import Explanation
from counterpoint.diagnose.finding import WORTH_SHARE, Finding, Remedy
from counterpoint.report import units
from counterpoint.report.document import (
    CellColumn,
    ColumnKind,
    Fact,
    NumberedItem,
    Section,
    TextTable,
    Tone,
    numbers,
    table,
    words,
)

LARGEST: Final = 3
COMMUNICATION: Final = "STEP1"
"""The prefix of the codes of rules about communication."""
_EVIDENCE: Final = 3


def largest_losses(explanation: Explanation, where: str, whole: str) -> Section:
    """Return the first losses of `whole`, one line each; `where` says where they are detailed."""
    losses, small = explanation.losses, _small(explanation)
    title = "Largest losses"
    if not losses:
        return Section(title, explanation.verdict_on(whole) or "")
    shown = losses[:LARGEST]
    summary = [f"{len(shown)} of {len(losses)}"] if len(losses) > LARGEST else []
    summary += ["they overlap, so they do not add up"] if len(losses) > 1 else []
    more = "1 more is small" if len(small) == 1 else f"{len(small)} more are small"
    summary += [more] if small else []
    return Section(
        title, "; ".join([*summary, where] if where else summary), (_table(explanation, shown),)
    )


def largest_loss(explanation: Explanation, whole: str) -> str:
    """Return the first loss of `whole` in one line: its code, title and possible saving."""
    if explanation.breakdown is None:
        return f"{units.UNKNOWN} (no whole step)"
    losses = explanation.losses
    if not losses:
        return explanation.verdict_on(whole) or ""
    first = losses[0]
    price = _price(first, explanation.steps.window_ms, basis="")
    return f"{first.code} {first.title}: {price}"


def findings_sections(explanation: Explanation) -> list[Section]:
    """Return every finding with evidence and remedy: losses first, then those without one."""
    losses, small = explanation.losses, _small(explanation)
    others = [finding for finding in explanation.findings if isinstance(finding.saves_ms, Unknown)]
    sections: list[Section] = []
    if losses:
        sections.append(Section("Losses in detail", "", _entries(explanation, losses, 1)))
    if small:
        entries = _entries(explanation, small, len(losses) + 1)
        sections.append(Section("Small losses", _why_small(small), entries))
    if others:
        what = "prediction" if explanation.basis == Basis.PREDICTED else "profile"
        entries = _entries(explanation, others, len(losses) + len(small) + 1)
        sections.append(Section(f"About this {what}", "no saving in milliseconds", entries))
    return sections


def _price(finding: Finding, window_ms: float | None, basis: str) -> str:
    """Return `saves 0 to 2.02 ms (1.5%), predicted`, without the basis if it is the profile's."""
    saves = finding.saves_ms
    if isinstance(saves, Unknown):
        return saves.reason
    text = f"saves {units.span(saves.low, saves.high)}"
    whole_ms = finding.mean_step_ms or window_ms
    if whole_ms:
        text += f" ({units.percent(saves.high / whole_ms)}{_of_mean(finding)})"
    return text if finding.basis == basis else f"{text}, {finding.basis}"


def _of_mean(finding: Finding) -> str:
    """Return ` of the mean step, 206 ms` if the saving is one of that instead of the median one."""
    if finding.mean_step_ms is None:
        return ""
    return f" of the mean step, {units.milliseconds(finding.mean_step_ms)}"


def _why_small(small: Sequence[Finding]) -> str:
    """Return why these losses are small: their share, or what the lengths of steps scatter by."""
    above = [finding.code for finding in small if (finding.share or 0.0) > WORTH_SHARE]
    below = f"below {WORTH_SHARE:.0%} of the step"
    if not above:
        return below
    noise = "within the noise of the step's length"
    return noise if len(above) == len(small) else f"{below}, or {noise}: {', '.join(above)}"


def _small(explanation: Explanation) -> list[Finding]:
    return [finding for finding in explanation.findings if finding.is_small]


def _table(explanation: Explanation, findings: Sequence[Finding]) -> TextTable:
    """Return the losses, one line each."""
    window_ms = explanation.steps.window_ms
    saves = [finding.saves_ms for finding in findings if isinstance(finding.saves_ms, Range)]
    wholes = [finding.mean_step_ms or window_ms for finding in findings]
    shares = [
        saved.high / whole_ms if whole_ms else None
        for saved, whole_ms in zip(saves, wholes, strict=True)
    ]
    return table(
        numbers("", [str(at) for at in range(1, len(findings) + 1)]),
        words("code", [finding.code for finding in findings]),
        CellColumn(ColumnKind.SENTENCE, "loss", _sentences(findings)),
        words("could save", [units.span(saved.low, saved.high) for saved in saves]),
        numbers("share", [units.percent(share) for share in shares], rank=1),
        words("basis", [str(finding.basis) for finding in findings], rank=2),
    )


def _sentences(findings: Sequence[Finding]) -> list[str]:
    """Return the titles; those that occur more than once are followed by their evidence."""
    titles = [finding.title for finding in findings]
    return [
        f"{finding.title}: {finding.evidence[0].what}"
        if titles.count(finding.title) > 1 and finding.evidence
        else finding.title
        for finding in findings
    ]


def _entries(
    explanation: Explanation, findings: Sequence[Finding], first: int
) -> tuple[NumberedItem, ...]:
    window_ms, basis = explanation.steps.window_ms, explanation.basis
    return tuple(
        _finding(at, finding, window_ms, basis) for at, finding in enumerate(findings, first)
    )


def _finding(number: int, finding: Finding, window_ms: float | None, basis: str) -> NumberedItem:
    shown = [
        evidence.what + (f" {units.milliseconds(evidence.ms)}" if evidence.ms is not None else "")
        for evidence in finding.evidence[:_EVIDENCE]
    ]
    return NumberedItem(
        number=number,
        title=f"{finding.code} {finding.title}",
        price=_price(finding, window_ms, basis),
        text=finding.detail,
        rows=(
            *([Fact("evidence", ", ".join(shown), Tone.QUIET)] if shown else []),
            *([Fact("doubt", finding.doubt, Tone.QUIET)] if finding.doubt else []),
            Fact("remedy", finding.remedy.text),
            *_settings(finding.remedy),
        ),
    )


def _settings(remedy: Remedy) -> list[Fact]:
    """Return settings in the form in which they are pasted into a shell."""
    lines: list[str] = []
    if remedy.flags:
        flags = " ".join(f"--{name}={value}" for name, value in remedy.flags)
        lines.append(f'export XLA_FLAGS="$XLA_FLAGS {flags}"')
    lines += [f"export {name}={shlex.quote(value)}" for name, value in remedy.environment]
    return [Fact("settings" if not at else "", line) for at, line in enumerate(lines)]
