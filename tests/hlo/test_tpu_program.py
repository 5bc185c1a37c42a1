"""Programs that libtpu scheduled: loops, collectives beside fusions, Mosaic kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from counterpoint.hlo.category import Category, category
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.loops import loop_multiplier, trip_count
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.schedule import async_pairs, is_done, is_start
from counterpoint.hlo.text_reader import program_from_text
from counterpoint.hlo.transfers import transfers
from counterpoint.hlo.work import bytes_accessed

Load = Callable[[str], Program]

LAYERS = 3
WIDTH = 1024


@pytest.fixture(scope="module")
def program(load: Load) -> Program:
    return load("tpu_step.hlo.pb.xz")


def test_proto_and_text_are_the_same_program(program: Program, load: Load) -> None:
    text = load("tpu_step.txt.xz")
    assert list(program.computations) == list(text.computations)
    for name, computation in program.computations.items():
        for mine, theirs in zip(
            computation.instructions, text.computations[name].instructions, strict=True
        ):
            # The metadata of a kernel is JSON, of which the text reader drops the last brace.
            assert replace(mine, frontend_attributes=()) == replace(theirs, frontend_attributes=())


def test_transfers_between_slices_are_matched(load: Load) -> None:
    program = load("tpu_slices.hlo.pb.xz")
    found = {id(transfer): transfer for transfer in transfers(program).values()}.values()
    assert {transfer.kind for transfer in found} == {
        "all-reduce", "all-gather", "collective-permute"
    }  # fmt: skip
    for transfer in found:
        assert transfer.send
        assert transfer.send_done
        assert transfer.recv
        assert transfer.recv_done


def test_every_loop_is_counted(program: Program) -> None:
    loops = [it for it in program.instructions if it.opcode == "while"]
    counts = [trip_count(program, loop) for loop in loops]
    # The layers forward and backward; windowed einsums take two shards per trip in two directions.
    assert counts.count(LAYERS) == 2
    assert set(counts) == {2, LAYERS}


def test_every_async_collective_is_a_pair_and_moves_its_bytes_once(program: Program) -> None:
    starts = [it for it in program.instructions if it.name.startswith("async-collective-start")]
    assert starts
    for start in starts:
        assert is_start(start)
        done = program.instruction(async_pairs(program)[start.name])
        assert done is not None
        assert is_done(done)
        found = collective(program, start)
        assert found is not None
        assert (found.kind, found.is_async, found.group_size) == ("all-gather", True, 8)
        assert found.bytes in (2 * WIDTH * WIDTH, 2 * 4 * WIDTH * WIDTH)


def test_fusions_between_a_start_and_its_done_compute(program: Program) -> None:
    between = [
        it
        for computation in launched(program)
        for it in computation.instructions
        if it.opcode == "fusion" and any(inner.opcode == "all-gather" for inner in program.body(it))
    ]
    assert between
    for fusion in between:
        assert collective(program, fusion) is None
        assert category(program, fusion) is Category.MATMUL
        whole = sum(operand.shape.bytes for operand in program.operands(fusion))
        assert (bytes_accessed(program, fusion) or 0) < whole + fusion.shape.bytes


def test_matmuls_and_attention_run_as_often_as_the_layers_have_them(program: Program) -> None:
    kernels = [it for it in program.instructions if it.custom_call_target == "tpu_custom_call"]
    assert {category(program, kernel) for kernel in kernels} == {Category.ATTENTION}
    # Forward, forward again for the backward pass, and two of the backward pass.
    assert sum(loop_multiplier(program, it.computation) or 0 for it in kernels) == 4 * LAYERS


def test_an_attribute_of_several_lines_ends_no_computation() -> None:
    program = program_from_text(
        "HloModule test, is_scheduled=true\n\n"
        "ENTRY %main (p: f32[8]) -> f32[8] {\n"
        "  %p = f32[8]{0} parameter(0)\n"
        '  %kernel = f32[8]{0} custom-call(%p), custom_call_target="tpu_custom_call",'
        " frontend_attributes={kernel_metadata={\n"
        '"xprof_metadata":"{\\"block_q\\": 512}"\n'
        '}}, metadata={op_name="a/b"}\n'
        "  ROOT %add = f32[8]{0} add(%kernel, %p)\n"
        '}, execution_thread="main"\n'
    )
    assert [it.name for it in program.instructions] == ["p", "kernel", "add"]
    kernel = program.instruction("kernel")
    assert kernel is not None
    assert kernel.op_name == "a/b"
    root = program.root("main")
    assert root is not None
    assert root.name == "add"
