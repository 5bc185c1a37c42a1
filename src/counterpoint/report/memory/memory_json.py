"""`memory` as JSON: `counterpoint.memory/1`, docs/reference/memory-json.md."""

from __future__ import annotations

from typing import Annotated, ClassVar

from counterpoint.core.field import Field, Form
from counterpoint.report.json import Result, fill, json_text
from counterpoint.workflow.memory.report import MemoryReport


class SpaceJson(Result):
    """What a step takes of a memory space."""

    COLUMNS: ClassVar = (
        "name",
        "needs",
        "arguments",
        "outputs",
        "constants",
        "temporaries",
        "fragmentation",
    )

    name: Annotated[str, Field("`device`, `collectives`, `host`, ...", "memory")]
    on_device: Annotated[bool, Field("whether it is a part of the device's large memory")]
    needs: Annotated[
        int, Field("bytes that are allocated: the sum of the next four", "needs", Form.BYTES)
    ]
    arguments: Annotated[int, Field("bytes of arguments", "arguments", Form.BYTES)]
    outputs: Annotated[
        int,
        Field(
            "bytes of outputs that are not written in place of an argument", "outputs", Form.BYTES
        ),
    ]
    constants: Annotated[int, Field("bytes of constants", "constants", Form.BYTES, rank=2)]
    temporaries: Annotated[
        int, Field("bytes of temporaries, allocated as one block", "temporaries", Form.BYTES)
    ]
    live_bytes: Annotated[int, Field("the most that temporaries hold at once")]
    fragmentation: Annotated[
        int, Field("`temporaries` - `live_bytes`: gaps in the block", "gaps", Form.BYTES, rank=1)
    ]


class BudgetJson(Result):
    """What a step may take."""

    device_bytes: Annotated[int | None, Field("the device's memory; null: unknown")]
    pool_bytes: Annotated[int | None, Field("what JAX's allocator takes of it, or libtpu leaves")]
    fraction: Annotated[float, Field("`pool_bytes` over `device_bytes`")]
    rule: Annotated[str, Field("what sets the fraction: a variable, or the default")]
    is_limit: Annotated[bool, Field("false: the allocator grows beyond it (cuda_async)")]
    outside_bytes: Annotated[
        int | None, Field("what the pool leaves to CUDA, NCCL, cuDNN and kernels")
    ]
    scheduler_bytes: Annotated[
        int | None,
        Field(
            "the limit below which XLA's scheduler keeps temporaries; above it, it gives up"
            " overlap; null on TPUs"
        ),
    ]


class MemoryPeakJson(Result):
    """Where most is held."""

    instruction: Annotated[str, Field("the instruction")]
    position: Annotated[int, Field("its place in the schedule, loops once")]
    positions: Annotated[int, Field("number of places")]
    scope: Annotated[str, Field("the path of names in the user's code")]
    source: Annotated[str | None, Field("file:line")]
    phase: Annotated[str, Field("as in [explain](explain-json.md)")]
    in_loop: Annotated[bool, Field("whether it is in a loop: then most is held in each turn")]


class OwnerJson(Result):
    """The bytes of an owner at that moment."""

    COLUMNS: ClassVar = ("owner", "bytes", "share")

    owner: Annotated[str, Field("whose bytes they are", "owner")]
    bytes: Annotated[int, Field("its bytes on the device", "size", Form.BYTES)]
    share: Annotated[float, Field("of what the step needs", "share", Form.SHARE, digits=1)]


class HeldJson(Result):
    """An array that is held at that moment, or several that are alike."""

    COLUMNS: ClassVar = ("owner", "name", "bytes", "shape", "layers", "count", "source")

    owner: Annotated[str, Field("whose bytes they are", "owner", rank=1)]
    name: Annotated[
        str, Field("an argument's name, or scope and operation; may be empty", "what", Form.NAME)
    ]
    bytes: Annotated[int, Field("bytes of all of them", "size", Form.BYTES)]
    color: Annotated[int, Field("XLA's number of the memory space; 5: a GPU's host memory")]
    shape: Annotated[str | None, Field("dtype and dimensions of one of them", "shape", rank=2)]
    layers: Annotated[
        int | None, Field("layers that are stacked in it; null: none", "layers", Form.COUNT, rank=3)
    ]
    count: Annotated[int, Field("number of arrays", "arrays", Form.COUNT, rank=4)]
    source: Annotated[str | None, Field("file:line; null: unknown", "source", Form.PLACE)]
    made_by: Annotated[str, Field("the instruction that makes the first of them")]
    is_saved_by_name: Annotated[
        bool, Field("kept for the backward pass because a remat policy names it")
    ]


