"""Predict published steps of MaxText on TPUs, and say how far off each prediction is.

    python benchmarks/tpu_published.py RESULTS.csv [--only ID ...] [--table]

Each row of tpu_published.csv is a published step time and the options that its publisher ran
MaxText with (AI-Hypercomputer/maxtext, MaxText/configs/{v4,v5e,v5p}). The program is lowered by the
installed MaxText, unchanged, and compiled by the installed libtpu without a TPU; both have to be in
this Python (3.12). A row takes one to ten minutes on two cores, so its result is kept in
RESULTS.csv and not made again. `--table` only prints the results as the table of docs/guide/tpu.md.

The rows are TFLOP/s that MaxText published, divided into the FLOPs that it counted; they are
rounded to three digits. Flags that the installed libtpu refuses for a generation are left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

ROWS = Path(__file__).with_suffix(".csv")
V4 = ("xla_enable_async_all_gather",)
V5E = (
    *V4,
    "xla_tpu_data_parallel_opt_different_sized_ops",
    "xla_tpu_enable_async_collective_fusion",
    "xla_tpu_enable_async_collective_fusion_fuse_all_gather",
    "xla_tpu_enable_async_collective_fusion_multiple_steps",
    "xla_tpu_enable_data_parallel_all_reduce_opt",
    "xla_tpu_overlap_compute_collective_tc",
)
# libtpu 0.0.50.1 refuses fused all-gathers on v5p.
V5P = (
    *(flag for flag in V5E if not flag.endswith("fuse_all_gather")),
    "xla_enable_async_collective_permute",
    "xla_tpu_enable_ag_backward_pipelining",
)
FLAGS = {
    "v4": [f"{flag}=true" for flag in V4],
    "v5e": [f"{flag}=true" for flag in V5E],
    "v5p": [*(f"{flag}=true" for flag in V5P), "xla_tpu_megacore_fusion_allow_ags=false"],
}
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
)
Row = Mapping[str, str]


def main() -> int:
    """Predict the rows that have no result yet, and print the table of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="ids of rows")
    parser.add_argument("--table", action="store_true", help="predict nothing")
    options = parser.parse_args()
    known = read(options.results) if options.results.exists() else []
    if not options.table:
        done = {row["id"] for row in known}
        for row in read(ROWS):
            wanted = not options.only or row["id"] in options.only
            if wanted and row["id"] not in done:
                known = [*known, predicted(row)]
                write(options.results, known)
    print("\n".join(table(known)))
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
    sets = [word for flag in FLAGS[row["flags"]] for word in ("--set", flag)]
    program = ["-m", "maxtext.trainers.pre_train.train", *row["options"].split(), *USUAL.split()]
    command = [sys.executable, "-m", "counterpoint", "predict", "--target", row["target"], "--json"]
    done = subprocess.run(
        [*command, "--timeout", "3600", *sets, "--", sys.executable, *program],
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        raise SystemExit(f"{row['id']}: {done.stderr[-2000:]}")
    return result(row, json.loads(done.stdout))


def result(row: Row, report: Mapping[str, Any]) -> Row:
    """Return the figures of a report of `predict --json`."""
    step = report["prediction"]
    recomputed: list[float] = [
        one["saves_ms"][1] for one in report["findings"] if one["code"] == "STEP402"
    ]
    exposed: float = report["breakdown"]["collective_exposed_ms"]
    figures: list[float] = [step["step_ms"], *step["range_ms"], exposed, sum(recomputed)]
    seconds = [f"{figure / 1e3:.4g}" for figure in figures]
    names = ("predicted_s", "low_s", "high_s", "exposed_s", "remat_s")
    kept = {name: row[name] for name in ("id", "target", "measured_s")}
    return {**kept, **dict(zip(names, seconds, strict=True))}


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
