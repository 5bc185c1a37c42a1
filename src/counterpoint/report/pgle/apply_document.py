"""The report of `pgle apply`: the verdict with the compiler's own lines, then what moved."""

from __future__ import annotations

from typing import Final

from counterpoint.compile.compiler import CompiledProgram
from counterpoint.pgle.applying.apply import AppliedProfile
from counterpoint.pgle.staleness import ProfileFit
from counterpoint.report import units
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    Log,
    Section,
    Tone,
    printable,
)
from counterpoint.report.pgle.movement import movement_section

_NAMES: Final = 5
_NONE_USED: Final = "none of its costs were used"
_STALE: Final = {ProfileFit.STALE: "yes, but STALE", ProfileFit.FOREIGN: "yes, but FOREIGN"}


def pgle_apply_document(applied: AppliedProfile, top: int, next: str) -> Document:
    """Return the report on one profile applied to one program."""
    sections = (
        _verdict(applied),
        _compiled(applied),
        _proof(applied),
        _schedule(applied, top),
        _memory(applied),
    )
    return Document(sections=sections, legend="", next=next)


def _verdict(applied: AppliedProfile) -> Section:
    rows = [Fact("because", applied.reason)]
    rows += [Fact("WARNING", text, Tone.WARNING) for text in applied.warnings]
    return Section("Profile used", _headline(applied), (FactList(tuple(rows)),))


def _headline(applied: AppliedProfile) -> str:
    if not applied.used:
        return "NO"
    if applied.stale:
        return (
            f"{_STALE[applied.coverage.staleness.fit]}: its costs may belong to other instructions"
        )
    matched, whole = applied.looked_up
    if matched == whole:
        return f"yes, all {whole:,} costs that XLA looks up"
    share = (
        f"{matched:,} of the {whole:,} costs that XLA looks up ({units.percent(matched / whole)})"
    )
    return f"yes, but only {share}" if applied.partial else f"yes, {share}"


def _schedule(applied: AppliedProfile, top: int) -> Section:
    """Return what the costs moved; unused costs move nothing."""
    if applied.used:
        own = "the profile's costs"
        if applied.for_libtpu is not None:
            own += ", and libtpu's for compute without one"
        return movement_section(applied.movement, top, own)
    if not applied.changed:
        return Section("Schedule", "the same with and without the profile")
    return Section("Schedule", f"differs, but not because of the profile: {_NONE_USED}")


def _compiled(applied: AppliedProfile) -> Section:
    compiled = applied.compiled
    flags = " ".join(f"{name}={value}" for name, value in applied.options.items())
    on_tpus = applied.target.tpu is not None
    compiler = "libtpu" if on_tpus else "jaxlib"
    key = "" if on_tpus else f", fingerprint {compiled.fingerprint}"
    rows = [
        Fact("profile", f"{applied.path} ({len(applied.profile.costs):,} costs)"),
        Fact("program", f"{compiled.program.name}{key}"),
        Fact("target", f"{applied.target}, {compiler} {compiled.versions.get(compiler)}"),
        Fact("flags", flags or "XLA's defaults"),
    ]
    rows += [Fact("note", note, Tone.QUIET) for note in compiled.notes]
    seconds = applied.without.seconds + compiled.seconds
    how = "up to the schedule, without a TPU" if on_tpus else "without a GPU"
    return Section("Compiled", f"twice, in {seconds:,.1f} s, {how}", (FactList(tuple(rows)),))


def _proof(applied: AppliedProfile) -> Section:
    use = applied.module
    rows: list[Fact] = []
    if applied.for_libtpu is not None:
        what = "the dump of libtpu's scheduler"
        times = Log(tuple(map(printable, applied.times)))
        return (
            Section("Proof", f"from {what}", (times,))
            if times.lines
            else Section("Proof", f"{what} has no times")
        )
    if use is not None:
        rows.append(Fact("costs", f"{applied.found:,} found, {applied.missing:,} missing"))
        rows.append(Fact("estimator", "profile guided" if use.source else "XLA's own model"))
        if use.fallback:
            rows.append(Fact("fallback", use.fallback))
        names = ", ".join(use.missing_names[:_NAMES])
        if names:
            rows.append(Fact("missing", names, Tone.QUIET))
    log = Log(tuple(map(printable, applied.proof)))
    summary = "from the compiler's log" if log.lines else "the compiler's log does not mention it"
    return Section("Proof", summary, (FactList(tuple(rows)), log) if rows else (log,))


def _memory(applied: AppliedProfile) -> Section:
    before, after = _peak(applied.without), _peak(applied.compiled)
    if before is None or after is None:
        return Section("Memory", f"{units.UNKNOWN}   not reported by this jaxlib")
    what = "peak" if applied.target.tpu is None else "of buffers"
    summary = f"{units.size(after)} {what} per device (predicted)"
    if before != after:
        summary += f", {units.size(abs(after - before))} {'more' if after > before else 'less'}"
    return Section("Memory", summary)


def _peak(compiled: CompiledProgram) -> int | None:
    memory = compiled.memory
    if compiled.schedule_only:
        return memory.buffers
    return memory.peak if compiled.target.tpu is not None else memory.allocated