class MomentJson(Result):
    """A place of the schedule."""

    instruction: Annotated[str, Field("the instruction")]
    bytes: Annotated[int, Field("bytes of the device that are in use while it runs")]


class MemoryCauseJson(Result):
    """Something that holds more than it must."""

    what: Annotated[str, Field("what is held")]
    bytes: Annotated[int, Field("bytes that it concerns: not what a change would save")]
    advice: Annotated[str, Field("what to do about it")]


class FitTryJson(Result):
    """A change that was compiled and priced."""

    COLUMNS: ClassVar = ("settings", "needs", "available", "fits", "step_ms", "change")

    settings: Annotated[str, Field("what is set", "change", Form.LABEL)]
    needs: Annotated[int | None, Field("what a step allocates then", "needs", Form.BYTES)]
    available: Annotated[int | None, Field("what it may take", "of", Form.BYTES)]
    fits: Annotated[bool | None, Field("whether it fits; null: it was not compiled", "fits")]
    step_ms: Annotated[float | None, Field("the predicted step", "step ms", Form.MS)]
    change: Annotated[
        float | None,
        Field("of the step, as a share: -0.05 is 5% shorter", "longer", Form.SHARE, digits=1),
    ]
    error: Annotated[str | None, Field("why it was not compiled; null: it was")]


class Memory(Result, tag_field="schema", tag="counterpoint.memory/1"):
    """The memory of a step on one device: `counterpoint memory --json`."""

    name: Annotated[str, Field("the module")]
    target: Annotated[str | None, Field("the machine; null: not given")]
    basis: Annotated[str, Field("`predicted`: by the compiler's plan")]
    needs_bytes: Annotated[
        int,
        Field(
            "what a step allocates on a device: arguments, outputs beside them, constants, and one"
            " block of temporaries with its gaps"
        ),
    ]
    host_bytes: Annotated[int, Field("pinned host memory for each device")]
    verdict: Annotated[str, Field("`fits`, `does not fit`, `may not fit` or `unknown`")]
    spaces: Annotated[tuple[SpaceJson, ...], Field("memory spaces")]
    budget: Annotated[BudgetJson | None, Field("what it may take; null: no target")]
    peak: Annotated[MemoryPeakJson, Field("where most is held, or the moment of `--at`")]
    owners: Annotated[tuple[OwnerJson, ...], Field("largest first; their sum is `needs_bytes`")]
    held: Annotated[
        tuple[HeldJson, ...],
        Field("largest first; their sum is `needs_bytes` and `host_bytes` together"),
    ]
    moments: Annotated[tuple[MomentJson, ...], Field("the schedule, loops once")]
    causes: Annotated[tuple[MemoryCauseJson, ...], Field("why it is so much, largest first")]
    tries: Annotated[
        tuple[FitTryJson, ...], Field("with `--fit`: what fits first, by the step; else empty")
    ]
    unknown: Annotated[tuple[str, ...], Field("what is not known without the device")]
    notes: Annotated[tuple[str, ...], Field("limits of the figures")]


def memory_json(report: MemoryReport) -> str:
    """Return the report as text."""
    analysis = report.analysis
    base = sum(
        space.arguments + space.outputs + space.constants
        for space in analysis.spaces
        if space.on_device
    )
    return json_text(
        fill(
            Memory,
            report,
            needs_bytes=analysis.needs,
            host_bytes=analysis.host_bytes,
            spaces=analysis.spaces,
            peak=analysis.peak,
            owners=[
                {"owner": str(owner), "bytes": size, "share": size / max(analysis.needs, 1)}
                for owner, size in analysis.by_owner.items()
            ],
            held=analysis.held,
            moments=[
                {"instruction": moment.instruction, "bytes": base + moment.bytes}
                for moment in analysis.moments
            ],
        )
    )
