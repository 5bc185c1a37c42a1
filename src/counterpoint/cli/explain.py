"""`counterpoint explain`: the help of the command; explain_run does the work.

Simple command lines bypass this module and call explain_run directly (quick.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from counterpoint.cli.numbers import MaybeWholeNumber, WholeNumber
from counterpoint.diagnose import Grouping


def explain(  # noqa: PLR0913 - the options of the command
    *paths: str,
    step: MaybeWholeNumber = None,
    steps: str | None = None,
    last: MaybeWholeNumber = None,
    device: str | None = None,
    target: str | None = None,
    top: WholeNumber = 10,
    by: Grouping | None = None,
    jobs: MaybeWholeNumber = None,
    memory: float | None = None,
    timings: Annotated[bool, Parameter(show_default=False)] = False,
    json: Annotated[bool, Parameter(show_default=False)] = False,
    as_: Annotated[Literal["digest"] | None, Parameter(name="--as")] = None,
    budget: MaybeWholeNumber = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    html: Path | None = None,
    full: Annotated[bool, Parameter(show_default=False)] = False,
    executor: Literal["local", "ray"] | None = None,
    ray_address: str | None = None,
    topology: Path | None = None,
    digest: Path | None = None,
    strict: Annotated[bool, Parameter(show_default=False)] = False,
    force: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Explain where the time of a training step goes.

    Args:
        paths: A Run, file, log directory, zip, pattern or URL; several are the hosts of one run.
        step: Explain only this step.
        steps: Explain only these steps: A:B stops before B, as in Python; A: and :B also work.
        last: Explain only the last N steps that were recorded whole.
        device: Explain only these devices: numbers separated by commas, e.g. 0,1.
        target: The machine it ran on, e.g. 8xH100 or 64x8xH100:8x400G; determines the link rates.
        top: Rows in each table.
        by: Group ops by scope (layers of one kind together), source line or category, or list each
            op; by default the finest grouping whose rows cover most of the step.
        jobs: Number of hosts to read in parallel; by default one per core for large profiles.
        memory: Memory limit for reading, in GB; by default half of the machine's memory. What
            does not fit of a profile in pieces (.xplane.riegeli) is left out.
        timings: Also show how long this command took for reading, each table and each rule.
        json: Print everything as JSON.
        as_: Print a digest: the most important lines, for a program that reads text.
        budget: Characters of the digest; by default 1,500.
        out: Write to this file: .json as JSON, .txt or .md as text.
        html: Write one page to this file (.html): the report, and a timeline to zoom into.
        full: Put all steps into the page in full, however large; by default the typical one.
        executor: For many hosts: reduce each profile to a digest in a process of its own, on this
            machine or on the nodes of a Ray cluster, and show what the digests show together.
        ray_address: The Ray cluster; by default RAY_ADDRESS, or the one that is around.
        topology: With --executor: a CSV with the columns host, rack and pod.
        digest: With --executor: also write the digests to this .digest.parquet file.
        strict: With --executor: a profile that can't be read is an error.
        force: Overwrite the file.
    """
    options = dict(locals())  # the two take the same arguments
    from counterpoint.cli.explain_run import run  # loads all that the help does not need

    run(options.pop("paths"), **options)
