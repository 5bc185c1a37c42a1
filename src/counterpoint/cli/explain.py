"""`counterpoint explain`: where a step goes, on one host or on many."""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

from counterpoint.cli.options import (
    Digest,
    FleetOptions,
    Machine,
    Output,
    Reading,
    Selection,
    Top,
    need_executor,
)
from counterpoint.cli.profiles import (
    as_typed,
    check_paths,
    find_run,
    read_and_analyze,
    recorded_on,
    write_answer,
    write_digest,
)
from counterpoint.core.stopwatch import Stopwatch
from counterpoint.diagnose.explanation import explain as explain_timeline
from counterpoint.diagnose.grouping import Grouping


def explain(  # noqa: PLR0913 - the options of the command
    *paths: str,
    selection: Selection = Selection(),
    target: Machine = None,
    top: Top = 10,
    by: Grouping | None = None,
    reading: Reading = Reading(),
    timings: bool = False,
    short: Digest = Digest(),
    output: Output = Output(),
    fleet: FleetOptions = FleetOptions(),
    topology: Path | None = None,
    extracts: Path | None = None,
) -> None:
    """Explain where the time of a training step goes.

    Args:
        paths: A Run, file, log directory, zip, pattern or URL; several are the hosts of one run.
        by: Group ops by scope (layers of one kind together), source line or category, or list each
            op; by default the finest grouping whose rows cover most of the step.
        timings: Also show how long this command took for reading, each table and each rule.
        topology: With --executor: a CSV with the columns host, rack and pod.
        extracts: With --executor: also write the extracts to this .extract.parquet file.
    """
    check_paths(paths, top, "explain")
    output.check()
    if executor := fleet.chosen(reading.jobs):
        from counterpoint.cli.explain_fleet import explain_fleet, refuse_of_one

        of_one = {"target": target, "by": by, "full": output.page.full}
        refuse_of_one(asdict(selection) | of_one | asdict(short))
        explain_fleet(
            paths,
            executor,
            reading.memory,
            top,
            output,
            strict=fleet.strict,
            topology=topology,
            extracts=extracts,
        )
        return
    need_executor({"topology": topology, "extracts": extracts})
    selection.check()
    size = short.size(json=output.json, out=output.out)
    from counterpoint.report.explain.explain_digest import explain_digest
    from counterpoint.report.explain.explain_document import explain_document
    from counterpoint.report.explain.explain_json import explain_json

    run, machine = find_run(paths), recorded_on(target)
    stopwatch = Stopwatch(time.perf_counter)
    with stopwatch.measure("reading"):
        explanation, timeline = read_and_analyze(
            paths,
            lambda whole: (
                explain_timeline(
                    whole,
                    step=selection.step,
                    devices=selection.devices,
                    run=run,
                    target=machine,
                    stopwatch=stopwatch,
                ),
                whole if output.page.html else None,
            ),
            "explaining",
            selection,
            reading,
        )
    spent = stopwatch.spent if timings else None
    named = as_typed(paths)
    document = partial(explain_document, explanation, top, run, named, by, spent)
    text = partial(explain_json, explanation, run, spent)
    if output.page.html is not None and timeline is not None:
        from counterpoint.cli.pages import explained_page

        page = explained_page(timeline, explanation, document(), text(), named, run, machine)
        output.page.write(page)
        if output.is_page_alone and size is None:
            return
    if size is None:
        write_answer(document, text, output)
    else:
        write_digest(explain_digest(explanation, run, named).text(size), output.out)
