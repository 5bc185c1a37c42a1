"""What the programs share: how they are profiled, and the stopwatch that knows the truth.

A program is a plain training loop. It tells the recorder when a step begins and, around the trouble
that is built in, that time is lost. The recorder starts and stops the profile at the steps it was
told, and in the end writes what each step took and lost.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax

from counterpoint import StepProfiler

WAYS = (
    "markers",  # jax.profiler.start_trace, StepTraceAnnotation, the Python tracer
    "plain",  # the same without markers
    "nopython",  # markers, but no Python tracer
    "host1",  # markers, host_tracer_level=1, no Python tracer
    "host3",  # markers, all that the host tracer has
    "perfetto",  # markers; only trace.json.gz is read
    "unnumbered",  # markers without step_num
    "profiler",  # counterpoint.StepProfiler
    "run",  # counterpoint run, markers in the program
    "run-plain",  # counterpoint run, no markers
    "run-python",  # counterpoint run --profile-python
    "none",  # no profile, only the stopwatch
    "gpu",  # written by programs/made.py, as CUPTI's collector writes it
    "tpu",  # written, as libtpu writes it
)
_OTHERS = ("profiler", "run", "run-plain", "run-python", "none", "gpu", "tpu")
"""Ways in which the recorder itself starts no profile."""


@dataclass
class Recorder:
    """Profiles `count` steps of a loop from step `first` on, and measures all of them."""

    way: str
    out: Path
    fixed: bool = False  # run without the trouble
    steps: int = 24
    first: int = 8
    count: int = 12
    began: list[float] = field(default_factory=list)
    ended: dict[int, float] = field(default_factory=dict)  # steps that something else follows
    lost: list[float] = field(default_factory=list)
    profiler: Any = None

    def at(self, step: int) -> None:
        """Note that a step begins."""
        if self.way not in _OTHERS:
            if step == self.first:
                self._start()
            if step == self.first + self.count:
                jax.profiler.stop_trace()
        self.began.append(time.perf_counter())
        self.lost.append(0.0)
        if self.way == "profiler":
            if self.profiler is None:
                where = self.out / "profile"
                self.profiler = StepProfiler(self.first, self.count, log_dir=where)
            self.profiler.on_step(step)

    def over(self) -> None:
        """Note that the step ends here, and what follows until the next one is none of it."""
        self.ended[len(self.began) - 1] = time.perf_counter()

    def __iter__(self) -> Iterator[int]:
        """Yield the steps of a loop that needs nothing between `at` and its own work."""
        for step in range(self.steps):
            self.at(step)
            yield step
        self.finish()

    def marker(self, step: int, name: str = "train") -> AbstractContextManager[Any]:
        """Mark a step as the way of profiling has it."""
        if self.way in ("plain", "run-plain", "profiler", "none"):
            return contextlib.nullcontext()
        if self.way == "unnumbered":
            return jax.profiler.TraceAnnotation(name)
        return jax.profiler.StepTraceAnnotation(name, step_num=step)

    @contextlib.contextmanager
    def loss(self) -> Iterator[None]:
        """Measure a time that the step loses."""
        began = time.perf_counter()
        yield
        self.lost[-1] += time.perf_counter() - began

    def finish(self) -> None:
        """End the loop: write what the steps took and lost, in milliseconds."""
        self.began.append(time.perf_counter())
        if self.way == "profiler":
            self.profiler.close()
        elif self.way not in _OTHERS and len(self.began) - 1 <= self.first + self.count:
            jax.profiler.stop_trace()
        truth = {
            "steps": [
                (self.ended.get(step, end) - start) * 1e3
                for step, (start, end) in enumerate(pairwise(self.began))
            ],
            "lost": [seconds * 1e3 for seconds in self.lost],
            "profiled": [self.first, self.first + self.count],
        }
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "truth.json").write_text(json.dumps(truth))

    def _start(self) -> None:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0 if self.way in ("nopython", "host1", "host3") else 1
        if self.way in ("host1", "host3"):
            options.host_tracer_level = int(self.way[-1])
        jax.profiler.start_trace(
            self.out / "profile",
            create_perfetto_trace=self.way == "perfetto",
            profiler_options=options,
        )
