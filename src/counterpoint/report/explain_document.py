"""`explain` as a Document: one screen, from how far to trust the profile to what to do about it.

What holds for all figures (their basis, the step they are of) is said once, at the top. Tables are
cut to the first rows, and say of how many; the JSON is never cut.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from counterpoint.core.basis import Basis, Unknown
from counterpoint.diagnose.explain import Explanation, ProgramUse
from counterpoint.diagnose.finding import Finding, Remedy
from counterpoint.diagnose.step import StepTimes
from counterpoint.report import units
from counterpoint.report.document import (
    Document,
    Entry,
    Fact,
    Facts,
    Prose,
    Section,
    Table,
    Tone,
    printable,
)
from counterpoint.report.explain_tables import collectives_section, ops_section
from counterpoint.report.step_parts import parts_section
from counterpoint.runs import Run
from counterpoint.timeline.device import Host

_NOTES: Final = 8
_INPUTS: Final = 3
_EVIDENCE: Final = 3
_APART: Final = re.compile(r"[\s(),;]+")
_NEARLY_ALL: Final = 0.95  # of compute time: below it, rates are lower bounds
_NOTICEABLE: Final = 0.99  # a step is longer than its program's runs by more than this shows


def explain_document(explanation: Explanation, top: int = 10, run: Run | None = None) -> Document:
    """The report on an Explanation, with `top` rows in each table; `run` is the Run it is of."""
    sections = [_profile(explanation, run), _steps(explanation.steps)]
    sections += step_sections(explanation, top)
    return Document(sections=tuple(sections), legend=_legend(sections), next=_next(explanation))


def step_sections(explanation: Explanation, top: int) -> list[Section]:
    """Where the step goes, by parts, ops and collectives, and what it loses; none if unknown."""
    if explanation.breakdown is None:
        return []
    parts = parts_section(
        f"Where {_which_step(explanation)} goes",
        explanation.breakdown,
        explanation.device_breakdowns,
        explanation.phases,
    )
    return [
        parts,
        ops_section(explanation.ops, top),
        collectives_section(explanation.collectives, top),
        _utilisation(explanation),
        _losses(explanation),
        *_about(explanation),
    ]


def _profile(explanation: Explanation, run: Run | None) -> Section:
    rows = [
        *_ending(run),
        Fact("read", _inputs(explanation.inputs)),
        Fact("devices", _devices(explanation)),
        Fact("program", _programs(explanation.programs)),
        Fact(
            "figures",
            f"{explanation.basis}; times are of {_which_step(explanation)}, mean over devices",
        ),
    ]
    if explanation.truncated:
        rows.append(
            Fact("CUT OFF", "events are missing from this profile: trust it little", Tone.WARNING)
        )
    rows += [Fact("note", printable(note), Tone.QUIET) for note in explanation.notes[:_NOTES]]
    more = len(explanation.notes) - _NOTES
    if more > 0:
        rows.append(Fact("", f"and {more} more {_plural(more, 'note')}: --json", Tone.QUIET))
    return Section("Profile", "", (Facts(tuple(rows)),))


def _ending(run: Run | None) -> list[Fact]:
    """How the run ended, where it did not end well: its profile may not be what was meant."""
    if run is None or run.outcome.ok:
        return []
    return [Fact("run", printable(str(run.outcome)), Tone.WARNING)]


def _which_step(explanation: Explanation) -> str:
    if explanation.basis == Basis.PREDICTED:
        return "the predicted step"
    return "a median step" if explanation.step is None else f"step {explanation.step}"


def _inputs(inputs: tuple[str, ...]) -> str:
    shown = ", ".join(printable(name) for name in inputs[:_INPUTS])
    more = len(inputs) - _INPUTS
    return f"{shown} and {more} more" if more > 0 else shown


def _devices(explanation: Explanation) -> str:
    if explanation.basis == Basis.PREDICTED and explanation.hosts:
        chip = explanation.utilisation.chip or explanation.device_kind
        return printable(f"simulated: {explanation.hosts[0].name} ({chip})")
    count, chip = explanation.device_count, explanation.utilisation.chip
    kind = explanation.device_kind
    what = f"{printable(chip)} ({kind})" if chip else f"{kind} (the profile names no chip)"
    if explanation.selected_devices is not None:
        numbers = ", ".join(str(device) for device in explanation.selected_devices)
        return f"{count} x {what}: {_plural(count, 'number')} {numbers} of this profile"
    shown = f"{count} x {what} {_where(explanation.hosts)}"
    working = len(explanation.device_breakdowns)
    return shown if working in (0, count) else f"{shown}; steps ran on {working} of them"


def _where(hosts: Sequence[Host]) -> str:
    """Several processes of one machine are one host."""
    machines = len({host.machine for host in hosts})
    place = f"on {machines} {_plural(machines, 'host')}"
    return place if machines == len(hosts) else f"in {len(hosts)} processes {place}"


def _programs(programs: tuple[ProgramUse, ...]) -> str:
    step = next((program for program in programs if program.is_step), None)
    if step is None:
        return "none ran" if not programs else f"{len(programs)} ran, none of them told as the step"
    runs = (
        f"{printable(step.name)}, {step.executions:,} {_plural(step.executions, 'run')}"
        " on each device"
    )
    others = [program for program in programs if not program.is_step]
    if not others:
        return runs
    share = sum(program.device_ms for program in others) / max(
        sum(program.device_ms for program in programs), 1e-12
    )
    more = f"{len(others)} other {_plural(len(others), 'program')}"
    return f"{runs}; {more}, {units.percent(share, 0)} of device time"


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _steps(steps: StepTimes) -> Section:
    how = Prose(printable(steps.how), Tone.QUIET)
    if steps.median_ms is None:
        return Section("Step time", f"{units.UNKNOWN}   no complete step was found", (how,))
    median, p10, p90 = units.column([steps.median_ms, steps.p10_ms, steps.p90_ms])
    words = [f"{median} ms"]
    if steps.count > 1:
        words = [f"{median} ms median", f"p10 {p10}", f"p90 {p90}"]
    words.append(f"{steps.count:,} {_plural(steps.count, 'step')}")
    if steps.execution_ms is not None and steps.execution_ms < _NOTICEABLE * steps.median_ms:
        words.append(f"its program runs for {units.milliseconds(steps.execution_ms)} of it")
    return Section("Step time", "   ".join(words), (how,))


def _utilisation(explanation: Explanation) -> Section:
    use = explanation.utilisation
    share = use.flops_known_share
    at_least = "" if share is None or share >= _NEARLY_ALL else "at least "
    compute = at_least + units.rate(use.flops_per_s, "FLOP")
    memory = at_least + units.rate(use.bytes_per_s, "B")
    if use.flops_per_s is not None:
        compute += f" (MFU {units.percent(use.mfu)})"
    if use.bytes_per_s is not None:
        memory += f" ({units.percent(use.hbm_share)} of peak)"
    known = (
        f"operations known for {units.percent(share, 0)} of compute time; recomputed work counts"
        " as work"
    )
    if share is None:
        known = "the profile does not tell the operations and bytes of its ops"
    return Section(
        "Utilisation",
        f"busy {units.percent(use.busy_share)}   compute {compute}   memory {memory}",
        (Prose(known, Tone.QUIET),),
    )


def _losses(explanation: Explanation) -> Section:
    """What a step could gain; numbers go on in `_about`."""
    losses = [it for it in explanation.findings if not isinstance(it.saves_ms, Unknown)]
    if not losses:
        return Section("Largest losses", "none worth a word")
    summary = "bounds overlap: they do not add up" if len(losses) > 1 else ""
    return Section("Largest losses", summary, _entries(explanation, losses, 1))


def _about(explanation: Explanation) -> list[Section]:
    """What says nothing of time, but of what can be believed, or of what it was recorded with."""
    others = [it for it in explanation.findings if isinstance(it.saves_ms, Unknown)]
    if not others:
        return []
    what = "prediction" if explanation.basis == Basis.PREDICTED else "profile"
    entries = _entries(explanation, others, len(explanation.findings) - len(others) + 1)
    return [Section(f"About this {what}", "with no saving of its own", entries)]


def _entries(explanation: Explanation, found: list[Finding], first: int) -> tuple[Entry, ...]:
    median, basis = explanation.steps.median_ms, explanation.basis
    return tuple(_finding(at, one, median, basis) for at, one in enumerate(found, first))


def _finding(number: int, finding: Finding, median: float | None, basis: str) -> Entry:
    price = _price(finding, median, basis)
    shown = [
        printable(evidence.what)
        + (f" {units.milliseconds(evidence.ms)}" if evidence.ms is not None else "")
        for evidence in finding.evidence[:_EVIDENCE]
    ]
    return Entry(
        number=number,
        title=f"{finding.code} {printable(finding.title)}",
        price=price,
        text=printable(finding.detail),
        rows=(
            *([Fact("shown by", ", ".join(shown), Tone.QUIET)] if shown else []),
            *_doubt(finding),
            Fact("remedy", printable(finding.remedy.text)),
            *_settings(finding.remedy),
        ),
    )


def _price(finding: Finding, median: float | None, basis: str) -> str:
    saves = finding.saves_ms
    if isinstance(saves, Unknown):
        return saves.reason
    price = f"saves {units.span(saves.low, saves.high)}"
    if median:
        price += f" ({units.percent(saves.high / median)})"
    return price if finding.basis == basis else f"{price}, {finding.basis}"


def _doubt(finding: Finding) -> list[Fact]:
    return [Fact("but", printable(finding.doubt), Tone.QUIET)] if finding.doubt else []


def _settings(remedy: Remedy) -> list[Fact]:
    """Settings as they are pasted into a shell."""
    lines: list[str] = []
    if remedy.flags:
        flags = " ".join(f"--{name}={value}" for name, value in remedy.flags)
        lines.append(f'export XLA_FLAGS="$XLA_FLAGS {flags}"')
    lines += [f"export {name}={shlex.quote(value)}" for name, value in remedy.environment]
    return [Fact("settings" if not at else "", line) for at, line in enumerate(lines)]


def _legend(sections: list[Section]) -> str:
    unknown = any(units.UNKNOWN in _words(section) for section in sections)
    return f"{units.UNKNOWN}: not known from this profile" if unknown else ""


def _words(section: Section) -> set[str]:
    """Table cells and the words of a section's summary and facts."""
    words = set(_APART.split(section.summary))
    for block in section.blocks:
        if isinstance(block, Table):
            words.update(cell for row in block.rows for cell in row)
        elif isinstance(block, Facts):
            words.update(word for fact in block.rows for word in _APART.split(fact.text))
    return words


def _next(explanation: Explanation) -> str:
    """Look at what was found, moment by moment; with nothing found, have all of it as data."""
    inputs = [*explanation.inputs]
    if explanation.findings:
        words = ["counterpoint", "convert", *inputs, "profile.pftrace"]
        return f"{printable(shlex.join(words))}   # then open it at ui.perfetto.dev"
    return printable(shlex.join(["counterpoint", "explain", *inputs, "-o", "explain.json"]))
