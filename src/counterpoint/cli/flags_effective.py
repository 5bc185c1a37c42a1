"""`counterpoint flags effective`: what the compiler really used, against what was asked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.flags import Settings
from counterpoint.flags.catalogue import release as nearest_release
from counterpoint.flags.effective import compare, differences
from counterpoint.flags.live.installed import chosen_release
from counterpoint.flags.named_files import Reach
from counterpoint.flags.reading import read_variables, read_written
from counterpoint.report.flags_effective_document import (
    Effective,
    effective_document,
    effective_json,
)
from counterpoint.report.flags_render_document import unread
from counterpoint.report.terminal import print_document
from counterpoint.runs.reported import Reported, read_reported
from counterpoint.runs.variables import jaxlib_of, variables_of


def effective(
    source: Path,
    *,
    module: str | None = None,
    asked: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    allow: Annotated[tuple[Path, ...], Parameter(show_default=False)] = (),
    rank: int = 0,
    jaxlib: str | None = None,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> int:
    """Say what the compiler really used of each flag, and what it was not told to.

    Exit code 1 where something that was asked did not come about. Environment variables leave no
    trace in a dump: they are not looked at.

    Args:
        source: A Run, a directory of XLA's dumps, or one .debug_options file.
        module: The module to look at: jit_step, or module_0012.jit_step; else the step's.
        asked: What was asked: a script, a flag file, a recipe, flags in quotes. A Run knows.
        allow: A directory in which files are read that ASKED names; else only those beside it.
        rank: The rank of a Run.
        jaxlib: The release that compiled; a Run knows it. Else the one that is installed here.
        json: Print everything as JSON.
    """
    reported = read_reported(source, module, rank)
    settings, by = _asked(reported, asked, allow)
    ran = jaxlib_of(reported.run) if reported.run else None
    release = nearest_release(ran) if ran and jaxlib is None else chosen_release(jaxlib)
    found = Effective(
        where=str(source),
        module=reported.step,
        modules=tuple(reported.modules),
        jaxlib=release.version,
        asked=by,
        used=compare(
            settings,
            reported.modules[reported.step],
            release,
            all_flags=asked is None and reported.run is not None,
        ),
        differences=differences(reported.modules),
    )
    if json:
        sys.stdout.write(effective_json(found))
    else:
        print_document(effective_document(found), sys.stdout)
    return 1 if found.lost else 0


def _asked(
    reported: Reported, asked: str | None, allow: tuple[Path, ...]
) -> tuple[Settings, str | None]:
    """The settings that were asked, and who says so."""
    if asked is not None:
        written = read_written(asked, allowed=allow)
        for line in unread(written):
            print(line, file=sys.stderr)
        return written.settings, asked
    if reported.run is None:
        return Settings(), None
    where = str(reported.run.path)
    reach = Reach((reported.run.path, *allow))
    return read_variables(
        variables_of(reported.run), where, form="run", reach=reach
    ).settings, where
