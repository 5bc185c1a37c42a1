"""`counterpoint flags render`: settings from anywhere, in the form in which they are needed."""

from __future__ import annotations

import sys
from functools import reduce
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from counterpoint.cli.settings_source import Wanted, read_source
from counterpoint.core.errors import InputError, UsageError
from counterpoint.flags.difference import difference
from counterpoint.flags.live.installed import chosen_release
from counterpoint.flags.rendering import Form, render
from counterpoint.flags.settings import Settings
from counterpoint.flags.written import Written
from counterpoint.report.flags_render_document import (
    difference_document,
    difference_json,
    render_json,
    unread,
    unwritten,
)
from counterpoint.report.terminal import print_document

FormName = Literal["env", "bash", "python", "slurm", "k8s", "compiler_options"]

BY_SUFFIX: Final = {
    ".env": Form.ENV,
    ".py": Form.PYTHON,
    ".yaml": Form.K8S,
    ".yml": Form.K8S,
    ".sbatch": Form.SLURM,
    ".slurm": Form.SLURM,
}


def render_flags(  # noqa: PLR0913 - the options of the command
    *source: Annotated[str, Parameter(allow_leading_hyphen=True)],
    as_: Annotated[FormName | None, Parameter(name="--as")] = None,
    jaxlib: str | None = None,
    diff: str | None = None,
    form: str | None = None,
    allow: Annotated[tuple[Path, ...], Parameter(show_default=False)] = (),
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    force: Annotated[bool, Parameter(show_default=False)] = False,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Write settings as env file, shell, Python, Slurm job, manifest or compiler options.

    Args:
        source: Files, Runs, recipes, `pid:NUMBER`, `-`, or flags in quotes; of several, each has
            the last word over those before it.
        as_: The form; else by the suffix of --out, else bash.
        jaxlib: Write recipes and compiler options for this release; else for the one installed
            here, or the newest that is known.
        diff: Say what changes from the sources to this one, instead of writing them.
        form: Read the sources as this, instead of looking at them.
        allow: A directory in which files are read that a source names; else only those beside it.
        out: Write there instead of to stdout.
        force: Overwrite the file.
        json: Print everything as JSON.
    """
    if not source:
        raise UsageError("no source was named", next="counterpoint flags render job.sh --as k8s")
    release = chosen_release(jaxlib)
    written = [_read(one, form, release.version, allow) for one in source]
    settings = reduce(Settings.merged, (one.settings for one in written))
    if diff is not None:
        other = _read(diff, form, release.version, allow)
        changes = difference(settings, other.settings)
        if json:
            sys.stdout.write(difference_json(changes, source, diff))
        else:
            print_document(difference_document(changes, source, diff), sys.stdout)
        return
    kind = Form(as_) if as_ else BY_SUFFIX.get(out.suffix if out else "", Form.BASH)
    text = render(settings, kind, release)
    for line in unwritten(settings, kind):
        print(line, file=sys.stderr)
    if json:
        text = render_json(settings, kind, text, written)
    _write(text, out, source, force=force)


def _read(source: str, form: str | None, version: str, allow: tuple[Path, ...]) -> Written:
    wanted = Wanted(version)
    written = read_source(source, (), env=False, form=form, wanted=wanted, allowed=allow).written
    if not written.given and not written.slips:
        raise InputError(
            f"{written.where}: no settings in it",
            why=f"it was read as {written.form}",
            next="--form text",
        )
    for line in unread(written):
        print(line, file=sys.stderr)
    return written


def _write(text: str, out: Path | None, source: tuple[str, ...], *, force: bool) -> None:
    if out is None:
        sys.stdout.write(text)
        return
    if any(Path(one).exists() and out.exists() and out.samefile(one) for one in source):
        raise UsageError(f"{out} is a source", next="name another file")
    if out.exists() and not force:
        raise UsageError(f"{out} exists", why="nothing is overwritten unasked", next="--force")
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise UsageError(f"{out}: can't be written: {failure.strerror or failure}") from None
    print(f"wrote {out}", file=sys.stderr)
