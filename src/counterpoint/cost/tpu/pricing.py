"""TpuPrices: the cost model of slices of TPUs.

fusions with matrix products     the shorter of XLA's estimate and what large ones are measured at
plain fusions, copies, adds      the shorter of XLA's estimate and what their bytes and sums take
kernels in Mosaic                FLOPs and bytes, as the kernel states them or by its shapes
collectives                      the links of the slice; between slices, the network
copies within the chip           bytes over HBM's rate
calls into Python on the host    bounds

libtpu writes XLA's estimate into the scheduled HLO: fusions, convolutions and most plain operations
have one; collectives, kernels in Mosaic, sorts, gathers and scatters do not.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

from counterpoint.cost.callback import price_callback
from counterpoint.cost.collectives.placement import pairs_of
from counterpoint.cost.compute.attention import attention_of
from counterpoint.cost.compute.gemm import gemms
from counterpoint.cost.floor import multiplying_seconds
from counterpoint.cost.model import (
    FREE,
    Contention,
    Price,
    PriceFamily,
    PriceSource,
    price_around,
)
from counterpoint.cost.tpu.ici import TransferTime, between_slices, of_pairs, within_slice
from counterpoint.hlo.category import Category, category, is_local_copy
from counterpoint.hlo.collectives import PAIRWISE, collective, device_groups
from counterpoint.hlo.indexing import Windows, windows_of
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launches
from counterpoint.hlo.schedule import OFFLOADED, is_done
from counterpoint.hlo.transfers import Transfer, transfer_of
from counterpoint.hlo.work import bytes_accessed, flops

if TYPE_CHECKING:
    from counterpoint.cost.measured import MeasuredCosts
    from counterpoint.cost.what_if import WhatIf
    from counterpoint.hardware.chip import Chip
    from counterpoint.hardware.tpu import TpuSlice

_HOST: Final = 5
_HBM: Final = 0
"""Memory spaces of a TPU's layouts; S(1) is VMEM, on the chip, and others are small."""
_CYCLES: Final = re.compile(r'"estimated_cycles":\s*"?(\d{1,18})')
_FREE: Final = frozenset(
    {"AllocateBuffer", "ConcatBitcast", "AssumeGatherIndicesInBound", "SliceId"}
)
_RECEIVES: Final = ("recv", "infeed")
_EXCHANGES: Final = ("send", "outfeed", *_RECEIVES)
"""Exchanges with a program on the host; sends and receives between slices are collectives."""
_PLAIN: Final = frozenset({Category.ELEMENTWISE, Category.COPY, Category.REDUCTION, Category.OTHER})
HBM_SHARE: Final = 0.8
"""Share of the data sheet's rate that plain fusions reach: v6e, loop fusions of 10.7 GB (measured
over estimated 0.98 to 1.01 with it) and a broadcast of 5.4 GB."""
_LARGE: Final = 1024
PRODUCT_SHARE: Final = 0.9
"""Share of the rate of a plain product, by XLA's estimate, that a large one reaches with what is
fused with it. On TPU7x, the four products of a layer in a public trace of vLLM reach 0.82 to 1.04;
XLA estimates 1.03 to 1.5 times the time that they took."""
_VECTOR_OPS: Final = 2048
"""Operations of a core's vector unit per cycle: 8 x 128 lanes of which two units are kept busy."""
_ATTENTION_SHARE: Final = 0.45
"""Share of the bf16 rate that splash attention reaches; a rule of thumb."""
_KERNEL_SHARE: Final = 0.5
_LEAST_CYCLES: Final = 20
_SCATTERED: Final = 0.1
"""Share of HBM's rate that sorts reach, and gathers and scatters of few bytes at a place; a rule of
thumb."""
_WIDE_WINDOW: Final = 1024
"""Bytes at one place from which on a gather reaches HBM's rate; a rule of thumb."""
_DMA_START_S: Final = 1e-6
_REACH: Final = {
    "cycles": 0.12, "bytes": 0.25, "kernel": 0.4, "ici": 0.2, "sparse core": 0.4, "network": 0.4,
    "scattered": 1.0,
}  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuPrices:
    """A CostModel of slices of TPUs. Work is never slowed by what runs beside it."""

    where: TpuSlice
    chip: Chip
    measured: MeasuredCosts | None = None
    what_if: WhatIf | None = None
    _known: WeakKeyDictionary[Program, dict[tuple[str, str], Price]] = field(
        default_factory=WeakKeyDictionary[Program, dict[tuple[str, str], Price]], repr=False
    )

    @property
    def contention(self) -> Contention:
        return Contention()

    @property
    def launch_s(self) -> float:
        """The core runs one instruction after another from memory: nothing is launched."""
        return 0.0

    def price(self, program: Program, instruction: Instruction) -> Price:
        """Price one execution; a done is free, its start has the price."""
        prices = self._known.setdefault(program, {})
        key = (instruction.computation, instruction.name)
        if key not in prices:
            price = self._price(program, instruction)
            if self.what_if is not None and price is not FREE:
                price = self.what_if.scaled(program, instruction, price)
            prices[key] = price
        return prices[key]

    def _price(self, program: Program, instruction: Instruction) -> Price:
        if not launches(instruction) or is_done(instruction) or _names_memory(instruction):
            return FREE
        communication = collective(program, instruction)
        if self.measured is not None:
            modeled = self._collective(program, instruction).family if communication else None
            price = self.measured.price(program, instruction, modeled)
            if price is not None:
                return price
        if communication is not None:
            return self._collective(program, instruction)
        cycles = estimated_cycles(instruction)
        if cycles is not None:
            price = self._estimated(program, instruction, cycles)
        else:
            price = self._without_estimate(program, instruction)
        return price.at_least(self._least_s(program, instruction))

    def _estimated(self, program: Program, instruction: Instruction, cycles: int) -> Price:
        """Price by the shorter of XLA's estimate and what such work is known to reach."""
        seconds = cycles / self._hertz
        if category(program, instruction) in _PLAIN:
            known, family, what = self._moving_s(program, instruction), PriceFamily.MEMORY, "sums"
        else:
            known, family, what = self._large_s(program, instruction), PriceFamily.MATMUL, "FLOPs"
        if known is not None and known < seconds:
            how = f"its bytes and {what}; XLA estimates {cycles:,} cycles, {seconds * 1e6:,.1f} us"
            return _around(known, "bytes", family, how)
        how = f"{cycles:,} cycles by XLA's estimate, at {self.where.tpu.clock_ghz:g} GHz"
        return price_around(seconds, _REACH["cycles"], PriceSource.COMPILER, family, how)

    def _without_estimate(self, program: Program, instruction: Instruction) -> Price:
        if instruction.opcode in _EXCHANGES or self._on_host(program, instruction):
            return self._host(program, instruction)
        if is_local_copy(program, instruction):
            return self._copy(program, instruction)
        kind = category(program, instruction)
        if instruction.opcode.startswith("custom-call"):
            return self._kernel(program, instruction, kind)
        moved = bytes_accessed(program, instruction) or 0
        if kind in (Category.MATMUL, Category.CONVOLUTION):
            return self._product(program, instruction, moved)
        windows = _windows(program, instruction)
        if windows or kind is Category.SORT:
            return self._indexed(windows, moved)
        known = self._moving_s(program, instruction)
        how = f"{moved / 1e6:.3g} MB"
        if known is None:  # its operations can't be counted, its bytes can
            known = moved * _hbm_share(program, instruction) / self._hbm
            how = f"{how}; what it computes is not counted"
        seconds = max(known, _LEAST_CYCLES / self._hertz)
        return _around(seconds, "bytes", PriceFamily.MEMORY, how)

    def _indexed(self, windows: list[Windows], moved: float) -> Price:
        """Price a gather, scatter or sort: elements and short windows move one after another."""
        narrow = min((one.run_bytes for one in windows), default=0)
        share = max(_SCATTERED, min(1.0, narrow / _WIDE_WINDOW))
        seconds = max(moved / (self._hbm * share), _LEAST_CYCLES / self._hertz)
        where = f"in windows of {narrow:,} B" if narrow else "one element after another"
        how = f"{moved / 1e6:.3g} MB, {where}"
        return _around(seconds, "scattered", PriceFamily.MEMORY, how)

    def _least_s(self, program: Program, instruction: Instruction) -> float:
        """Return the least time: bytes in HBM at its rate, products at the peak."""
        kind = category(program, instruction)
        if instruction.opcode.startswith("custom-call") or kind is Category.HOST:
            return 0.0
        shares = self.chip.flops
        products = multiplying_seconds(
            program, instruction, kind, lambda dtype: shares.get(dtype, self.chip.bf16_flops)
        )
        moved = bytes_accessed(program, instruction) or 0
        shapes = [instruction.shape, *(it.shape for it in program.operands(instruction))]
        leaves = [leaf for shape in shapes for leaf in shape.leaves]
        elsewhere = sum(leaf.bytes for leaf in leaves if leaf.memory_space != _HBM)
        return max(max(0, moved - elsewhere) / self.chip.hbm_bytes, products)

    def _product(self, program: Program, instruction: Instruction, moved: float) -> Price:
        work = flops(program, instruction)
        if work is None:
            return self._at_least(moved, PriceFamily.MATMUL, "its FLOPs are not known")
        bf16 = self.chip.bf16_flops
        peaks = [self.chip.flops.get(it.dtype, bf16) for it in gemms(program, instruction)]
        rate = self.where.tpu.product_flops * min(peaks, default=bf16) / bf16
        seconds = max(work / rate, moved / self._hbm)
        how = f"{work / 1e9:.3g} GFLOP at the rate that XLA estimates for a plain product"
        return _around(seconds, "kernel", PriceFamily.MATMUL, how)

    def _moving_s(self, program: Program, instruction: Instruction) -> float | None:
        """Return the time of bytes in HBM and of the vector unit; None if the work is unknown."""
        moved, work = bytes_accessed(program, instruction), flops(program, instruction)
        if moved is None or work is None:
            return None
        cores = self.where.tpu.cores / self.where.tpu.devices
        vector = work / (_VECTOR_OPS * cores * self._hertz)
        return max(moved * _hbm_share(program, instruction) / self._hbm, vector)

    def _large_s(self, program: Program, instruction: Instruction) -> float | None:
        """Return the time of large products of bfloat16 and what is fused with them; else None."""
        products = tuple(gemms(program, instruction))
        if not products or any(
            min(it.m, it.n, it.k) < _LARGE or it.dtype != "bf16" for it in products
        ):
            return None
        multiplied = sum(it.flops for it in products) / (
            self.where.tpu.product_flops * PRODUCT_SHARE
        )
        moved = (bytes_accessed(program, instruction) or 0) * _hbm_share(program, instruction)
        return max(multiplied, moved / self._hbm)

    def _copy(self, program: Program, instruction: Instruction) -> Price:
        moved = (bytes_accessed(program, instruction) or 0) / 2  # read on one side, written here
        seconds = _DMA_START_S + moved / self._hbm
        how = f"{moved / 1e6:.3g} MB between HBM and VMEM"
        return _around(seconds, "bytes", PriceFamily.MEMORY, how)

    def _on_host(self, program: Program, instruction: Instruction) -> bool:
        shapes = [instruction.shape, *(it.shape for it in program.operands(instruction))]
        return any(leaf.memory_space == _HOST for shape in shapes for leaf in shape.leaves)

    def _host(self, program: Program, instruction: Instruction) -> Price:
        if instruction.opcode in _EXCHANGES:
            return self._exchange(program, instruction)
        moved = (bytes_accessed(program, instruction) or 0) / 2
        rate = self.where.links.host_bytes_per_s
        how = f"{moved / 1e6:.3g} MB at {rate / 1e9:.0f} GB/s to the host"
        seconds = _DMA_START_S + moved / rate
        return _around(seconds, "bytes", PriceFamily.HOST, how)

    def _exchange(self, program: Program, instruction: Instruction) -> Price:
        """Price an exchange with a program on the host: what it answers has to be waited for.

        JAX's callbacks send their operands and receive the results, if only an empty one.
        """
        rate = self.where.links.host_bytes_per_s
        if instruction.opcode in _RECEIVES:
            received = max((leaf.bytes for leaf in instruction.shape.leaves), default=0)
            return price_callback(received / rate)
        sent = sum(operand.shape.bytes for operand in program.operands(instruction))
        how = f"{sent / 1e6:.3g} MB at {rate / 1e9:.0f} GB/s to the host"
        return _around(_DMA_START_S + sent / rate, "bytes", PriceFamily.HOST, how)

    def _kernel(self, program: Program, instruction: Instruction, kind: Category) -> Price:
        moved = bytes_accessed(program, instruction) or 0
        stated = _stated(instruction)
        if kind is Category.ATTENTION and (attention := attention_of(program, instruction)):
            multiplied = attention.flops / (self.chip.bf16_flops * _ATTENTION_SHARE)
            seconds = max(multiplied, moved / self._hbm)
            how = f"{attention.flops / 1e9:.3g} GFLOP at {_ATTENTION_SHARE:.0%} of the peak"
            return _around(seconds, "kernel", PriceFamily.ATTENTION, how)
        if stated is not None:
            seconds = max(stated[0] / (self.chip.bf16_flops * _KERNEL_SHARE), stated[1] / self._hbm)
            how = f"{stated[0] / 1e9:.3g} GFLOP and {stated[1] / 1e6:.3g} MB, as the kernel states"
            return _around(seconds, "kernel", PriceFamily.CUSTOM, how)
        what = "what a kernel computes is not known"
        return self._at_least(moved, PriceFamily.CUSTOM, what)

    def _at_least(self, moved: float, family: PriceFamily, unknown: str) -> Price:
        least = moved / self._hbm
        return Price(
            seconds=least,
            low=least,
            high=4 * least,
            source=PriceSource.BOUND,
            family=family,
            how=f"at least its {moved / 1e6:.3g} MB; {unknown}",
        )

    def _collective(self, program: Program, instruction: Instruction) -> Price:
        transfer = transfer_of(program, instruction)
        if transfer is not None:
            return self._transfer(transfer, instruction)
        communication = collective(program, instruction)
        if communication is None:
            return FREE
        group = communication.group_size or self.where.devices * self.where.slices
        carrier = program.instruction(communication.instruction) or instruction
        pairs = pairs_of(program, carrier) if communication.kind in PAIRWISE else ()
        size = self.where.devices
        if pairs:
            time = of_pairs(communication.bytes, pairs, self.where)
        else:
            devices = (device_groups(program, carrier) or ((),))[0]
            time = within_slice(communication.kind, communication.bytes, group, self.where, devices)
        reach = "sparse core" if OFFLOADED in carrier.backend_config else "ici"
        price = _of_links(time, reach, PriceFamily.DOMAIN, "ICI", communication.bytes)
        crossing = any(source // size != to // size for source, to in pairs)
        slices = 1 + crossing if pairs else -(-group // size)
        if slices < 2:
            return price
        share = communication.bytes if pairs else communication.bytes // size
        across = between_slices(communication.kind, share, slices, self.where)
        network = _of_links(across, "network", PriceFamily.NETWORK, "DCN", communication.bytes)
        return max(price, network, key=lambda one: one.seconds)

    def _transfer(self, transfer: Transfer, instruction: Instruction) -> Price:
        """Price the send; the recv ends with it."""
        if transfer.send is not None and instruction.name != transfer.send:
            return FREE
        slices = transfer.slices or self.where.slices
        size = transfer.bytes(slices) or transfer.buffer_bytes
        time = between_slices(transfer.kind, size, slices, self.where)
        return _of_links(time, "network", PriceFamily.NETWORK, "DCN", size)

    @property
    def _hertz(self) -> float:
        return self.where.tpu.clock_ghz * 1e9

    @property
    def _hbm(self) -> float:
        return self.chip.hbm_bytes * HBM_SHARE


def _of_links(time: TransferTime, reach: str, family: PriceFamily, link: str, size: int) -> Price:
    decides = "bandwidth" if time.size_s > time.way_s else "latency"
    how = f"{size / 1e6:.3g} MB over {time.how}"
    return price_around(
        time.seconds, _REACH[reach], PriceSource.ANALYTIC, family, how, decides, link
    )


def _around(seconds: float, reach: str, family: PriceFamily, how: str) -> Price:
    return price_around(seconds, _REACH[reach], PriceSource.ANALYTIC, family, how)


def _stated(instruction: Instruction) -> tuple[float, float] | None:
    """Return the FLOPs and bytes that a kernel's author stated (`pl.CostEstimate`)."""
    try:
        config: Any = json.loads(instruction.backend_config)
        estimate = config["custom_call_config"]["cost_estimate"]
        return float(estimate.get("flops", 0)), float(
            cast("str", estimate.get("bytes_accessed", 0))
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def estimated_cycles(instruction: Instruction) -> int | None:
    """Return the cycles that XLA estimates; None if it wrote none."""
    match = _CYCLES.search(instruction.backend_config)
    return int(match[1]) or None if match else None


def _windows(program: Program, instruction: Instruction) -> list[Windows]:
    """Return the windows of an operation's gathers and scatters; TPUs fuse fusions."""
    own = windows_of(program, instruction)
    inner = [it for member in program.body(instruction) for it in _windows(program, member)]
    return [own, *inner] if own else inner


def _names_memory(instruction: Instruction) -> bool:
    """Return whether it only names a part of memory, which takes no time."""
    return instruction.custom_call_target in _FREE


def _hbm_share(program: Program, instruction: Instruction) -> float:
    """Return the share of an operation's operands and results that are in HBM, by bytes."""
    shapes = [instruction.shape, *(operand.shape for operand in program.operands(instruction))]
    leaves = [leaf for shape in shapes for leaf in shape.leaves]
    whole = sum(leaf.bytes for leaf in leaves)
    return sum(leaf.bytes for leaf in leaves if leaf.memory_space == _HBM) / whole if whole else 0.0
