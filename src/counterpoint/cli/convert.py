"""`counterpoint convert` and `network`: convert profiles, or analyze their network use."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from counterpoint.cli.explain_fleet import FleetOptions, run_fleet
from counterpoint.cli.numbers import MaybeWholeNumber, WholeNumber
from counterpoint.cli.output import check_page
from counterpoint.cli.printing import say_line, say_result
from counterpoint.cli.profiles import (
    as_typed,
    check_options,
    check_timeline_output,
    device_numbers,
    find_run,
    is_trace,
    memory_in_bytes,
    read_and_analyze,
    recorded_on,
    write_answer,
    write_timeline,
)
from counterpoint.cli.progress import Progress
from counterpoint.core import InputError, UsageError, parse_json, refuse_url
from counterpoint.core.arguments import Retry
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.network import NetworkAnalysis, analyze_network
from counterpoint.report import Document
from counterpoint.report.explain import network_document, network_json
from counterpoint.runs.timeline import profile_paths, read
from counterpoint.timeline import Timeline
from counterpoint.timeline.step_range import step_range

if TYPE_CHECKING:
    from counterpoint.fleet import DigestExecutor


def convert(
    *paths: Annotated[str, Parameter(name="IN... OUT", negative=())],
    steps: str | None = None,
    last: MaybeWholeNumber = None,
    jobs: MaybeWholeNumber = None,
    memory: float | None = None,
    fleet: FleetOptions | None = None,
    force: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Convert profiles to Parquet tables, or to a trace for ui.perfetto.dev.

    Args:
        paths: Profiles to read, then the output: a directory for Parquet tables, or a trace that
            ends in .json.gz, .json or .pftrace.
        steps: Convert only these steps: A:B stops before B, as in Python; A: and :B also work.
        last: Convert only the last N steps that were recorded whole.
        jobs: Number of hosts to read at once; by default one per core for large profiles.
        memory: Memory limit for reading, in GB; by default half of the machine's memory. What
            does not fit of a profile in pieces (.xplane.riegeli) is left out.
        fleet: How the profiles of many hosts are read; with --executor, each host becomes tables
            in a directory of its own, inside the output.
        force: Overwrite the output if it exists.
    """
    if len(paths) < 2:
        raise UsageError(
            f"convert needs an input and an output path, got {len(paths)}",
            next="counterpoint convert IN... OUT",
        )
    *inputs, output = paths
    memory_bytes = memory_in_bytes(memory)
    step_range(steps, last)
    refuse_url(output)
    out = Path(output)
    command = f"counterpoint convert {shlex.join(inputs)}"
    check_timeline_output(out, inputs, force=force, command=command)
    fleet = fleet or FleetOptions()
    if executor := fleet.chosen(jobs):
        reading: dict[str, object] = {"steps": steps, "last": last}
        _convert_each(inputs, out, (fleet, executor), reading, memory_bytes, force=force)
        return
    with Progress("reading") as progress:
        timeline = read(
            *inputs,
            progress=progress.read,
            jobs=jobs,
            memory_bytes=memory_bytes,
            steps=steps,
            last=last,
        )
        _refuse_nothing(timeline)
        progress.say(f"writing {out}")
        write_timeline(timeline, out, force=force)
    _tell(timeline, out)


def _convert_each(
    inputs: Sequence[str],
    out: Path,
    how: tuple[FleetOptions, DigestExecutor],
    reading: dict[str, object],
    memory_bytes: int | None,
    *,
    force: bool,
) -> None:
    """Store each host's Timeline by itself: all of them in one would be in one memory."""
    from counterpoint.fleet.products import host_name
    from counterpoint.fleet.tasks import Order, find_profiles

    if is_trace(out):
        raise UsageError(
            f"--executor writes tables, not a trace such as {out}",
            why="each host becomes a Timeline of its own, in a directory of its own",
            next=Retry(without=("executor",)),
        )
    fleet, executor = how
    names, _ = find_profiles([str(path) for path in profile_paths((*inputs,))])
    twice = [name for name, count in Counter(map(host_name, names)).items() if count > 1]
    if twice:
        raise UsageError(
            f"{counted_noun(len(twice), 'name')} would be of several hosts, such as {twice[0]}",
            why="each host's directory has the name of its profile",
            next="convert them apart, or without --executor",
        )
    options = {"out": str(out.resolve()), "force": force}
    order = Order(kind="timeline", options=options, reading=reading)
    made, told = fleet.products(names, executor, order, memory_bytes)
    hosts = [parse_json(each) for each in made.values()]
    if missing := [host["name"] for host in hosts if not (out / host["name"]).is_dir()]:
        raise InputError(
            f"{out}: {missing[0]} is not here, though its task wrote it",
            why="the nodes of the cluster wrote it to their own file systems",
            next="name a directory that all nodes share",
        )
    for line in told.left_out:
        say_line(line)
    parts = (
        counted_noun(len(hosts), "host"),
        counted_noun(sum(host["spans"] for host in hosts), "span"),
        counted_noun(sum(host["devices"] for host in hosts), "device"),
        f"{_size(out):,} bytes",
    )
    say_result(f"{out}: {', '.join(parts)}")
    say_result(f"next: counterpoint explain {shlex.quote(str(out))}/* --executor local")


