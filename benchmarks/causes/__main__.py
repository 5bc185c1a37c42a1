"""Ask `explain` for the cause of troubles that are known, and print how often it is right.

    python benchmarks/causes [NAME ...] [--out DIRECTORY] [--json FILE]

Each program of causes/cases.py is run and profiled; what `explain` says first is compared with what
was built in. A profile that --out already holds is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import counterpoint
from causes.cases import CASES, Case, Size
from counterpoint.core import CounterpointError, Range

NOTE = 0.03
"""Share of a step below which a finding is not worth a user's time."""


@dataclass(frozen=True)
class Row:
    """What explain said of one profile, and whether it is true."""

    name: str
    way: str
    verdict: str
    truth: str
    said: str
    step_ms: float | None
    true_step_ms: float
    size: bool | None = None  # whether the stated saving contains the true size
    detail: str = ""


def run(case: Case, way: str, out: Path, *, fixed: bool = False) -> None:
    """Run a program once, unless it has run before."""
    if (out / "truth.json").exists():
        return
    flags = f"--xla_force_host_platform_device_count={case.devices}"
    command = [
        sys.executable,
        str(HERE / "program.py"),
        case.program,
        "--way",
        way,
        "--out",
        str(out),
    ]
    if fixed:
        command.append("--fixed")
    if way.startswith("run"):
        options = ["--profile-python"] if way == "run-python" else []
        own = [sys.executable, "-m", "counterpoint", "run", "-o", str(out / "run"), *options, "--"]
        command = [*own, *command]
    done = subprocess.run(
        command,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(f"{case.program} {way}: {done.stderr[-1500:]}")


def profile_of(way: str, out: Path) -> Path:
    """Return what a user would give to explain."""
    if way.startswith("run"):
        return out / "run"
    if way == "perfetto":
        return next(out.glob("profile/plugins/profile/*/*.trace.json.gz"))
    return out / "profile"


def judge(case: Case, way: str, out: Path) -> Row:
    """Compare what explain says of a profile with the truth."""
    run(case, way, out / way)
    truth = json.loads((out / way / "truth.json").read_text())
    window = slice(*truth["profiled"])
    steps = truth["steps"][window]
    true_step = statistics.median(steps)
    size = _true_size(case, out, truth["lost"][window])
    said = f"{'/'.join(case.expects) or 'nothing'}" + (f" {size:.1f}" if size is not None else "")
    try:
        explanation = counterpoint.explain(counterpoint.read(profile_of(way, out / way)))
    except CounterpointError as error:
        return Row(case.program, way, "missed", said, f"error: {error}", None, true_step)
    step = explanation.steps.median_ms
    findings = [found for found in explanation.findings if isinstance(found.saves_ms, Range)]
    first = findings[0] if findings else None
    share = first.saves_ms.high / (first.mean_step_ms or step) if first and step else 0.0
    line = f"{first.code} {first.saves_ms.high:.2f} {first.title}" if first else "nothing"
    fits = None
    if not case.expects:
        verdict = "right" if share <= NOTE else "wrong"
    elif first is None:
        verdict = "missed"
    else:
        text = " ".join(
            [first.title, first.detail, *(e.what for e in first.evidence), str(first.remedy)]
        )
        named = re.search(case.says, text) is not None
        if size is not None and first.code in case.expects:
            low, high = first.saves_ms.low, first.saves_ms.high
            fits = (
                low * (1 - case.within) <= size <= high * (1 + case.within)
                and high <= size * (1 + case.within) + 0.3
            )
        if first.code in case.expects:
            verdict = "right" if named and fits is not False else "partly"
        elif any(found.code in case.expects for found in findings[:3]):
            verdict = "partly"
        elif any(found.code in case.expects for found in findings):
            verdict = "wrong"
        else:
            verdict = "missed" if share <= NOTE or first.code in case.also else "wrong"
    return Row(
        case.program, way, verdict, said, line, step, true_step, fits, first.detail if first else ""
    )


def _true_size(case: Case, out: Path, lost: Sequence[float]) -> float | None:
    if case.size is Size.LOST:
        return statistics.mean(lost)
    if case.size is Size.GAIN:
        means: list[float] = []
        for fixed in (False, True):
            place = out / ("none-fixed" if fixed else "none")
            run(case, "none", place, fixed=fixed)
            truth = json.loads((place / "truth.json").read_text())
            means.append(statistics.median(truth["steps"][slice(*truth["profiled"])]))
        return means[0] - means[1]
    return None


def rows(names: Sequence[str], out: Path) -> Iterator[Row]:
    """Yield a row for each way to profile each program."""
    for case in CASES:
        if names and not any(name in case.program for name in names):
            continue
        for way in case.ways:
            yield judge(case, way, out / case.program)


def main() -> None:
    """Run the programs and print the score."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a program's name")
    parser.add_argument("--out", type=Path, help="where profiles are kept")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found: list[Row] = []
        for row in rows(given.names, given.out or Path(temporary)):
            found.append(row)
            off = f"{row.step_ms / row.true_step_ms - 1:+.0%}" if row.step_ms else "?"
            print(
                f"{row.verdict:7} {row.name:35} {row.way:10} step {row.true_step_ms:7.2f} {off:>6}"
                f"  {row.truth:24} said {row.said}",
                flush=True,
            )
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in found], indent=1))
    print()
    count = Counter(row.verdict for row in found)
    for verdict in ("right", "partly", "wrong", "missed"):
        print(f"{verdict:7} {count[verdict]:4} {count[verdict] / len(found):.0%}")
    sized = [row for row in found if row.size is not None]
    if sized:
        print(
            f"saving contains the true size: {sum(bool(row.size) for row in sized)} of {len(sized)}"
        )
    close = [
        row for row in found if row.step_ms and abs(row.step_ms / row.true_step_ms - 1) <= 0.05
    ]
    print(f"step time within 5% of the stopwatch: {len(close)} of {len(found)}")


if __name__ == "__main__":
    main()
