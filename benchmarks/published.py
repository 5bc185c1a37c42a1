"""Predict published step times, and say how far off each prediction is.

    python benchmarks/published.py ROWS.csv [--programs DIRECTORY] [--json]

Rows are step times of training runs that others published; each stands for a step of
examples/llama.py (published_rows.py says which). The programs of a directory are steps of real
trainers, NAME.mlir.gz beside NAME.meta.json with the published flags and step time. Everything is
compiled by the installed XLA without a GPU and simulated.

Shown are predictions with the scalars that Counterpoint ships, and with scalars fitted to a third
of the rows: of the configurations in the order of the file, the middle one of every three, in its
newest row. The fit starts from UNFITTED, so errors on the other two thirds and on the programs are
on what was not seen. The shipped scalars have seen the rows that docs/accuracy.md names.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import mean

from counterpoint.compile.assumptions import assumed_options
from counterpoint.compile.compiler import CompiledProgram
from counterpoint.compile.inputs.workload import load_workload
from counterpoint.compile.pool import compile_all
from counterpoint.compile.task import CompileTask
from counterpoint.core.basis import Range
from counterpoint.cost.build import build_model
from counterpoint.cost.model import Contention, CostModel, Price, PriceSource, price_around
from counterpoint.cost.scalars import Scalar, Scalars, default_scalars
from counterpoint.flags.catalogue.lookup import release
from counterpoint.hardware.targets import parse_target as target_of
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.simulate.simulation import simulate
from counterpoint.workflow.calibration.step_fit import MeasuredStep, calibrate_steps
from counterpoint.workflow.forecast.step_range import FASTER, model_error, widened
from published_rows import Row, read_rows

# What is known of a chip without any step time: kernels alone and in traces. Fits start here, since
# the scalars that Counterpoint ships were chosen by some of these rows.
UNFITTED = Scalars(
    matmul=Scalar(0.90, 0.10, "single GEMMs in traces"),
    memory=Scalar(0.85, 0.10, "single kernels in traces"),
    attention=Scalar(1.0, 0.12, "published kernels"),
    network=Scalar(0.94, 0.10, "NVIDIA/nccl-tests issue 290"),
    slowdown=Scalar(0.12, 0.50, "NCCL's channels"),
)
# Rows by which the shipped scalars were chosen (with the programs): shares of GEMM rates.
SHIPPED = ("20", "21", "22", "23", "34", "35", "36")
COLUMNS = (
    *("id", "name", "measured_s", "predicted_s", "low_s", "high_s"),
    *("newest", "fitted", "shipped"),
)
FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
LOWER = Path(__file__).parent / "published_lower.py"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One step to predict: what is compiled, and what was measured."""

    id: str
    name: str
    task: CompileTask
    seconds: float
    newest: bool  # of its configuration
    fitted: bool  # scalars are fitted to it


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came out: with the shipped scalars, and with the fitted ones.

    `low_s` and `high_s` are what errors of prices alone do.
    """

    case: Case
    shipped_s: float
    low_s: float
    high_s: float
    fitted_s: float

    @property
    def range_s(self) -> Range:
        """What `predict` shows: errors of prices, and of the model."""
        prices = Range(self.low_s, self.high_s)
        return widened(self.shipped_s, prices, slower=model_error(), faster=FASTER)

    @property
    def inside(self) -> bool:
        return self.range_s.low <= self.case.seconds <= self.range_s.high

    @property
    def shipped_error(self) -> float:
        return self.shipped_s / self.case.seconds - 1

    @property
    def fitted_error(self) -> float:
        return self.fitted_s / self.case.seconds - 1


def main() -> None:
    """Compile, fit, predict, print."""
    options = parse_options()
    try:
        rows, refused = read_rows(options.rows)
    except (OSError, ValueError) as mistake:  # no such file, or no such table
        raise SystemExit(f"error: {mistake}") from None
    with tempfile.TemporaryDirectory() as name:
        cases = [*row_cases(rows, Path(name)), *program_cases(options.programs)]
        compiled = compile_cases(cases, options.jobs)
    fits = fit(cases, compiled)
    answers = [answer(case, compiled[case.id], fits) for case in cases if case.id in compiled]
    if options.table:
        write_table(answers, options.table)
    if options.json:
        print(json.dumps(as_data(answers, fits), indent=2))
    else:
        show(answers, fits)
        for row, why in refused:
            print(f"row {row} is left out: {why}")


def parse_options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Predict published step times.")
    parser.add_argument("rows", type=Path, help="a CSV file of published step times")
    parser.add_argument("--programs", type=Path, help="a directory of lowered steps")
    parser.add_argument("--jobs", type=int, help="how many compilers run at once")
    parser.add_argument("--table", type=Path, help="write predicted and measured there, as CSV")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.programs and not any(options.programs.glob("*.meta.json")):
        parser.error(f"--programs {options.programs}: no NAME.meta.json lies there")
    if options.jobs is not None and options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: at least one")
    return options


def row_cases(rows: Sequence[Row], directory: Path) -> Iterator[Case]:
    """A case for each row; rows that differ in their date alone share one lowered step."""
    newest = {row.step: row.id for row in sorted(rows, key=lambda row: row.date)}
    configurations = list(dict.fromkeys(row.step for row in rows))
    fitted = {newest[step] for step in configurations[1::3]}
    lowered: dict[tuple[object, ...], CompileTask] = {}
    for row in rows:
        if row.step not in lowered:
            lowered[row.step] = lower(row, directory / f"{row.id}.mlir.gz")
        yield Case(
            id=row.id,
            name=row.name,
            task=lowered[row.step],
            seconds=row.seconds,
            newest=newest[row.step] == row.id,
            fitted=row.id in fitted,
        )


def lower(row: Row, out: Path) -> CompileTask:
    """The row's step before XLA's passes, as a task for the compiler."""
    print(f"lowering row {row.id}", file=sys.stderr)
    pairs = [f"{name}={value}" for name, value in row.settings]
    command = [sys.executable, str(LOWER), str(row.devices), row.size, str(out), *pairs]
    subprocess.run(command, check=True, stderr=subprocess.PIPE)
    environment = {FRACTION: row.memory_fraction} if row.memory_fraction else {}
    return make_task(out, row.target, dict(row.flags), environment)


def program_cases(directory: Path | None) -> Iterator[Case]:
    """Real programs, under the flags that their runs were published with."""
    for meta in sorted(directory.glob("*.meta.json")) if directory else ():
        said = json.loads(meta.read_text(encoding="utf-8"))
        hosts = f"{said['nodes']}x8x" if said["nodes"] > 1 else f"{said['gpus']}x"
        chip = said["gpu"].partition("-")[0]
        flags, dropped = translated(said["nvidia_flags"])
        print(f"{said['name']}: this XLA has no {', '.join(dropped)}", file=sys.stderr)
        environment = {FRACTION: str(said["mem_fraction_published"])}
        program = meta.with_name(f"{said['name']}.mlir.gz")
        yield Case(
            id=said["name"],
            name=f"MaxText {said['name']}",
            task=make_task(program, f"{hosts}{chip}", flags, environment),
            seconds=said["published_step_time_s"],
            newest=True,
            fitted=False,
        )


def translated(flags: dict[str, object]) -> tuple[dict[str, str], list[str]]:
    """Flags that the installed XLA has, and the names of those that it has not (or not here)."""
    known = release(version("jaxlib")).flags
    spelt = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in flags.items()
        if not str(value).startswith("<")
    }
    kept = {name: value for name, value in spelt.items() if name in known}
    return kept, [name for name in flags if name not in kept]


def make_task(
    program: Path, target: str, flags: dict[str, str], environment: dict[str, str]
) -> CompileTask:
    """What `counterpoint predict` would ask of the compiler."""
    workload, where = load_workload(program), target_of(target)
    assumed = assumed_options(workload, where, flags, environment)
    return CompileTask(
        workload=workload, target=where, options=assumed.options, environment=environment
    )


def compile_cases(cases: Sequence[Case], jobs: int | None) -> dict[str, CompiledProgram]:
    """By the case's id; one that fails is told and left out."""
    tasks = list({id(case.task): case.task for case in cases}.values())
    done: dict[int, CompiledProgram] = {}
    for number, result in compile_all(tasks, jobs):
        if isinstance(result, CompiledProgram):
            done[id(tasks[number])] = result
            print(f"compiled {number + 1} of {len(tasks)}", file=sys.stderr)
        else:
            print(f"{tasks[number].workload.origin}: {result}", file=sys.stderr)
    return {case.id: done[id(case.task)] for case in cases if id(case.task) in done}