def _refuse_nothing(timeline: Timeline) -> None:
    """Refuse to write an empty output, which looks like a successful conversion."""
    if not len(timeline.spans) and not len(timeline.host_events):
        raise InputError(
            f"{', '.join(timeline.inputs)}: no spans to convert, so nothing was written",
            why="; ".join(timeline.notes) or "it contains no work of a device or of the host",
            next="capture again while steps run, e.g. from step 3 on, after compilation",
        )


def _tell(timeline: Timeline, out: Path) -> None:
    host_alone = not len(timeline.spans)
    parts = (
        counted_noun(len(timeline.host_events), "host event")
        if host_alone
        else counted_noun(len(timeline.spans), "span"),
        counted_noun(len(timeline.devices), "device"),
        counted_noun(timeline.steps["step"].n_unique(), "step"),
        f"{_size(out):,} bytes",
    )
    if timeline.truncated:
        say_line("\n  ".join(("the profile is truncated:", *timeline.notes)))
    say_result(f"{out}: {', '.join(parts)}")
    if is_trace(out):
        say_result("open it at https://ui.perfetto.dev")
    elif not host_alone:
        say_result(f"next: counterpoint explain {shlex.quote(str(out))}")


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def network(  # noqa: PLR0913 - the options of the command
    *paths: str,
    step: MaybeWholeNumber = None,
    steps: str | None = None,
    last: MaybeWholeNumber = None,
    device: str | None = None,
    target: str | None = None,
    top: WholeNumber = 10,
    jobs: MaybeWholeNumber = None,
    memory: float | None = None,
    json: Annotated[bool, Parameter(show_default=False)] = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    html: Path | None = None,
    full: Annotated[bool, Parameter(show_default=False)] = False,
    fleet: FleetOptions | None = None,
    force: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Show what a training step requires of the network.

    Args:
        paths: A Run, file, log directory, zip, pattern, URL or stored Timeline, measured or
            predicted; several are the hosts of one run.
        step: Analyze only this step.
        steps: Analyze only these steps: A:B stops before B, as in Python; A: and :B also work.
        last: Analyze only the last N steps that were recorded whole.
        device: Analyze only these devices: numbers separated by commas, e.g. 0,1.
        target: The machine it ran on, e.g. 8xH100 or 64x8xH100:8x400G; determines the link rates.
        top: Rows in each table.
        jobs: Number of hosts to read in parallel; by default one per core for large profiles.
        memory: Memory limit for reading, in GB; by default half of the machine's memory. What
            does not fit of a profile in pieces (.xplane.riegeli) is left out.
        json: Print everything as JSON.
        out: Write to this file: .json as JSON, .txt or .md as text.
        html: Write one page to this file (.html): the report, and a timeline to zoom into.
        full: Put all steps into the page in full, however large; by default the typical one.
        fleet: How the profiles of many hosts are read; with --executor, the report is that of
            their digests: collectives, who is last, and slow links.
        force: Overwrite the file.
    """
    options = dict(locals())  # each of the two takes the same arguments
    del options["fleet"]
    many = fleet or FleetOptions()
    if many.chosen(jobs) is None:
        _network(**options)
        return
    own = {name: options.pop(name) for name in ("paths", "top", "jobs", "memory", "json")}
    own |= {name: options.pop(name) for name in ("out", "html", "force")}
    run_fleet(
        **own,
        executor=str(many.executor),
        ray_address=many.ray_address,
        topology=None,
        strict=many.strict,
        digest=None,
        others=options,
        command="network",
    )


def _network(  # noqa: PLR0913 - the options of the command
    paths: tuple[str, ...],
    *,
    step: int | None,
    steps: str | None,
    last: int | None,
    device: str | None,
    target: str | None,
    top: int,
    jobs: int | None,
    memory: float | None,
    json: bool,
    out: Path | None,
    html: Path | None,
    full: bool,
    force: bool,
) -> None:
    devices = device_numbers(device)
    step_range(steps, last, step)
    check_options(paths, top, out, "network", json=json, force=force)
    check_page(html, full=full, force=force)
    run = find_run(paths)
    machine = recorded_on(target)
    analyze = partial(analyze_network, step=step, devices=devices, run=run, target=machine)
    analysis, timeline = read_and_analyze(
        paths,
        lambda timeline: (analyze(timeline), None if html is None else timeline),
        "analyzing",
        jobs=jobs,
        memory_gb=memory,
        steps=steps,
        last=last,
    )
    document = network_document(analysis, top, as_typed(paths))
    if html is not None and timeline is not None:
        _write_page(analysis, document, timeline, html, full=full)
        if out is None and not json:
            return
    write_answer(lambda: document, lambda: network_json(analysis), out, json=json)


def _write_page(
    analysis: NetworkAnalysis, document: Document, timeline: Timeline, path: Path, *, full: bool
) -> None:
    from counterpoint.cli.pages import page_of, write_page
    from counterpoint.view import title_of

    results = {"network": network_json(analysis)}
    page = page_of(title_of(analysis.inputs), {"network": document}, results, [timeline])
    write_page(page, path, full=full)
