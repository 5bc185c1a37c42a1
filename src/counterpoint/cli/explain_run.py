"""The work of `counterpoint explain`, without slow imports such as cyclopts."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpoint.cli.output import check_digest, check_page
from counterpoint.cli.profiles import (
    as_typed,
    check_options,
    device_numbers,
    find_run,
    read_and_analyze,
    recorded_on,
    write_answer,
    write_digest,
)
from counterpoint.core import UsageError
from counterpoint.core.arguments import Retry, option_of
from counterpoint.core.stopwatch import Stopwatch
from counterpoint.diagnose import explain as explain_timeline
from counterpoint.timeline.step_range import step_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from counterpoint.diagnose import Explanation, Grouping
    from counterpoint.report import Document
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
    as_: str | None = None,
    budget: int | None = None,
    out: Path | None = None,
    html: Path | None = None,
    full: bool = False,
    force: bool = False,
    **fleet: Any,  # noqa: ANN401 - the options of explain_fleet
) -> None:
    """Explain the profiles, and print or write the result."""
    if _is_of_fleet(locals() | fleet):
        return
    devices = device_numbers(device)
    step_range(steps, last, step)
    check_options(paths, top, out, "explain", json=json, force=force)
    check_page(html, full=full, force=force)
    size = check_digest(as_, budget, json=json, out=out)
    recorded, machine = find_run(paths), recorded_on(target)
    stopwatch = Stopwatch(time.perf_counter)
    analyze = partial(explain_timeline, step=step, devices=devices, run=recorded, target=machine)
    with stopwatch.measure("reading"):
        explanation, timeline = read_and_analyze(
            paths,
            lambda whole: (analyze(whole, stopwatch=stopwatch), html and whole),
            "explaining",
            jobs=jobs,
            memory_gb=memory,
            steps=steps,
            last=last,
        )
    spent = stopwatch.spent if timings else None
    named = as_typed(paths)
    document = partial(_as_document, explanation, top, recorded, named, by, spent)
    text = partial(_as_json, explanation, recorded, spent)
    if html is not None and timeline is not None:
        from counterpoint.cli.pages import explained_page, write_page

        page = explained_page(timeline, explanation, document(), text(), (named, recorded, machine))
        write_page(page, html, full=full)
        if out is None and not json and size is None:
            return
    if size is None:
        write_answer(document, text, out, json=json)
    else:
        write_digest(_as_digest(explanation, recorded, named, size), out)


def _is_of_fleet(given: Mapping[str, Any]) -> bool:
    """Return whether the hosts were reduced to digests, which is another way to explain them."""
    if given.get("executor") is None:
        for name in ("ray_address", "topology", "digest", "strict"):
            if given.get(name):
                raise UsageError(
                    f"{option_of(name)} needs --executor", next=Retry({"executor": "local"})
                )
        return False
    from counterpoint.cli.explain_fleet import OPTIONS, run_fleet

    others = {name: value for name, value in given.items() if name not in OPTIONS}
    own: dict[str, Any] = {name: given.get(name) for name in OPTIONS}
    run_fleet(**own, others=others)
    return True


def _as_document(
    explanation: Explanation,
    top: int,
    recorded: Run | None,
    named: tuple[str, ...],
    by: Grouping | None,
    spent: Mapping[str, float] | None,
) -> Document:
    from counterpoint.report.explain import explain_document

    return explain_document(explanation, top, recorded, named, by, spent)


def _as_digest(
    explanation: Explanation, recorded: Run | None, paths: tuple[str, ...], size: int
) -> str:
    from counterpoint.report.explain import explain_digest

    return explain_digest(explanation, recorded, paths).text(size)


def _as_json(
    explanation: Explanation, recorded: Run | None, spent: Mapping[str, float] | None
) -> str:
    from counterpoint.report.explain import explain_json

    return explain_json(explanation, recorded, spent)