def fit(cases: Sequence[Case], compiled: dict[str, CompiledProgram]) -> dict[str, Scalars]:
    """Scalars by chip, fitted to the cases that are for it."""
    by_chip: dict[str, list[MeasuredStep]] = {}
    for case in cases:
        if case.fitted and case.id in compiled:
            step = MeasuredStep(
                name=case.name,
                program=compiled[case.id].program,
                target=case.task.target,
                seconds=case.seconds,
            )
            by_chip.setdefault(case.task.target.gpu, []).append(step)
    return {chip: calibrate_steps(steps, UNFITTED).scalars for chip, steps in by_chip.items()}


@dataclass(frozen=True, eq=False)
class OfText:
    """A cost model of runs on text: its tokens differ, so no scatter of gradients is at its worst.

    Ranges of other steps rest on these rows, and must not be narrower because a bound is wide.
    """

    model: CostModel

    @property
    def contention(self) -> Contention:
        return self.model.contention

    @property
    def launch_s(self) -> float:
        return self.model.launch_s

    def price(self, program: Program, instruction: Instruction) -> Price:
        """Return the model's price, a bound with the error of a formula instead."""
        price = self.model.price(program, instruction)
        if price.source is not PriceSource.BOUND:
            return price
        return price_around(price.seconds, 0.4, PriceSource.ANALYTIC, price.family, price.how)


