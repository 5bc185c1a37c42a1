"""The work of `counterpoint explain --executor`: many hosts, each reduced to a digest first."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from counterpoint.cli.output import check_output
from counterpoint.cli.printing import say_wrote
from counterpoint.cli.profiles import (
    as_typed,
    check_options,
    memory_in_bytes,
    write_answer,
)
from counterpoint.cli.progress import Progress
from counterpoint.core import UsageError
from counterpoint.core.arguments import Retry, option_of

if TYPE_CHECKING:
    from counterpoint.fleet import DigestExecutor

_OF_ONE: Final = ("step", "steps", "last", "device", "target", "by", "as_", "budget", "html")
"""Options that need the spans of all hosts at once."""


OPTIONS: Final = (
    *("paths", "executor", "ray_address", "topology", "strict", "digest", "top", "jobs", "memory"),
    *("json", "out", "force"),
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
    force: bool,
    others: dict[str, Any],
) -> None:
    """Reduce the profiles, and print or write what they show together."""
    for name in _OF_ONE:
        if others.get(name) not in (None, False):
            raise UsageError(
                f"{option_of(name.rstrip('_'))} is for one Timeline of all hosts, not for digests",
                next=Retry(without=("executor",)),
            )
    check_options(paths, top, out, "explain", json=json, force=force)
    if digest is not None:
        check_output(digest, force=force, endings=(".parquet",))
    from counterpoint.fleet import arrange, gather_digests, read_topology, summarize, write_digest
    from counterpoint.report.explain import fleet_document, fleet_json
    from counterpoint.runs.timeline import profile_paths
    from counterpoint.timeline.reading import default_memory

    places = None if topology is None else read_topology(topology)
    chosen = _executor(executor, jobs, ray_address)
    with Progress("reading") as progress:
        gathering = gather_digests(
            [str(path) for path in profile_paths(paths)],
            chosen,
            memory_bytes=memory_in_bytes(memory) or default_memory(),
            strict=strict,
            tell=partial(progress.read, "hosts"),
        )
    summary = summarize(arrange(gathering.digests, places), gathering)
    if digest is not None:
        write_digest(gathering.digests, digest)
        say_wrote(digest)
    named = as_typed(paths)
    write_answer(
        partial(fleet_document, summary, named, top),
        partial(fleet_json, summary, tuple(named)),
        out,
        json=json,
    )


def _executor(name: str, jobs: int | None, address: str | None) -> DigestExecutor:
    if name == "ray":
        from counterpoint.fleet.cluster import RayExecutor

        return RayExecutor(address)
    if address is not None:
        raise UsageError("--ray-address is for --executor ray", next=Retry({"executor": "ray"}))
    from counterpoint.fleet.local import LocalExecutor

    return LocalExecutor(jobs)
