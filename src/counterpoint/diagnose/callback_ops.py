"""The ops that call Python while a program runs: `pure_callback`, `io_callback`, `debug.print`.

They are known by the target of their custom call, or else by the names that JAX gives them.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from counterpoint.timeline.model import Timeline

_TARGET: Final = re.compile(r"callback", re.IGNORECASE)

JAX_NAME: Final = re.compile(
    r"(pure_callback|io_callback|debug_callback|debug_print)(\.(\d+|clone|remat\d*))*$"
)


def callback_ops(timeline: Timeline) -> list[int]:
    """Return the rows of the Timeline's ops that call Python."""
    calls = (pl.col("category") == "host") & (pl.col("opcode") == "custom-call")
    rows = timeline.ops.with_row_index("row").filter(calls | pl.col("opcode").is_null())
    calling: list[int] = []
    for row, name, op, opcode, program in rows.select(
        "row", "name", "op", "opcode", "program"
    ).iter_rows():
        if opcode is None:
            calling += [row] if JAX_NAME.match(op or name) else []
            continue
        hlo = None if program is None else timeline.programs[int(program)].hlo()
        call = None if hlo is None or op is None else hlo.instruction(op)
        target = call.custom_call_target if call is not None else op or name
        calling += [row] if _TARGET.search(target) else []
    return calling
