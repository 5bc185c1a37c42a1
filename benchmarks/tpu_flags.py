"""Ask whether a prediction ranks published pairs of libtpu's flags in the measured direction.

    python benchmarks/tpu_flags.py DIRECTORY [--schedules]

The pairs are those of vlasenkoalexey/tpu_performance_autoresearch_wiki on v6e-8 whose effect is at
least 1%: SparseCore offload of FSDP's collectives. Their trainers are not public as one program, so
the flags are asked of examples/llama.py with what they share: the shapes of Llama 3 8B, four
sequences of 8,192 tokens on each of 8 chips, layers one after another. It has 3 layers of 32; with
`--schedules` all 32, of which libtpu only makes the schedule, and two sequences, since four do not
fit into memory with every set of flags.
Flags that libtpu 0.0.50.1 refuses on v6e (fused all-gathers), or takes only at its start
(xla_sc_*), are left out on both sides. A compile takes three to four minutes of CPU time, a
schedule of all layers one to two; each is made once, and its prediction kept in DIRECTORY. A pair
is decided as `predict --candidate` decides it. Needs the extra `tpu` in this Python.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import counterpoint
from counterpoint.cost.build import build_model
from counterpoint.hardware.targets import parse_target
from counterpoint.simulate.simulation import Simulation, simulate
from counterpoint.workflow.forecast.ranking import INDIFFERENCE, difference

PROGRAM = "size=8b layers={} scan=false batch={} fsdp=8"
TARGET = "v6e-8"
COMMON = (
    "xla_tpu_enable_async_collective_fusion=true",
    "xla_tpu_enable_async_collective_fusion_multiple_steps=true",
    "xla_tpu_overlap_compute_collective_tc=true",
    "xla_jf_spmd_threshold_for_windowed_einsum_mib=1000000",
)
FUSED = "xla_tpu_enable_async_collective_fusion_fuse_{}={}"
MULTIPLIER = "xla_tpu_sparse_core_{}_latency_multiplier={}"


def offloaded(*kinds: str) -> tuple[str, ...]:
    """Return the flags that move these collectives to the SparseCore."""
    found: list[str] = []
    for kind in kinds:
        found += [
            FUSED.format(kind, "false"),
            f"xla_tpu_enable_sparse_core_collective_offload_{kind}=true",
            f"xla_tpu_enable_{kind}_offload_tracing=true",
        ]
    return (*found, "xla_tpu_use_tc_device_shape_on_sc=true") if found else ()


RS_AR = (*offloaded("reduce_scatter", "all_reduce"), MULTIPLIER.format("reduce_scatter", 2))
SETTINGS: dict[str, tuple[str, ...]] = {
    "AR": offloaded("all_reduce"),
    "AG RS AR": offloaded("all_gather", "reduce_scatter", "all_reduce"),
    "AG AR, RS fused": (
        *offloaded("all_gather", "all_reduce"),
        FUSED.format("reduce_scatter", "true"),
    ),
    "none": (),
    "RS AR, AR latency 2": (*RS_AR, MULTIPLIER.format("all_reduce", 2)),
    "RS AR, AR latency 3": (*RS_AR, MULTIPLIER.format("all_reduce", 3)),
}
# id in flag_effects.csv, before, after, measured change of the step in percent
PAIRS = (
    ("llama3_8B-jax-exp27", "AR", "AG RS AR", -3.27),
    ("qwen3_cx-jax-v205", "none", "AG RS AR", -1.74),
    ("qwen3_cx-jax-v219", "AG RS AR", "AG AR, RS fused", 1.89),
    ("qwen3_cx-jax-v231", "RS AR, AR latency 2", "RS AR, AR latency 3", 3.75),
)


def main() -> int:
    """Predict what has no result yet, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--schedules", action="store_true", help="all layers, schedules only")
    options = parser.parse_args()
    directory = options.directory / "schedules" if options.schedules else options.directory
    kept = {name: directory / name.replace(" ", "_").replace(",", "") for name in SETTINGS}
    for name, flags in SETTINGS.items():
        if not kept[name].exists():
            compile_step((*COMMON, *flags), kept[name], whole=not options.schedules)
    steps = {name: simulated(path) for name, path in kept.items() if path.exists()}
    print("| pair | flags before | after | measured | predicted | range | |")
    print("|---|---|---|---:|---:|---|---|")
    for pair, before, after, measured in PAIRS:
        known = f"| {pair} | {before} | {after} | {measured:+.1f}%"
        if before in steps and after in steps:
            print(f"{known} | {verdict(measured, steps[before], steps[after])} |")
        else:
            print(f"{known} | | | not asked |")
    return 0


def verdict(measured: float, before: Simulation, after: Simulation) -> str:
    """Return the predicted change, its range, and whether it has the measured direction."""
    best = min(before.step_s, after.step_s)
    reach = difference(after, before)
    low, high = reach.low / best, reach.high / best
    change = after.step_s / before.step_s - 1
    tied = low <= INDIFFERENCE and high >= -INDIFFERENCE
    right = (change > 0) == (measured > 0)
    said = "tied" if tied else "right" if right else "wrong"
    return f"{change:+.1%} | {low:+.1%} to {high:+.1%} | {said}"


def simulated(kept: Path) -> Simulation:
    """Simulate the step whose prediction is in this directory, at today's prices."""
    target = parse_target(TARGET, tpus=True)
    program = next(one.hlo() for one in counterpoint.read(kept).programs)
    if program is None:
        raise SystemExit(f"{kept} has no program")
    return simulate(program, build_model(target), target=target)


def compile_step(flags: tuple[str, ...], kept: Path, *, whole: bool) -> None:
    """Predict the step with these flags; nothing is kept if libtpu refuses them."""
    step = Path(__file__).parent.parent / "examples/llama.py"
    command = [sys.executable, "-m", "counterpoint", "predict", f"{step}:make_step"]
    sets = [word for flag in flags for word in ("--set", flag)]
    kept.parent.mkdir(parents=True, exist_ok=True)
    only = [] if whole else ["--schedule-only"]
    done = subprocess.run(
        [*command, "--target", TARGET, "--timeout", "3600", "-o", str(kept), *only, *sets],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LLAMA": PROGRAM.format(*((3, 4) if whole else (32, 2)))},
    )
    if done.returncode:
        print(done.stderr[-800:], file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
