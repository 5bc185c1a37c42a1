"""The report of `tune` as a Document: the verdict first, then its evidence, from a Conclusion.

A gain is the share of the base's step that an arm saves. The report states once whether its figures
are measured or predicted, and marks each column that differs.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.core import Unknown, parse_json
from counterpoint.flags import Settings, is_setting
from counterpoint.flags.forms import SettingsForm, render
from counterpoint.report import units
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    Section,
    Tone,
    printable,
)
from counterpoint.report.tune.tune_tables import ablation_section, arms_section
from counterpoint.report.words import (
    counted_noun,
    duration,
    gain_range_text,
    gain_text,
    node_hours,
    plain,
)
from counterpoint.runs import layout
from counterpoint.tune import Arm, ArmOrigin, share_text
from counterpoint.tune.conclusion import Conclusion, Spent, lacks_profile
from counterpoint.tune.statistics import RunNoise
from counterpoint.tune.study import Study

_NOTES: Final = 10
_LEGEND: Final = {
    True: "gain: 1 - step ms / base ms, measured: geometric means of the rows in which both ran; a"
    " range holds at the study's confidence for all arms together",
    False: "gain: share of the base's step that is saved, predicted; nothing was run",
}
_STATES: Final = {
    "running": "it is at work, or was cut off: then the command that began it goes on from here",
    "paused": "it stopped before it was done: the command that began it goes on from here",
    "interrupted": "it was interrupted: the command that began it goes on from here",
}


def tune_document(conclusion: Conclusion, study: Path, top: int, next: str) -> Document:
    """Return the report on the study at this path, with at most `top` arms."""
    sections = [_verdict(conclusion)]
    sections += arms_section(conclusion, top)
    sections += ablation_section(conclusion)
    sections += _noise(conclusion.noise)
    sections += _spent(conclusion.spent)
    sections += _settings(conclusion)
    sections.append(_evidence(conclusion, study))
    measured = conclusion.basis != "predicted"
    return Document(sections=tuple(sections), legend=_LEGEND[measured], next=printable(next))


def _verdict(conclusion: Conclusion) -> Section:
    rows: list[Fact] = []
    if conclusion.state in _STATES:
        rows.append(Fact(conclusion.state.upper(), _STATES[conclusion.state], Tone.WARNING))
    winner = conclusion.winner
    if winner is not None:
        best = "winner" if conclusion.basis != "predicted" else "best"
        rows.append(Fact(best, printable(winner.name), Tone.STRONG))
        rows.append(Fact("gain", printable(_gain(conclusion))))
        rows += _processes(winner)
    rows.append(Fact("figures", _basis(conclusion)))
    rows += _notes(conclusion.notes)
    return Section("Verdict", plain(conclusion.sentence), (FactList(tuple(rows)),))


def _gain(conclusion: Conclusion) -> str:
    reach = gain_range_text(conclusion.range)
    if conclusion.basis == "predicted":
        how = "predicted: a command behind `--` measures it"
    elif conclusion.confirmed:
        how = "of fresh runs alone, apart from those that made it the winner"
    else:
        how = "of the runs that made it the winner, which flatter it: not confirmed"
    return f"{gain_text(conclusion.gain)} {reach}, {how}"


def _basis(conclusion: Conclusion) -> str:
    if conclusion.basis == "predicted":
        return "predicted: the real compiler, simulated devices; nothing was run"
    return f"{conclusion.basis}: the unit is the run, never the step"


def _processes(winner: Arm) -> Iterator[Fact]:
    if winner.per is not None:
        yield Fact("processes", f"one per {winner.per}: how they are started, beside the settings")
    if lacks_profile(winner):
        warning = (
            "the settings below are without it; the gain was predicted with a profile made of"
            " predicted costs: `counterpoint pgle manual` measures one, and so does `tune` where"
            " it predicts and runs"
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
    floor = f"a difference within {least} is none that can be shown here"
    if isinstance(noise.sigma, Unknown):
        yield Section("Noise", printable(f"not known ({noise.sigma.reason}); {floor}"))
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
            yield Section("Settings", "keep yours: nothing that was tried is shown to be faster")
        return
    by_hand = winner.origin is ArmOrigin.HAND
    named = winner.name if by_hand else "; ".join(str(change) for change in winner.changes)
    changed = named or winner.origin
    if lacks_profile(winner):
        changed += ". These lines are without PGLE, the figures with it"
    yield Section(
        "Settings",
        printable(f"in full, with the base's; changed: {changed}"),
        (FactList(tuple(Fact("", line) for line in settings_lines(winner.settings))),),
    )


def settings_lines(settings: Settings) -> Iterator[str]:
    """Yield the settings as shell lines."""
    for line in render(settings, SettingsForm.BASH).splitlines():
        yield printable(line)


def _evidence(conclusion: Conclusion, study: Path) -> Section:
    trials = conclusion.spent.trials if conclusion.spent else 0
    runs = f"{study}/runs: {counted_noun(trials, 'trial')}, each a Run with logs, steps and modules"
    rows = [
        Fact("journal", printable(f"{study}/journal.jsonl: all that happened, line by line")),
        *([Fact("runs", printable(runs))] if trials else []),
        Fact("report", printable(f"{study}/report.json: this, uncut")),
        Fact(
            "in one file",
            printable(f"counterpoint tune show {_word(study)} --bundle evidence.tar.gz"),
        ),
    ]
    return Section("Evidence", "", (FactList(tuple(rows)),))


def _word(path: Path) -> str:
    return shlex.quote(str(path))


LEFT_OUT: Final = "<left out>"
_SHORTEST: Final = 8
"""Shorter values are hardly secrets, and may be words that occur everywhere, like `fast`."""
_OURS: Final = ("COUNTERPOINT_", "PYTHON", "OMPI_", "PMI", "SLURM_", "RAY_", "TF_")
_ABOUT: Final[Mapping[str, str]] = {
    "journal.jsonl": "all that happened, line by line, each with its checksum",
    "report.txt": "the report",
    "report.json": "the report, uncut: docs/reference/tune-json.md",
    "best.env": "the winner's settings, as lines of an env file",
    "best.sh": "the same as exports of a shell",
    "best.py": "the same for Python, before JAX starts",
    "best.sbatch": "the same as a job of Slurm",
    "best.yaml": "the same for a container of Kubernetes",
    layout.MANIFEST: "a trial: its command, settings and end",
    layout.RANK_MANIFEST: "a process of a trial: what was changed of its environment, and its end",
    layout.STDOUT: "what it printed",
    layout.STDERR: "what it printed, the compiler's log included",
}
_BY_FOLDER: Final[Mapping[str, str]] = {
    layout.AGENT: "versions, devices, peak memory, steps and compiles, as seen in the process",
    layout.PROFILE: "a profile",
    layout.XLA: "modules before and after XLA's passes, and the flags each was compiled with",
    layout.IR: "what JAX handed to the compiler",
}
_OTHER: Final = "left there by a part of the study"


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """A file of the evidence: its path in the study, and its description."""

    path: Path
    about: str


def evidence(study: Path) -> list[EvidenceFile]:
    """Return all files of a study in order; links are not followed."""
    found = (path for path in study.rglob("*") if path.is_file() and not path.is_symlink())
    inside = sorted(path.relative_to(study) for path in found)
    return [
        EvidenceFile(path, _about(path))
        for path in inside
        if path.name != layout.RESERVE and path.suffix != ".part"
    ]


def _about(path: Path) -> str:
    if path.name in _ABOUT:
        return _ABOUT[path.name]
    if path.name.endswith(".launcher.log"):
        return "what the launcher of a trial printed"
    folders = (_BY_FOLDER[folder] for folder in path.parts[:-1] if folder in _BY_FOLDER)
    return next(folders, _OTHER)


def contents(items: Iterable[EvidenceFile]) -> str:
    """Return a table of contents: how many files of each kind, with the first as an example."""
    kinds: dict[str, list[Path]] = {}
    for item in items:
        kinds.setdefault(item.about, []).append(item.path)
    lines = [
        f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}\n    {about}"
        for about, paths in kinds.items()
    ]
    return "\n".join(lines) + "\n"


def hidden_values(study: Study, directory: Path) -> dict[str, str]:
    """Return variables by their past values, which must not be disclosed.

    A bundle of evidence is passed on. A Run records no inherited variables except those that were
    changed, but it does record those given with `--env`. Hidden are the values of all variables
    that do not steer JAX, XLA, the communication libraries or the driver.
    """
    found: dict[str, str] = {}
    arms = (*study.arms, *(candidate.arm for candidate in study.candidates))
    for settings in (study.began.base, *(arm.settings for arm in arms)):
        found |= {value: name for name, value in settings.env if not is_setting(name)}
    for path in directory.glob(f"runs/**/{layout.RANK_MANIFEST}"):
        found |= {value: name for name, value in _changed(path)}
    return {value: name for value, name in found.items() if len(value) >= _SHORTEST}


def _changed(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what was added to a rank's environment, and the old and new values of its changes."""
    try:
        manifest: Any = parse_json(path.read_text(encoding="utf-8"))
        environment = cast("dict[str, dict[str, Any]]", manifest["environment"])
        added, changed = environment["set"], environment["changed"]
        pairs = [
            *added.items(),
            *((name, value) for name, values in changed.items() for value in values),
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    for name, value in pairs:
        if not is_setting(name) and not name.startswith(_OURS) and isinstance(value, str):
            yield name, value


def redacted(text: str, hidden: Iterable[str]) -> str:
    """Return the text without these values, also in their JSON and shell forms."""
    for value in sorted(set(hidden), key=len, reverse=True):
        for written in {value, json.dumps(value)[1:-1]}:
            text = text.replace(written, LEFT_OUT)
    return text


def without(plain: Any, hidden: Iterable[str]) -> Any:  # noqa: ANN401 - whatever JSON may hold
    """Return plain data without these values."""
    hidden = tuple(hidden)
    if isinstance(plain, str):
        return redacted(plain, hidden)
    if isinstance(plain, list):
        return [without(item, hidden) for item in cast("list[Any]", plain)]
    if isinstance(plain, dict):
        items = cast("dict[str, Any]", plain).items()
        return {name: without(item, hidden) for name, item in items}
    return plain
