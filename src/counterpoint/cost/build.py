"""The cost model of a Target: for each instruction, the first source that knows it.

Measured in a profile of this workload; else in a user's table; else in a table that Counterpoint
ships; else by a formula; else a bound. Launched work is never free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakKeyDictionary

from msgspec import structs

from counterpoint.cost.collectives.pricing import price_collective
from counterpoint.cost.compute.machine import ComputeDevice, machine_of
from counterpoint.cost.compute.pricing import price_compute
from counterpoint.cost.compute.user_kernel import price_described
from counterpoint.cost.floor import least_seconds
from counterpoint.cost.measured import MeasuredCosts
from counterpoint.cost.model import FREE, Contention, CostModel, Price, PriceFamily, PriceSource
from counterpoint.cost.scalars import Scalars, default_scalars
from counterpoint.cost.tables import CollectiveTable, GemmTable, KernelTable, Table
from counterpoint.cost.what_if import WhatIf
from counterpoint.hardware.target import Target
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launches
from counterpoint.hlo.schedule import is_done

_LAUNCH_S: Final = 1.3e-6
"""Gap between the end of a kernel and the start of the next on its stream.

It is the median of 13,706 on A100 in a public profile (NVIDIA/JAX-Toolbox, Pax), three quarters of
them between 1.0 and 1.5 us.
"""


def build_model(
    target: Target,
    *,
    scalars: Scalars | None = None,
    measured: MeasuredCosts | None = None,
    tables: Sequence[Table] = (),
    what_if: WhatIf | None = None,
) -> CostModel:
    """Build the cost model of the target.

    `tables` are the user's (nccl-tests logs, GEMM benchmarks, kernels) and take precedence over
    ours; `scalars` default to the chip's.
    """
    if target.tpu is not None:
        from counterpoint.cost.tpu.pricing import TpuPrices

        return TpuPrices(where=target.tpu, chip=target.chip, measured=measured, what_if=what_if)
    known = scalars or default_scalars(target.gpu)
    requested = what_if or WhatIf()
    return PriceChain(
        target=target,
        faster=_with_links(target, requested),
        machine=_faster(machine_of(target, known), requested),
        measured=measured,
        gemm_tables=tuple(table for table in tables if isinstance(table, GemmTable)),
        collective_tables=tuple(table for table in tables if isinstance(table, CollectiveTable)),
        kernel_tables=tuple(table for table in tables if isinstance(table, KernelTable)),
        what_if=what_if,
    )


def _with_links(target: Target, what_if: WhatIf) -> Target:
    network, domain, host = map(
        what_if.of, (PriceFamily.NETWORK, PriceFamily.DOMAIN, PriceFamily.HOST)
    )
    wiring = target.wiring
    if not wiring.joins:  # a domain of plain cards is joined by PCIe
        host *= domain
    if (domain, host) != (1.0, 1.0):
        own = structs.replace(
            wiring,
            domain_bytes_per_s=wiring.domain_bytes_per_s * domain,
            pcie_bytes_per_s=wiring.pcie_bytes_per_s * host,
        )
        target = replace(target, own_wiring=own)
    if network == 1.0:
        return target
    gbps = target.links.nic_bytes_per_s * 8 / 1e9
    return replace(target, nic_gbps=gbps * network)


def _faster(machine: ComputeDevice, what_if: WhatIf) -> ComputeDevice:
    matrix = what_if.of(PriceFamily.MATMUL)
    return replace(
        machine,
        flops={dtype: rate * matrix for dtype, rate in machine.flops.items()},
        memory_bytes_per_s=machine.memory_bytes_per_s * what_if.of(PriceFamily.MEMORY),
        host_bytes_per_s=machine.host_bytes_per_s * what_if.of(PriceFamily.HOST),
    )


_Prices = dict[tuple[str, str], Price]


@dataclass(frozen=True, eq=False, kw_only=True)
class PriceChain:
    """A CostModel that tries one source after another, once per instruction."""

    target: Target
    faster: Target  # with the links of the what-if
    machine: ComputeDevice
    measured: MeasuredCosts | None
    gemm_tables: tuple[GemmTable, ...]
    collective_tables: tuple[CollectiveTable, ...]
    kernel_tables: tuple[KernelTable, ...]
    what_if: WhatIf | None
    _known: WeakKeyDictionary[Program, _Prices] = field(
        default_factory=WeakKeyDictionary[Program, _Prices], repr=False
    )

    @property
    def contention(self) -> Contention:
        slowdown = self.machine.scalars.slowdown
        return Contention(compute=slowdown.value, source=slowdown.source, reach=slowdown.reach)

    @property
    def launch_s(self) -> float:
        return _LAUNCH_S / (self.what_if.of(PriceFamily.LAUNCH) if self.what_if else 1.0)

    def price(self, program: Program, instruction: Instruction) -> Price:
        """Price one execution; a done is free, its start has the price."""
        prices = self._known.setdefault(program, {})
        key = (instruction.computation, instruction.name)
        if key not in prices:
            price = self._unscaled(program, instruction)
            if self.what_if and price is not FREE:
                price = self.what_if.apply(program, instruction, price)
            prices[key] = price
        return prices[key]

    def _unscaled(self, program: Program, instruction: Instruction) -> Price:
        if not launches(instruction) or is_done(instruction):
            return FREE
        communicates = collective(program, instruction) is not None
        modeled = self._collective(program, instruction) if communicates else None
        if self.measured is not None:
            family = modeled.family if modeled else None
            price = self.measured.price(program, instruction, family)
            if price is not None:
                return price.times(self._links(program, instruction)) if modeled else price
        if modeled is not None:
            return modeled
        described = price_described(program, instruction, self.machine, self.kernel_tables)
        if described is not None:
            return described
        price = price_compute(program, instruction, self.machine, self.gemm_tables)
        if price.source is PriceSource.USER_TABLE:  # of the user's own kernels, or measured
            return price
        return price.at_least(least_seconds(program, instruction, self.machine))

    def _collective(self, program: Program, instruction: Instruction) -> Price | None:
        scalars, tables = self.machine.scalars, self.collective_tables
        price = price_collective(program, instruction, self.target, scalars, tables)
        if price is None or self.faster is self.target:
            return price
        if price.source is PriceSource.USER_TABLE:
            return price.times(self._links(program, instruction))
        return price_collective(program, instruction, self.faster, scalars, tables)

    def _links(self, program: Program, instruction: Instruction) -> float:
        """Return the what-if factor of a measured collective, from the model's prices."""
        if self.faster is self.target:
            return 1.0
        usual, faster = (
            price_collective(program, instruction, target, self.machine.scalars)
            for target in (self.target, self.faster)
        )
        return faster.seconds / usual.seconds if usual and faster and usual.seconds else 1.0
