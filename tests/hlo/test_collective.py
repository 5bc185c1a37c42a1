"""Collectives: bytes by the nccl-tests convention, groups in every mode, pairs and wrappers."""

# ruff: noqa: E501, ISC004 (HLO has long lines)

from __future__ import annotations

from collections.abc import Callable

import pytest

from counterpoint.hlo.collectives import collective, replica_groups
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.schedule import async_pairs, start_of
from counterpoint.hlo.text_reader import program_from_text

Build = Callable[..., Program]
ADD = """
%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}
"""


def find(program: Program, name: str) -> Instruction:
    found = program.instruction(name)
    assert found, name
    return found


@pytest.mark.parametrize(
    ("line", "kind", "size", "n", "factor"),
    [
        ("f32[64] all-gather(%p), replica_groups=[1,8]<=[8], dimensions={0}, channel_id=1, "
         "use_global_device_ids=true", "all-gather", 256, 8, 7 / 8),
        ("f32[4] reduce-scatter(%p), replica_groups={{0,1},{2,3}}, dimensions={0}, "
         "to_apply=%add", "reduce-scatter", 32, 2, 1 / 2),
        ("f32[8] all-reduce(%p), replica_groups=[2,4]<=[8], channel_id=1, "
         "use_global_device_ids=true, to_apply=%add", "all-reduce", 32, 4, 2 * 3 / 4),
        ("f32[8] all-to-all(%p), replica_groups=mesh['x'=2,'y'=4] {'y'}, channel_id=2, "
         "dimensions={0}", "all-to-all", 32, 4, 3 / 4),
        ("f32[8] ragged-all-to-all(%p, %p, %i, %i, %i, %i), replica_groups={{0,1}}",
         "ragged-all-to-all", 32, 2, 1 / 2),
        ("f32[8] collective-permute(%p), channel_id=3, source_target_pairs={{0,1},{1,2},{2,0},"
         "{4,5}}", "collective-permute", 32, 3, 1.0),
        ("f32[8] collective-broadcast(%p), replica_groups={{0,1,2,3}}",
         "collective-broadcast", 32, 4, 1.0),
        ("(f32[8], u32[], token[]) send(%p, %t), channel_id=4, frontend_attributes="
         '{_xla_send_recv_source_target_pairs="{{0,1},{1,2}}"}', "send", 32, 3, 1.0),
        ("(f32[8], u32[], token[]) recv(%t), channel_id=4", "recv", 32, None, 1.0),
        # Starts are typed (inputs, outputs, ...); combined ones count the sum.
        ("(f32[8], f32[64]) all-gather-start(%p), replica_groups=[1,8]<=[8], dimensions={0}",
         "all-gather", 256, 8, 7 / 8),
        ("((f32[8], f32[8]), (f32[16], f32[16])) all-gather-start(%p, %p), "
         "replica_groups=[4,2]<=[8], dimensions={0}", "all-gather", 128, 2, 1 / 2),
        ("(f32[8], f32[8]) all-reduce-start(%p, %p), replica_groups=[4,2]<=[8], to_apply=%add",
         "all-reduce", 64, 2, 1.0),
        ("((f32[8]), f32[2], u32[]) reduce-scatter-start(%p), replica_groups=[2,4]<=[8], "
         "dimensions={0}, to_apply=%add", "reduce-scatter", 32, 4, 3 / 4),
        # In place: two buffers and two offsets, one transfer.
        ("f32[8] collective-permute(%p, %p, %i, %i), source_target_pairs={{0,1},{1,0}}",
         "collective-permute", 32, 2, 1.0),
    ],
)  # fmt: skip
def test_bytes_and_bus_factor(
    module: Build, line: str, kind: str, size: int, n: int | None, factor: float
) -> None:
    program = module(
        "  %p = f32[8] parameter(0)\n  %i = s32[] constant(0)\n  %t = token[] after-all()\n"
        f"  ROOT %it = {line}",
        before=ADD,
    )
    found = collective(program, find(program, "it"))
    assert found
    assert (found.kind, found.bytes, found.group_size) == (kind, size, n)
    assert found.bus_factor == pytest.approx(factor)


def test_a_bus_factor_needs_the_group(module: Build) -> None:
    program = module(
        "  %p = f32[8] parameter(0)\n  ROOT %it = f32[8] all-to-all(%p)", attributes=""
    )
    found = collective(program, find(program, "it"))
    assert found
    assert found.group_size == 1
    assert found.bus_factor == 0


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        # No channel: ids are replicas, of one partition at a time.
        ("replica_groups={{0,1}}", ((0, 3), (1, 4), (2, 5))),
        ("replica_groups={}", ((0, 3), (1, 4), (2, 5))),
        # A channel: all partitions of these replicas.
        ("channel_id=1, replica_groups={{0},{1}}", ((0, 1, 2), (3, 4, 5))),
        ("channel_id=1", ((0, 1, 2, 3, 4, 5),)),
        # Global ids: as they are.
        ("channel_id=1, use_global_device_ids=true, replica_groups={{0,5},{1,4}}",
         ((0, 5), (1, 4))),
    ],
)  # fmt: skip
def test_what_ids_in_groups_mean(
    module: Build, attributes: str, expected: tuple[tuple[int, ...], ...]
) -> None:
    program = module(
        "  %p = f32[8] parameter(0)\n"
        f"  ROOT %it = f32[8] all-reduce(%p), {attributes}, to_apply=%add",
        before=ADD,
        attributes="num_partitions=3, replica_count=2",
    )
    it = find(program, "it")
    assert replica_groups(program, it) == expected
    found = collective(program, it)
    assert found
    assert found.group_size == len(expected[0])


