"""`counterpoint flags refresh`: learn the flags of an installed jaxlib from itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.progress import Progress
from counterpoint.flags.catalogue import release
from counterpoint.flags.catalogue.diff import diff as diff_releases
from counterpoint.flags.lint.replacements import replacements
from counterpoint.flags.refresh.learnt import check_place, keep, lay_into, learn
from counterpoint.flags.refresh.plugin import compare_plugin
from counterpoint.report.flags_refresh_document import (
    plugin_document,
    plugin_json,
    refresh_document,
    refresh_json,
)
from counterpoint.report.terminal import print_document


def refresh(
    *,
    python: Path | None = None,
    plugin: Path | None = None,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Read names, types and defaults out of an installed jaxlib, and keep them.

    Its library is read and its own parser is asked, in processes of that interpreter. What was
    learnt is kept for this account, and all later `flags` commands use it for this release.

    Args:
        python: The interpreter whose jaxlib is read; else the one that runs Counterpoint.
        plugin: A plugin's library, e.g. xla_cuda_plugin.so: say whether it has the same options.
            Without --python that is all that is done.
        output: Add it to the table in this file. Else it is kept for your account, under
            $XDG_DATA_HOME or ~/.local/share, and all later commands use it for that release; the
            file that is named at the end can be deleted to undo that.
        json: Print everything as JSON, uncut.
    """
    with Progress("reading") as progress:
        if plugin is not None and python is None:
            found = compare_plugin(plugin, tell=progress.say)
            text = plugin_json(found) if json else None
            document = plugin_document(found)
        else:
            check_place(output)
            learnt = learn(Path(sys.executable) if python is None else python, progress.say)
            known = release(learnt.version)
            news = diff_releases(known, learnt.release, replacements(known, learnt.release))
            if output is None:
                where = keep(learnt)
            else:
                lay_into(learnt, output)
                where = output
            beside = None if plugin is None else compare_plugin(plugin, learnt.version)
            text = refresh_json(learnt, news, where, beside) if json else None
            document = refresh_document(learnt, news, where, beside)
    if text is not None:
        sys.stdout.write(text)
    else:
        print_document(document, sys.stdout)
