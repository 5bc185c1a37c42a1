"""`counterpoint doctor`: find problems before a run starts, on one host or on all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter

from counterpoint.capture.ranks import World
from counterpoint.cli.output import check_output, check_page, write_output
from counterpoint.cli.printing import document_text, print_report, write_result
from counterpoint.cli.wording import argument_of, in_options
from counterpoint.core import UsageError
from counterpoint.core.arguments import Retry
from counterpoint.core.rules import DocumentedRule, similar_codes
from counterpoint.doctor import Checkup, merge_results
from counterpoint.doctor.checks import CHECKS, run_checks
from counterpoint.doctor.cluster import (
    CLUSTER_CHECKS,
    PODS,
    exchange_and_report,
    exchange_directory,
    find_ranks,
    merge_reports,
    report_of,
)
from counterpoint.doctor.gather import gather
from counterpoint.report.doctor import doctor_document, doctor_json, next_command

Rule = TypeVar("Rule", bound=DocumentedRule)
Switch = Annotated[bool, Parameter(show_default=False)]
Several = Annotated[tuple[str, ...], Parameter(show_default=False)]


def doctor(  # noqa: PLR0913 - the options of the command
    *,
    cluster: Switch = False,
    dcn: Switch = False,
    only: Several = (),
    skip: Several = (),
    python: Path | None = None,
    no_probe: Switch = False,
    rank: int | None = None,
    ranks: int | None = None,
    meet: Path | None = None,
    timeout: float = 60.0,
    json: Switch = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    html: Path | None = None,
    force: Switch = False,
) -> int:
    """Check versions, flags, network, limits, clock and GPUs before a run. Exit code 1 on problems.

    Args:
        cluster: Check all hosts: start one process on each with srun or mpirun; rank 0 prints.
        dcn: Traffic between hosts uses TCP (multislice, no InfiniBand).
        only: Run only these checks, by name or code: tcp-buffers,DOC5.
        skip: Skip these checks.
        python: The interpreter that runs the program; by default the first one with jaxlib.
        no_probe: Don't check the flags with the installed compiler.
        rank: Rank of this process, for --cluster without a launcher (pods).
        ranks: Number of ranks, for --cluster without a launcher.
        meet: Directory that all hosts see, for --cluster; by default the current directory.
        timeout: Seconds to wait for all ranks, for --cluster.
        json: Print everything as JSON.
        out: Write the report to this file: .json, .txt or .md.
        html: Write the report as one page to this file (.html).
        force: Overwrite the file if it exists.
    """
    only, skip = _checked_words(only, "--only"), _checked_words(skip, "--skip")
    checks, comparisons = _selected(CHECKS, only, skip), _selected(CLUSTER_CHECKS, only, skip)
    _refuse_none((*checks, *comparisons) if cluster else checks)
    if not 0 < timeout < float("inf"):
        raise UsageError(f"--timeout must be a positive number of seconds, not {timeout}")
    world = _world(rank, ranks, cluster=cluster)
    if world is None or world.seats[0].rank == 0:
        _check_files(out, html, force=force)
    directory = exchange_directory(meet, world) if world is not None else Path()
    facts = gather(os.environ, python=python, probe=not no_probe, dcn=dcn)

    def show(checkup: Checkup) -> int:
        _answer(checkup, out, html, as_json=json, plain=world is not None)
        return int(checkup.failed)

    if world is None:
        return show(merge_results([(facts.host, run_checks(facts, checks))]))
    if world.launcher == PODS:
        facts = replace(facts, hosts=world.size)  # not known from a launcher's variables
    report = report_of(world.seats[0].rank, facts, run_checks(facts, checks))
    return exchange_and_report(
        report, world.size, directory, timeout, lambda all_: show(merge_reports(all_, comparisons))
    )


def _check_files(out: Path | None, html: Path | None, *, force: bool) -> None:
    check_page(html, force=force)
    if out is not None:
        check_output(out, force=force, endings=(".json", ".txt", ".md"))


def _answer(
    checkup: Checkup, out: Path | None, html: Path | None, *, as_json: bool, plain: bool
) -> None:
    if html is not None:
        _write_page(checkup, html)
    if html is None or out is not None or as_json:
        _print(checkup, out, as_json=as_json, plain=plain)


def _selected(rules: Sequence[Rule], only: Sequence[str], skip: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules that `only` selects, all by default, without those that `skip` selects."""
    return tuple(
        rule for rule in rules if (not only or _matches(rule, only)) and not _matches(rule, skip)
    )


def _refuse_none(selected: Sequence[DocumentedRule]) -> None:
    """Refuse to run no check, which would report success."""
    if not selected:
        raise UsageError(
            "--only and --skip select no check",
            why="checks across hosts (DOC6) need --cluster",
            next="counterpoint doctor --only tcp-buffers,DOC5",
        )


def _checked_words(texts: Sequence[str], option: str) -> tuple[str, ...]:
    """Return the names, codes and code prefixes of an option, each of which selects a check."""
    rules = (*CHECKS, *CLUSTER_CHECKS)
    words = tuple(part.strip().lower() for text in texts for part in text.split(","))
    for word in words:
        if not any(_matches(rule, (word,)) for rule in rules):
            near = similar_codes(rules, word)
            raise UsageError(
                f"{option} {word}: no such check",
                why=f"the checks are {', '.join(rule.NAME for rule in rules)}",
                next=Retry({argument_of(option): near[0] if near else rules[0].NAME}),
            )
    return words


def _matches(rule: DocumentedRule, words: Sequence[str]) -> bool:
    code = rule.CODE.lower()
    return any(word == rule.NAME or (word and code.startswith(word)) for word in words)


def _world(rank: int | None, ranks: int | None, *, cluster: bool) -> World | None:
    if cluster:
        return find_ranks(os.environ, rank, ranks)
    if rank is not None or ranks is not None:
        raise UsageError(
            "--rank and --ranks need --cluster",
            next="counterpoint doctor --cluster --rank 0 --ranks 2 --meet /shared",
        )
    return None


def _print(checkup: Checkup, out: Path | None, *, as_json: bool, plain: bool) -> None:
    """Print or write the report; Open MPI gives its ranks a terminal even if output is a file."""
    if out is not None:
        as_data = out.suffix == ".json"
        document = doctor_document(checkup)
        data = in_options(doctor_json(checkup, next_command(checkup)))
        write_output(out, data if as_data else document_text(document))
    elif as_json:
        write_result(doctor_json(checkup, next_command(checkup)))
    elif plain:
        write_result(document_text(doctor_document(checkup)))
    else:
        print_report(doctor_document(checkup))


def _write_page(checkup: Checkup, path: Path) -> None:
    from counterpoint.cli.pages import page_of, write_page

    documents = {"doctor": doctor_document(checkup)}
    results = {"doctor": doctor_json(checkup, next_command(checkup))}
    write_page(page_of("checks before a run", documents, results), path)
