"""A TPU's schedule: one stream of instructions, and copies, links and the network beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.cost.build import build_model
from counterpoint.cost.model import FREE, Contention, Price, PriceFamily, PriceSource
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launches
from counterpoint.hlo.reader import read_program
from counterpoint.hlo.schedule import is_done
from counterpoint.hlo.text_reader import program_from_text
from counterpoint.simulate.simulation import simulate

DATA = Path(__file__).parents[1] / "hlo" / "data"
TPU = 'backend_config={"scoped_memory_configs":[]}'


class Seconds:
    """Prices of instructions by name; anything else takes no time."""

    contention = Contention()
    launch_s = 0.0

    def __init__(self, **seconds: float) -> None:
        self._seconds = {name.replace("_", "-"): value for name, value in seconds.items()}

    def price(self, program: Program, instruction: Instruction) -> Price:
        del program
        seconds = self._seconds.get(instruction.name, 0.0)
        if not seconds or not launches(instruction) or is_done(instruction):
            return FREE
        source, family = PriceSource.COMPILER, PriceFamily.MATMUL
        return Price(seconds, seconds, seconds, source, family)


def program(lines: str) -> Program:
    return program_from_text(
        "HloModule test, is_scheduled=true, num_partitions=4\n\n"
        "ENTRY %main (p: f32[8]) -> f32[8] {\n"
        "  %p = f32[8]{0} parameter(0)\n"
        f"{lines}\n"
        f"  ROOT %out = f32[8]{{0}} add(%p, %p), {TPU}\n}}\n"
    )


def permute(name: str, pairs: str) -> str:
    return (
        f"  %{name} = (f32[8]{{0}}, f32[8]{{0}}) collective-permute-start(%p), channel_id=1,"
        f" source_target_pairs={pairs}"
    )


def done(name: str, opcode: str = "collective-permute") -> str:
    return f"  %{name}-done = f32[8]{{0}} {opcode}-done(%{name})"


def test_shards_that_go_both_ways_around_a_ring_do_not_wait_for_each_other() -> None:
    forward, backward = "{{0,1},{1,2},{2,3},{3,0}}", "{{1,0},{2,1},{3,2},{0,3}}"
    both = program("\n".join([permute("a", forward), permute("b", backward), done("a"), done("b")]))
    assert simulate(both, Seconds(a=2, b=2)).step_s == pytest.approx(2)
    same = program("\n".join([permute("a", forward), permute("b", forward), done("a"), done("b")]))
    assert simulate(same, Seconds(a=2, b=2)).step_s == pytest.approx(4)


def test_a_collective_of_the_core_shares_the_links_with_one_beside_it() -> None:
    alone = "  %sync = f32[8]{0} all-to-all(%p), channel_id=2, replica_groups={{0,1,2,3}}"
    beside = program("\n".join([permute("a", "{{0,1},{1,0}}"), alone, done("a")]))
    # Both at half the rate until the shorter has ended, at 4; then 1 of 3 is left.
    simulation = simulate(beside, Seconds(a=3, sync=2))
    assert simulation.step_s == pytest.approx(4 + 1)
    assert simulation.communicating_s == pytest.approx(5)
    after = program("\n".join([permute("a", "{{0,1},{1,0}}"), done("a"), alone]))
    assert simulate(after, Seconds(a=3, sync=2)).step_s == pytest.approx(3 + 2)


def test_a_copy_within_the_chip_slows_down_nothing_beside_it() -> None:
    copied = program(
        "  %copy = (f32[8]{0:S(1)}, f32[8]{0}, u32[]{:S(2)}) copy-start(%p)\n"
        f"  %work = f32[8]{{0}} multiply(%p, %p), {TPU}\n"
        "  %copied = f32[8]{0:S(1)} copy-done(%copy)"
    )
    simulation = simulate(copied, Seconds(copy=3, work=2))
    assert simulation.step_s == pytest.approx(3)
    assert simulation.exposed_s == 0
    assert simulation.timeline.lines == ("main", "DMA")


def test_data_arrives_once_the_other_slice_has_sent_it() -> None:
    attributes = (
        'frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",'
        '_xla_host_transfer_rendezvous="r",_xla_megascale_target="{1,2}x{0:3}",'
        '_xla_megascale_transfer_type="ALL_REDUCE"}, is_host_transfer=true'
    )
    typed = "(f32[8]{0}, u32[], token[])"
    sent = program(
        "  %token = token[] after-all()\n"
        f"  %recv = {typed} recv(%token), channel_id=1, {attributes}\n"
        f"  %before = f32[8]{{0}} multiply(%p, %p), {TPU}\n"
        f"  %send = {typed} send(%before, %token), channel_id=2, {attributes}\n"
        "  %send-done = token[] send-done(%send), channel_id=2\n"
        f"  %between = f32[8]{{0}} multiply(%p, %p), {TPU}\n"
        "  %recv-done = (f32[8]{0}, token[]) recv-done(%recv), channel_id=1"
    )
    simulation = simulate(sent, Seconds(before=5, between=1, send=4))
    assert simulation.step_s == pytest.approx(5 + 4)
    assert simulation.exposed_s == pytest.approx(3)


def test_gathers_beside_fusions_are_hidden_and_the_step_is_the_sum_of_the_rest() -> None:
    read = read_program(DATA / "tpu_step.hlo.pb.xz")
    model = build_model(parse_target("v5e-8", tpus=True))
    simulation = simulate(read, model, target=parse_target("v5e-8", tpus=True))
    assert 0 < simulation.exposed_s < simulation.communicating_s
    assert not simulation.uncounted
    assert simulation.rests_on[PriceSource.COMPILER] > 0
    assert simulation.low_s < simulation.step_s < simulation.high_s
    assert [device.kind for device in simulation.timeline.devices] == ["tpu"]
    assert "ICI" in simulation.timeline.lines
    assert "ICI backward" in simulation.timeline.lines


OFFLOADED = """HloModule test, is_scheduled=true, num_partitions=4

