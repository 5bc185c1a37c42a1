"""Kernels only change the memory layout of data.

## What it does

Lists copies and transposes that only change the order of data in memory, on the device and on the
host, with their source lines and the readers of the result.

## Why it costs time

The data is read and written once more, at the speed of memory. A transpose is slower than a plain
copy.

## How it is detected

On the device, the rule finds HLO copies into another layout, transposes, and fusions of only these;
copies in the same layout (a buffer that must not change) are STEP505. Without HLO, names tell it:
transposes, fusions of copies and transposes for which the profiler records no arithmetic, and on
TPUs reshapes, which are no ops where they only rename dimensions. On the host, it finds `Transpose`
events, which the runtime records while it converts arrays to or from the device's layout. Only
events within steps count, and overlapping threads count once: at startup there are hundreds, and
they cost no step.

## Example

```python
x = jnp.transpose(x, (0, 4, 1, 2, 3))    # features first, and cuDNN wants them last
y = jax.lax.conv_general_dilated(x, w, ...)
```

## Fix

Keep data in the layout in which it is used most: channels last for convolutions, weights stored as
the product reads them, an einsum instead of transpose and product, the right `dimension_numbers`.
For a step's arguments: `jax.experimental.layout` with automatic layouts. On the host: row-major
arrays (`np.ascontiguousarray`), copied once instead of in every step.

## Fix safety

Results stay the same. The layout of stored parameters changes: convert checkpoints.

## False alarms

A layout that another kernel needs, changed once for many uses, is worth its copy.

## References

- https://docs.jax.dev/en/latest/notebooks/layout.html
- https://github.com/openxla/xla/blob/main/xla/service/layout_assignment.h
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.executed_ops import (
    ExecutedOp,
    evidence_of,
    executed_ops,
    gain_without,
    moves_only,
    readers,
    rows_as_evidence,
    without_hlo,
)
from counterpoint.diagnose.finding import Evidence, Finding, bytes_text, ms_text
from counterpoint.diagnose.network.host_transposes import HostTransposes, host_transposes
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo.model.instruction import Shape
from counterpoint.hlo.views import writer_of
from counterpoint.timeline.kernel_names import function_of
from counterpoint.timeline.model import Lane

CODE: Final = "STEP504"
NAME: Final = "layout-copies"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.0002
"""Minimum share of the step for one kernel: many small ones add up, tiny ones need no list."""
_LEAST_TOTAL: Final = 0.002
"""Minimum share of the step for all that only their names tell."""
_TRANSPOSES: Final = re.compile(
    r"(?i)transpose|nchw_?to_?nhwc|nhwc_?to_?nchw|SwapDimension\d|ShuffleInTensor\d"
)
_COMPUTES: Final = re.compile(r"(?i)fusion|fused|triton")
"""Kernels that are named after all that they do, of which a transpose may be one thing."""
_WORK: Final = ("matmul", "attention", "convolution", "collective", "control", "host")
_FUSIONS: Final = re.compile(r"(?:(?:copy|bitcast|transpose)_)+fusion")
_NUMBERING: Final = re.compile(r"[.\d]+$")
_DOUBT: Final = "a layout that many uses need is worth one copy"
_KEEP: Final = (
    "keep data in the layout in which it is used: channels last for convolutions, an einsum"
    " instead of transpose and product, weights stored as they are read"
)


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding for the device and one for the host."""
    kernels = relaid(data)
    if kernels:
        yield _on_device(data, kernels)
    named = data.cached(relaid_by_name)
    if sum(row["self_ms"] for row in named) > _LEAST_TOTAL * data.step_ms:
        yield _by_name(data, named)
    on_host = host_transposes(data)
    if on_host.in_steps_ms > 0:
        yield _in_steps(data, on_host)


def relaid(data: StepData) -> list[ExecutedOp]:
    """Return device kernels that only change the order in memory, longest first."""
    long = (pl.col("category") == "copy") & (pl.col("share") > _LEAST_SHARE)
    return [
        kernel
        for kernel in executed_ops(data, long)
        if moves_only(kernel.program, kernel.instruction)
    ]


def relaid_by_name(data: StepData) -> list[dict[str, Any]]:
    """Return kernels without HLO that only change the order in memory, longest first.

    A fusion or kernel that also computes would run anyway. If the HLO of others shows some, those
    without are left to other rules.
    """
    if relaid(data):
        return []
    tpu = all(data.timeline.devices[index].kind == "tpu" for index in data.selection.devices)
    return [
        row
        for row in without_hlo(data)
        .filter(pl.col("lane").is_in([Lane.COPY, Lane.COMPUTE]))
        .filter(~pl.col("category").fill_null("other").is_in(_WORK))
        .iter_rows(named=True)
        if _moves_by_name(function_of(str(row["op"])), computes=row["flops"] != 0, tpu=tpu)
    ]


def _moves_by_name(name: str, *, computes: bool, tpu: bool) -> bool:
    stem = _NUMBERING.sub("", name)
    if _COMPUTES.search(stem):
        return not computes and _FUSIONS.fullmatch(stem) is not None
    return bool(_TRANSPOSES.search(stem)) or (tpu and stem == "reshape")


