"""`counterpoint pgle merge`: one profile of several."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.core.errors import UsageError
from counterpoint.pgle.files import read_profile
from counterpoint.pgle.merge import merge_profiles
from counterpoint.pgle.merged import told_of_merge
from counterpoint.pgle.origin import count
from counterpoint.pgle.statistic import MEDIAN, check_percentile
from counterpoint.pgle.writing import check_place, write_profile
from counterpoint.report.document import printable


def merge(
    *profiles: Annotated[Path, Parameter(name="FILE...")],
    out: Annotated[str, Parameter(name=["--out", "-o"])],
    percentile: float = MEDIAN,
    force: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Merge profiles of several hosts, runs or modules into one.

    Args:
        profiles: .pbtxt or .pb files, or directories of <fingerprint>.pbtxt.
        out: Where to write: .pbtxt, .pb, or a directory of one file per module.
        percentile: Which of the costs that profiles give one key is taken; 50 is the median.
        force: Overwrite what is there.
    """
    check_percentile(percentile)
    if not profiles:
        raise UsageError("no profile was named", next="counterpoint pgle merge A B -o OUT.pbtxt")
    check_place(out, overwrite=force)
    read = [read_profile(it) for it in profiles]
    merged = merge_profiles(read, percentile, [*map(str, profiles)])
    write_profile(merged, out, overwrite=force)
    print(f"{out}: {merged.origin['statistic']}; {_size(len(merged.costs), merged.fingerprints)}")
    print(printable(told_of_merge(read)))
    print(f"next: {shlex.join(['counterpoint', 'pgle', 'show', out])}")


def _size(costs: int, fingerprints: tuple[str, ...]) -> str:
    of = f"of {count(len(fingerprints), 'module')}" if fingerprints else "with bare names"
    return f"{count(costs, 'cost')} {of}"
