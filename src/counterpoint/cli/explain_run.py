"""The work of `counterpoint explain`, without slow imports such as cyclopts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoint.cli.profiles import (
    as_typed,
    check_options,
    device_numbers,
    find_run,
    read_and_analyze,
    write_answer,
)
from counterpoint.core.stopwatch import Stopwatch
from counterpoint.diagnose import explain as explain_timeline
from counterpoint.report.explain import explain_document
from counterpoint.timeline.step_range import step_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from counterpoint.diagnose import Explanation, Grouping
    from counterpoint.hardware import Target
    from counterpoint.runs import Run


def run(  # noqa: PLR0913 - the options of the command
    paths: tuple[str, ...] = (),
    *,
    step: int | None = None,
    steps: str | None = None,
    last: int | None = None,
    device: str | None = None,
    target: str | None = None,
    top: int = 10,
    by: Grouping | None = None,
    jobs: int | None = None,
    memory: float | None = None,
    timings: bool = False,
    json: bool = False,
    out: Path | None = None,
    force: bool = False,
) -> None:
    """Explain the profiles, and print or write the result."""
    devices = device_numbers(device)
    step_range(steps, last, step)
    check_options(paths, top, out, "explain", json=json, force=force)
    recorded = find_run(paths)
    machine = None if target is None else _target(target)
    stopwatch = Stopwatch(time.perf_counter)
    with stopwatch.measure("reading"):
        explanation = read_and_analyze(
            paths,
            lambda timeline: explain_timeline(
                timeline,
                step=step,
                devices=devices,
                run=recorded,
                target=machine,
                stopwatch=stopwatch,
            ),
            "explaining",
            jobs=jobs,
            memory_gb=memory,
            steps=steps,
            last=last,
        )
    spent = stopwatch.spent if timings else None
    write_answer(
        lambda: explain_document(explanation, top, recorded, as_typed(paths), by, spent),
        lambda: _as_json(explanation, recorded, spent),
        out,
        json=json,
    )


def _target(text: str) -> Target:
    from counterpoint.hardware.targets import parse_target

    return parse_target(text)


def _as_json(
    explanation: Explanation, recorded: Run | None, spent: Mapping[str, float] | None
) -> str:
    from counterpoint.report.explain import explain_json

    return explain_json(explanation, recorded, spent)