def _on_device(data: StepData, kernels: Sequence[ExecutedOp]) -> Finding:
    total = sum(kernel.ms for kernel in kernels)
    moved = sum((kernel.row["bytes_accessed"] or 0) * kernel.row["count"] for kernel in kernels)
    saves, basis = gain_without(data, kernels, total)
    first = kernels[0]
    return Finding(
        code=CODE,
        title=f"layout changes (copies, transposes) take {ms_text(total)} per step",
        detail=(
            f"{counted_noun(len(kernels), 'kernel')}, {bytes_text(moved)} read and written;"
            f" the longest is {place_of(first.row)}, {ms_text(first.ms)}:"
            f" {_shapes(first)}, {_for_whom(first)}"
        ),
        saves_ms=saves,
        takes_ms=total,
        basis=basis,
        evidence=evidence_of(data, kernels),
        remedy=advise(data, _KEEP),
        doubt=_DOUBT,
    )


def _by_name(data: StepData, rows: Sequence[dict[str, Any]]) -> Finding:
    total = sum(float(row["self_ms"]) for row in rows)
    same: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        stem = _NUMBERING.sub("", str(row["op"]))
        same.setdefault((stem, str(row["source"] or row["scope"])), []).append(row)
    most = max(same.values(), key=lambda alike: sum(row["self_ms"] for row in alike))
    return Finding(
        code=CODE,
        title=f"layout changes (copies, transposes) take {ms_text(total)} per step",
        detail=(
            f"{counted_noun(len(rows), 'kernel')}{_moved(rows)}; most of it in"
            f" {place_of(most[0])}{f' and {len(most) - 1} like it' if len(most) > 1 else ''},"
            f" {ms_text(sum(row['self_ms'] for row in most))}{_moved(most)}"
        ),
        saves_ms=Range(0.0, total),
        takes_ms=total,
        basis=data.basis,
        evidence=rows_as_evidence(data, rows),
        remedy=advise(data, _KEEP),
        doubt=f"only their names tell what they do; {_DOUBT}",
    )


def _moved(rows: Sequence[dict[str, Any]]) -> str:
    """Return what rows read and write, and how fast, if the profile records it of each."""
    if not all(row["bytes_accessed"] for row in rows):
        return ""
    moved = sum(row["bytes_accessed"] * row["count"] for row in rows)
    rate = moved / sum(row["self_ms"] for row in rows) / 1e6
    return f" ({bytes_text(moved)} read and written, {rate:,.1f} GB/s)"


def _shapes(kernel: ExecutedOp) -> str:
    given = next((operand.shape for operand in kernel.program.operands(kernel.instruction)), None)
    result = next(kernel.instruction.shape.leaves, kernel.instruction.shape)
    if given is None:
        return _ordered(result)
    before, after = _ordered(given), _ordered(result)
    return f"{before}{_permuted(kernel)}" if before == after else f"{before} to {after}"


def _permuted(kernel: ExecutedOp) -> str:
    """Say which dimensions change places: shapes of equal sizes do not show it."""
    inside = (kernel.instruction, *kernel.program.body(kernel.instruction))
    turned = next((it.dimensions for it in inside if it.opcode == "transpose"), ())
    return f" transposed to ({', '.join(map(str, turned))})" if turned else ""


def _ordered(shape: Shape) -> str:
    """Return the shape as HLO writes it, fastest dimension first."""
    return f"{shape}{{{','.join(map(str, shape.minor_to_major))}}}"


def _for_whom(kernel: ExecutedOp) -> str:
    """Say what needs the other order: its readers, or else the writer of the first one."""
    wanting = [
        reader.custom_call_target or reader.name
        for reader, _ in readers(kernel.program, kernel.instruction)
    ]
    if wanting:
        return f"read by {', '.join(dict.fromkeys(wanting[:3]))}"
    writer = writer_of(kernel.program, kernel.instruction)
    if writer is None or writer.opcode == "parameter":
        return "an argument that the step returns in another layout"
    called = f" ({writer.custom_call_target})" if writer.custom_call_target else ""
    return f"because {writer.name}{called} writes a result of the step in another layout"


def _in_steps(data: StepData, on_host: HostTransposes) -> Finding:
    idle = data.breakdown.idle_ms + data.breakdown.copy_exposed_ms
    return Finding(
        code=CODE,
        title=f"layout changes on the host take {ms_text(on_host.in_steps_ms)} per step",
        detail=(
            "the host converts arrays to or from the device's layout; devices wait or copy for"
            f" {ms_text(idle)} per step. Before the first step it took {on_host.before_ms:,.0f} ms"
        ),
        saves_ms=Range(0.0, min(on_host.in_steps_ms, idle)),
        basis=Basis.MEASURED,
        evidence=(Evidence(what=on_host.name, ms=on_host.in_steps_ms, events=on_host.longest),),
        remedy=advise(
            data,
            "keep the data of steps on the device, and pass arrays in row-major order"
            " (np.ascontiguousarray)",
        ),
    )
