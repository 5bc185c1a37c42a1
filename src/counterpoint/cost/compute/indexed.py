"""Prices gathers and scatters: the indices decide them, and only a run knows those.

A window of neighbors moves whole transactions of memory, however narrow it is. Where two updates of
a scatter meet, they wait for each other: in the cache's own adders if the chip has them for the
type, else each thread compares and swaps until nobody came between, which takes hundreds of times
longer if many meet. So such a scatter has a bound: from all indices different to all alike.

Measured by others: 10.5 million bfloat16 updates of one window on H100, compared and swapped, take
22 to 68 ms (NVIDIA/JAX-Toolbox, bundle of MaxText whose tokens are all 0); 5.2 million of float32
on RTX 3080 Ti 500 ms instead of 1 (openxla/xla issue 46225); 10 million in 100 places on GH200 18
ms, in hardware 0.96 (openxla/xla issue 26371). Which types add in hardware was read in the PTX that
jaxlib 0.10.2 compiles, and depends on the release: 0.6 compares and swaps bfloat16 on GH200. A
program does not tell its release, so there the worst case is that of the other releases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from counterpoint.cost.model import Price, PriceFamily, PriceSource
from counterpoint.hlo.indexing import Windows, is_assignment, windows_of
from counterpoint.hlo.model.instruction import Instruction, element_bits
from counterpoint.hlo.model.program import Program

if TYPE_CHECKING:
    from counterpoint.cost.compute.machine import ComputeDevice

TRANSACTION: Final = 64  # bytes that memory moves at least
_SECTOR: Final = 32  # bytes that the cache moves at least
_CACHE_RATE: Final = 1.6
"""The cache's rate relative to memory's data sheet, for sectors that lie anywhere."""
_PER_CLOCK: Final = 0.5
"""Updates that one sector takes per clock in hardware: GH200's 10 million in 13 sectors."""
_OR_SWAPPED: Final = ("bf16", "f16")
"""Types that some releases of XLA compare and swap nevertheless."""
_CHOSEN_IN_HARDWARE: Final = frozenset({"s32", "u32", "s64", "u64", "f32"})
"""Types of which the cache keeps the larger or the smaller."""
_SWAPS_PER_CORE_CLOCK: Final = 1 / 18
"""Sectors compared and swapped that don't meet: 100 million float16 in 7.6 ms (jax issue 26227)."""
_MOST_WAITING: Final = 1024  # threads at one address: more were not measured
_RESIDENT: Final = 2048  # threads of a core
_INDICES_DECIDE: Final = 5.0
"""From this ratio of the slowest to the likely time on, a price is only a bound."""
_REACH: Final = 0.4
_CACHE_SHARE: Final = 0.6
"""Usable share of the cache: the rest belongs to other kernels."""
_COUNTING_WORDS: Final = (
    "iota broadcast reshape bitcast convert transpose concatenate slice add subtract multiply "
    "divide remainder clamp minimum maximum compare select and negate"
)
_COUNTING: Final = frozenset(_COUNTING_WORDS.split())
"""Opcodes between a count and the indices that are made of it."""


@dataclass(frozen=True, slots=True)
class IndexedCost:
    """What indices add to a kernel, if they are as likely, and at worst."""

    more_bytes: float = 0.0  # of memory, beyond each byte once
    likely_s: float = 0.0
    worst_s: float = 0.0
    how: str = ""


def indexed_costs(
    program: Program, instruction: Instruction, machine: ComputeDevice
) -> list[IndexedCost]:
    """Return the costs of the gathers and scatters of a kernel."""
    inside = (instruction, *program.body(instruction))
    return [
        cost
        for member in inside
        if (windows := windows_of(program, member)) is not None
        for cost in (_cost(program, member, windows, machine),)
    ]


def with_indices(plain: Price, costs: list[IndexedCost], machine: ComputeDevice) -> Price:
    """Return a kernel's price with what its indices add to streaming its bytes once."""
    more = sum(cost.more_bytes for cost in costs) / machine.memory_rate
    likely = max(plain.seconds + more, *(cost.likely_s for cost in costs))
    worst = max(likely * (1 + _REACH), *(cost.worst_s for cost in costs))
    decided = worst > _INDICES_DECIDE * likely
    return Price(
        likely,
        plain.low,
        max(worst, plain.high),
        PriceSource.BOUND if decided else plain.source,
        PriceFamily.MEMORY if more or decided else plain.family,
        "; ".join([plain.how, *(cost.how for cost in costs if cost.how)]),
    )


def _cost(
    program: Program, member: Instruction, windows: Windows, machine: ComputeDevice
) -> IndexedCost:
    if _are_counted_up(program, member):
        return IndexedCost()  # neighbors follow each other: as a copy
    if member.opcode == "gather":
        return _moved(windows, machine, times=1)
    assigned = is_assignment(program, member)
    narrow = windows.run_bytes < _SECTOR
    moved = _moved(windows, machine, times=1 if assigned and not narrow else 2)
    indexing = member.indexing
    if assigned or indexing is None or indexing.are_unique:
        return moved
    if indexing.are_sorted:
        return _around(moved, windows, machine, "sorted indices")
    return _met(program, member, windows, moved, machine)


