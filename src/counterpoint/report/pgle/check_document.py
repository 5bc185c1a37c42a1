"""The reports of `pgle check`, a profile against a program, and `pgle diff`, two profiles."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Final

from counterpoint.core import Unknown
from counterpoint.core.printable import counted_noun, some
from counterpoint.pgle.checking.check import Coverage, CoveredPart, ImplausibleCost, LookupAnswer
from counterpoint.pgle.checking.difference import ProfileDiff
from counterpoint.pgle.checking.verdict import CoverageVerdict
from counterpoint.pgle.profiles.profile import SEPARATOR, InstructionCost
from counterpoint.pgle.staleness import ProfileFit
from counterpoint.pgle.unused_costs import UnusedReason
from counterpoint.report import units
from counterpoint.report.columns import field_columns
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    Section,
    Tone,
    names,
    numbers,
    table,
    words,
)
from counterpoint.report.pgle.pgle_json import CostChange, KeyCost, LookupAnswerJson, Unused

_NAMES: Final = 5
_US_PER_MS: Final = 1e3


def pgle_check_document(
    coverage: Coverage,
    judgment: CoverageVerdict,
    profile: str,
    program: str,
    top: int,
    next: str,
    others: Sequence[str] = (),
) -> Document:
    """Return the report of `pgle check`; `others` are the modules that were not checked."""
    subject = _subject(coverage, profile, program, others)
    sections = [_verdict(judgment), subject, _shares(coverage)]
    if coverage.missing:
        sections.append(_missing(coverage, top))
    if coverage.extra:
        sections.append(_extra(coverage, top))
    if coverage.doubts:
        sections.append(_doubts(coverage, top))
    return Document(sections=tuple(sections), legend="", next=next)


def _verdict(judgment: CoverageVerdict) -> Section:
    rows = [Fact("because", reason, Tone.WARNING) for reason in judgment.reasons]
    rows += [Fact("note", remark, Tone.QUIET) for remark in judgment.remarks]
    answer = "yes, XLA can use it" if judgment.passed else "no"
    return Section("Good enough", answer, (FactList(tuple(rows)),) if rows else ())


def _subject(coverage: Coverage, profile: str, program: str, others: Sequence[str]) -> Section:
    """Return what was compared; the verdict already says why a profile does not fit."""
    fit = coverage.staleness
    description = f"{fit.fit}: {fit.reason}" if fit.fit is ProfileFit.FITS else str(fit.fit)
    rows = [
        Fact("profile", profile),
        Fact("program", f"{coverage.module} ({program})"),
        Fact("fingerprint", coverage.fingerprint or "none"),
        Fact("fit", description),
    ]
    if others:
        listed = some(others, _NAMES)
        text = f"checked the module with the most FLOPs; others: {listed}   (--module NAME)"
        rows.append(Fact("note", text, Tone.QUIET))
    return Section("Checked", "", (FactList(tuple(rows)),))


def _shares(coverage: Coverage) -> Section:
    rows = [
        Fact("instructions", _part(coverage.instructions)),
        Fact("collectives", _part(coverage.collectives)),
        Fact("time", _time(coverage)),
    ]
    sync = sum(answer.lookup.sync for answer in coverage.answers)
    if sync:
        text = (
            f"synchronous as compiled: {counted_noun(sync, 'collective')}; XLA does not look up"
            " those that a flag made synchronous"
        )
        rows.append(Fact("", text, Tone.QUIET))
    return Section("Covered", "", (FactList(tuple(rows)),))


def _part(part: CoveredPart) -> str:
    if not part.whole:
        return "none in this program"
    return f"{part.found:,.0f} of {part.whole:,.0f}, {units.percent(part.share)}"


def _time(coverage: Coverage) -> str:
    time = coverage.time
    if isinstance(time, Unknown):
        return f"{units.UNKNOWN}   {time.reason}"
    covered, whole = time.found / _US_PER_MS, time.whole / _US_PER_MS
    return (
        f"{units.milliseconds(covered)} of {units.milliseconds(whole)} a run, "
        f"{units.percent(time.share)}   ({coverage.measured or ''})"
    )


def _missing(coverage: Coverage, top: int) -> Section:
    missing = coverage.missing
    by_kind = Counter(str(answer.category) for answer in missing).most_common()
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in by_kind)
    shown = missing[:top]
    timed = any(answer.measured_us is not None for answer in shown)
    times = numbers("ms a run", units.column(_milliseconds(answer) for answer in shown))
    looked_up = table(
        *field_columns(LookupAnswerJson, shown, ["name", "category"]),
        *([times] if timed else []),
        *field_columns(LookupAnswerJson, shown, ["what", "source"]),
    )
    summary = f"{units.shown_of(len(shown), len(missing))}: {kinds}"
    return Section("Missing", summary, (looked_up,))


def _milliseconds(answer: LookupAnswer) -> float | None:
    return None if answer.measured_us is None else answer.measured_us / _US_PER_MS


def _extra(coverage: Coverage, top: int) -> Section:
    """Return unused names; those of other modules are only counted if the profile fits this one."""
    extra = coverage.extra
    counts = Counter(unused.why for unused in extra)
    summary = ", ".join(f"{counts[why]:,} {why}" for why in UnusedReason if counts[why])
    order = (
        UnusedReason.COLLECTIVE,
        UnusedReason.RENAMED,
        UnusedReason.ABSENT,
        UnusedReason.OTHER_MODULE,
        UnusedReason.NOT_ASKED,
    )
    known = coverage.staleness.fit is ProfileFit.FITS
    listed = [unused for unused in extra if not (known and unused.why is UnusedReason.OTHER_MODULE)]
    shown = sorted(listed, key=lambda unused: order.index(unused.why))[:top]
    if not shown:
        return Section("Unused", f"{len(extra):,}: {summary}")
    costs = table(
        *field_columns(Unused, shown, ["name", "us"]),
        words("why it is unused", [str(unused.why) for unused in shown]),
        names("intended name", [unused.meant or "" for unused in shown]),
    )
    return Section("Unused", f"{len(extra):,}: {summary}", (costs,))


def _doubts(coverage: Coverage, top: int) -> Section:
    shown = coverage.doubts[:top]
    doubtful = table(*field_columns(ImplausibleCost, shown, ["name", "us", "why"]))
    return Section("Doubtful costs", units.shown_of(len(shown), len(coverage.doubts)), (doubtful,))


def diff_document(diff: ProfileDiff, a: str, b: str, top: int) -> Document:
    """Return the report of `pgle diff`, with `top` rows in each table."""
    sections = [_head(diff, a, b)]
    if diff.equal < len(diff.changes):
        sections.append(_changes(diff, top))
    for title, only in (("Only in A", diff.only_a), ("Only in B", diff.only_b)):
        if only:
            sections.append(_only(title, only, top))
    return Document(
        sections=tuple(sections),
        legend="",
        next=shlex.join(["counterpoint", "pgle", "show", b]),
    )


def _head(diff: ProfileDiff, a: str, b: str) -> Section:
    before, after = units.column([diff.a_us / _US_PER_MS, diff.b_us / _US_PER_MS])
    ratio = diff.b_us / diff.a_us if diff.a_us else None
    rows = [
        Fact("A", a),
        Fact("B", b),
        Fact("in both", f"{len(diff.changes):,}, {diff.equal:,} of them at the same cost"),
        Fact("total", f"A {before} ms   B {after} ms   B/A {_ratio(ratio)}"),
        Fact("only in one", f"A {len(diff.only_a):,}   B {len(diff.only_b):,}"),
    ]
    if diff.by_name:
        rows.append(Fact("note", _by_name(diff), Tone.WARNING))
    return Section("Compared", "", (FactList(tuple(rows)),))


def _by_name(diff: ProfileDiff) -> str:
    if diff.bare:
        return f"names are bare in {diff.bare[0]}: instructions are compared by name alone"
    return "fingerprints differ: instructions are compared by name, and may differ"


def _changes(diff: ProfileDiff, top: int) -> Section:
    changed = [change for change in diff.changes if change.difference_us]
    shown = changed[:top]
    changes = table(
        names("instruction", [_name(change.key) for change in shown]),
        *field_columns(CostChange, shown, ["a_us", "b_us"]),
        numbers("B - A", [f"{change.difference_us:+,.3f}" for change in shown]),
        numbers("B/A", [_ratio(change.ratio) for change in shown]),
    )
    return Section("Largest changes", units.shown_of(len(shown), len(changed)), (changes,))


def _only(title: str, only: Sequence[InstructionCost], top: int) -> Section:
    shown = only[:top]
    costs = table(
        names("instruction", [_name(cost.key) for cost in shown]),
        *field_columns(KeyCost, shown, ["us"]),
    )
    return Section(title, units.shown_of(len(shown), len(only)), (costs,))


def _name(key: str) -> str:
    """Return the instruction, and the first digits of its module."""
    fingerprint, separator, name = key.rpartition(SEPARATOR)
    return f"{name} of {fingerprint[:8]}" if separator else key


def _ratio(ratio: float | None) -> str:
    return units.UNKNOWN if ratio is None else f"{ratio:.3f}"