def test_a_channel_on_an_all_to_all_counts_partitions(module: Build) -> None:
    program = module(
        "  %p = f32[8] parameter(0)\n"
        "  ROOT %it = f32[8] all-to-all(%p), channel_id=1, replica_groups={{0,2}}",
        attributes="num_partitions=3, replica_count=2",
    )
    assert replica_groups(program, find(program, "it")) == ((0, 2), (3, 5))


def test_a_done_is_the_collective_of_its_start(gpu_step: Program) -> None:
    done = find(gpu_step, "reduce-scatter-done")
    start = start_of(gpu_step, done)
    assert start
    assert start.name == async_pairs_reversed(gpu_step)[done.name]
    assert collective(gpu_step, done) == collective(gpu_step, start)


def async_pairs_reversed(program: Program) -> dict[str, str]:
    return {done: start for start, done in async_pairs(program).items()}


def test_what_the_gpu_compiler_wraps_is_found_by_its_inner_name(gpu_step: Program) -> None:
    ((inner, start),) = gpu_step.wrapped.items()
    assert start == "reduce-scatter-start"
    assert gpu_step.instruction(inner) is gpu_step.instruction(start)
    found = collective(gpu_step, find(gpu_step, inner))
    assert found
    # Two gradients of 1024 x 2048 in bf16, combined, among four ranks.
    assert (found.kind, found.bytes, found.group_size) == ("reduce-scatter", 8_388_608, 4)
    assert found.is_async


def test_sync_starts_are_not_asynchronous(gpu_step: Program) -> None:
    found = collective(gpu_step, find(gpu_step, "all-gather-start"))
    assert found
    assert not found.is_async


def test_every_collective_of_the_zoo_is_recognised(load: Callable[[str], Program]) -> None:
    for name in ("cpu_zoo.txt.xz", "gpu_zoo.hlo.pb.xz"):
        program = load(name)
        kinds = {found.kind for it in program.instructions if (found := collective(program, it))}
        assert kinds >= {"all-reduce", "all-gather", "reduce-scatter", "all-to-all"}
        assert "collective-permute" in kinds


def test_a_collective_inside_a_fusion_is_recognised() -> None:
    program = program_from_text(
        "HloModule tpu, is_scheduled=true, num_partitions=4\n"
        + ADD
        + """
%fused (a: bf16[8,128]) -> f32[8,128] {
  %a = bf16[8,128]{1,0:T(8,128)(2,1)} parameter(0)
  %wide = f32[8,128]{1,0:T(8,128)} convert(%a)
  ROOT %all-reduce.1 = f32[8,128]{1,0:T(8,128)} all-reduce(%wide), replica_groups=[1,4]<=[4], channel_id=1, use_global_device_ids=true, to_apply=%add
}
ENTRY %main (p: bf16[8,128]) -> f32[8,128] {
  %p = bf16[8,128]{1,0:T(8,128)(2,1)} parameter(0)
  ROOT %all-reduce_fusion = f32[8,128]{1,0:T(8,128)} fusion(%p), kind=kCustom, calls=%fused
}
"""
    )
    found = collective(program, find(program, "all-reduce_fusion"))
    assert found
    assert (found.kind, found.bytes, found.group_size) == ("all-reduce", 4096, 4)


def test_an_async_start_of_several_instructions_keeps_its_computation(module: Build) -> None:
    program = module(
        """
  %p = f32[8] parameter(0)
  %start = ((f32[8]), f32[16], u32[]) async-start(%p), calls=%wrapped
  %update = ((f32[8]), f32[16], u32[]) async-update(%start)
  ROOT %done = f32[16] async-done(%update)
""",
        before="""
%wrapped (q: f32[8]) -> f32[16] {
  %q = f32[8] parameter(0)
  %negative = f32[8] negate(%q)
  ROOT %gathered = f32[16] all-gather(%negative), replica_groups=[4,2]<=[8], dimensions={0}
}
""",
    )
    assert "wrapped" in program.computations
    assert dict(async_pairs(program)) == {"start": "done"}
    found = collective(program, find(program, "done"))
    assert found
    assert (found.kind, found.bytes, found.is_async) == ("all-gather", 64, True)


def test_an_async_start_of_one_instruction_becomes_that_instruction(module: Build) -> None:
    before = """
%wrapped (q: f32[8]) -> f32[4] {
  %q = f32[8] parameter(0)
  ROOT %inner = f32[4] slice(%q), slice={[0:4]}
}
"""
    program = module(
        """
  %p = f32[8] parameter(0)
  %s = ((f32[8]), f32[4], u32[]) async-start(%p), calls=%wrapped
  ROOT %d = f32[4] async-done(%s)
""",
        before=before,
    )
    assert find(program, "s").opcode == "slice-start"
    assert find(program, "d").opcode == "slice-done"
    assert find(program, "inner") is find(program, "s")
    assert "wrapped" not in program.computations
    assert collective(program, find(program, "s")) is None


def test_transfers_to_the_host_are_no_collectives(module: Build) -> None:
    program = module("""
  %p = f32[8] parameter(0)
  %t = token[] after-all()
  %s = (f32[8], u32[], token[]) send(%p, %t), channel_id=1, is_host_transfer=true
  ROOT %d = token[] send-done(%s), channel_id=1, is_host_transfer=true
""")
    assert collective(program, find(program, "s")) is None
    assert collective(program, find(program, "d")) is None
    assert dict(async_pairs(program)) == {"s": "d"}
