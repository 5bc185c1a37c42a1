"""The load of each collective on the links that carry it.

It follows from its participants, their placement and its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.collectives.fabric import Fabric, fabric_of
from counterpoint.diagnose.step_data import StepData
from counterpoint.hardware.target import Target
from counterpoint.hlo.collectives import KINDS, pairs_by_number
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.timeline.host_transfers import host_transfers
from counterpoint.timeline.model import PRICED

if TYPE_CHECKING:
    from counterpoint.cost.collectives.placement import Placement
    from counterpoint.cost.model import Price


_PAIRWISE: Final = ("collective-permute", "collective-broadcast", "send", "recv")

_TO_ALL: Final = ("all-to-all", "ragged-all-to-all")


class Link(StrEnum):
    """The kind of link that carries a collective."""

    DOMAIN = "domain"  # NVLink, Infinity Fabric, or PCIe without either
    NETWORK = "network"  # NICs between hosts
    ICI = "ici"  # between the chips of a TPU slice
    DCN = "dcn"  # between TPU slices


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """The price of a collective in the simulator's cost model when the prediction was made."""

    how: str
    link: str  # the links that determine it: "NVLink 4", "NIC"; empty: the price is a measurement
    bound: str  # latency or bandwidth


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One collective on its link; None is not known. Bytes and rates are per device."""

    link: Link | None = None
    bytes: float | None = None  # of a device that sends
    senders: float = 1.0  # share of the devices that send: not all are the source of some pair
    capacity: float | None = None  # bytes per second, in one direction
    price: Price | None = None  # the cost model's price
    priced: Priced | None = None  # of a prediction


def wires(data: StepData) -> list[Wire]:
    """Return the wire of each row of `data.cached(collective_profile)`."""
    rows = data.cached(collective_profile).select("program", "op").rows()
    priced = _prices(data)
    return [
        replace(wire, priced=priced.get(row))
        for row, wire in zip(rows, _unpriced(data), strict=True)
    ]


def _prices(data: StepData) -> dict[tuple[Any, ...], Priced]:
    """Return the simulator's prices by program and op; none for measured collectives."""
    ops = data.timeline.ops
    if not {*PRICED} <= {*ops.columns}:
        return {}
    priced = ops.filter(pl.col("priced_how").is_not_null() | pl.col("priced_link").is_not_null())
    return {
        (program, op): Priced(how=how or "", link=link or "", bound=bound or "")
        for program, op, how, link, bound in priced.select("program", "op", *PRICED).iter_rows()
    }


def _unpriced(data: StepData) -> list[Wire]:
    fabric = fabric_of(data)
    between_slices = set(host_transfers(data.timeline).select("program", "name").rows())
    rows = data.cached(collective_profile).join(
        _factors(data), on=["program", "op"], how="left", nulls_equal=True, maintain_order="left"
    )
    return [
        replace(
            _wire(data, fabric, {**row, "dcn": (row["program"], row["op"]) in between_slices}),
            senders=_senders(*_instruction(data, row)),
        )
        for row in rows.iter_rows(named=True)
    ]


def _factors(data: StepData) -> pl.DataFrame:
    """Return, for each collective, the bytes a device sends per byte of its size."""
    ops = data.named_ops.filter(pl.col("bus_factor").is_not_null())
    return ops.group_by("program", op="shown").agg(pl.first("bus_factor"))


def _wire(data: StepData, fabric: Fabric, row: dict[str, Any]) -> Wire:
    sent = _sent(row)
    if row["dcn"]:
        return Wire(link=Link.DCN, bytes=sent, capacity=fabric.dcn_bytes_per_s)
    if fabric.kind == "tpu":
        return Wire(link=Link.ICI, bytes=sent, capacity=fabric.ici_bytes_per_s)
    target = fabric.target
    if target is None or fabric.kind != "gpu":
        return Wire(bytes=sent)
    program, instruction = _instruction(data, row)
    if program is None or instruction is None:
        return _by_size(fabric, target, row, sent)
    if pairs_by_number(instruction):
        wire = _pairs(fabric, target, program, instruction, sent)
    else:
        wire = _groups(fabric, target, program, instruction, row)
    return _priced(wire, fabric, target, program, instruction)


