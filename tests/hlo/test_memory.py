"""XLA's plan of buffers: replayed to the byte, and every byte with an owner.

`llama_step.hlo.pb.xz` is `examples/llama.py --size 100m --layers 4 --batch 8 --remat minimal`,
compiled for 8xH100 with jaxlib 0.10.2; what XLA said of it is in LLAMA.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core import InputError
from counterpoint.core.unpacking import unpack
from counterpoint.hlo.memory.owners import Held, Owner, Owners
from counterpoint.hlo.memory.plan import BlockKind, BufferPlan, plan_from_proto
from counterpoint.hlo.memory.replay import Replay
from counterpoint.hlo.reader import read_program

STEP = Path(__file__).parent / "data" / "llama_step.hlo.pb.xz"
LLAMA = {
    "argument": 111_552_644,
    "output": 111_487_416,
    "alias": 111_487_108,
    "temp": 1_584_844_520,
    "constants": 4,
    "peak": 1_696_378_812,
}
SHARED = (
    "70b_64",
    "8b_b2_full",
    "8b_b2_minimal",
    "ex70b",
    "f_full_off",
    "n_b1_full",
)
"""Programs of the feasibility study of which XLA reports the peak of one memory space."""
OWNERS = {
    "8b_b2_minimal": {
        Owner.SAVED: 42.00,
        Owner.OPTIMIZER: 7.48,
        Owner.VOCABULARY: 3.91,
        Owner.PARAMETERS: 3.74,
        Owner.GRADIENTS: 3.25,
        Owner.RECOMPUTED: 1.44,
        Owner.COPIES: 1.13,
    },
    "70b_64": {
        Owner.SAVED: 32.50,
        Owner.OPTIMIZER: 8.03,
        Owner.GRADIENTS: 4.47,
        Owner.PARAMETERS: 4.01,
        Owner.COPIES: 3.98,
        Owner.RECOMPUTED: 2.31,
    },
}
"""GiB, by hand and by a prototype of other rules."""


def unpacked(path: Path) -> bytes:
    return bytes(unpack(path.read_bytes(), path.name))


def plan_of(data: bytes) -> BufferPlan:
    plan = plan_from_proto(data)
    assert plan is not None
    return plan


def peak_of(plan: BufferPlan) -> int:
    kinds = (BlockKind.ARGUMENT, BlockKind.OUTPUT, BlockKind.CONSTANT)
    base = sum(block.size for block in plan.blocks_of(*kinds))
    return base + sum(Replay(plan, trace).peak().bytes for trace in plan.traces)


def held_at_peak(data: bytes) -> list[Held]:
    plan = plan_of(data)
    live = {value for trace in plan.traces for value in Replay(plan, trace).peak().values}
    return Owners(read_program(data), plan).held(live)


def test_the_replayed_peak_and_the_blocks_are_those_that_xla_reports() -> None:
    plan = plan_of(unpacked(STEP))
    assert peak_of(plan) == LLAMA["peak"]
    needs = LLAMA["argument"] + LLAMA["output"] - LLAMA["alias"]
    assert sum(plan.allocated.values()) == needs + LLAMA["temp"] + LLAMA["constants"]


@pytest.mark.parametrize("name", SHARED)
def test_so_they_are_for_large_programs_and_other_releases(shared: Path, name: str) -> None:
    hlo = shared / "data" / "memory" / "hlo"
    plan = plan_of(unpacked(hlo / f"{name}.hlo.pb.gz"))
    stats = json.loads((hlo / f"{name}.stats.json").read_text())["stats"]
    assert peak_of(plan) == stats["peak_memory_in_bytes"]


def test_the_arena_is_what_a_real_gpu_allocated(shared: Path) -> None:
    plan = plan_of(unpacked(shared / "data" / "memory" / "hlo" / "te_fused_jit_loss_fn.hlo.pb"))
    (arena,) = plan.blocks_of(BlockKind.TEMPORARY)
    assert arena.size == 319_293_224


def test_every_byte_has_an_owner_and_every_temporary_a_line() -> None:
    data = unpacked(STEP)
    rows = held_at_peak(data)
    assert sum(row.bytes for row in rows) == sum(plan_of(data).allocated.values())
    assert not [row for row in rows if row.owner is Owner.TEMPORARIES]
    temporary = [row for row in rows if row.source is not None]
    assert {row.owner for row in temporary} >= {Owner.SAVED, Owner.VOCABULARY}


def test_values_that_a_policy_saves_are_known_by_their_lines(shared: Path) -> None:
    rows = held_at_peak(unpacked(shared / "data" / "memory" / "hlo" / "70b_64.hlo.pb.gz"))
    named = {row.source.rpartition("/")[2] for row in rows if row.is_saved_by_name and row.source}
    attention = {f"attentions.py:{line}" for line in (1279, 1280, 1281, 1315)}
    assert named == {"llama2.py:82", *attention}
    assert {row.layers for row in rows if row.is_saved_by_name} == {80}


@pytest.mark.parametrize("name", OWNERS)
def test_owners_are_those_of_a_count_by_hand(shared: Path, name: str) -> None:
    sums: Counter[Owner] = Counter()
    for row in held_at_peak(unpacked(shared / "data" / "memory" / "hlo" / f"{name}.hlo.pb.gz")):
        sums[row.owner] += row.bytes
    counted = {owner: sums[owner] / 2**30 for owner in OWNERS[name]}
    assert counted == pytest.approx(OWNERS[name], abs=0.01)


def test_a_module_without_a_plan_has_none() -> None:
    assert plan_from_proto(unpacked(STEP.with_name("gpu_step.hlo.pb.xz"))) is None


@given(cut=st.integers(0, 400_000), at=st.integers(0, 400_000), byte=st.integers(0, 255))
def test_damage_is_an_error_or_harmless(cut: int, at: int, byte: int) -> None:
    data = bytearray(unpacked(STEP))
    data[at] = byte
    for damaged in (bytes(data), bytes(data[:cut])):
        with suppress(InputError):
            plan = plan_from_proto(damaged)
            if plan is not None:
                peak_of(plan)