def _moved(windows: Windows, machine: ComputeDevice, times: int) -> IndexedCost:
    """Return the cost of whole transactions; some of an array that nearly fits are in the cache."""
    cached = min(1.0, machine.l2_bytes * _CACHE_SHARE / max(windows.array.bytes, 1))
    once = min(windows.bytes, windows.array.bytes) * times
    crossing = windows.runs * _whole(windows.run_bytes, TRANSACTION) * times * (1 - cached)
    sectors = windows.runs * _whole(windows.run_bytes, _SECTOR) * times
    seconds = sectors / (machine.memory_bytes_per_s * _CACHE_RATE)
    how = f"{windows.count:,} windows of {windows.run_bytes:,} B"
    return IndexedCost(max(0.0, crossing - once), seconds, seconds, how)


def _around(moved: IndexedCost, windows: Windows, machine: ComputeDevice, how: str) -> IndexedCost:
    """Return the cost if each thread adds up its own part and few meet: rule of thumb."""
    adding = windows.bytes / machine.memory_rate
    worst = max(moved.worst_s, 10 * adding)
    return IndexedCost(moved.more_bytes, moved.likely_s, worst, f"{moved.how}, {how}")


def _met(
    program: Program,
    member: Instruction,
    windows: Windows,
    moved: IndexedCost,
    machine: ComputeDevice,
) -> IndexedCost:
    """Return the cost of updates that may meet."""
    updates = windows.count * windows.elements
    dtype = windows.array.dtype
    kind = _combines(program, member)
    swapped_s, worst_s = _swapped(windows, machine)
    if not _in_hardware(machine, kind, dtype):
        how = f"{moved.how}, {dtype} compared and swapped: {worst_s * 1e3:.3g} ms if all meet"
        return IndexedCost(
            moved.more_bytes, max(moved.likely_s, swapped_s), max(swapped_s, worst_s), how
        )
    rate = machine.clock_hz * _PER_CLOCK
    sectors = max(1, windows.array.bytes // _SECTOR)
    of_window = max(1, windows.elements * element_bits(dtype) // 8 // _SECTOR)
    likely = updates / (rate * min(sectors, machine.cores))
    worst = 2 * updates / (rate * min(of_window, machine.cores))
    how = f"{moved.how}, {dtype} added in hardware"
    if dtype in _OR_SWAPPED and worst_s > worst:
        worst = worst_s
        how = f"{how}; {worst * 1e3:.3g} ms if all meet and this XLA compares and swaps"
    return IndexedCost(moved.more_bytes, max(moved.likely_s, likely), worst, how)


def _swapped(windows: Windows, machine: ComputeDevice) -> tuple[float, float]:
    """Return seconds of updates compared and swapped, anywhere and all in one window."""
    updates = windows.count * windows.elements
    bits = min(32, element_bits(windows.array.dtype))
    resident = machine.cores * _RESIDENT
    swaps = machine.kernels.swaps

    def waiting(elements: int) -> float:
        words = max(1, elements * bits // 32)
        return min(resident / words, _MOST_WAITING)

    sectors = windows.runs * math.ceil(windows.run_bytes / _SECTOR)
    apart_s = sectors / (machine.cores * machine.clock_hz * _SWAPS_PER_CORE_CLOCK)
    likely = min(apart_s * (1 + waiting(windows.array.elements)), updates / swaps.met_per_s)
    in_a_word = windows.count * 32 // bits
    worst = in_a_word * min(waiting(windows.elements), in_a_word) * swaps.wait_s
    worst = min(worst, updates / swaps.least_per_s)
    return max(likely, apart_s), max(worst, apart_s)


def _in_hardware(machine: ComputeDevice, kind: str, dtype: str) -> bool:
    if kind in ("maximum", "minimum"):
        return dtype in _CHOSEN_IN_HARDWARE
    return kind == "add" and dtype in machine.kernels.added_in_hardware


def _combines(program: Program, scatter: Instruction) -> str:
    """Return the opcode with which a scatter combines; of several, or with conversions, "add"."""
    for called in scatter.calls:
        for it in program.computations[called].instructions:
            if it.opcode in ("multiply", "maximum", "minimum", "and", "or", "xor"):
                return it.opcode
    return "add"


def _are_counted_up(program: Program, member: Instruction) -> bool:
    """Return whether a fusion counts the indices up, from no data: then they are neighbors."""
    operands = program.operands(member)
    queue, seen, counted = [operands[len(operands) // 2]], set[str](), False
    while queue:
        it = queue.pop()
        if it.name in seen:
            continue
        seen.add(it.name)
        if it.shape.elements > 1 and it.opcode not in _COUNTING:
            return False
        counted = counted or it.opcode == "iota"
        queue += program.operands(it)
    return counted


def _whole(size: int, unit: int) -> int:
    return math.ceil(size / unit) * unit
