"""`counterpoint flags diff`: what changed from one jaxlib to another."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from counterpoint.flags.catalogue.diff import diff as diff_releases
from counterpoint.flags.lint.replacements import replacements
from counterpoint.flags.live.installed import chosen_release
from counterpoint.report.flags_diff_document import diff_document, diff_json
from counterpoint.report.terminal import print_document


def diff(
    before: str,
    after: str | None = None,
    /,
    *,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Say which flags came, went, got another name, default, type or values.

    Args:
        before: A release of jaxlib.
        after: Another; else the one installed here, or the newest that is known.
        json: Print everything as JSON, uncut.
    """
    earlier, later = chosen_release(before), chosen_release(after)
    found = diff_releases(earlier, later, replacements(earlier, later))
    if json:
        sys.stdout.write(diff_json(found))
    else:
        print_document(diff_document(found), sys.stdout)
