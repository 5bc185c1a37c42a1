"""Reading HLO protos: the real step module of the Pax run."""

from __future__ import annotations

import lzma
import zipfile
from pathlib import Path

import pytest

from counterpoint.hlo.collectives import collective
from counterpoint.hlo.messages import MESSAGES
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.hlo.schedule import async_pairs

STEP = "dump/module_0040.pjit__wrapped_step_fn.sm_8.0_gpu_after_optimizations.hlo.pb.xz"


@pytest.fixture(scope="module")
def packed(shared: Path) -> bytes:
    with zipfile.ZipFile(shared / "data/traces/pax_fsdp4_4proc_proc0.zip") as bundle:
        return bundle.read(STEP)


@pytest.fixture(scope="module")
def step(packed: bytes) -> Program:
    return read_program(packed)


def test_the_pax_step_module_is_read_whole(step: Program) -> None:
    assert step.name == "pjit__wrapped_step_fn"
    assert step.program_id == 40
    assert step.fingerprint == "25fa0b3e673a92036f22550cd7bcb068"
    assert step.is_scheduled
    assert (step.num_partitions, step.num_replicas) == (4, 1)
    # 37,026 in the module; the computations of four async wrappers become part of their starts.
    assert len(list(step.instructions)) == 36_898
    assert len(step.wrapped) == 4


def test_every_async_start_of_the_pax_step_has_its_done(step: Program) -> None:
    pairs = async_pairs(step)
    starts = {it.name for it in step.instructions if it.opcode.endswith("-start")}
    assert set(pairs) == starts
    assert len(pairs) == 23


def test_collectives_of_the_pax_step_are_among_four_ranks(step: Program) -> None:
    all_found = [found for it in step.instructions if (found := collective(step, it))]
    assert {it.kind for it in all_found} == {"all-gather", "all-reduce", "reduce-scatter"}
    assert {it.group_size for it in all_found} == {4}


def test_unpacked_bytes_and_a_path_give_the_same_program(
    packed: bytes, step: Program, tmp_path: Path
) -> None:
    path = tmp_path / "step.hlo.pb"
    path.write_bytes(lzma.decompress(packed))
    assert read_program(path).computations == step.computations


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        ({}, (4, 2)),
        ({"manual_axes": [{"mesh_axis_index": 1}]}, None),
        ({"unreduced_axes": [{"mesh_axis_index": 1}]}, None),
        ({"mesh": {"device_ids": [3]}, "dim_shardings": []}, None),
    ],
)
def test_shardings_on_a_mesh_say_who_holds_the_same_or_nothing(
    packed: bytes, more: dict[str, object], parts: tuple[int, ...] | None
) -> None:
    """The last is a mesh of one device, which alone holds the value."""
    module = MESSAGES["Module"].FromString(
        MESSAGES["HloProto"].FromString(lzma.decompress(packed)).hlo_module
    )
    axes = [{"name": "x", "size": 4}, {"name": "y", "size": 2}]
    cut = [{"axes": [{"mesh_axis_index": 0}]}, {"axes": [{"mesh_axis_index": 1}]}]
    named = {"mesh": {"axes": axes}, "dim_shardings": cut, **more}
    del module.spmd_parameters_shardings[:]
    module.spmd_parameters_shardings.add(named_sharding=named)
    program = read_program(module.SerializeToString())
    (found,) = program.shardings
    assert (None if found is None else found.parts) == parts
