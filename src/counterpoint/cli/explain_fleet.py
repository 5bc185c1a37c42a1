"""The work of commands with `--executor`: each host's profile is read in a task of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from counterpoint.cli.output import check_output, check_page
from counterpoint.cli.printing import say_wrote
from counterpoint.cli.profiles import (
    as_typed,
    check_options,
    memory_in_bytes,
    write_answer,
)
from counterpoint.cli.progress import Progress
from counterpoint.core import InputError, UsageError
from counterpoint.core.arguments import Retry, option_of
from counterpoint.core.frozen import frozen
from counterpoint.core.printable import counted_noun, some

if TYPE_CHECKING:
    from counterpoint.fleet import DigestExecutor, FleetSummary, Gathering
    from counterpoint.fleet.tasks import Order

_OF_ONE: Final = ("step", "steps", "last", "device", "target", "by", "as_", "budget", "full")
"""Options that need the spans of all hosts at once."""


ROWS_OF_PAGE: Final = 64
"""Rows in each table of a page, which has more room than a terminal."""

FLEET: Final = "fleet"
"""The JSON of many hosts on a page, which takes "explain" for the explanation of one step."""

OPTIONS: Final = (
    *("paths", "executor", "ray_address", "topology", "strict", "digest", "top", "jobs", "memory"),
    *("json", "out", "html", "force"),
)
"""Options that it takes."""


def run_fleet(  # noqa: PLR0913 - the options of the command
    *,
    paths: tuple[str, ...],
    executor: str,
    ray_address: str | None,
    topology: Path | None,
    strict: bool,
    digest: Path | None,
    top: int,
    jobs: int | None,
    memory: float | None,
    json: bool,
    out: Path | None,
    html: Path | None,
    force: bool,
    others: dict[str, Any],
    command: Literal["explain", "network"] = "explain",
) -> None:
    """Reduce the profiles, and print or write what they show together."""
    for name in _OF_ONE:
        if others.get(name) not in (None, False):
            raise UsageError(
                f"{option_of(name.rstrip('_'))} is for one Timeline of all hosts, not for digests",
                next=Retry(without=("executor",)),
            )
    check_options(paths, top, out, command, json=json, force=force)
    check_page(html, force=force)
    _check_digest(digest, force=force)
    from counterpoint.fleet import read_topology, write_digest
    from counterpoint.report.explain import fleet_document, fleet_json, fleet_network

    places = None if topology is None else read_topology(topology)
    chosen = choose_executor(executor, jobs, ray_address)
    gathering = gather_hosts(paths, chosen, memory, strict=strict)
    summary = _summary(gathering, places, topology)
    if digest is not None:
        write_digest(gathering.digests, digest)
        say_wrote(digest)
    _require_places(topology, summary)
    named = as_typed(paths)
    document = fleet_document if command == "explain" else fleet_network
    text = partial(fleet_json, summary, tuple(named))
    if html is not None:
        from counterpoint.cli.pages import page_of, write_page
        from counterpoint.view import title_of

        shown = document(summary, named, max(top, ROWS_OF_PAGE))
        write_page(page_of(title_of(named), {command: shown}, {FLEET: text()}), html)
        if out is None and not json:
            return
    write_answer(partial(document, summary, named, top), text, out, json=json)


def gather_hosts(
    paths: tuple[str, ...], executor: DigestExecutor, memory: float | None, *, strict: bool
) -> Gathering:
    """Make and merge the digests of these profiles, and show how far it is."""
    from counterpoint.fleet import gather_digests
    from counterpoint.runs.timeline import profile_paths
    from counterpoint.timeline.reading import default_memory

    with Progress("reading") as progress:
        return gather_digests(
            [str(path) for path in profile_paths(paths)],
            executor,
            memory_bytes=memory_in_bytes(memory) or default_memory(),
            strict=strict,
            tell=partial(progress.read, "hosts"),
        )


def _check_digest(digest: Path | None, *, force: bool) -> None:
    if digest is None:
        return
    if not digest.name.endswith(".digest.parquet"):
        name = digest.name.removesuffix(".parquet")
        raise UsageError(
            f"{digest}: a file of digests is named .digest.parquet, by which it is read again",
            next=Retry({"digest": str(digest.with_name(f"{name}.digest.parquet"))}),
        )
    check_output(digest, force=force, endings=(".parquet",), argument="digest")


def _summary(
    gathering: Gathering, places: Mapping[str, Any] | None, topology: Path | None
) -> FleetSummary:
    """Summarize the digests, with a note on hosts that only the topology names."""
    from counterpoint.fleet import absent_hosts, arrange, summarize

    fleet = arrange(gathering.digests, places)
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


def choose_executor(name: str, jobs: int | None, address: str | None) -> DigestExecutor:
    """Return the executor of this name."""
    if name == "ray":
        from counterpoint.fleet.cluster import RayExecutor

        return RayExecutor(address)
    if address is not None:
        raise UsageError("--ray-address is for --executor ray", next=Retry({"executor": "ray"}))
    from counterpoint.fleet.local import LocalExecutor

    return LocalExecutor(jobs)


@Parameter(name="*")
@frozen
class FleetOptions:
    """How the profiles of many hosts are read.

    Args:
        executor: For many hosts: read each profile in a task of its own, in a process of this
            machine or on a node of a Ray cluster, and merge the results.
        ray_address: The Ray cluster; by default RAY_ADDRESS, or the one that is around.
        strict: With --executor: a profile that can't be read is an error, and not left out.
    """

    executor: Literal["local", "ray"] | None = None
    ray_address: str | None = None
    strict: Annotated[bool, Parameter(show_default=False)] = False

    def chosen(self, jobs: int | None = None) -> DigestExecutor | None:
        """Return the executor, or None without one."""
        if self.executor is not None:
            return choose_executor(self.executor, jobs, self.ray_address)
        for name in ("ray_address", "strict"):
            if getattr(self, name):
                raise UsageError(
                    f"{option_of(name)} needs --executor", next=Retry({"executor": "local"})
                )
        return None

    def products(
        self,
        paths: Sequence[str],
        chosen: DigestExecutor,
        order: Order,
        memory_bytes: int | None = None,
    ) -> tuple[dict[str, bytes], Gathering]:
        """Let a task make what is ordered of each profile; return it by the profile's name."""
        from counterpoint.fleet.tasks import gather
        from counterpoint.timeline.reading import default_memory

        made: dict[str, bytes] = {}
        with Progress("reading") as progress:
            told = gather(
                paths,
                chosen,
                made.__setitem__,
                order=order,
                memory_bytes=memory_bytes or default_memory(),
                strict=self.strict,
                tell=partial(progress.read, "hosts"),
            )
        return made, told
