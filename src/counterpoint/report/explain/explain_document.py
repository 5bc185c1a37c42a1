"""The report of `explain`: the answer on the first screen, then evidence, remedies and notes.

The first twenty lines hold the profile, the step time, its parts and the largest losses. Tables are
cut to the first rows and state the total; the JSON is never cut.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from counterpoint.core import Basis
from counterpoint.core.printable import counted_noun, some
from counterpoint.diagnose.between_steps import BETWEEN
from counterpoint.diagnose.explanation import VIRTUAL_DEVICES, Explanation
from counterpoint.diagnose.grouping import Grouping
from counterpoint.diagnose.ops import Utilization
from counterpoint.report import units
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    Prose,
    Section,
    TextTable,
    Tone,
    numbers,
    printable,
    table,
    words,
)
from counterpoint.report.explain.explain_tables import collectives_section, ops_section
from counterpoint.report.explain.findings import (
    COMMUNICATION,
    findings_sections,
    largest_loss,
    largest_losses,
)
from counterpoint.report.explain.notes import note_facts
from counterpoint.report.explain.step_parts import parts_section
from counterpoint.report.explain.step_time import (
    others_share,
    own_step,
    step_line,
    step_section,
    subject,
)
from counterpoint.report.places import place_of_hosts
from counterpoint.timeline.model import Host, machines

if TYPE_CHECKING:
    from counterpoint.runs.run import Run


_INPUTS: Final = 3
_APART: Final = re.compile(r"[\s(),;]+")
NEARLY_ALL: Final = 0.95  # of compute time: below it, rates are lower bounds


def explain_document(
    explanation: Explanation,
    top: int = 10,
    run: Run | None = None,
    paths: Sequence[str] = (),
    by: Grouping | None = None,
    timings: Mapping[str, float] | None = None,
) -> Document:
    """Return the report on an Explanation, with `top` rows in each table, ops grouped `by`.

    `run` is the Run it belongs to; `paths` are the profiles as the user named them; `timings` are
    the seconds that Counterpoint took, by part, if they are wanted.
    """
    named = tuple(paths) or explanation.inputs
    sections = [_profile(explanation, run, named), step_section(explanation, run)]
    sections += answer_sections(explanation, run=run)
    sections += detail_sections(explanation, top, by)
    sections += _notes(explanation)
    if timings is not None:
        sections.append(_timings(timings, top))
    return Document(
        sections=tuple(sections),
        legend=_legend(sections),
        next=next_after_explain(explanation, named, run),
    )


def _timings(timings: Mapping[str, float], top: int) -> Section:
    """Return where Counterpoint's own time went: each part without the parts inside it."""
    ranked = sorted(timings.items(), key=lambda item: -item[1])
    total = sum(timings.values())
    shown = ranked[:top]
    rest = total - sum(seconds for _, seconds in shown)
    return Section(
        title="Time of this command",
        summary="Measured by the clock; each part without the parts inside it.",
        blocks=(
            table(
                words("part", [part for part, _ in shown], total="total", others="others"),
                numbers(
                    "ms",
                    [f"{seconds * 1e3:,.1f}" for _, seconds in shown],
                    total=f"{total * 1e3:,.1f}",
                    others=f"{rest * 1e3:,.1f}",
                ),
            ),
        ),
    )


def answer_sections(
    explanation: Explanation, where: str = "details below", run: Run | None = None
) -> list[Section]:
    """Return where the step goes, and the largest losses, a line each; nothing if it is unknown.

    `where` says where the losses are detailed; `run` has the steps that the Run itself counted.
    """
    if explanation.breakdown is None:
        return []
    parts = parts_section(
        f"Where {_which_step(explanation, run)} goes",
        explanation.breakdown,
        explanation.device_breakdowns,
        explanation.phases,
    )
    return [parts, largest_losses(explanation, where, _whole(explanation, run))]


def detail_sections(
    explanation: Explanation, top: int, by: Grouping | None = None
) -> list[Section]:
    """Return the evidence: findings with their remedies, and tables of ops and collectives."""
    if explanation.breakdown is None:
        return []
    return [
        *findings_sections(explanation),
        collectives_section(explanation.collectives, top),
        ops_section(explanation, top, by),
        _utilization(explanation),
    ]


@dataclass(frozen=True, slots=True)
class RunDigest:
    """The result of a run in two lines: its step time and its largest loss."""

    step_time: str
    largest_loss: str


def run_digest(explanation: Explanation, run: Run | None = None) -> RunDigest:
    """Return the step time and the largest loss of a run, a line each."""
    loss = largest_loss(explanation, _whole(explanation, run))
    return RunDigest(printable(step_line(explanation, run)), printable(loss))


def _profile(explanation: Explanation, run: Run | None, named: tuple[str, ...]) -> Section:
    rows = [
        *_ending(run),
        Fact("devices", _devices(explanation)),
        Fact("program", _programs(explanation)),
    ]
    if VIRTUAL_DEVICES in explanation.notes:
        rows.append(Fact("", VIRTUAL_DEVICES, Tone.WARNING))
    if explanation.truncated:
        rows.append(
            Fact(
                "CUT OFF",
                "events are missing from this profile; totals are unreliable",
                Tone.WARNING,
            )
        )
    inputs = some(named, _INPUTS)
    return Section("Profile", f"{explanation.basis}, {inputs}", (FactList(tuple(rows)),))


