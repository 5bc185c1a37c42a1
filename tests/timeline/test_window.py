"""Of a large XPlane capture with markers, other steps than the wanted are left out when read.

What is then said of the wanted ones is what the whole capture says of them, or it is read whole.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xspace_builder import (
    US,
    Module,
    Plane,
    cpu_op,
    hlo_proto,
    host,
    kernel,
    metadata,
    nvidia,
    step_marker,
    xspace,
)

import counterpoint
from counterpoint.diagnose.explanation import explain
from counterpoint.report.explain.explain_json import explain_json
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.xplane import reader

STEP: Module = ("jit_step", 7)
EVAL: Module = ("jit_eval", 8)
HLO = {"fusion.1": "fusion", "all-reduce.1": "all-reduce"}
STEPS = 40
EVERY = 100 * US


class Loop:
    """A training loop on two virtual devices, whose thread marks each step."""

    def __init__(self) -> None:
        self.threads = host()

    def mark(self, step: int, number: int | None = None) -> None:
        start = self.at(step)
        shown = step if number is None else number
        step_marker(self.threads, "python", shown, start, EVERY - 10 * US)
        self.threads.add("python", "PjitFunction(step)", start + US, 2 * US)

    def at(self, step: int) -> int:
        return 1000 * US + step * EVERY

    def work(self, step: int, late: int = 0, module: Module = STEP, run: int | None = None) -> None:
        for device in range(2):
            start = self.at(step) + (4 + device) * US + late
            key = step if run is None else run
            thread = f"worker {device}"
            for op, begin, took in (
                ("fusion.1", start, (20 + step % 7) * US),
                ("all-reduce.1", start + 30 * US, 9 * US),
            ):
                cpu_op(self.threads, thread, op, begin, took, module=module, run=key, device=device)

    def bytes(self, *more: Plane) -> bytes:
        programs = {STEP: hlo_proto("jit_step", HLO), EVAL: hlo_proto("jit_eval", HLO)}
        # Threads with few events are looked at for markers: this one has many.
        for turn in range(30 * STEPS):
            self.threads.add("busy", "waiting", 1000 * US + turn * US, US // 2)
        return xspace(*more, self.threads, metadata(programs))


def waiting() -> bytes:
    loop = Loop()
    for step in range(STEPS):
        loop.mark(step)
        loop.work(step)
    return loop.bytes()


def evaluating() -> bytes:
    """Between some steps another program runs outside of markers."""
    return _evaluating(EVAL, 2)


def evaluating_at_the_end() -> bytes:
    """The same also after the last step, which it ends."""
    return _evaluating(EVAL, 4)


def evaluating_by_the_step() -> bytes:
    """The same by the program of the step, which then ends steps."""
    return _evaluating(STEP, 4)


def _evaluating(module: Module, turn: int) -> bytes:
    loop = Loop()
    for step in range(STEPS):
        if step % 5 == turn:
            name = module[0].removeprefix("jit_")
            loop.threads.add("python", f"PjitFunction({name})", loop.at(step) + US, 2 * US)
            loop.work(step, module=module, run=1000 + step)
        else:
            loop.mark(step)
            loop.work(step)
    return loop.bytes()


def another_program() -> bytes:
    """An evaluation takes more time than all steps together."""
    loop = Loop()
    for step in range(STEPS):
        loop.mark(step)
        loop.work(step)
    for turn in range(3 * STEPS):
        loop.work(STEPS + 1 + turn, module=EVAL, run=1000 + turn)
    return loop.bytes()


def ahead() -> bytes:
    """The host does not wait: devices are a step and a half behind."""
    loop = Loop()
    for step in range(STEPS):
        loop.mark(step)
        loop.work(step, late=3 * EVERY // 2)
    return loop.bytes()


def late_once() -> bytes:
    loop = Loop()
    for step in range(STEPS):
        loop.mark(step)
        loop.work(step, late=60 * US if step == 5 else 0)
    return loop.bytes()


def split_run() -> bytes:
    """A run of which each op is in a marker, but not in the same."""
    loop = Loop()
    for step in range(STEPS):
        loop.mark(step)
        loop.work(step, run=5 if step == 6 else None)
    return loop.bytes()


def two_epochs() -> bytes:
    loop = Loop()
    for step in range(STEPS):
        loop.mark(step, number=step % (STEPS // 2))
        loop.work(step)
    return loop.bytes()


def idle_marker() -> bytes:
    """The last marker has no work, as at the end of a profile."""
    loop = Loop()
    for step in range(STEPS):
        loop.mark(step)
        if step < STEPS - 1:
            loop.work(step)
    return loop.bytes()


def on_a_gpu() -> bytes:
    """Kernels do not name their run, and after each step the host reads the loss."""
    loop, gpu = Loop(), nvidia(0)
    for step in range(STEPS):
        loop.mark(step)
        start = loop.at(step) + 5 * US
        stream = "Stream #20(Compute)"
        took = (20 + step % 7) * US
        kernel(gpu, stream, "fusion_1", start, took, op="fusion.1", module=STEP)
        nccl = "ncclDevKernel_AllReduce_Sum"
        kernel(gpu, stream, nccl, start + 40 * US, 9 * US, op="all-reduce.1", module=STEP)
        kernel(gpu, "Stream #21(MemcpyD2H)", "MemcpyD2H", start + 87 * US, US)
    return loop.bytes(gpu)


CAPTURES = {
    "waiting": (waiting, True),
    "evaluating": (evaluating, True),
    "evaluating at the end": (evaluating_at_the_end, False),
    "evaluating by the step": (evaluating_by_the_step, False),
    "on a GPU": (on_a_gpu, True),
    "another program": (another_program, False),
    "ahead": (ahead, False),
    "late once": (late_once, False),
    "split run": (split_run, False),
    "two epochs": (two_epochs, False),
    "idle marker": (idle_marker, False),
}


@pytest.fixture(params=[*CAPTURES])
def capture(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, bool]:
    path = tmp_path / "made.xplane.pb"
    path.write_bytes(made(request.param))
    return path, CAPTURES[request.param][1]


@cache
def made(name: str) -> bytes:
    return CAPTURES[name][0]()


def figures(timeline: Timeline) -> dict[str, Any]:
    return json.loads(explain_json(explain(timeline)))


def assert_same(part: Timeline, whole: Timeline) -> None:
    """Explain both, unless no table differs."""
    if any(not getattr(part, it).equals(getattr(whole, it)) for it in TABLES):
        assert figures(part) == figures(whole)
    assert part.chosen == whole.chosen


TABLES = ("ops", "spans", "runs", "steps", "host_events")


@pytest.mark.parametrize("steps", ["20:24", "20:21", "30:", "10:12", "38:", "39:", "2:5", "0:40"])
def test_a_large_capture_says_what_a_small_one_says(
    capture: tuple[Path, bool], steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = capture
    whole = read(path, steps)
    monkeypatch.setattr(reader, "LARGE", 0)
    part = read(path, steps)
    if isinstance(part, Timeline) and isinstance(whole, Timeline):
        assert_same(part, whole)
    else:
        assert part == whole


def read(path: Path, steps: str) -> Timeline | str:
    try:
        return counterpoint.read(path, steps=steps)
    except counterpoint.UsageError as error:
        return str(error)


@pytest.mark.parametrize("last", [1, 3, 12])
def test_the_last_steps_are_the_same(
    capture: tuple[Path, bool], last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, is_cut = capture
    whole = counterpoint.read(path, last=last)
    monkeypatch.setattr(reader, "LARGE", 0)
    part = counterpoint.read(path, last=last)
    assert_same(part, whole)
    assert part.spans.drop("op", "run").equals(whole.spans.drop("op", "run"))
    # The runs of other steps are known only if their spans were read.
    assert (len(part.runs) < len(whole.runs)) == is_cut