%called (q: f32[2]) -> f32[8] {
  %q = f32[2]{0} parameter(0)
  ROOT %gather = f32[8]{0} all-gather(%q), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0},
    use_global_device_ids=true,
    backend_config={"collective_offload_config":{"all_gather_offload_config":{}}}
}, execution_thread="sparsecore"

ENTRY %main (p: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0)
  %start = ((), (), (s32[1]{0})) call-start(), async_execution_thread="sparsecore", to_apply=%called
  %before = f32[2]{0} multiply(%p, %p), TPU
  %update = ((f32[2]{0}), f32[8]{0}) call-update(%start, %before)
  %beside = f32[2]{0} multiply(%p, %p), TPU
  %done = f32[8]{0} call-done(%update)
  ROOT %after = f32[2]{0} multiply(%p, %p), TPU
}
""".replace("TPU", TPU)


def test_a_collective_of_the_sparse_core_runs_beside_the_tensor_core_once_it_has_its_data() -> None:
    offloaded = program_from_text(OFFLOADED)
    found = [it for it in offloaded.instructions if it.name in ("start", "done")]
    assert [it.opcode for it in found] == ["all-gather-start", "all-gather-done"]
    gather = collective(offloaded, found[0])
    assert gather is not None
    assert (gather.kind, gather.bytes, gather.group_size) == ("all-gather", 32, 4)
    # It neither slows down what runs beside it, nor moves data before there is any.
    simulation = simulate(offloaded, Seconds(start=2, before=5, beside=3, after=1))
    assert simulation.step_s == pytest.approx(5 + 3 + 1)
    assert simulation.exposed_s == 0
    assert simulation.communicating_s == pytest.approx(2)
    longer = simulate(offloaded, Seconds(start=4, before=5, beside=3, after=1))
    assert longer.step_s == pytest.approx(5 + 4 + 1)
    assert longer.exposed_s == pytest.approx(1)
