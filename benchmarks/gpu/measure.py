"""Measure the example on the GPUs at hand, predict the same steps for them, and write both down.

    pip install -e '.[jax]' 'jax[cuda12]'
    python benchmarks/gpu/measure.py --out DIRECTORY [--target 1xH200] [--steps 20] [--dry-run]

For each size a process trains examples/llama.py, times its steps and profiles the last. Then
`counterpoint predict` predicts the same step for the target, and `counterpoint calibrate` fits GEMM
and memory rates to the profiles. DIRECTORY/measured.json holds all of it with the date, the device
and the versions; DIRECTORY/calibration.toml is what `predict --calibration` reads.

`--dry-run` goes the whole way on a CPU with a tiny model, to test the script: what it measures then
says nothing of a GPU, and nothing is fitted.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "llama.py"
LOWER = ROOT / "benchmarks" / "published_lower.py"
# Sizes that fit one device of 80 GB or more, in bf16, weights and optimizer in f32.
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "100m": ("100m", {"batch": "16", "remat": "none"}),
    "100m-full": ("100m", {"batch": "32", "remat": "full"}),
    "1b": ("1b", {"batch": "4", "remat": "full"}),
    "1b-minimal": ("1b", {"batch": "2", "remat": "minimal"}),
    "7b-8-layers": ("7b", {"layers": "8", "batch": "4", "remat": "full"}),
}
DRY: dict[str, tuple[str, dict[str, str]]] = {"tiny": ("tiny", {"batch": "2"})}
STEP = re.compile(r"^step\s+\d+\s+loss \S+\s+(\S+) s", re.MULTILINE)
WARM_UP = 5
PROFILED = 5
PACKAGES = ("jax", "jaxlib", "jax-cuda12-plugin", "counterpoint")


def main() -> None:
    """Measure, predict, calibrate, write."""
    parser = argparse.ArgumentParser(description="Measure and predict the example on a GPU.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", default="1xH200")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    if options.steps < WARM_UP + PROFILED + 1:
        parser.error(f"--steps {options.steps}: {WARM_UP + PROFILED + 1} at least")
    options.out.mkdir(parents=True, exist_ok=True)
    cases = DRY if options.dry_run else CASES
    rows = [one_case(options, name, size, settings) for name, (size, settings) in cases.items()]
    record = {
        "schema": "counterpoint.benchmark-gpu/1",
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "target": options.target,
        "device": "cpu" if options.dry_run else device(),
        "versions": versions(),
        "steps": options.steps,
        "cases": rows,
        "calibration": None if options.dry_run else calibration(options, rows),
    }
    path = options.out / "measured.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    show(rows)
    print(f"wrote {path}")


def one_case(
    options: argparse.Namespace, name: str, size: str, settings: dict[str, str]
) -> dict[str, object]:
    """One size: measured and predicted; what fails is written down as such."""
    profile = options.out / f"profile-{name}"
    row: dict[str, object] = {"name": name, "size": size, "settings": settings}
    try:
        row["measured_s"] = measured(options, profile, size, settings)
        row["profile"] = profile.name
        row["predicted"] = predicted(options, name, size, settings)
    except subprocess.CalledProcessError as error:
        row["failed"] = error.stderr.strip().splitlines()[-3:]
    return row


def measured(
    options: argparse.Namespace, profile: Path, size: str, settings: dict[str, str]
) -> dict[str, float]:
    """Seconds of a step between warm-up and the profile, which slows down what it sees."""
    last = options.steps - PROFILED
    words = ["--size", size, "--steps", str(options.steps), "--devices", "1"]
    words += ["--platform", "cpu" if options.dry_run else "gpu", "--profile", str(profile)]
    words += ["--profile-start", str(last), "--profile-steps", str(PROFILED)]
    for setting, value in settings.items():
        words += [f"--{setting}", value]
    said = run([sys.executable, str(EXAMPLE), *words])
    seconds = [float(it) for it in STEP.findall(said)][WARM_UP:last]
    return {"median": median(seconds), "least": min(seconds), "most": max(seconds)}


def predicted(
    options: argparse.Namespace, name: str, size: str, settings: dict[str, str]
) -> dict[str, object]:
    """What Counterpoint says of the same step."""
    program = options.out / f"{name}.mlir.gz"
    pairs = [f"{setting}={value}" for setting, value in settings.items()]
    run([sys.executable, str(LOWER), "1", size, str(program), *pairs])
    words = ["predict", str(program), "--target", options.target, "--json"]
    said = json.loads(counterpoint(words, allowed=(0, 1)))
    prediction: dict[str, object] = said["prediction"]
    return prediction


def calibration(options: argparse.Namespace, rows: Sequence[dict[str, object]]) -> object:
    """Fit to all profiles, each left out in turn."""
    profiles = [str(options.out / str(row["profile"])) for row in rows if "profile" in row]
    if not profiles:
        return None
    out = options.out / "calibration.toml"
    words = ["calibrate", *profiles, "--target", options.target, "-o", str(out), "--force"]
    return json.loads(counterpoint([*words, "--json"]))


def counterpoint(words: Sequence[str], allowed: Sequence[int] = (0,)) -> str:
    """What a command of ours prints."""
    return run([sys.executable, "-m", "counterpoint", *words], allowed)


def run(command: Sequence[str], allowed: Sequence[int] = (0,)) -> str:
    """Run it; its output, or CalledProcessError."""
    print(" ".join(command), file=sys.stderr)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in allowed:
        print(done.stderr[-2000:], file=sys.stderr)
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return done.stdout


def device() -> str:
    """The GPU with its power limit and driver, as nvidia-smi tells."""
    fields = "name,power.limit,clocks.max.sm,memory.total,driver_version"
    return run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]).strip()


def versions() -> dict[str, str]:
    """Of what matters here and is installed."""
    found = {"python": sys.version.partition(" ")[0]}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def show(rows: Sequence[dict[str, object]]) -> None:
    """A line for each case."""
    for row in rows:
        times: Any = row.get("measured_s")
        said: Any = row.get("predicted")
        if not times or not said:
            print(f"{row['name']:<14} failed: {row.get('failed')}")
            continue
        ms, guess = float(times["median"]) * 1e3, float(said["step_ms"])
        print(f"{row['name']:<14} measured {ms:9.1f} ms, predicted {guess:9.1f} ms, "
              f"{guess / ms - 1:+.1%}")  # fmt: skip


if __name__ == "__main__":
    main()
