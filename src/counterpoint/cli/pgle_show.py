"""`counterpoint pgle show`: what a profile holds, and what XLA would take of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.numbers import WholeNumber
from counterpoint.core.errors import UsageError
from counterpoint.pgle.files import read_profile
from counterpoint.report.pgle_profile_document import profile_document, profile_json
from counterpoint.report.terminal import print_document


def show(
    profile: Path,
    *,
    top: WholeNumber = 10,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Show what a profile holds: modules, the largest costs, duplicates.

    Args:
        profile: A .pbtxt or .pb file, or a directory of <fingerprint>.pbtxt.
        top: Rows in each table.
        json: Print everything as JSON, uncut.
    """
    if top < 1:
        raise UsageError(f"--top takes a number from 1 on, not {top}")
    found = read_profile(profile)
    if json:
        sys.stdout.write(profile_json(found, str(profile)))
    else:
        print_document(profile_document(found, str(profile), top), sys.stdout)
