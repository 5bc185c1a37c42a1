"""Tracker: what a client gets, and where it is found; the errors of clients, without secrets."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from counterpoint.core import CounterpointError, InputError, UsageError
from counterpoint.core.printable import printable
from counterpoint.core.scratch import scratch_directory
from counterpoint.report.summary import FINDING_COLUMNS, Summary

TrackerName: TypeAlias = Literal["wandb", "tensorboard", "mlflow", "trackio"]
TRACKERS: Final[Mapping[TrackerName, tuple[str, ...]]] = {
    "wandb": ("wandb",),
    "tensorboard": ("tensorboardX", "tensorboard"),
    "mlflow": ("mlflow",),
    "trackio": ("trackio",),
}
"""The clients of each tracker, by their modules; the first that is installed is used."""
_TO_INSTALL: Final = {"tensorboard": "tensorboard"}
_NAMED_SECRET: Final = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|KEY)(?:$|_)"
)
_USER: Final = re.compile(r"(?<=://)[^/\s:@]+(:[^/\s@]*)?@")
_SHORTEST: Final = 8
"""Shorter values are hardly secrets, and may be words that occur everywhere, like `true`."""
HIDDEN: Final = "<hidden>"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LINES: Final = 3
PREFIX: Final = "counterpoint/"
PROJECT: Final = "counterpoint"
FIGURE_COLUMNS: Final = ("number", "value", "unit", "basis", "meaning")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedResult:
    """The logged result: the numbers and findings, and the page of the result if there is one.

    The page has no secrets: whoever makes it hides them in its texts (`hide_secrets`).
    """

    summary: Summary
    page: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The place of a logged result; None: by the tracker's variables, or a new run.

    `directory` is where TensorBoard's event file is written.
    """

    project: str | None = None
    run_id: str | None = None
    directory: Path | None = None


class Tracker(Protocol):
    """A module that logs a result, and returns the place where it is."""

    def log(self, client: Any, result: LoggedResult, to: Destination) -> str: ...  # noqa: ANN401


def require_client(tracker: TrackerName) -> str:
    """Return the name of the installed client; raise an error with the command that installs it."""
    for name in TRACKERS[tracker]:
        if importlib.util.find_spec(name) is not None:
            return name
    wanted = _TO_INSTALL.get(tracker, tracker)
    clients = " or ".join(TRACKERS[tracker])
    raise UsageError(
        f"{tracker}: its client is not installed here ({clients}, in {sys.prefix})",
        why="Counterpoint uses the tracker's own client, which is installed separately",
        next=f"{sys.executable} -m pip install {wanted}",
    )


def log_result(tracker: TrackerName, result: LoggedResult, to: Destination) -> str:
    """Log the result, and return the place where it is.

    Whatever goes wrong in the client is a CounterpointError.
    """
    name = require_client(tracker)
    module = cast("Tracker", importlib.import_module(f"counterpoint.trackers.{tracker}"))
    try:
        with contextlib.redirect_stdout(sys.stderr):  # clients greet there, and ours is a result
            place = module.log(importlib.import_module(name), _without_secrets(result), to)
    except CounterpointError:
        raise
    except (Exception, SystemExit) as failure:  # noqa: BLE001 - a client fails in any way
        raise InputError(
            f"can't log to {tracker}: {_said(failure)}", next=_next_after(failure, tracker)
        ) from None
    return hide_secrets(place)


def _next_after(failure: BaseException, tracker: str) -> str | None:
    if tracker == "wandb" and "api" in str(failure).lower() and "key" in str(failure).lower():
        return "wandb login   # or, without a network: export WANDB_MODE=offline"
    return None


def _said(failure: BaseException) -> str:
    lines = [line.strip() for line in hide_secrets(str(failure)).splitlines() if line.strip()]
    return printable(f"{type(failure).__name__}: {' '.join(lines[:_LINES])}".rstrip(": "))


def _without_secrets(result: LoggedResult) -> LoggedResult:
    summary = result.summary
    findings = tuple(
        cast("Any", tuple(hide_secrets(it) if isinstance(it, str) else it for it in row))
        for row in summary.findings
    )
    hidden = replace(summary, title=hide_secrets(summary.title), findings=findings)
    return replace(result, summary=hidden)


def hide_secrets(text: str) -> str:
    """Return the text without values of variables with secret names, and passwords in URLs.

    Values are also found in the form that they have in JSON.
    """
    for value in sorted(_secrets(), key=len, reverse=True):
        for written in {value, json.dumps(value)[1:-1]}:
            text = text.replace(written, HIDDEN)
    return _USER.sub(f"{HIDDEN}@", text)


def _secrets() -> Iterator[str]:
    for name, value in os.environ.items():
        if _NAMED_SECRET.search(name.upper()) and len(value) >= _SHORTEST:
            yield value


def safe_name(title: str) -> str:
    """Return a title as a name that every tracker and file system takes."""
    return _UNSAFE.sub("-", title).strip("-.") or "result"


@contextlib.contextmanager
def page_file(page: str) -> Generator[Path]:
    """Write the page to a file that lives as long as the context."""
    with scratch_directory("log") as scratch:
        path = scratch / "report.html"
        path.write_text(page, encoding="utf-8")
        yield path


def figure_rows(summary: Summary) -> list[list[Any]]:
    """Return the numbers as rows with FIGURE_COLUMNS."""
    return [[it.name, it.value, it.unit, it.basis, it.meaning] for it in summary.figures]


def finding_rows(summary: Summary) -> list[list[Any]]:
    """Return the findings as rows with FINDING_COLUMNS."""
    return [[*row] for row in summary.findings]


def findings_markdown(summary: Summary) -> str:
    """Return the findings as a table of Markdown."""

    def cell(value: object) -> str:
        text = "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
        return printable(text).replace("|", "\\|")

    rows = [FINDING_COLUMNS, ("---",) * len(FINDING_COLUMNS), *summary.findings]
    return "\n".join("| " + " | ".join(map(cell, row)) + " |" for row in rows)


def figures_markdown(summary: Summary) -> str:
    """Return the numbers as a table of Markdown, each with its unit and basis."""
    head = ("| number | value | unit | basis | meaning |", "| --- | --- | --- | --- | --- |")
    rows = (
        f"| {it.name} | {it.value:.6g} | {it.unit} | {it.basis} | {it.meaning} |"
        for it in summary.figures
    )
    return "\n".join((*head, *rows))
