"""`counterpoint explain` and `counterpoint explain-code`."""

from __future__ import annotations

import json as encoder
import sys
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from counterpoint.cli.output import MaybeWholeNumber, WholeNumber
from counterpoint.cli.profiles import (
    as_typed,
    check_options,
    device_numbers,
    find_run,
    read_and_analyze,
    write_answer,
)
from counterpoint.core import UsageError
from counterpoint.core.rules import DocumentedRule, as_text, find_rule, read_page, similar_codes
from counterpoint.diagnose import Grouping
from counterpoint.diagnose import explain as explain_timeline
from counterpoint.diagnose.rules import RULES as STEP_RULES
from counterpoint.doctor.checks import CHECKS
from counterpoint.doctor.cluster import CLUSTER_CHECKS
from counterpoint.flags.rules import RULES as FLAG_RULES
from counterpoint.hardware.targets import parse_target
from counterpoint.report.explain import explain_document, explain_json


def explain(  # noqa: PLR0913 - the options of the command
    *paths: str,
    step: MaybeWholeNumber = None,
    device: str | None = None,
    target: str | None = None,
    top: WholeNumber = 10,
    by: Grouping | None = None,
    jobs: MaybeWholeNumber = None,
    json: Annotated[bool, Parameter(show_default=False)] = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    force: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Explain where the time of a training step goes.

    Args:
        paths: A Run, file, log directory, zip, pattern or URL; several are the hosts of one run.
        step: Explain only this step.
        device: Explain only these devices: numbers separated by commas, e.g. 0,1.
        target: The machine it ran on, e.g. 8xH100 or 64x8xH100:8x400G; determines the link rates.
        top: Rows in each table.
        by: Group ops by scope (layers of one kind together), source line or category, or list each
            op; by default the finest grouping whose rows cover most of the step.
        jobs: Number of hosts to read in parallel; by default one per core for large profiles.
        json: Print everything as JSON.
        out: Write to this file: .json as JSON, .txt or .md as text.
        force: Overwrite the file.
    """
    devices = device_numbers(device)
    check_options(paths, top, out, "explain", json=json, force=force)
    run = find_run(paths)
    machine = None if target is None else parse_target(target)
    explanation = read_and_analyze(
        paths,
        lambda timeline: explain_timeline(
            timeline, step=step, devices=devices, run=run, target=machine
        ),
        jobs,
        "explaining",
    )
    write_answer(
        lambda: explain_document(explanation, top, run, as_typed(paths), by),
        lambda: explain_json(explanation, run),
        out,
        json=json,
    )


SCHEMA = "counterpoint.explain-code/1"
RULES: Final[tuple[DocumentedRule, ...]] = (*FLAG_RULES, *STEP_RULES, *CHECKS, *CLUSTER_CHECKS)
"""All rules of all commands."""


def explain_code(
    code: str | None = None,
    *,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Explain a rule: what it finds, why it matters, and how to fix it.

    Args:
        code: A code of `explain` (STEP101), `flags check` (FLAG102) or `doctor` (DOC101), or the
            name of a rule; by default all rules are listed.
        json: Print it as JSON.
    """
    if code is None:
        pages = [read_page(rule) for rule in RULES]
    else:
        rule = find_rule(RULES, code)
        if rule is None:
            near = ", ".join(similar_codes(RULES, code))
            raise UsageError(
                f"{code}: unknown code",
                why=f"similar: {near}" if near else "codes are FLAG, STEP or DOC and three digits",
                next="counterpoint explain-code",
            )
        pages = [read_page(rule)]
    if json:
        rules = [
            {
                "code": page.code,
                "name": page.name,
                "since": page.since,
                "title": page.title,
                "sections": dict(page.sections),
            }
            for page in pages
        ]
        sys.stdout.write(encoder.dumps({"schema": SCHEMA, "rules": rules}, indent=2) + "\n")
    elif code is None:
        for page in pages:
            print(f"{page.code}  {page.name:<24}  {page.title}")
    else:
        print(as_text(pages[0]), end="")
