"""`counterpoint pgle make`: a profile for XLA's scheduler from what was recorded."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.recordings import read_recordings, refuse_over_input, versions_told
from counterpoint.core.errors import UsageError
from counterpoint.pgle.make import make_profile
from counterpoint.pgle.statistic import MEDIAN, check_percentile
from counterpoint.pgle.writing import check_place, write_profile
from counterpoint.report.pgle_profile_document import made_document, made_json
from counterpoint.report.terminal import print_document

Switch = Annotated[bool, Parameter(show_default=False)]


def make(
    *recordings: Annotated[str, Parameter(name="PROFILE...")],
    out: Annotated[str, Parameter(name=["--out", "-o"])],
    percentile: float = MEDIAN,
    module: str | None = None,
    bare: Switch = False,
    keep_warmup: Switch = False,
    force: Switch = False,
    json: Switch = False,
) -> None:
    """Make a profile for XLA's scheduler from what was recorded on GPUs.

    Args:
        recordings: A Run, or what `explain` takes; several are the hosts of one run.
        out: Where to write: .pbtxt, .pb, or a directory of one file per module.
        percentile: Which of an instruction's times is its cost; 50 is the median.
        module: This module alone: its name, the first digits of its fingerprint, or '#' and its
            number.
        bare: Leave the fingerprint out of the names: for a compile whose flags change it.
        keep_warmup: Count the first runs, too.
        force: Overwrite what is there.
        json: Print what was made as JSON.
    """
    check_percentile(percentile)
    if not recordings:
        raise UsageError(
            "no recording was named", next="counterpoint pgle make PROFILE -o step.pbtxt"
        )
    check_place(out, overwrite=force)
    timeline = read_recordings(recordings, "making the profile")
    refuse_over_input(out, timeline)
    made = make_profile(
        timeline,
        percentile,
        keep_warmup=keep_warmup,
        module=module,
        bare=bare,
        about=versions_told(recordings),
    )
    write_profile(made.profile, out, overwrite=force)
    check = ["counterpoint", "pgle", "check", out, "--program", recordings[0]]
    if json:
        sys.stdout.write(made_json(made, out, shlex.join(check)))
    else:
        print_document(made_document(made, out, shlex.join(check)), sys.stdout)
