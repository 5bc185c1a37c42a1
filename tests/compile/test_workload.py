"""The step is found in whatever a run leaves, and what can't be compiled is refused."""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from counterpoint.compile.inputs.candidates import counts, lowered_flops, symbol
from counterpoint.compile.inputs.scheduled import own_programs
from counterpoint.compile.inputs.workload import Workload, load_workload, own_target
from counterpoint.compile.job import ProgramForm
from counterpoint.core.errors import InputError, UsageError
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.wire_schema import message_classes
from counterpoint.runs.run import RunSettings
from counterpoint.runs.writer import RankStart, RunStart, RunWriter

SCHEDULED = Path(__file__).parent.parent / "hlo" / "data" / "gpu_step.hlo.pb.xz"
"""A step for eight GPUs, as XLA leaves it."""
MODULE = message_classes("counterpoint.tests.workload", "Module\n  7 schedule bytes")["Module"]

LITTLE = b"""module @jit_%b attributes {mhlo.num_partitions = 2 : i32} {
  func.func public @main(%%arg0: tensor<%bx4xf32>) -> tensor<%bx4xf32> {
    %%0 = stablehlo.dot_general %%arg0, %%arg0, contracting_dims = [1] x [0] : \
(tensor<%bx4xf32>, tensor<4x4xf32>) -> tensor<%bx4xf32>
    return %%0 : tensor<%bx4xf32>
  }
}
"""


def little(name: bytes, rows: bytes = b"4") -> bytes:
    return LITTLE % (name, *(rows,) * 5)


@pytest.fixture
def dumped(tmp_path: Path) -> Path:
    """Two modules as JAX dumps them; the one with less text has more FLOPs."""
    ir = tmp_path / "ir"
    ir.mkdir()
    (ir / "jax_ir0001_jit_init_compile.mlir").write_bytes(little(b"init") + b"// long\n" * 100)
    (ir / "jax_ir0002_jit_step_compile.mlir").write_bytes(little(b"step", b"9000"))
    return ir


def test_the_step_is_the_module_with_the_most_flops(dumped: Path) -> None:
    workload = load_workload(dumped)
    assert workload.name == "jit_step"
    assert workload.form is ProgramForm.MLIR
    assert workload.others == ("jit_init",)
    assert workload.devices == 2
    assert workload.origin.endswith("jax_ir0002_jit_step_compile.mlir")


@pytest.mark.parametrize("wanted", ["jit_init", "init"])
def test_another_module_is_chosen_by_name(dumped: Path, wanted: str) -> None:
    assert load_workload(dumped, wanted).name == "jit_init"


@pytest.mark.parametrize("wanted", ["train", "jit"])
def test_a_name_of_none_or_of_several_is_refused_with_the_list(dumped: Path, wanted: str) -> None:
    with pytest.raises(UsageError, match="not one module") as told:
        load_workload(dumped, wanted)
    assert "jit_step, jit_init" in str(told.value.why)


@pytest.mark.parametrize("ending", [".mlir", ".mlir.gz", ".stablehlo", ".txt", ""])
def test_a_file_alone_is_the_step_whatever_its_name(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"train{ending}"
    data = little(b"step")
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    workload = load_workload(path)
    assert (workload.name, workload.program, workload.devices) == ("jit_step", data, 2)
    with pytest.raises(UsageError, match="module jit_step"):
        load_workload(path, "init")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"import jax\n", "neither StableHLO nor an HLO module"),
        (b"\x1f\x8b\x08damaged", "the compressed data is damaged or cut off"),
        (b"\x00\x01\x02" * 40, "no program"),
        (b"HloModule jit_step, is_scheduled=true\n", "already scheduled"),
    ],
)
def test_a_file_that_is_no_program_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "step.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(said)) as told:
        load_workload(path)
    assert str(path) in str(told.value)
    assert told.value.next


def test_a_place_without_programs_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match=str(path)):
            load_workload(path)


