"""`counterpoint flags check`: the help of the command; flags_check_run does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.flags_check_run import run
from counterpoint.flags.parse.form import FORMS

_FORM = f"The form of the source, if its name does not determine it: {', '.join(FORMS)}."

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
    diff: Switch = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    force: Switch = False,
    json: Switch = False,
    all: Switch = False,
    select: Several = (),
    ignore: Several = (),
    allow: Several = (),
    form: Annotated[str | None, Parameter(help=_FORM)] = None,
) -> int:
    """Check flags and environment: what XLA rejects, what has no effect, and the fixes.

    Args:
        source: A script, flag file, manifest, `-`, recipe, `pid:N`, Run, or flags in quotes.
        command: A command after `--`: the settings that it would inherit are checked.
        env: Check the environment of this shell.
        jaxlib: The release to check for; by default what the source installs, else the installed.
        python: The interpreter that runs the program; by default the first one with a jaxlib.
        target: The Target: 8xH100.
        chip: The chip, if neither the Target nor the source names it: H100, MI300X, TPU v5p.
        profiling: The settings are for a run whose profile becomes a PGLE profile.
        no_probe: Don't query the compiler.
        fix: Make all safe fixes in the source file. Of `-` and of flags in quotes, the result is
            printed.
        diff: Print what --fix would change, and change nothing.
        out: With --fix, write the result to this file; the source stays as it is.
        force: Overwrite an existing file.
        json: Print everything as JSON.
        all: List minor remarks, too, and fix them: defaults repeated, values known only at run
            time, tests.
        select: Only these codes or code prefixes: FLAG1,FLAG203.
        ignore: Codes or code prefixes to ignore.
        allow: A directory whose files the source may name; by default only its own directory.
        form: The form of the source.
    """
    options = dict(locals())  # the two take the same arguments
    if source is not None and command and not Path(source).exists():
        options |= {"source": None, "command": (source, *command)}
    return run(**options)
