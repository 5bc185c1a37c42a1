"""Predict published steps of MaxText on TPUs, and say how far off each prediction is.

    python benchmarks/tpu_published.py RESULTS.csv [--only ID ...] [--schedules] [--table]

Each row of tpu_published.csv is a published step time, its source, and the options that its
publisher ran MaxText with; tpu_published.toml has the sets of options and flags that rows share
(`@name`). The program is lowered by the installed MaxText, unchanged, and compiled by the installed
libtpu without a TPU; both have to be in this Python (3.12). A row takes one to ten minutes on two
cores, so its result is kept in RESULTS.csv and not made again. `--table` only prints the results as
the tables of docs/guide/tpu.md.

With `--schedules`, libtpu is stopped as soon as it has dumped the scheduled program, before it
makes machine code of it: seconds after the lowering, where machine code takes minutes, or more than
half an hour with splash attention in blocks of 2,048. libtpu writes its estimates with the machine
code, so all prices of such a row are formulas.

Rows `maxtext-...` are TFLOP/s that MaxText published, rounded to three digits, divided into the
FLOPs that it counted on the day it published them, of the model that was its default then. Other
rows are seconds of a log. Flags that the installed libtpu refuses are left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

ROWS = Path(__file__).with_suffix(".csv")
SETS: dict[str, str] = tomllib.loads(ROWS.with_suffix(".toml").read_text("utf-8"))
USUAL = (
    "attention=flash max_target_length=2048 dataset_type=synthetic steps=30 run_name=x"
    " base_output_directory=/tmp/maxtext enable_checkpointing=false log_config=false"
    " enable_goodput_recording=false monitor_goodput=false hardware=tpu"
    " skip_jax_distributed_system=true"
)
COLUMNS: tuple[str, ...] = (
    "id",
    "target",
    "measured_s",
    "predicted_s",
    "low_s",
    "high_s",
    "exposed_s",
    "remat_s",
    "estimates",
)
Row = Mapping[str, str]


def main() -> int:
    """Predict the rows that have no result yet, and print the table of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path)
    ids = [row["id"] for row in read(ROWS)]
    parser.add_argument("--only", nargs="*", default=[], choices=ids, metavar="ID", help="rows")
    parser.add_argument("--schedules", action="store_true", help="compile to the schedule only")
    parser.add_argument("--table", action="store_true", help="predict nothing")
    options = parser.parse_args()
    known = read(options.results) if options.results.exists() else []
    if not options.table:
        done = {(row["id"], row["estimates"]) for row in known}
        estimates = "none" if options.schedules else "XLA"
        for row in read(ROWS):
            wanted = not options.only or row["id"] in options.only
            if wanted and (row["id"], estimates) not in done:
                known = [*known, scheduled(row) if options.schedules else predicted(row)]
                write(options.results, known)
    for estimates in ("XLA", "none"):
        rows = [row for row in known if row["estimates"] == estimates]
        if rows:
            print("\n".join(["", f"XLA's estimates: {estimates}", "", *table(rows)]))
    return 0


def read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def predicted(row: Row) -> Row:
    """Run `counterpoint predict` on MaxText's own command."""
    return result(row, report(row, maxtext(row)), estimates="XLA")


def scheduled(row: Row) -> Row:
    """Predict the step from libtpu's schedule alone."""
    return result(row, report(row, ["--schedule-only", *maxtext(row)]), estimates="none")


def predict(row: Row) -> list[str]:
    start = [sys.executable, "-m", "counterpoint", "predict", "--target", row["target"]]
    return [*start, "--json", "--timeout", "3600"]


def maxtext(row: Row) -> list[str]:
    """Return the options and the command that lower the row's step."""
    sets = [word for flag in expanded(row["flags"]) for word in ("--set", flag)]
    options = [*USUAL.split(), *expanded(row["options"])]  # a later one overrides an earlier one
    return [*sets, "--", sys.executable, "-m", "maxtext.trainers.pre_train.train", *options]


def report(row: Row, words: Sequence[str]) -> Mapping[str, Any]:
    """Return the report of `predict --json` on these words."""
    done = subprocess.run([*predict(row), *words], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"{row['id']}: {done.stderr[-2000:]}")
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def expanded(words: str) -> list[str]:
    """Return the words, with those of a set in the place of `@name`."""
    return [
        part
        for word in words.split()
        for part in (expanded(SETS[word[1:]]) if word.startswith("@") else [word])
    ]


def result(row: Row, report: Mapping[str, Any], *, estimates: str) -> Row:
    """Return the figures of a report of `predict --json`; `estimates`: whether XLA's are in it."""
    step = report["prediction"]
    recomputed: list[float] = [
        one["saves_ms"][1] for one in report["findings"] if one["code"] == "STEP402"
    ]
    exposed: float = report["breakdown"]["collective_exposed_ms"]
    figures: list[float] = [step["step_ms"], *step["range_ms"], exposed, sum(recomputed)]
    seconds = [f"{figure / 1e3:.4g}" for figure in figures]
    names = ("predicted_s", "low_s", "high_s", "exposed_s", "remat_s")
    kept = {name: row[name] for name in ("id", "target", "measured_s")}
    return {**kept, **dict(zip(names, seconds, strict=True)), "estimates": estimates}


def table(rows: Sequence[Row]) -> list[str]:
    """Return the table, and the mean and the largest error."""
    heads = ("row", "target", "published s", "predicted s", "range", "error")
    lines = [
        f"| {' | '.join((*heads, 'exposed communication s', 'XLA recomputes s'))} |",
        "|---|---|---:|---:|---|---:|---:|---:|",
    ]
    lines += [
        f"| {row['id']} | {row['target']} | {row['measured_s']} | {row['predicted_s']}"
        f" | {row['low_s']} to {row['high_s']} | {error(row):+.1%} | {row['exposed_s']}"
        f" | {row['remat_s']} |"
        for row in rows
    ]
    errors = [abs(error(row)) for row in rows]
    within = sum(
        float(row["low_s"]) <= float(row["measured_s"]) <= float(row["high_s"]) for row in rows
    )
    summary = (
        f"{len(rows)} rows: mean error {mean(errors):.1%}, median {median(errors):.1%}, most"
        f" {max(errors):.1%}; {within} in their range."
    )
    return [*lines, "", summary]


def error(row: Row) -> float:
    return float(row["predicted_s"]) / float(row["measured_s"]) - 1


if __name__ == "__main__":
    sys.exit(main())
