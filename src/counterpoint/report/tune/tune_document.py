"""The report of `tune` as a Document: the verdict first, then what it rests on, from a Conclusion.

A gain is the share of the base's step that an arm saves. The report states once whether its figures
are measured or predicted, and marks each column that differs.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from counterpoint.core import Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.flags.forms import SettingsForm, render
from counterpoint.flags.settings import Settings
from counterpoint.report import units
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    Section,
    Tone,
)
from counterpoint.report.tune.figures import duration, gain_range_text, gain_text, node_hours, plain
from counterpoint.report.tune.tune_tables import ablation_section, arms_section
from counterpoint.tune.arm import Arm, ArmOrigin, share_text
from counterpoint.tune.conclusion import Conclusion, Spent, lacks_profile
from counterpoint.tune.statistics import RunNoise

_NOTES: Final = 10
_LEGEND: Final = {
    True: "gain: 1 - step ms / base ms, measured: geometric means of the rows in which both ran; a"
    " range holds at the study's confidence for all arms together; start: what a run takes beside"
    " its steps at their steady pace",
    False: "gain: share of the base's step that is saved, predicted; nothing was run",
}
_STATES: Final = {
    "running": "it is still running, or ended unexpectedly; then repeat the command to continue",
    "paused": "it stopped early; repeat the command to continue",
    "interrupted": "it was interrupted; repeat the command to continue",
}


def tune_document(conclusion: Conclusion, study: Path, top: int, next: str) -> Document:
    """Return the report on the study at this path, with at most `top` arms."""
    sections = [_verdict(conclusion)]
    sections += arms_section(conclusion, top)
    sections += ablation_section(conclusion)
    sections += _noise(conclusion.noise)
    sections += _spent(conclusion.spent)
    sections += _settings(conclusion)
    sections.append(_files(conclusion, study))
    measured = conclusion.basis != "predicted"
    return Document(sections=tuple(sections), legend=_LEGEND[measured], next=next)


def _verdict(conclusion: Conclusion) -> Section:
    rows: list[Fact] = []
    if conclusion.state in _STATES:
        rows.append(Fact(conclusion.state.upper(), _STATES[conclusion.state], Tone.WARNING))
    winner = conclusion.winner
    if winner is not None:
        best = "winner" if conclusion.basis != "predicted" else "best"
        rows.append(Fact(best, winner.name, Tone.STRONG))
        rows.append(Fact("gain", _gain(conclusion)))
        rows += _processes(winner)
    rows.append(Fact("figures", _basis(conclusion)))
    rows += _notes(conclusion.notes)
    return Section("Verdict", plain(conclusion.sentence), (FactList(tuple(rows)),))


def _gain(conclusion: Conclusion) -> str:
    reach = gain_range_text(conclusion.range)
    if conclusion.basis == "predicted":
        how = "predicted; nothing was run, so measure it before you rely on it"
    elif conclusion.confirmed:
        how = "from fresh runs alone, without the runs that selected the winner"
    else:
        how = "not confirmed: from the runs that selected the winner, so it may be too large"
    return f"{gain_text(conclusion.gain)} {reach}, {how}"


def _basis(conclusion: Conclusion) -> str:
    if conclusion.basis == "predicted":
        return "predicted: the real compiler, simulated devices; nothing was run"
    return f"{conclusion.basis}: the unit is the run, never the step"


def _processes(winner: Arm) -> Iterator[Fact]:
    if winner.per is not None:
        yield Fact("processes", f"one per {winner.per}; no setting does this")
    if winner.options:
        words = shlex.join(word for option in winner.options for word in option)
        yield Fact("command", f"with {words}; no setting does this")
    if lacks_profile(winner):
        warning = (
            "the settings below do not include it; the gain was predicted with a profile of"
            " predicted costs. `counterpoint pgle manual` measures a profile, and so does `tune`"
            " with a command"
        )
        yield Fact("PGLE", warning, Tone.WARNING)
    elif winner.profile:
        yield Fact("PGLE", "its profile lies in the study: copy it where the job can read it")


def _notes(notes: tuple[str, ...]) -> Iterator[Fact]:
    for note in notes[:_NOTES]:
        yield Fact("note", plain(note), Tone.QUIET)
    more = len(notes) - _NOTES
    if more > 0:
        yield Fact("", f"and {more} more: --json", Tone.QUIET)


def _noise(noise: RunNoise | None) -> Iterator[Section]:
    if noise is None:
        return
    least = share_text(noise.floor).replace(" ", "")  # rounded as in its note
    floor = f"one pair of runs shows differences above {least}, several rows smaller ones"
    if isinstance(noise.sigma, Unknown):
        yield Section("Noise", f"unknown ({noise.sigma.reason}); {floor}")
        return
    yield Section(
        "Noise",
        f"identical runs differ by {units.percent(noise.sigma, 2)} (sigma, from"
        f" {counted_noun(noise.freedom, 'degree')} of freedom); {floor}",
    )


def _spent(spent: Spent | None) -> Iterator[Section]:
    if spent is None:
        return
    summary = (
        f"{counted_noun(spent.trials, 'trial')}, {duration(spent.seconds)},"
        f" {node_hours(spent.node_seconds)}"
    )
    left: list[str] = []
    if spent.trials_left is not None:
        left.append(counted_noun(spent.trials_left, "trial"))
    if spent.seconds_left is not None:
        left.append(duration(spent.seconds_left))
    if left:
        summary += f"; {' and '.join(left)} left of the budget"
        summary += f": {plain(spent.why_left)}" if spent.why_left else ""
    yield Section("Spent", summary)


def _settings(conclusion: Conclusion) -> Iterator[Section]:
    winner = conclusion.winner
    if winner is None:
        if conclusion.state == "done":
            yield Section("Settings", "keep yours: no arm was shown to be faster")
        return
    by_hand = winner.origin is ArmOrigin.HAND
    named = winner.name if by_hand else "; ".join(str(change) for change in winner.changes)
    changed = named or winner.origin
    if lacks_profile(winner):
        changed += ". The settings omit PGLE; the figures include it"
    yield Section(
        "Settings",
        f"complete, including the base's; changed: {changed}",
        (FactList(tuple(Fact("", line) for line in settings_lines(winner.settings))),),
    )


def settings_lines(settings: Settings) -> Iterator[str]:
    """Yield the settings as shell lines."""
    yield from render(settings, SettingsForm.BASH).splitlines()


def _files(conclusion: Conclusion, study: Path) -> Section:
    trials = conclusion.spent.trials if conclusion.spent else 0
    runs = f"{study}/runs: {counted_noun(trials, 'trial')}, each a Run with logs, steps and modules"
    rows = [
        Fact("journal", f"{study}/journal.jsonl: every event, one per line"),
        *([Fact("runs", runs)] if trials else []),
        Fact("report", f"{study}/report.json: this report in full"),
        Fact(
            "in one file",
            f"counterpoint tune show {_word(study)} --bundle study.tar.gz",
        ),
    ]
    return Section("Files", "", (FactList(tuple(rows)),))


def _word(path: Path) -> str:
    return shlex.quote(str(path))
