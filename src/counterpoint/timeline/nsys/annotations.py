"""Texts of XLA's NVTX ranges: the op or the module that they name, and the ids of a device.

    TSL:Thunk:#name=<op_name>,hlo_op=<instruction>#           `name` is a prefix of the op_name path
    TSL:XlaModule:#prefix=<path>,hlo_module=<module>,program_id=<id>#
    XlaLauncher:#global=3,local=3,process=3,slice=0#          the name of a launching thread
    Xla:#global=3,local=3,process=3,slice=0#                  the name of a device

`TSL:` is the NVTX domain; some exports leave it out. `name`, `prefix` and `program_id` may be
missing: modules that XLA measures while it autotunes have no id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import polars as pl

THUNK: Final = "thunk"
MODULE: Final = "module"

_THUNK: Final = r"^(?:TSL:)?Thunk:#"
_MODULE: Final = r"^(?:TSL:)?XlaModule:#"
_STEP: Final = r"#(?:.*,)?step_num=(\d{1,18})[,#]"
_PLACE: Final = re.compile(
    r"^(?:XlaLauncher|Xla):#global=(\d{1,9}),local=(\d{1,9}),process=(\d{1,9})(?:,|#)"
)


def parse_annotations(text: pl.Series) -> pl.DataFrame:
    """Return columns kind, op, module, program_key, scope and step, one row per text.

    `step` comes from JAX's step markers (`train#step_num=3#`).
    """
    name = pl.col("text")
    frame = pl.DataFrame({"text": text.cast(pl.String)})
    is_thunk, is_module = name.str.contains(_THUNK), name.str.contains(_MODULE)
    return frame.select(
        "text",
        kind=pl.when(is_thunk).then(pl.lit(THUNK)).when(is_module).then(pl.lit(MODULE)),
        op=pl.when(is_thunk).then(name.str.extract(r"[#,]hlo_op=([^,#]+)")),
        module=pl.when(is_module).then(name.str.extract(r"[#,]hlo_module=([^,#]+)")),
        program_key=pl.when(is_module).then(name.str.extract(r"[#,]program_id=(\d+)")),
        scope=pl.when(is_thunk).then(name.str.extract(_THUNK + r"name=(.+),hlo_op=")),
        step=pl.when(~is_thunk & ~is_module).then(name.str.extract(_STEP).cast(pl.Int64)),
    )


@dataclass(frozen=True, slots=True)
class DeviceIds:
    """The ids of a device in its job, as XLA names threads and devices by them."""

    global_id: int
    local_id: int
    process: int


def parse_device_ids(name: str) -> DeviceIds | None:
    """Parse the name of an XLA thread or device; None for other names."""
    match = _PLACE.match(name)
    return DeviceIds(int(match[1]), int(match[2]), int(match[3])) if match else None
