"""`counterpoint doctor`: find problems of a host before a run starts, or how hosts differ."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.options import Force, Json, OutputPath, Report
from counterpoint.cli.output import check_output, check_page, write_output
from counterpoint.cli.printing import document_text, print_report, write_result
from counterpoint.core import UsageError
from counterpoint.core.rules import DocumentedRule, similar_codes
from counterpoint.doctor import Checkup, merge, report_of
from counterpoint.doctor import compare as compare_reports
from counterpoint.doctor.checks import CHECKS, Check, run_checks
from counterpoint.doctor.gather import gather
from counterpoint.report.doctor import doctor_document, doctor_json, next_command


def doctor(  # noqa: PLR0913 - the options of the command
    *,
    compare: Annotated[tuple[Path, ...] | None, Parameter(consume_multiple=True)] = None,
    dcn: bool = False,
    only: tuple[str, ...] = (),
    skip: tuple[str, ...] = (),
    python: Path | None = None,
    no_probe: bool = False,
    json: Json = False,
    out: OutputPath = None,
    html: Report = None,
    force: Force = False,
) -> int:
    """Check versions, flags, network, limits, clock and GPUs before a run. Exit code 1 on problems.

    Args:
        compare: Instead, compare the reports of several hosts, which --json wrote there.
        dcn: Traffic between hosts uses TCP (multislice, no InfiniBand).
        only: Run only these checks, by name or code: tcp-buffers,DOC5.
        skip: Skip these checks.
        python: The interpreter that runs the program; by default the first one with jaxlib.
        no_probe: Don't check the flags with the installed compiler.
        out: Write the report to this file: .json, .txt or .md.
    """
    check_page(html, force=force)
    if out is not None:
        check_output(out, force=force, endings=(".json", ".txt", ".md"))
    if compare is not None:
        if len(compare) < 2 or only or skip:
            raise UsageError(
                "--compare takes the reports of at least two hosts, and no --only or --skip",
                why="the reports have the verdicts of the checks that were made",
                next="counterpoint doctor --compare node0.json node1.json",
            )
        if twice := next((path for path in compare if compare.count(path) > 1), None):
            raise UsageError(
                f"{twice} is named twice",
                why="one host would count as two, which do not differ",
                next="counterpoint doctor --compare node0.json node1.json",
            )
        checkup = compare_reports(compare)
    else:
        checks = _selected(_checked_words(only, "--only"), _checked_words(skip, "--skip"))
        facts = gather(os.environ, python=python, probe=not no_probe, dcn=dcn)
        checkup = merge([report_of(facts, run_checks(facts, checks))])
    if html is not None:
        _write_page(checkup, html)
    if html is None or out is not None or json:
        _print(checkup, out, as_json=json)
    return int(checkup.failed)


def _selected(only: Sequence[str], skip: Sequence[str]) -> tuple[Check, ...]:
    """Return the checks that `only` selects, all by default, without those that `skip` selects.

    To run none would report success.
    """
    selected = tuple(
        check
        for check in CHECKS
        if (not only or _matches(check, only)) and not _matches(check, skip)
    )
    if not selected:
        raise UsageError(
            "--only and --skip select no check",
            next="counterpoint doctor --only tcp-buffers,DOC5",
        )
    return selected


def _checked_words(texts: Sequence[str], option: str) -> tuple[str, ...]:
    """Return the names, codes and code prefixes of an option, each of which selects a check."""
    given = [part.strip() for text in texts for part in text.split(",")]
    words = tuple(word.lower() for word in given)
    for typed, word in zip(given, words, strict=True):
        if not any(_matches(rule, (word,)) for rule in CHECKS):
            near = similar_codes(CHECKS, word)
            raise UsageError(
                f"{option} {typed}: no such check",
                why=f"the checks are {', '.join(rule.NAME for rule in CHECKS)}",
                next=f"use {option} {near[0] if near else CHECKS[0].NAME}",
            )
    return words


def _matches(rule: DocumentedRule, words: Sequence[str]) -> bool:
    code = rule.CODE.lower()
    return any(word == rule.NAME or (word and code.startswith(word)) for word in words)


def _print(checkup: Checkup, out: Path | None, *, as_json: bool) -> None:
    if out is not None:
        as_data = out.suffix == ".json"
        document = doctor_document(checkup)
        data = doctor_json(checkup, next_command(checkup))
        write_output(out, data if as_data else document_text(document))
    elif as_json:
        write_result(doctor_json(checkup, next_command(checkup)))
    else:
        print_report(doctor_document(checkup))


def _write_page(checkup: Checkup, path: Path) -> None:
    from counterpoint.cli.pages import page_of, write_page

    documents = {"doctor": doctor_document(checkup)}
    results = {"doctor": doctor_json(checkup, next_command(checkup))}
    write_page(page_of("checks before a run", documents, results), path)
