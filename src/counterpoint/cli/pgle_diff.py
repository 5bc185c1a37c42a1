"""`counterpoint pgle diff`: what changed from one profile to another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.numbers import WholeNumber
from counterpoint.core.errors import UsageError
from counterpoint.pgle.difference import diff_profiles
from counterpoint.pgle.files import read_profile
from counterpoint.report.pgle_diff_document import diff_document, diff_json
from counterpoint.report.terminal import print_document


def diff(
    a: Path,
    b: Path,
    *,
    top: WholeNumber = 10,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Compare two profiles, the largest change first.

    Args:
        a: The first profile.
        b: The second.
        top: Rows in each table.
        json: Print everything as JSON, uncut.
    """
    if top < 1:
        raise UsageError(f"--top takes a number from 1 on, not {top}")
    found = diff_profiles(read_profile(a), read_profile(b))
    if json:
        sys.stdout.write(diff_json(found, str(a), str(b)))
    else:
        print_document(diff_document(found, str(a), str(b), top), sys.stdout)