def answer(case: Case, compiled: CompiledProgram, fits: dict[str, Scalars]) -> Answer:
    """Simulate with both."""
    target = case.task.target
    shipped = simulate(compiled.program, OfText(build_model(target)), target=target)
    scalars = fits.get(target.gpu, default_scalars(target.gpu))
    fitted = simulate(compiled.program, build_model(target, scalars=scalars), target=target)
    return Answer(
        case=case,
        shipped_s=shipped.step_s,
        low_s=shipped.low_s,
        high_s=shipped.high_s,
        fitted_s=fitted.step_s,
    )


def show(answers: Sequence[Answer], fits: dict[str, Scalars]) -> None:
    """The table, the means, and the scalars."""
    print("| row | what | measured s | shipped s | range | error | fitted s | error | |")
    print("|---|---|---:|---:|---|---:|---:|---:|---|")
    for it in answers:
        reach = it.range_s
        out = "" if it.inside else " (outside)"
        role = "fitted to" if it.case.fitted else "" if it.case.newest else "older software"
        print(
            f"| {it.case.id} | {it.case.name} | {it.case.seconds:.4g} | {it.shipped_s:.4g} |"
            f" {reach.low:.4g} to {reach.high:.4g}{out} | {it.shipped_error:+.1%} |"
            f" {it.fitted_s:.4g} | {it.fitted_error:+.1%} | {role} |"
        )
    print()
    for name, chosen in groups(answers):
        if chosen:
            print(f"{name} ({len(chosen)}): {told(chosen)}")
    for chip, scalars in fits.items():
        moved = ", ".join(
            f"{name} {getattr(UNFITTED, name).value:.3g} to {getattr(scalars, name).value:.3g}"
            for name in ("matmul", "memory", "attention", "network", "slowdown")
        )
        print(f"fitted for {chip}: {moved}")


def write_table(answers: Sequence[Answer], path: Path) -> None:
    """Published rows beside their predictions: what ranges of predicted steps rest on."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for it in answers:
            seconds = (it.case.seconds, it.shipped_s, it.low_s, it.high_s)
            shipped = it.case.id in SHIPPED or not it.case.id.isdecimal()
            roles = (it.case.newest, it.case.fitted, shipped)
            writer.writerow(
                [it.case.id, it.case.name]
                + [f"{one:.5g}" for one in seconds]
                + ["yes" if one else "no" for one in roles]
            )


def groups(answers: Sequence[Answer]) -> Iterator[tuple[str, list[Answer]]]:
    """Which answers belong together."""
    rows = [it for it in answers if it.case.id.isdecimal()]
    yield (
        "rows not fitted to, newest of each configuration",
        [it for it in rows if it.case.newest and not it.case.fitted],
    )
    yield "of these on H100", [
        it for it in rows
        if it.case.newest and not it.case.fitted and it.case.task.target.gpu.startswith("H100")
    ]  # fmt: skip
    yield (
        "rows that decided nothing, older software too",
        [it for it in rows if not it.case.fitted and it.case.id not in SHIPPED],
    )
    yield "rows fitted to", [it for it in rows if it.case.fitted]
    yield "all rows, older software too", rows
    yield "programs, none fitted to", [it for it in answers if not it.case.id.isdecimal()]


def told(answers: Sequence[Answer]) -> str:
    """Mean and most of the errors, with both sets of scalars."""
    shipped = [abs(it.shipped_error) for it in answers]
    fitted = [abs(it.fitted_error) for it in answers]
    return (
        f"{sum(it.inside for it in answers)} in their range;"
        f" mean error {mean(shipped):.1%}, most {max(shipped):.1%};"
        f" with fitted scalars {mean(fitted):.1%}, most {max(fitted):.1%}"
    )


def as_data(answers: Sequence[Answer], fits: dict[str, Scalars]) -> dict[str, object]:
    """The same for programs."""
    return {
        "schema": "counterpoint.benchmark-published/1",
        "rows": [
            {
                "id": it.case.id,
                "name": it.case.name,
                "measured_s": it.case.seconds,
                "shipped_s": it.shipped_s,
                "range_s": [it.range_s.low, it.range_s.high],
                "range_of_prices_s": [it.low_s, it.high_s],
                "fitted_s": it.fitted_s,
                "fitted_to": it.case.fitted,
                "newest": it.case.newest,
            }
            for it in answers
        ],
        "scalars": {
            chip: {name: getattr(scalars, name).value for name in Scalars.__slots__}
            for chip, scalars in fits.items()
        },
    }


if __name__ == "__main__":
    main()
