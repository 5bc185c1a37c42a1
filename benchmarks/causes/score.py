"""Runs one program in one way, and compares what `explain` says first with the truth."""

from __future__ import annotations

import json
import math
import os
import re
import socket
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import polars as pl
from cases import Case, Size

import counterpoint
from counterpoint.core import CounterpointError, Range
from counterpoint.diagnose.explanation import Explanation
from counterpoint.diagnose.finding import Finding

NEAR = 0.05
"""A step time is right if it is as near to the stopwatch as that."""

_RUN = (3, 14)
"""Steps that `counterpoint run` profiles by default."""

_NUMBERED = ("markers", "nopython", "host1", "host3", "perfetto", "run", "run-python")
"""Ways in which the profile has the program's own numbers of its steps."""

_FEWEST = 3
_FIRST = 3
_SLACK_MS = 0.3
_TIMEOUT_S = 300
_TURNS = 2
_CUT = 0.1
_PROGRAM = Path(__file__).parent / "program.py"


class Verdict(StrEnum):
    """What the first finding is."""

    RIGHT = "right"  # the trouble, by its name and its size; or nothing, where there is none
    PARTLY = "partly"  # the trouble without its name or its size, or it is among the first three
    WRONG = "wrong"  # something that is not the trouble
    MISSED = "missed"  # nothing is said that costs more than a note


@dataclass(frozen=True)
class Row:
    """What `explain` said of one profile, and whether it is true."""

    program: str
    way: str
    verdict: Verdict
    truth: str
    said: str
    step_ms: float | None
    true_step_ms: float
    sized: bool | None = None  # whether the stated saving contains the true size
    detail: str = ""

    @property
    def is_timed(self) -> bool:
        """Whether the step time is that of the stopwatch."""
        return self.step_ms is not None and abs(self.step_ms / self.true_step_ms - 1) <= NEAR

    def text(self) -> str:
        """Return a line of a terminal."""
        off = f"{self.step_ms / self.true_step_ms - 1:+.0%}" if self.step_ms else "?"
        return (
            f"{self.verdict:7} {self.program:35} {self.way:10} step {self.true_step_ms:7.2f}"
            f" {off:>6}  {self.truth:24} said {self.said}"
        )


@dataclass(frozen=True)
class Claim:
    """A finding that says what it could save."""

    finding: Finding
    saves: Range
    step_ms: float | None

    @property
    def is_worth_it(self) -> bool:
        """Whether it is more than a note."""
        return self.step_ms is not None and not self.finding.is_small

    def text(self) -> str:
        """Return the code, the saving and the title."""
        return f"{self.finding.code} {self.saves.high:.2f} {self.finding.title}"

    def words(self) -> str:
        """Return all that the finding says."""
        told = (each.what for each in self.finding.evidence)
        return " ".join([self.finding.title, self.finding.detail, *told, str(self.finding.remedy)])


