"""Pages of results (`--html`, `counterpoint view`): loaded only where one is wanted."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint import __version__
from counterpoint.cli.output import write_output
from counterpoint.cli.printing import say_wrote
from counterpoint.view.page import PageContent, one_file, predicted_steps, side_by_side, title_of

if TYPE_CHECKING:
    from counterpoint.diagnose.compare.comparison import Comparison
    from counterpoint.diagnose.explanation import Explanation
    from counterpoint.hardware.target import Target
    from counterpoint.report.document import Document
    from counterpoint.runs.run import Run
    from counterpoint.timeline.model import Timeline
    from counterpoint.tune.arm import Arm
    from counterpoint.tune.conclusion import Conclusion
    from counterpoint.workflow.prediction import Prediction
    from counterpoint.workflow.upgrade import Upgrade

_SECRET: Final = re.compile(
    r"^((?:--env=)?\w*(?:TOKEN|SECRET|PASSWORD|CREDENTIAL|API_?KEY|_KEY)\w*=).+", re.IGNORECASE
)
"""A page is made to be sent to others: the command that it shows may name variables."""


def write_page(content: PageContent, path: Path, *, full: bool = False) -> None:
    """Write a page as one file."""
    write_output(path, one_file(content, full=full))
    say_wrote(path)


def page_of(
    title: str,
    documents: Mapping[str, Document],
    results: Mapping[str, str],
    timelines: Sequence[Timeline] = (),
    step: int | None = None,
) -> PageContent:
    """Return a page of documents by their titles, and JSON results by their commands.

    `step` is the one that was to be explained; None: a typical one.
    """
    words = [_SECRET.sub(r"\1...", word) for word in sys.argv[1:]]
    markup: list[tuple[str, str]] = []
    if documents:
        from counterpoint.report.markup import document_markup

        markup = [(name, document_markup(it)) for name, it in documents.items()]
    return PageContent(
        title=title,
        command=shlex.join(["counterpoint", *words]),
        version=__version__,
        reports=tuple(markup),
        results=dict(results),
        timelines=tuple(timelines),
        step=step,
    )


def explained_page(
    timeline: Timeline,
    explanation: Explanation,
    document: Document,
    text: str,
    paths: Sequence[str],
    run: Run | None,
    target: Target | None,
) -> PageContent:
    """Return the page of `explain`: its report and JSON, and the step's use of the network.

    `paths` are the inputs as the user named them.
    """
    from counterpoint.diagnose.network.analysis import analyze_network
    from counterpoint.report.explain.network_document import network_document
    from counterpoint.report.explain.network_json import network_json

    network = analyze_network(
        timeline,
        step=explanation.step,
        devices=explanation.selected_devices,
        run=run,
        target=target,
    )
    return page_of(
        title_of(paths),
        {"explain": document, "network": _here(network_document(network, _ROWS, paths))},
        {"explain": text, "network": network_json(network)},
        [timeline],
        explanation.step,
    )


_ROWS: Final = 20


def _here(document: Document) -> Document:
    """Leave out the next command: it would show this page."""
    return replace(document, next="")


def compared_page(found: Comparison, document: Document, text: str) -> PageContent:
    """Return the page of `compare`, with the Timelines of both sides if they have one."""
    timelines = [side.timeline for side in (found.a, found.b) if side.timeline is not None]
    title = f"{title_of([found.a.name])} and {title_of([found.b.name])}"
    return page_of(title, {"compare": document}, {"compare": text}, timelines)


def upgraded_page(found: Upgrade, document: Document, text: str) -> PageContent:
    """Return the page of `upgrade`, with the simulated steps of both sides."""
    title = f"{found.workload}, {found.before.name} to {found.after.name}"
    timelines = [side.forecast.simulation.timeline for side in (found.before, found.after)]
    return page_of(title, {"upgrade": document}, {"upgrade": text}, timelines)


def predicted_page(prediction: Prediction, document: Document, text: str) -> PageContent:
    """Return the page of `predict`: the predicted step, its network, the best candidate."""
    from counterpoint.diagnose.network.analysis import analyze_network
    from counterpoint.report.explain.network_document import network_document
    from counterpoint.report.explain.network_json import network_json

    network = analyze_network(prediction.timeline, target=prediction.target)
    timelines, compared = predicted_steps(prediction)
    return page_of(
        f"{prediction.workload} on {prediction.target}",
        {"predict": document, "network": _here(network_document(network, _ROWS))},
        {"predict": text, "network": network_json(network), **compared},
        timelines,
    )


def study_page(
    conclusion: Conclusion, directory: Path, top: int, next: str, arm: Arm | None = None
) -> PageContent:
    """Return the page of `tune show`, with the predicted steps of the base and of an arm.

    `arm` is the one to be shown; by default the winner, or else the fastest whose step is kept.
    """
    from counterpoint.report.tune.tune_document import tune_document
    from counterpoint.report.tune.tune_json import tune_json

    documents = {"tune show": tune_document(conclusion, directory, top, next)}
    timelines, compared = side_by_side(islice(_kept_steps(conclusion, directory, arm), 2))
    results = {"tune": tune_json(conclusion, directory), **compared}
    title = f"study {directory.resolve().name}"
    return page_of(title, documents, results, timelines)


def _kept_steps(
    conclusion: Conclusion, directory: Path, wanted: Arm | None
) -> Iterator[tuple[str, Timeline]]:
    """Yield predicted steps that the study kept: the base's, the wanted arm's or the best first."""
    from counterpoint.flags.settings import environment
    from counterpoint.timeline.reading import read
    from counterpoint.tune.study import step_path

    best = wanted or conclusion.winner
    found: dict[Path, tuple[tuple[bool, bool, float], Arm]] = {}
    for arm in (row.arm for row in conclusion.rows):
        if arm.predicted and (wanted is None or arm.is_base or arm.name == wanted.name):
            rank = not arm.is_base, best is None or arm.name != best.name, arm.predicted.step_s
            path = step_path(directory, arm.predicted)
            if path not in found or rank < found[path][0]:
                found[path] = rank, arm
    for path in sorted(filter(Path.is_dir, found), key=lambda path: found[path][0]):
        arm = found[path][1]
        yield arm.name, replace(read(path), environment=environment(arm.settings, {}))
