"""The work of commands with `--executor`: each host's profile is read in a task of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from counterpoint.cli.options import Output
from counterpoint.cli.output import check_output
from counterpoint.cli.printing import say_wrote
from counterpoint.cli.profiles import as_typed, memory_in_bytes, write_answer
from counterpoint.cli.progress import Progress
from counterpoint.core import InputError, UsageError
from counterpoint.core.arguments import option_of
from counterpoint.core.printable import counted_noun, some

if TYPE_CHECKING:
    from counterpoint.fleet.summary import FleetSummary
    from counterpoint.fleet.tasks import ExtractExecutor, Gathering, Order

ROWS_OF_PAGE: Final = 64
"""Rows in each table of a page, which has more room than a terminal."""

FLEET: Final = "fleet"
"""The JSON of many hosts on a page, which takes "explain" for the explanation of one step."""


def refuse_of_one(given: Mapping[str, object]) -> None:
    """Refuse options that need the spans of all hosts at once."""
    for name, value in given.items():
        if value not in (None, False):
            raise UsageError(
                f"{option_of(name)} is for one Timeline of all hosts, not for extracts",
                next="omit --executor",
            )


def explain_fleet(  # noqa: PLR0913 - the options of the command
    paths: tuple[str, ...],
    executor: ExtractExecutor,
    memory: float | None,
    top: int,
    output: Output,
    *,
    strict: bool,
    topology: Path | None = None,
    extracts: Path | None = None,
    command: Literal["explain", "network"] = "explain",
) -> None:
    """Reduce the profiles, and print or write what they show together.

    `strict`: all profiles have to be readable.
    """
    _check_extracts(extracts, force=output.force)
    from counterpoint.fleet.extract import write_extracts
    from counterpoint.fleet.topology import read_topology
    from counterpoint.report.explain.fleet_document import fleet_document, fleet_network
    from counterpoint.report.explain.fleet_json import fleet_json

    places = None if topology is None else read_topology(topology)
    gathering = gather_hosts(paths, executor, memory, strict=strict)
    summary = _summary(gathering, places, topology)
    if extracts is not None:
        write_extracts(gathering.extracts, extracts)
        say_wrote(extracts)
    _require_places(topology, summary)
    named = as_typed(paths)
    document = fleet_document if command == "explain" else fleet_network
    text = partial(fleet_json, summary, tuple(named))
    if output.page.html is not None:
        from counterpoint.cli.pages import page_of, write_page
        from counterpoint.view.page import title_of

        shown = document(summary, named, max(top, ROWS_OF_PAGE))
        write_page(page_of(title_of(named), {command: shown}, {FLEET: text()}), output.page.html)
        if output.is_page_alone:
            return
    write_answer(partial(document, summary, named, top), text, output)


def gather_hosts(
    paths: tuple[str, ...], executor: ExtractExecutor, memory: float | None, *, strict: bool
) -> Gathering:
    """Make and merge the extracts of these profiles, and show how far it is."""
    from counterpoint.fleet.tasks import gather_extracts
    from counterpoint.runs.timeline import profile_paths
    from counterpoint.timeline.reading import default_memory

    with Progress("reading") as progress:
        return gather_extracts(
            [str(path) for path in profile_paths(paths)],
            executor,
            memory_bytes=memory_in_bytes(memory) or default_memory(),
            strict=strict,
            tell=partial(progress.read, "hosts"),
        )


def _check_extracts(extracts: Path | None, *, force: bool) -> None:
    if extracts is None:
        return
    if not extracts.name.endswith(".extract.parquet"):
        name = extracts.name.removesuffix(".parquet")
        raise UsageError(
            f"{extracts}: a file of extracts is named .extract.parquet, by which it is read again",
            next=f"use --extracts {extracts.with_name(f'{name}.extract.parquet')}",
        )
    check_output(extracts, force=force, endings=(".parquet",), argument="extracts")


def _summary(
    gathering: Gathering, places: Mapping[str, Any] | None, topology: Path | None
) -> FleetSummary:
    """Summarize the extracts, with a note on hosts that only the topology names."""
    from counterpoint.fleet.fleet import absent_hosts, arrange
    from counterpoint.fleet.summary import summarize

    fleet = arrange(gathering.extracts, places)
    if absent := absent_hosts(places or {}, fleet):
        text = f"{topology} names {counted_noun(len(absent), 'host')} of which there are no figures"
        gathering = replace(gathering, notes=(*gathering.notes, f"{text}: {some(absent, 8)}"))
    return summarize(fleet, gathering)


def _require_places(topology: Path | None, summary: FleetSummary) -> None:
    """Refuse a topology of other hosts."""
    hosts = summary.fleet.hosts
    if topology is not None and not any(host.place.rack or host.place.pod for host in hosts):
        raise InputError(
            f"{topology} names none of the {len(hosts)} hosts, of which one is {hosts[0].name}",
            next="write the hosts as the profiles name them: host,rack,pod",
        )


def each_product(
    paths: Sequence[str],
    executor: ExtractExecutor,
    order: Order,
    *,
    strict: bool,
    memory_bytes: int | None = None,
) -> tuple[dict[str, bytes], Gathering]:
    """Let a task make what is ordered of each profile; return it by the profile's name."""
    from counterpoint.fleet.tasks import gather
    from counterpoint.timeline.reading import default_memory

    made: dict[str, bytes] = {}
    with Progress("reading") as progress:
        told = gather(
            paths,
            executor,
            made.__setitem__,
            order=order,
            memory_bytes=memory_bytes or default_memory(),
            strict=strict,
            tell=partial(progress.read, "hosts"),
        )
    return made, told