def _senders(program: Program | None, instruction: Instruction | None) -> float:
    """Return the share of the devices that send; 1 where the pairs are not known.

    In a ring without its closing link, `{{0,1},{1,2},{2,3}}`, the last device sends nothing. What a
    recv receives is counted by the send that sends it.
    """
    if program is None or instruction is None:
        return 1.0
    if instruction.opcode.removesuffix("-start") == "recv" and not instruction.is_host_transfer:
        return 0.0
    pairs = pairs_by_number(instruction)
    sources = {source for source, target in pairs if source != target}
    # Without a channel, pairs count replicas; each then has them for all its partitions.
    by_replica = instruction.channel_id is None and program.num_replicas > 1
    count = program.num_replicas if by_replica else program.num_partitions
    return min(len(sources) / count, 1.0) if pairs else 1.0


def _sent(row: dict[str, Any]) -> float | None:
    size, factor = row["bytes"], row["bus_factor"]
    return None if size is None or factor is None else float(size) * factor


def _instruction(
    data: StepData, row: dict[str, Any]
) -> tuple[Program, Instruction] | tuple[None, None]:
    index = row["program"]
    program = None if index is None else data.timeline.programs[int(index)].hlo()
    instruction = program.instruction(row["op"]) if program else None
    return (program, instruction) if program and instruction else (None, None)


def _by_size(fabric: Fabric, target: Target, row: dict[str, Any], sent: float | None) -> Wire:
    """Return the wire without groups: within a host if there is only one, otherwise unknown."""
    from counterpoint.cost.collectives.group_price import price_within

    size, ranks = row["bytes"], row["group_size"]
    if target.devices > target.links.domain and target.hosts > 1:
        return Wire(bytes=sent)
    price = None
    if fabric.domain_known and size and ranks and row["kind"] in KINDS.difference(_PAIRWISE):
        price = price_within(row["kind"], int(size), int(ranks), target)
    return Wire(link=Link.DOMAIN, bytes=sent, capacity=_within(fabric, target), price=price)


def _within(fabric: Fabric, target: Target, bus: bool = False) -> float | None:
    links = target.links
    if not fabric.domain_known:
        return None
    return links.host_bytes_per_s if bus else links.domain_bytes_per_s or links.host_bytes_per_s


def _pairs(
    fabric: Fabric, target: Target, program: Program, instruction: Instruction, sent: float | None
) -> Wire:
    from counterpoint.cost.collectives.placement import pair_placement, pairs_of

    pairs = pairs_of(program, instruction)
    if not pairs:
        return Wire(bytes=sent)
    bus, nic = pair_placement(pairs, target)
    if nic:
        rate = nic if fabric.network_known else None
        return Wire(link=Link.NETWORK, bytes=sent, capacity=rate)
    return Wire(link=Link.DOMAIN, bytes=sent, capacity=_within(fabric, target, bus))


def _groups(
    fabric: Fabric, target: Target, program: Program, instruction: Instruction, row: dict[str, Any]
) -> Wire:
    """Return the load of the group with most traffic: the step continues when all are done."""
    from counterpoint.cost.collectives.placement import placements

    places = placements(program, instruction, target)
    crossing = [where for where in places if where.crosses]
    if not crossing:
        bus = any(where.bus for where in places)
        return Wire(link=Link.DOMAIN, bytes=_sent(row), capacity=_within(fabric, target, bus))
    worst = max(crossing, key=lambda where: _across(row, where) / where.nic_bytes_per_s)
    rate = worst.nic_bytes_per_s if fabric.network_known else None
    return Wire(link=Link.NETWORK, bytes=_across(row, worst), capacity=rate)


def _across(row: dict[str, Any], where: Placement) -> float:
    """Return the bytes that one device sends over its NIC.

    A ring leaves each domain once, and as many rings as a domain has members share the message.
    """
    size = float(row["bytes"] or 0)
    if row["kind"] in _TO_ALL:
        return size * (where.ranks - where.ranks / where.domains) / where.ranks
    return (_sent(row) or size) / where.local


def _priced(
    wire: Wire, fabric: Fabric, target: Target, program: Program, instruction: Instruction
) -> Wire:
    from counterpoint.cost.collectives.pricing import price_collective
    from counterpoint.cost.scalars import default_scalars

    if not fabric.domain_known or (wire.link is Link.NETWORK and not fabric.network_known):
        return wire
    price = price_collective(program, instruction, target, default_scalars(target.gpu))
    return Wire(link=wire.link, bytes=wire.bytes, capacity=wire.capacity, price=price)
