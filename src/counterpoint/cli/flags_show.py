"""`counterpoint flags show`: one setting, of whatever kind."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from counterpoint.flags.live.installed import chosen_release
from counterpoint.flags.showing import show as look_up
from counterpoint.report.flags_show_document import show_document, show_json
from counterpoint.report.terminal import print_document


def show(
    name: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    jaxlib: str | None = None,
    chip: str | None = None,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Say what a setting does, what it trades, who takes it, and what became of it.

    Args:
        name: A flag of XLA, an option of JAX, a variable of NCCL, CUDA or the allocator, a flag of
            libtpu, an option of Levanter. With `=value` the value is judged too.
        jaxlib: The release; else the one installed here, or the newest that is known.
        chip: Show only notes that hold for this chip: H100, A100, MI300X.
        json: Print everything as JSON.
    """
    shown = look_up(name, chosen_release(jaxlib), chip)
    if json:
        sys.stdout.write(show_json(shown))
    else:
        print_document(show_document(shown), sys.stdout)