def _notes(explanation: Explanation) -> list[Section]:
    """Return the notes on the profile: how steps were found, and what was left out."""
    steps = explanation.steps
    rows = [Fact("steps", steps.how, Tone.QUIET)] if steps.median_ms is not None else []
    programs = [program.name for program in explanation.programs]
    above = BETWEEN, VIRTUAL_DEVICES  # said at the top
    notes = [note for note in explanation.notes if not any(it in note for it in above)]
    rows += note_facts(notes, explanation.hosts, programs)
    return [Section("Notes", "", (FactList(tuple(rows)),))] if rows else []


def _ending(run: Run | None) -> list[Fact]:
    """Return whose profile it is and how the run ended, if either may not be as intended."""
    if run is None:
        return []
    rows: list[Fact] = []
    if run.own_profile is not None:
        own = f"recorded by the program itself, in {run.own_profile}"
        rows.append(Fact("profile", f"{own}; Counterpoint has none: {run.why_no_profile}"))
    if not run.outcome.ok:
        rows.append(Fact("run", str(run.outcome), Tone.WARNING))
    return rows


def _which_step(explanation: Explanation, run: Run | None) -> str:
    if explanation.basis == Basis.PREDICTED:
        return "the predicted step"
    return subject(explanation, run)


def _whole(explanation: Explanation, run: Run | None) -> str:
    """Return what the losses are a share of, in words."""
    return "the step" if own_step(explanation, run) is None else subject(explanation, run)


def _devices(explanation: Explanation) -> str:
    if explanation.basis == Basis.PREDICTED and explanation.hosts:
        chip = explanation.utilization.chip or explanation.device_kind
        return f"simulated: {explanation.hosts[0].name} ({chip})"
    count, chip = explanation.device_count, explanation.utilization.chip
    kind = explanation.device_kind
    what = f"{chip} ({kind})" if chip else f"{kind} (chip not recorded)"
    if explanation.selected_devices is not None:
        which = ", ".join(str(device) for device in explanation.selected_devices)
        noun = "number" if count == 1 else "numbers"
        return f"{count} x {what}: {noun} {which} in this profile"
    shown = f"{count} x {what} {_where(explanation.hosts)}"
    working = len(explanation.device_breakdowns)
    return shown if working in (0, count) else f"{shown}; steps ran on {working} of them"


def _where(hosts: Sequence[Host]) -> str:
    """Return the hosts; several processes on one machine count as one host."""
    return place_of_hosts(machines(hosts), len(hosts))


def _programs(explanation: Explanation) -> str:
    programs = explanation.programs
    step = next((program for program in programs if program.is_step), None)
    if step is None:
        return "none ran" if not programs else f"{len(programs)} ran, none identified as the step"
    builds = [program for program in programs if program.index in (step.index, *step.builds)]
    ran = counted_noun(sum(build.executions for build in builds), "run")
    several = f" of {len(builds)} builds" if len(builds) > 1 else ""
    runs = f"{step.name}, {ran}{several} on each device"
    others = [program for program in programs if program not in builds]
    if not others:
        return runs
    more = counted_noun(len(others), "other program")
    return f"{runs}; {more}, {units.percent(others_share(explanation), 0)} of device time"


def _utilization(explanation: Explanation) -> Section:
    use = explanation.utilization
    share = use.flops_known_share
    at_least = "" if share is None or share >= NEARLY_ALL else "at least "
    compute = at_least + units.rate(use.flops_per_s, "FLOP")
    memory = at_least + units.rate(use.bytes_per_s, "B")
    if use.flops_per_s is not None:
        most = "at most " if use.recomputed_flops_per_s is None and use.mfu is not None else ""
        compute += f" (MFU {most}{units.percent(use.mfu)}, HFU {units.percent(use.hfu)})"
    if use.bytes_per_s is not None:
        memory += f" ({units.percent(use.hbm_share)} of peak)"
    known = f"operations known for {units.percent(share, 0)} of compute time; {_recomputed(use)}"
    if share is None:
        known = "the profile does not record the operations and bytes of its ops"
    return Section(
        "Utilization",
        f"busy {units.percent(use.busy_share)}   compute {compute}   memory {memory}",
        (Prose(known, Tone.QUIET),),
    )


def _recomputed(use: Utilization) -> str:
    if use.recomputed_flops_per_s is None:
        return "phases are not known, so MFU includes what is recomputed"
    if not use.recomputed_flops_per_s:
        return "nothing is recomputed, so MFU and HFU are the same"
    rate = units.rate(use.recomputed_flops_per_s, "FLOP")
    return f"HFU includes {rate} of recomputation, MFU does not"


def _legend(sections: list[Section]) -> str:
    unknown = any(units.UNKNOWN in _words(section) for section in sections)
    return f"{units.UNKNOWN}: unknown from this profile" if unknown else ""


def _words(section: Section) -> set[str]:
    """Return the table cells and the words of a section's summary and facts."""
    words = set(_APART.split(section.summary))
    for block in section.blocks:
        if isinstance(block, TextTable):
            words.update(cell for row in block.rows for cell in row)
        elif isinstance(block, FactList):
            words.update(word for fact in block.rows for word in _APART.split(fact.text))
    return words


def next_after_explain(explanation: Explanation, named: tuple[str, ...], run: Run | None) -> str:
    """Return the next command: try the remedy, inspect the network, or open the timeline."""
    losses = explanation.losses
    if losses and run is not None:
        from counterpoint.report.run_commands import trial_command

        line = trial_command(losses[0].remedy, run)
        if line is not None:
            return line
    if losses and losses[0].code.startswith(COMMUNICATION):
        return shlex.join(["counterpoint", "network", *named])
    return shlex.join(["counterpoint", "view", *named])
