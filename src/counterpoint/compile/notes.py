"""Notes on a compile: warnings in its log, and how it differs from a compile on the device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from counterpoint.compile.task import CompileTask
from counterpoint.flags.observed import boundary, has
from counterpoint.hardware.chip import chip_of_gpu
from counterpoint.hardware.target import Target
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.indexing import is_assignment
from counterpoint.hlo.model.instruction import Instruction, element_bits
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.sorting import runs_cub

_MEMORY: Final = re.compile(
    r"Can't reduce memory use below (?P<wanted>\S+?)(?P<of_wanted>[KMGT]iB|B) .*?"
    r"only reduced to (?P<got>[-\d.]+)(?P<of_got>[KMGT]iB|B)"
)
_REPLICATED: Final = re.compile(r"Involuntary full rematerialization\.(?P<rest>[^\n]*)")
_OP_NAME: Final = re.compile(r'op_name="([^"]+)"')
_INSTRUCTION: Final = re.compile(r"HLO operation:? ?(?:%?([\w.-]+))")


def log_notes(log: str) -> Iterator[str]:
    """Yield one note per kind of warning, with the worst or the first of them.

    The lines are warnings from XLA's hlo_rematerialization.cc and spmd_partitioner.cc, printed at
    its default log level.
    """
    tight = list(_MEMORY.finditer(log))
    if tight:
        last = tight[-1]
        wanted, got = f"{last['wanted']} {last['of_wanted']}", f"{last['got']} {last['of_got']}"
        yield (
            f"XLA tried to keep the program, with its arguments, within {wanted} by recomputing"
            f" results, and reached {got}: it may run out of memory"
        )
    replicated = list(_REPLICATED.finditer(log))
    if replicated:
        yield (
            f"{len(replicated)} tensors are gathered whole on every device, because XLA found no"
            f" other way between two shardings; the first: {_what(replicated[0]['rest'])}"
        )


def _what(line: str) -> str:
    scope = _OP_NAME.search(line)
    name = _INSTRUCTION.search(line)
    return scope[1] if scope else name[1] if name else line.strip()[:120]


_USUAL_HOST: Final = 8
_ESTIMATOR: Final = "xla_gpu_analytical_latency_estimator_options"
_WINDOWED: Final = "xla_gpu_threshold_for_windowed_einsum_mib"
_NEVER: Final = 100_000
"""XLA's default threshold of a windowed einsum, in MiB: never reached."""


def limit_notes(task: CompileTask, jaxlib: str) -> Iterator[str]:
    """Yield notes on differences from a compile on the device, for this task.

    In older releases a compile without the device is not told how GPUs are arranged on hosts (its
    `slice_size` stays 0): the same program comes out for 8x8 and for 64, and XLA's own estimator
    uses its defaults. In most of them a windowed einsum, which has at most as many steps as the
    slice has GPUs, is impossible.
    """
    target, options = task.target, task.flags
    if target.tpu is not None:
        return
    if not has("windowed-einsum", jaxlib) and _number(options.get(_WINDOWED)) < _NEVER:
        yield (
            f"{_WINDOWED} has no effect here: before jaxlib {boundary('+windowed-einsum')}, without"
            " the device, XLA does not know how many GPUs share NVLink. A run may have windowed"
            " einsums"
        )
    unusual = target.hosts > 1 and target.gpus_per_host != _USUAL_HOST
    if unusual and not has("hosts-known", jaxlib) and _ESTIMATOR not in options:
        yield (
            f"before jaxlib {boundary('+hosts-known')}, without the device, XLA does not know that"
            f" a host has {target.gpus_per_host} GPUs: its scheduler uses its default estimates,"
            " and the order of collectives may differ from a run's"
        )
    if has("hosts-known", jaxlib) and target.hosts % target.hosts_per_rack:
        yield (
            f"XLA takes only NVLink domains of equal size: here {target.domains} of"
            f" {target.hosts // target.domains} hosts, in a run {target.hosts_per_rack} hosts and"
            " a rest. Its schedule may differ from a run's"
        )
    if "matrix_unit_description" not in target.config:
        yield (
            "the target's description has no matrix units: XLA's own estimates of GEMMs,"
            " which determine the schedule, are about 10 times off"
        )


