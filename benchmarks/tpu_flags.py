"""Ask whether a prediction ranks published pairs of libtpu's flags in the measured direction.

    python benchmarks/tpu_flags.py RESULTS.json

The pairs are those of vlasenkoalexey/tpu_performance_autoresearch_wiki on v6e-8 whose effect is at
least 1%: SparseCore offload of FSDP's collectives. Their trainers are not public as one program,
and libtpu compiles their size with these flags for more than ten minutes; so the flags are asked of
examples/llama.py with two layers, 1,024 wide, FSDP over 8 chips, 8 x 1,024 tokens each. Flags that
libtpu 0.0.50.1 refuses on v6e (fused all-gathers), or takes only at its start (xla_sc_*), are left
out on both sides. A compile takes a minute or two on two cores; each is made once and kept in
RESULTS.json. Needs the extra `tpu` in this Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = (
    "layers=2 width=1024 mlp_width=4096 heads=8 kv_heads=8 vocabulary=2048 sequence=1024 batch=8"
    " attention=xla fsdp=8"
)
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
TIE = 0.5
"""Percent: the runs were made once, and differ by as much when repeated."""


def main(path: str) -> int:
    """Predict what has no result yet, and print the table."""
    results = Path(path)
    known: dict[str, float | None] = json.loads(results.read_text()) if results.exists() else {}
    for name, flags in SETTINGS.items():
        if name not in known:
            known[name] = predicted_ms((*COMMON, *flags))
            results.write_text(json.dumps(known, indent=1) + "\n")
    print("| pair | flags before | after | measured | predicted | |\n|---|---|---|---:|---:|---|")
    for pair, before, after, measured in PAIRS:
        first, second = known[before], known[after]
        if first is None or second is None:
            print(f"| {pair} | {before} | {after} | {measured:+.1f}% | refused | not asked |")
            continue
        change = 100 * (second / first - 1)
        print(
            f"| {pair} | {before} | {after} | {measured:+.1f}% | {change:+.1f}%"
            f" | {verdict(measured, change)} |"
        )
    return 0


def verdict(measured: float, predicted: float) -> str:
    """Return whether the prediction has the measured direction."""
    if abs(predicted) < TIE:
        return "tie"
    return "right" if (predicted > 0) == (measured > 0) else "wrong"


def predicted_ms(flags: tuple[str, ...]) -> float | None:
    """Return the predicted step; None if libtpu refuses the flags."""
    step = Path(__file__).parent.parent / "examples/llama.py"
    command = [sys.executable, "-m", "counterpoint", "predict", f"{step}:make_step"]
    sets = [word for flag in flags for word in ("--set", flag)]
    done = subprocess.run(
        [*command, "--target", "v6e-8", "--json", "--timeout", "3600", *sets],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LLAMA": PROGRAM},
    )
    if not done.stdout:
        print(done.stderr[-800:], file=sys.stderr)
        return None
    return float(json.loads(done.stdout)["prediction"]["step_ms"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
