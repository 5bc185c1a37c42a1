"""What the agent costs a program outside the profile window.

One small jitted step on one CPU device, annotated, in fresh processes without and with the agent,
in the order A B B A. A run's figure is its median step. Printed is the difference of the two arms
with its 95 % interval over pairs, beside what runs of one arm differ by among themselves.

    pip install -e '.[jax]'
    python benchmarks/agent_overhead.py
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from itertools import combinations
from math import exp, log, sqrt
from pathlib import Path
from statistics import mean, median, stdev

WARM_UP = 0.2  # of the steps, which are left out
# fmt: off
T_975 = (
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23,
    2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09,
)
# fmt: on
"""Student's t for a two-sided 95 % by degrees of freedom from 1; 2.09 is used beyond."""


@dataclass(frozen=True, slots=True)
class Run:
    """One process: its median step, and what an annotation around nothing takes in it."""

    step_s: float
    annotation_s: float


def main() -> int:
    """Measure and print, or be the program that is measured."""
    options = parse_options()
    if options.worker:
        print(json.dumps(work(options.steps)))
        return 0
    if find_spec("jax") is None:
        print("error: not installed: jax\n  next: pip install -e '.[jax]'", file=sys.stderr)
        return 2
    print(
        f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} before, "
        f"python {platform.python_version()}, jax {version('jax')}"
    )
    arms: tuple[list[Run], list[Run]] = ([], [])
    for block in range(options.blocks):
        for agent in (False, True, True, False) if block % 2 == 0 else (True, False, False, True):
            arms[agent].append(measure(options.steps, agent=agent))
        print(f"block {block + 1} of {options.blocks}", file=sys.stderr)
    print(as_text(*arms))
    return 0


def parse_options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--blocks", type=int, default=5, help="of four processes each")
    parser.add_argument("--steps", type=int, default=1000, help="in each process")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def work(steps: int) -> dict[str, float]:
    """The program: a step of a few milliseconds, annotated as trainers do it."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def step(x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ x) / 512

    x = jnp.ones((512, 512))
    seconds: list[float] = []
    for index in range(steps):
        began = time.perf_counter()
        with jax.profiler.StepTraceAnnotation("train", step_num=index):
            x = step(x).block_until_ready()
        seconds.append(time.perf_counter() - began)
    began = time.perf_counter()
    for index in range(10_000):
        with jax.profiler.StepTraceAnnotation("train", step_num=index):
            pass
    annotation_s = (time.perf_counter() - began) / 10_000
    return {"step_s": median(seconds[int(steps * WARM_UP) :]), "annotation_s": annotation_s}


def measure(steps: int, *, agent: bool) -> Run:
    """One fresh process. With the agent, no window is to come any more."""
    from counterpoint.capture.environment import AGENT  # not in the process that is measured
    from counterpoint.core.injection import injected

    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    with tempfile.TemporaryDirectory() as rank:
        if agent:
            environment |= {
                **injected({}, AGENT),
                "COUNTERPOINT_AGENT_DIR": rank,
                "COUNTERPOINT_AGENT_WINDOW": json.dumps({"profile": False}),
            }
        done = subprocess.run(
            [sys.executable, __file__, "--worker", "--steps", str(steps)],
            env=environment,
            stdout=subprocess.PIPE,
            check=True,
        )
        written = sorted(path.name.partition("-")[0] for path in Path(rank).glob("agent/*.json*"))
        if agent and written != ["compiles", "process", "steps"]:
            raise RuntimeError(f"the agent was not there: it wrote {written}")
    return Run(**json.loads(done.stdout))


def as_text(without: Sequence[Run], with_agent: Sequence[Run]) -> str:
    """The difference, and the noise it is to be held against."""
    plain = [run.step_s for run in without]
    agent = [run.step_s for run in with_agent]
    ratios = [log(b / a) for a, b in zip(plain, agent, strict=True)]
    centre = mean(ratios)
    reach = T_975[min(len(ratios) - 1, len(T_975)) - 1] * stdev(ratios) / sqrt(len(ratios))
    annotation = [1e9 * median(it.annotation_s for it in arm) for arm in (without, with_agent)]
    low, high = percent(centre - reach), percent(centre + reach)
    pairs = f"95 % interval {low} to {high}, {len(ratios)} pairs"
    return "\n".join(
        [
            f"step without the agent   {spread(plain)}",
            f"step with the agent      {spread(agent)}",
            f"difference               {percent(centre)} ({pairs})",
            f"two runs without it      differ by {100 * typical(plain):.2f} %, median of all pairs",
            f"two runs with it         differ by {100 * typical(agent):.2f} %",
            f"an annotation alone      {annotation[0]:.0f} ns without, {annotation[1]:.0f} ns with",
        ]
    )


def spread(runs: Sequence[float]) -> str:
    """A median with its reach."""
    least, most = 1e6 * min(runs), 1e6 * max(runs)
    return f"{1e6 * median(runs):8.1f} us ({least:.1f} to {most:.1f} in {len(runs)} runs)"


def percent(log_ratio: float) -> str:
    """A ratio as the change it is."""
    return f"{100 * (exp(log_ratio) - 1):+.2f} %"


def typical(runs: Sequence[float]) -> float:
    """What two runs of one arm differ by, as a share."""
    return median(abs(log(a / b)) for a, b in combinations(runs, 2))


if __name__ == "__main__":
    sys.exit(main())