def stand_in_notes(program: Program, target: Target, jaxlib: str) -> Iterator[str]:
    """Yield notes on work that a compile on the device, or by another release, does otherwise."""
    sorts = [it.name for it in program.instructions if runs_cub(program, it)]
    if sorts:
        yield (
            f"{_named(sorts, 'sort')}: compiled to XLA's own kernels, because the library's need"
            " the device; priced as the library's, which a GPU runs"
        )
    narrow = [it.name for it in program.instructions if _reads_converted(program, it)]
    if narrow:
        yield (
            f"{_named(narrow, 'product')}: weights of 8 bits or fewer are converted in memory"
            " first, which may take longer than the product. On a GPU, XLA may convert them inside"
            " its own kernel, which xla_gpu_enable_triton_gemm=true predicts"
        )
    ragged = [it.name for it in program.instructions if _is_dense_ragged(program, it)]
    if ragged:
        yield (
            f"{_named(ragged, 'product')} of ragged_dot: compiled to dense products of all"
            " groups with a mask, so time, FLOPs and MFU count work on zeros. A GPU may run a"
            " grouped kernel"
        )

    adding = [it.name for it in program.instructions if _adds_float32(program, it)]
    chip = chip_of_gpu(target.gpu)
    swaps = chip is not None and chip.architecture in _SWAPPED_ON
    if adding and swaps and _SWAPPED_FROM <= _release_numbers(jaxlib) < _SWAPPED_UNTIL:
        yield (
            f"{_named(adding, 'scatter')}: jaxlib {jaxlib} compiles its additions of float32 to"
            f" loops that compare and swap on {target.gpu}, and 0.11.1 to additions in hardware"
            " (jax issue 38806). Where many indices are alike, it may take hundreds of times longer"
            " than predicted"
        )


_SWAPPED_FROM: Final = (0, 10, 2)
_SWAPPED_UNTIL: Final = (0, 11, 1)
_SWAPPED_ON: Final = ("ampere", "ada")


def _adds_float32(program: Program, scatter: Instruction) -> bool:
    indexing = scatter.indexing
    if scatter.opcode != "scatter" or indexing is None or indexing.are_unique:
        return False
    dtypes = {leaf.dtype for leaf in scatter.shape.leaves}
    return "f32" in dtypes and not is_assignment(program, scatter)


def _named(names: list[str], what: str) -> str:
    one = f"{what} {names[0]}"
    return one if len(names) == 1 else f"{one} and {len(names) - 1:,} more {what}s"


def _reads_converted(program: Program, product: Instruction) -> bool:
    if category(program, product) is not Category.MATMUL or product.opcode != "custom-call":
        return False
    return any(_widens(program, it) for it in program.operands(product))


def _widens(program: Program, operand: Instruction) -> bool:
    """Return whether a kernel only converts many narrow numbers; a mask is no weight."""
    shape = operand.shape
    if operand.opcode not in ("fusion", "convert") or shape.elements < _LARGE:
        return False
    return any(
        it.shape.elements == shape.elements
        and it.shape.dtype != "pred"
        and 0 < element_bits(it.shape.dtype) <= _NARROW < element_bits(shape.dtype)
        for it in program.operands(operand)
    )


def _is_dense_ragged(program: Program, product: Instruction) -> bool:
    if "ragged_dot" not in product.op_name or category(program, product) is not Category.MATMUL:
        return False
    return "grouped" not in product.custom_call_target.casefold() and product.opcode in (
        "dot",
        "custom-call",
    )


_LARGE: Final = 1 << 20  # elements: below, the conversion is one launch
_NARROW: Final = 8  # bits


def _number(text: str | None) -> float:
    try:
        return float(text) if text is not None else float("inf")
    except ValueError:
        return float("inf")


def _release_numbers(text: str) -> tuple[int, ...]:
    parts = text.split(".")[:3]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()