@pytest.fixture(scope="module")
def proto(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as XLA dumps it before it schedules anything."""
    module = MODULE.FromString(lzma.decompress(SCHEDULED.read_bytes()))
    module.ClearField("schedule")
    path = tmp_path_factory.mktemp("xla") / "module_0001.jit_step.before_optimizations.hlo.pb"
    path.write_bytes(module.SerializeToString())
    return path


def test_a_scheduled_module_is_refused_with_what_helps(tmp_path: Path) -> None:
    dump = tmp_path / "module_0001.jit_step.sm_9.0_gpu_after_optimizations.hlo.pb"
    dump.write_bytes(lzma.decompress(SCHEDULED.read_bytes()))
    for path in (dump, tmp_path):
        with pytest.raises(InputError, match="already scheduled") as told:
            load_workload(path)
        assert "JAX_DUMP_IR_TO" in str(told.value.next)


def test_a_dump_is_read_with_what_lies_beside_the_module(proto: Path, tmp_path: Path) -> None:
    stem = proto.name.removesuffix(".before_optimizations.hlo.pb")
    shutil.copy(proto, tmp_path)
    (tmp_path / f"{stem}.gpu_target_config.pbtxt").write_text(
        'platform_name: "CUDA"\ndevice_description_str: "NVIDIA H100 80GB HBM3"\n'
    )
    (tmp_path / f"{stem}.autotune_results.pbtxt").write_text("version: 3\n")
    (tmp_path / f"{stem}.debug_options").write_text(
        'xla_dump_to: "/elsewhere"\nxla_gpu_enable_triton_gemm: false\n'
        "xla_gpu_disable_async_collectives: ALLREDUCE\n"
        "xla_gpu_disable_async_collectives: ALLGATHER\n"
    )
    workload = load_workload(tmp_path)
    assert (workload.name, workload.replicas, workload.partitions) == ("jit_step", 1, 8)
    assert workload.autotuned == b"version: 3\n"
    assert dict(workload.options) == {
        "xla_gpu_enable_triton_gemm": "false",
        "xla_gpu_disable_async_collectives": "ALLREDUCE,ALLGATHER",
    }
    target = own_target(workload)
    assert target is not None
    assert str(target) == "8xH100"
    assert target.config == workload.config


def test_a_dump_of_another_maker_names_its_platform(proto: Path, tmp_path: Path) -> None:
    stem = proto.name.removesuffix(".before_optimizations.hlo.pb")
    shutil.copy(proto, tmp_path)
    (tmp_path / f"{stem}.gpu_target_config.pbtxt").write_text('platform_name: "ROCM"\n')
    with pytest.raises(UsageError, match="compiled for ROCM"):
        own_target(load_workload(tmp_path))


def test_a_run_gives_what_its_first_rank_lowered(dumped: Path, tmp_path: Path) -> None:
    start = RunStart("train", ("python",), str(tmp_path), RunSettings(), "local", 1, "0")
    run = RunWriter.claim(tmp_path / "run", start)
    rank = run.add_rank(0)
    run.start_rank(RankStart(0), pid=1)
    shutil.copytree(dumped, rank / "ir")
    (rank / "xla").mkdir()
    flags = "xla_gpu_enable_triton_gemm: false\n"
    (rank / "xla" / "module_0002.jit_step.debug_options").write_text(flags)
    workload = load_workload(run.path)
    assert workload.name == "jit_step"
    assert dict(workload.options) == {"xla_gpu_enable_triton_gemm": "false"}


def test_a_bundle_is_read_as_it_is(proto: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "rank0.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.writestr(f"dump/{proto.name}.xz", lzma.compress(proto.read_bytes()))
    workload = load_workload(bundle)
    assert workload.name == "jit_step"
    assert workload.program == load_workload(proto).program
    data = bundle.read_bytes()
    bundle.write_bytes(data[:200] + bytes(400) + data[600:])
    with pytest.raises(InputError, match=re.escape(bundle.name)):
        load_workload(bundle)


def test_flops_of_lowered_text_are_those_of_its_products() -> None:
    two = little(b"step", b"10") + little(b"more", b"100")
    assert lowered_flops(two) == pytest.approx(2 * 10 * 4 * 4 + 2 * 100 * 4 * 4)
    assert (symbol(two), counts(two)) == ("jit_step", (1, 2))


@pytest.mark.parametrize(
    ("gpu", "devices", "said"),
    [("H100", 12, "3x4xH100"), ("H100", 512, "64x8xH100"), ("GB200", 72, "18x4xGB200")],
)
def test_devices_of_a_dump_stand_on_hosts_as_they_are_sold(
    gpu: str, devices: int, said: str
) -> None:
    dumped = Workload(
        name="jit_step",
        form=ProgramForm.HLO_PROTO,
        program=b"",
        origin="dump",
        replicas=1,
        partitions=devices,
        config=parse_target(f"1x{gpu}").config,
    )
    assert str(own_target(dumped)) == said


@pytest.mark.system
def test_the_bundle_of_a_real_run_names_its_devices(shared: Path) -> None:
    workload = load_workload(shared / "data" / "traces" / "pax_fsdp4_4proc_proc0.zip")
    assert workload.name == "pjit__wrapped_step_fn"
    target = own_target(workload)
    assert target is not None
    assert (str(target), workload.devices) == ("4xA100-40GB", 4)
    assert workload.autotuned
    (own,) = own_programs(workload)
    assert (own.name, own.fingerprint) == (workload.name, "25fa0b3e673a92036f22550cd7bcb068")