def run(case: Case, way: str, out: Path, *, fixed: bool = False) -> None:
    """Run a program once, unless it has run before, in as many processes as it has."""
    if (out / "truth.json").exists():
        return
    options = ["--fixed"] if fixed else []
    flags = f"--xla_force_host_platform_device_count={case.devices}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    places = (
        [out / f"rank{rank}" for rank in range(case.processes)] if case.processes > 1 else [out]
    )
    address = f"localhost:{_free_port()}"
    started = [
        subprocess.Popen(
            [
                *_command(case, way, place, options),
                *([f"--job={address},{case.processes},{rank}"] if case.processes > 1 else []),
            ],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, place in enumerate(places)
    ]
    try:
        errors = [each.communicate(timeout=_TIMEOUT_S)[1] for each in started]
    finally:
        for each in started:
            each.kill()
    if any(each.returncode for each in started):
        raise RuntimeError(f"{case.program} {way}: {errors[0][-1500:]}")
    if case.processes > 1:
        truths = [json.loads((place / "truth.json").read_text()) for place in places]
        lost = [max(each) for each in zip(*(truth["lost"] for truth in truths), strict=True)]
        (out / "truth.json").write_text(json.dumps({**truths[0], "lost": lost}))


def _command(case: Case, way: str, out: Path, options: Sequence[str]) -> list[str]:
    command = [
        sys.executable,
        str(_PROGRAM),
        case.program,
        "--way",
        way,
        "--out",
        str(out),
        *options,
    ]
    if not way.startswith("run"):
        return command
    python = ["--profile-python"] if way == "run-python" else []
    own = [sys.executable, "-m", "counterpoint", "run", "-o", str(out / "run"), *python, "--"]
    return [*own, *command]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def profiles_of(case: Case, way: str, out: Path) -> list[Path]:
    """Return what a user would give to explain."""
    if case.processes > 1:
        return [_profile_of(way, out / f"rank{rank}") for rank in range(case.processes)]
    return [_profile_of(way, out)]


def _profile_of(way: str, out: Path) -> Path:
    if way.startswith("run"):
        return out / "run"
    if way == "perfetto":
        return next(out.glob("profile/plugins/profile/*/*.trace.json.gz"))
    return out / "profile"


def judge(case: Case, way: str, out: Path) -> Row:
    """Compare what explain says of a profile with the truth."""
    run(case, way, out / way)
    truth = json.loads((out / way / "truth.json").read_text())
    window = slice(*(_RUN if way.startswith("run") else truth["profiled"]))
    true_step = _true_step(case, truth["steps"][window], truth["lost"][window])
    size = _true_size(case, out, truth["lost"][window], true_step)
    expected = "/".join(case.expects) or "nothing"
    told = expected if size is None else f"{expected} {size:.1f}"
    try:
        first, *others = profiles_of(case, way, out / way)
        explanation = counterpoint.explain(
            counterpoint.read(first, *others) if others else first  # of a Run, more is known
        )
    except CounterpointError as error:
        return Row(case.program, way, Verdict.MISSED, told, f"error: {error}", None, true_step)
    step = explanation.steps.median_ms
    seen, timed = _same_steps(case, way, truth, explanation)
    claims = [
        Claim(found, found.saves_ms, found.mean_step_ms or step)
        for found in explanation.findings
        if isinstance(found.saves_ms, Range)
    ]
    first = claims[0] if claims else None
    sized = _is_sized(case, first, size)
    return Row(
        program=case.program,
        way=way,
        verdict=_verdict(
            case,
            [it for it in claims if it.is_worth_it and it.finding.code not in case.also],
            is_sized=sized is not False,
        ),
        truth=told,
        said=first.text() if first else "nothing",
        step_ms=seen,
        true_step_ms=timed,
        sized=sized,
        detail=first.finding.detail if first else "",
    )


def _verdict(case: Case, worth: Sequence[Claim], *, is_sized: bool) -> Verdict:
    if not case.expects:
        return Verdict.WRONG if worth else Verdict.RIGHT
    if not worth:
        return Verdict.MISSED
    if worth[0].finding.code in case.expects:
        is_named = re.search(case.says, worth[0].words()) is not None
        return Verdict.RIGHT if is_named and is_sized else Verdict.PARTLY
    if any(it.finding.code in case.expects for it in worth[:_FIRST]):
        return Verdict.PARTLY
    return Verdict.WRONG


def _is_sized(case: Case, first: Claim | None, size: float | None) -> bool | None:
    """Return whether the first finding's saving contains the true size; None if there is none."""
    if size is None or first is None or first.finding.code not in case.expects:
        return None
    low, high = first.saves.low, first.saves.high
    is_possible = low * (1 - case.within) <= size <= high * (1 + case.within)
    return is_possible and high <= size * (1 + case.within) + _SLACK_MS


def _true_step(case: Case, steps: Sequence[float], lost: Sequence[float]) -> float:
    """Return the length of a step by the program's own stopwatch.

    A loop that does not wait for its steps calls many at once: then it is their mean, without what
    a few of them lose.
    """
    if case.waits:
        return statistics.median(steps)
    return statistics.mean(steps) - statistics.mean(lost)


def _same_steps(
    case: Case, way: str, truth: dict[str, Any], explanation: Explanation
) -> tuple[float | None, float]:
    """Return the length of a step by `explain`, and by the stopwatch in the steps it looked at.

    A loop that does not wait for each step calls many at once, and waits for all of them in some:
    between two of these the sums agree. Without such, it is the mean of what was profiled.
    """
    steps, lost = truth["steps"], truth["lost"]
    seen = _step_lengths(explanation)
    waits_for_some = any(lost[slice(*truth["profiled"])])
    if len(seen) < _FEWEST or not (case.waits or waits_for_some):
        window = slice(*truth["profiled"])
        return explanation.steps.median_ms, _true_step(case, steps[window], lost[window])
    own = way in _NUMBERED and "from 0" not in explanation.steps.how
    ahead = 0 if own else _best_shift(list(seen.values()), steps) - min(seen)
    average, numbers = statistics.median, [step for step in seen if step + ahead < len(steps)]
    if not case.waits:
        average = statistics.mean
        waited = [step for step in numbers if lost[step + ahead]]
        if len(waited) > 1:
            numbers = [step for step in numbers if waited[0] < step <= waited[-1]]
    return (
        average([seen[step] for step in numbers]),
        average([steps[step + ahead] for step in numbers]),
    )


def _step_lengths(explanation: Explanation) -> dict[int, float]:
    """Return the milliseconds of each step that counts, by its number in the profile."""
    if explanation.timeline is None:
        return {}
    lengths = (
        explanation.timeline.steps.filter("whole", "steady")
        .group_by("step")
        .agg(ms=((pl.col("end_ps") - pl.col("start_ps")) / 1e9).mean())
        .sort("step")
    )
    return dict(lengths.iter_rows())


def _best_shift(seen: Sequence[float], steps: Sequence[float]) -> int:
    """Return by how much the program's number of a step is larger: where the lengths agree best."""

    def apart(shift: int) -> float:
        pairs = zip(seen, steps[shift:], strict=False)
        return sum(abs(math.log(mine / true)) for mine, true in pairs)

    return min(range(len(steps) - len(seen) + 1), key=apart)


def _true_size(case: Case, out: Path, lost: Sequence[float], step_ms: float) -> float | None:
    if case.size is Size.LOST:
        return statistics.mean(lost)
    if case.size is Size.UNKNOWN:
        return None
    pairs = [
        (_mean_step_ms(case, out, turn, fixed=False), _mean_step_ms(case, out, turn, fixed=True))
        for turn in range(_TURNS)
    ]
    if case.size is Size.SAVED:
        return statistics.mean(as_is - fixed for as_is, fixed in pairs)
    # A machine that other programs use is not as fast as it was when the profile was recorded.
    return step_ms * statistics.mean(1 - fixed / as_is for as_is, fixed in pairs)


def _mean_step_ms(case: Case, out: Path, turn: int, *, fixed: bool) -> float:
    """Return the mean of the steps, without the tenths at the ends.

    The median would be one of two lengths where a step has two, and the mean of all is not steady.
    """
    place = out / f"none-{'fixed' if fixed else 'as-is'}-{turn}"
    run(case, "none", place, fixed=fixed)
    truth = json.loads((place / "truth.json").read_text())
    steps = sorted(truth["steps"][slice(*truth["profiled"])])
    cut = round(_CUT * len(steps))
    return statistics.mean(steps[cut : len(steps) - cut])


def lines(found: Sequence[Row]) -> Iterator[str]:
    """Yield the score."""
    troubles = [row for row in found if row.truth != "nothing"]
    clean = [row for row in found if row.truth == "nothing"]
    count = Counter(row.verdict for row in found)
    yield from (f"{each:7} {count[each]:4}  {_of(count[each], len(found))}" for each in Verdict)
    named = sum(row.verdict is Verdict.RIGHT for row in troubles)
    if troubles:
        yield f"troubles whose first finding is right: {named} of {len(troubles)}"
    if clean:
        told = sum(row.verdict is not Verdict.RIGHT for row in clean)
        yield f"clean programs with a finding: {told} of {len(clean)}"
    sized = [row.sized for row in found if row.sized is not None]
    if sized:
        yield f"saving contains the true size: {sum(sized)} of {len(sized)}"
    timed = sum(row.is_timed for row in found)
    yield f"step time within {NEAR:.0%} of the stopwatch: {timed} of {len(found)}"


def _of(count: int, total: int) -> str:
    return f"{count / total:.0%}"


def table(found: Sequence[Row]) -> Iterator[str]:
    """Yield the table of the documentation: a row for each program, with the ways to profile."""
    yield "| program | has to be first | first in these profiles | not right |"
    yield "|---|---|---|---|"
    programs = dict.fromkeys((row.program, row.truth.split(" ")[0]) for row in found)
    for program, truth in programs:
        own = [row for row in found if (row.program, row.truth.split(" ")[0]) == (program, truth)]
        codes = (
            "nothing"
            if row.truth == "nothing" and row.verdict == "right"
            else row.said.split(" ")[0]
            for row in own
        )
        first = ", ".join(dict.fromkeys(codes))
        bad = "; ".join(f"{row.way}: {row.verdict}" for row in own if row.verdict != "right")
        yield f"| {program} | {truth} | {first} ({len(own)}) | {bad} |"
