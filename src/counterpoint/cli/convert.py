"""`counterpoint convert` and `network`: convert profiles, or analyze their network use."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from counterpoint.cli.explain_fleet import each_product, explain_fleet, refuse_of_one
from counterpoint.cli.options import (
    FleetOptions,
    Force,
    Last,
    Machine,
    Output,
    Reading,
    Selection,
    Steps,
    Top,
)
from counterpoint.cli.printing import say_line, say_result
from counterpoint.cli.profiles import (
    as_typed,
    check_paths,
    check_timeline_output,
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
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.network.analysis import analyze_network
from counterpoint.report.explain.network_document import network_document
from counterpoint.report.explain.network_json import network_json
from counterpoint.runs.timeline import profile_paths, read
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.step_range import step_range

if TYPE_CHECKING:
    from counterpoint.fleet.tasks import ExtractExecutor


def convert(
    *paths: Annotated[str, Parameter(name="IN... OUT", negative=())],
    steps: Steps = None,
    last: Last = None,
    reading: Reading = Reading(),
    fleet: FleetOptions = FleetOptions(),
    force: Force = False,
) -> None:
    """Convert profiles to Parquet tables, or to a trace for ui.perfetto.dev.

    With --executor, each host becomes tables in a directory of its own, inside the output.

    Args:
        paths: Profiles to read, then the output: a directory for Parquet tables, or a trace that
            ends in .json.gz, .json or .pftrace.
    """
    if len(paths) < 2:
        raise UsageError(
            f"convert needs an input and an output path, got {len(paths)}",
            next="counterpoint convert IN... OUT",
        )
    *inputs, output = paths
    memory_bytes = memory_in_bytes(reading.memory)
    step_range(steps, last)
    refuse_url(output)
    out = Path(output)
    command = f"counterpoint convert {shlex.join(inputs)}"
    check_timeline_output(out, inputs, force=force, command=command)
    if executor := fleet.chosen(reading.jobs):
        chosen: dict[str, object] = {"steps": steps, "last": last}
        _convert_each(inputs, out, executor, chosen, memory_bytes, strict=fleet.strict, force=force)
        return
    with Progress("reading") as progress:
        timeline = read(
            *inputs,
            progress=progress.read,
            jobs=reading.jobs,
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
    executor: ExtractExecutor,
    chosen: dict[str, object],
    memory_bytes: int | None,
    *,
    strict: bool,
    force: bool,
) -> None:
    """Store each host's Timeline by itself: all of them in one would be in one memory."""
    from counterpoint.fleet.products import host_name
    from counterpoint.fleet.tasks import Order, find_profiles

    if is_trace(out):
        raise UsageError(
            f"--executor writes tables, not a trace such as {out}",
            why="each host becomes a Timeline of its own, in a directory of its own",
            next="omit --executor",
        )
    names, _ = find_profiles([str(path) for path in profile_paths((*inputs,))])
    twice = [name for name, count in Counter(map(host_name, names)).items() if count > 1]
    if twice:
        raise UsageError(
            f"{counted_noun(len(twice), 'name')} would be of several hosts, such as {twice[0]}",
            why="each host's directory has the name of its profile",
            next="convert them apart, or without --executor",
        )
    options = {"out": str(out.resolve()), "force": force}
    order = Order(kind="timeline", options=options, reading=chosen)
    made, told = each_product(names, executor, order, strict=strict, memory_bytes=memory_bytes)
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


def network(
    *paths: str,
    selection: Selection = Selection(),
    target: Machine = None,
    top: Top = 10,
    reading: Reading = Reading(),
    output: Output = Output(),
    fleet: FleetOptions = FleetOptions(),
) -> None:
    """Show what a training step requires of the network.

    With --executor, the report is that of the extracts: collectives, who is last, and slow links.

    Args:
        paths: A Run, file, log directory, zip, pattern, URL or stored Timeline, measured or
            predicted; several are the hosts of one run.
    """
    check_paths(paths, top, "network")
    output.check()
    if executor := fleet.chosen(reading.jobs):
        refuse_of_one({**asdict(selection), "target": target, "full": output.page.full})
        explain_fleet(
            paths, executor, reading.memory, top, output, strict=fleet.strict, command="network"
        )
        return
    selection.check()
    run, machine = find_run(paths), recorded_on(target)
    analysis, timeline = read_and_analyze(
        paths,
        lambda whole: (
            analyze_network(
                whole, step=selection.step, devices=selection.devices, run=run, target=machine
            ),
            whole if output.page.html else None,
        ),
        "analyzing",
        selection,
        reading,
    )
    document = network_document(analysis, top, as_typed(paths))
    if output.page.html is not None and timeline is not None:
        from counterpoint.cli.pages import page_of
        from counterpoint.view.page import title_of

        results = {"network": network_json(analysis)}
        title = title_of(analysis.inputs)
        output.page.write(page_of(title, {"network": document}, results, [timeline]))
        if output.is_page_alone:
            return
    write_answer(lambda: document, lambda: network_json(analysis), output)
