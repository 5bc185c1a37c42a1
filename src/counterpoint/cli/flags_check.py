"""`counterpoint flags check`: the help of the command; flags_check_run does the work.

Simple command lines bypass this module and call flags_check_run directly (quick.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.flags_check_run import run
from counterpoint.flags.parse import FORMS

_FORM = f"How to read the source, where its name does not tell: {', '.join(FORMS)}."

Switch = Annotated[bool, Parameter(show_default=False)]
Several = Annotated[tuple[str, ...], Parameter(show_default=False)]


def check(  # noqa: PLR0913 - the options of the command
    source: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    *command: Annotated[str, Parameter(name="CMD...", show=False)],
    env: Switch = False,
    jaxlib: str | None = None,
    python: Path | None = None,
    target: str | None = None,
    chip: str | None = None,
    profiling: Switch = False,
    no_probe: Switch = False,
    fix: Switch = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    force: Switch = False,
    json: Switch = False,
    select: Several = (),
    ignore: Several = (),
    allow: Several = (),
    form: Annotated[str | None, Parameter(help=_FORM)] = None,
) -> int:
    """Check flags and environment: what XLA would end at, what does nothing, what to write instead.

    Args:
        source: A script, flag file, manifest, `-`, recipe, `pid:N`, Run, or flags in quotes.
        command: What to start, behind `--`: what it would get is checked.
        env: Check the environment of this shell.
        jaxlib: The release to check for; else the one of the interpreter.
        python: The interpreter that runs the program; else the first with a jaxlib.
        target: Where it runs: 8xH100.
        chip: The same, without numbers: H100, MI300X, TPU v5p.
        profiling: The settings are for a run whose profile becomes a PGLE profile.
        no_probe: Don't ask the compiler.
        fix: Print the settings with all safe mends, in the form in which they came.
        out: Write them there. The source is never changed.
        force: Overwrite what is there.
        json: Print everything as JSON.
        select: Only these codes, or those that begin so: FLAG1,FLAG203.
        ignore: Not these.
        allow: A directory in which files are read that the source names; else only those beside it.
        form: How to read it.
    """
    return run(
        source,
        command=command,
        env=env,
        jaxlib=jaxlib,
        python=python,
        target=target,
        chip=chip,
        profiling=profiling,
        no_probe=no_probe,
        fix=fix,
        out=out,
        force=force,
        json=json,
        select=select,
        ignore=ignore,
        allow=allow,
        form=form,
    )
