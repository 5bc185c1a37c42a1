"""The real XLA:GPU compiler, in worker processes, on a machine that need not have a GPU."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest

from counterpoint.compile.compiler import CompiledProgram, compile_workload
from counterpoint.compile.failures import CompileFailed
from counterpoint.compile.inputs.workload import Workload, load_workload
from counterpoint.core.errors import InputError, UsageError
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.memory.plan import BlockKind, plan_from_proto
from counterpoint.hlo.memory.replay import Replay
from counterpoint.hlo.model.program import launches
from counterpoint.hlo.schedule import async_pairs
from lowered import H100, Lowered

TRITON_GEMM = "xla_gpu_enable_triton_gemm"


pytestmark = pytest.mark.usefixtures("compiled_anew")


@pytest.fixture(scope="session")
def workload(lowered: Lowered) -> Workload:
    return load_workload(lowered.ir)


def schedule(compiled: CompiledProgram) -> list[str]:
    return [it.name for it in compiled.program.instructions]


def work(compiled: CompiledProgram) -> list[tuple[str, str]]:
    return [(it.opcode, str(it.shape)) for it in compiled.program.instructions if launches(it)]


def workers(directory: Path) -> list[str]:
    """Workers of this machine that have files in a directory."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "counterpoint.compile.worker" in words and str(directory) in words:
            found.append(words)
    return found


def waited(for_what: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not for_what() and time.monotonic() < end:
        time.sleep(0.02)
    return for_what()


@pytest.mark.smoke
def test_the_step_comes_out_scheduled_for_the_target(lowered: Lowered) -> None:
    compiled = lowered.compile()
    program = compiled.program
    assert (program.is_scheduled, program.num_partitions) == (True, 8)
    assert program.name.removesuffix("-clone") == "jit_step"
    kinds = {it.kind for at in program.instructions if (it := collective(program, at))}
    assert {"all-gather", "reduce-scatter"} <= kinds
    assert async_pairs(program)
    assert compiled.fingerprint == program.fingerprint
    assert len(compiled.fingerprint or "") == 32
    assert compiled.target is H100
    assert compiled.versions["jaxlib"]
    assert any("not autotuned" in note for note in compiled.notes)


def test_memory_is_that_of_one_device(lowered: Lowered) -> None:
    memory = lowered.compile().memory
    shard = 4 * (2 * 512 * 2048) * 2 // 8  # layers, two weights of bf16, eight devices
    batch = 16 * 128 * 512 * 2 // 8
    assert memory.argument == shard + batch
    assert memory.temp
    if memory.peak is None:
        pytest.skip("this jaxlib does not tell the peak")
    assert memory.peak >= memory.argument + memory.temp
    assert memory.allocated
    assert memory.allocated >= memory.peak  # the temporaries are one block, with gaps


CAPTURED: Final = """
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %c = stablehlo.constant dense<"0xVALUES"> : tensor<1024x1024xf32>
    %0 = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0]
        : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %1 = stablehlo.sine %0 : tensor<1024x1024xf32>
    %2 = stablehlo.dot_general %1, %c, contracting_dims = [1] x [0]
        : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    return %2 : tensor<1024x1024xf32>
  }
}
"""
"""A function that uses an array of its closure."""


@pytest.mark.smoke
def test_the_plan_of_buffers_is_what_xla_reports(lowered: Lowered) -> None:
    """To the byte, by every release: the replayed peak, and the sum of the blocks."""
    compiled = lowered.compile()
    plan = plan_from_proto(compiled.buffers)
    assert plan is not None
    assert sum(plan.allocated.values()) == compiled.memory.allocated
    held = (BlockKind.ARGUMENT, BlockKind.OUTPUT, BlockKind.CONSTANT)
    base = sum(block.size for block in plan.blocks_of(*held))
    peak = base + sum(Replay(plan, trace).peak().bytes for trace in plan.traces)
    assert peak == compiled.memory.peak


def test_arrays_in_the_program_take_memory_too(lowered: Lowered, tmp_path: Path) -> None:
    path = tmp_path / "captured.mlir"
    values = "".join(f"{number % 251:02X}003F" + "3F" for number in range(1024 * 1024))
    path.write_text(CAPTURED.replace("VALUES", values))
    memory = lowered.ask(load_workload(path), parse_target("1xH100")).memory
    assert memory.constants == 4 << 20
    assert memory.allocated == (4 << 20) * 4  # argument, result, what is between, and itself
    assert memory.on_host == 0


@pytest.fixture(scope="module")
def again(workload: Workload) -> CompiledProgram:
    """The same input in a worker of its own, under flags of the caller that no compiler knows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")
        patch.setenv("JAX_PLATFORMS", "tpu")
        patch.setenv("COUNTERPOINT_CACHE", "off")
        return compile_workload(workload, H100)


def test_the_same_input_gives_the_same_program(lowered: Lowered, again: CompiledProgram) -> None:
    assert 0 < again.seconds < again.wall_s
    assert schedule(again) == schedule(lowered.compile())
    assert again.fingerprint == lowered.compile().fingerprint


def test_every_form_of_the_program_compiles_to_the_same_schedule(lowered: Lowered) -> None:
    assert schedule(lowered.compile(path=lowered.xla)) == schedule(lowered.compile())
    (proto,) = lowered.xla.glob("*.jit_step.before_optimizations.hlo.pb")
    (text,) = lowered.xla.glob("*.jit_step.before_optimizations.txt")
    for path in (proto, text):  # XLA numbers their constants otherwise
        assert work(lowered.compile(path=path)) == work(lowered.compile()), path


def test_a_target_of_two_hosts_takes_as_many_devices(lowered: Lowered, workload: Workload) -> None:
    assert lowered.ask(workload, parse_target("2x4xB200")).program.num_partitions == 8


def test_another_number_of_devices_is_refused(workload: Workload) -> None:
    with pytest.raises(UsageError, match="made for 8 devices, but 4xH100 has 4") as error:
        compile_workload(workload, parse_target("4xH100"))
    assert "--target 8xH100" in str(error.value.next)


@pytest.mark.parametrize("value", ["false", "False", "0"])
def test_a_bool_is_taken_as_people_write_it(lowered: Lowered, value: str) -> None:
    compiled = lowered.compile({TRITON_GEMM: value})
    targets = {it.custom_call_target for it in compiled.program.instructions}
    assert any("cublas" in target for target in targets)
    plain = {it.custom_call_target for it in lowered.compile().program.instructions}
    assert not any("cublas" in target for target in plain)


def test_short_names_of_enums_go_where_they_are_understood(lowered: Lowered) -> None:
    full = lowered.compile({"xla_gpu_disable_async_collectives": "ALLCOLLECTIVES"})
    short = lowered.compile({"xla_gpu_disable_async_collectives": "allcollectives"})
    assert schedule(full) == schedule(short) != schedule(lowered.compile())


def test_the_links_of_a_target_are_told_through_the_workers_flags(workload: Workload) -> None:
    # A map, which no compile option can be: of an unknown key XLA complains, so it was read.
    options = {"xla_gpu_analytical_latency_estimator_options": "gpus_per_node=4,nic_speed_gbps=50"}
    assert compile_workload(workload, H100, options).program.is_scheduled


def test_an_unknown_option_is_named_with_what_replaced_it(lowered: Lowered) -> None:
    with pytest.raises(UsageError, match="no option xla_gpu_graph_level") as error:
        lowered.compile({"xla_gpu_graph_level": "0"})
    assert "xla_gpu_enable_command_buffer" in str(error.value.why)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("xla_gpu_all_gather_combine_threshold_bytes", "much", "int64"),
        ("xla_gpu_enable_triton_gemm", "perhaps", "bool"),
        ("xla_gpu_pgle_accuracy_checker", "strictly", "enum"),
    ],
)
def test_a_value_of_another_type_is_refused(
    lowered: Lowered, name: str, value: str, kind: str
) -> None:
    with pytest.raises(UsageError, match=name) as error:
        lowered.compile({name: value})
    assert value in str(error.value.why)
    assert kind in str(error.value.why)


def test_an_option_of_the_run_that_this_compiler_lacks_is_left_out(
    lowered: Lowered, workload: Workload
) -> None:
    old = replace(workload, options={"xla_gpu_graph_level": "0", TRITON_GEMM: "false"})
    compiled = lowered.ask(old, H100)
    assert dict(compiled.options) == {TRITON_GEMM: "false"}
    assert any("xla_gpu_graph_level" in note for note in compiled.notes)


def test_flags_of_the_caller_do_not_reach_the_compiler_unasked(
    lowered: Lowered, workload: Workload, again: CompiledProgram
) -> None:
    assert schedule(again) == schedule(lowered.compile())
    with pytest.raises(CompileFailed, match="died") as error:
        compile_workload(workload, H100, environment={"XLA_FLAGS": "--xla_no_such_flag=1"})
    assert "xla_no_such_flag" in str(error.value.why)


def test_a_crash_of_the_compiler_is_an_error_with_its_last_lines(workload: Workload) -> None:
    options = {"xla_gpu_experimental_parallel_collective_overlap_limit": "0"}
    with pytest.raises(CompileFailed, match="died") as error:
        compile_workload(workload, H100, options)
    assert "Check failed" in str(error.value.why)
    assert "@ 0x" not in str(error.value.why)


def test_a_compile_that_takes_too_long_is_ended_and_leaves_nothing(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(CompileFailed, match=r"more than 0\.2 s"):
        compile_workload(workload, H100, timeout_s=0.2)
    assert list(tmp_path.iterdir()) == []
    assert workers(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_a_worker_ends_with_its_parent_however_that_ends(lowered: Lowered, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", COMPILE, str(lowered.ir)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    with parent:
        try:
            assert waited(lambda: bool(workers(tmp_path)) or parent.poll() is not None)
            assert parent.poll() is None
        finally:
            parent.kill()
    assert waited(lambda: not workers(tmp_path))


def test_what_is_no_program_to_this_compiler_is_refused(
    lowered: Lowered, workload: Workload
) -> None:
    broken = replace(workload, program=workload.program[: len(workload.program) // 2])
    with pytest.raises(InputError, match="can't be read") as error:
        lowered.ask(broken, H100)
    assert "JAX_DUMP_IR_TO" in str(error.value)


def test_fields_of_a_target_that_this_compiler_lacks_are_left_out(
    lowered: Lowered, workload: Workload
) -> None:
    newer = H100.config.replace(
        "gpu_device_info {",
        "gpu_device_info {\n  photonic_lanes: 4\n  quantum_unit_description {\n"
        "    rate_infos {\n      key: 1\n    }\n  }",
    )
    compiled = lowered.ask(workload, replace(H100, config=newer))
    assert schedule(compiled) == schedule(lowered.compile())
    (note,) = [note for note in compiled.notes if "no target field" in note]
    assert "photonic_lanes, quantum_unit_description" in note


def test_a_real_program_for_64_gpus_compiles(lowered: Lowered, shared: Path) -> None:
    workload = load_workload(shared / "data" / "programs" / "llama2_70b_64.mlir.gz")
    options: dict[str, str] = {}
    if metadata.version("jaxlib").startswith("0.12"):  # its kernel for all-reduces does not compile
        options = {"xla_gpu_experimental_use_collective_kernels": ""}
    compiled = lowered.ask(workload, parse_target("8x8xH100"), options)
    assert compiled.program.num_partitions == 64
    assert "__cudnn$fmhaSoftmax" in {it.custom_call_target for it in compiled.program.instructions}
    peak = compiled.memory.peak
    assert peak
    assert 40e9 < peak < 80e9  # it ran on GPUs of 80 GB


def test_a_target_that_makes_no_sense_is_refused(lowered: Lowered, workload: Workload) -> None:
    with pytest.raises(InputError, match="configuration of target"):
        lowered.ask(workload, replace(H100, config="gpu_device_info { core_count: many }"))


HIDDEN = """
import sys
sys.meta_path.insert(0, type("Hidden", (), {"find_spec": staticmethod(
    lambda name, path=None, target=None:
        (_ for _ in ()).throw(ModuleNotFoundError(name, name=name))
        if name.split(".")[0] in HIDE or name in HIDE else None)}))
"""


@pytest.mark.parametrize("hidden", ["jax_plugins", "jax"])
def test_without_the_compiler_the_pip_line_is_told(
    workload: Workload, tmp_path: Path, hidden: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDDEN.replace("HIDE", repr((hidden,))))
    with pytest.raises(UsageError, match="compiler for CUDA") as error:
        compile_workload(workload, H100, environment={"PYTHONPATH": str(tmp_path)})
    version = metadata.version("jax")
    assert "pip install 'counterpoint[compiler]'" in str(error.value.next)
    assert f"jax-cuda13-pjrt=={version} jax-cuda13-plugin=={version}" in str(error.value.next)


def test_a_plugin_of_another_release_is_refused(workload: Workload, tmp_path: Path) -> None:
    about = tmp_path / "jax_cuda13_plugin-0.1.2.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text("Metadata-Version: 2.1\nName: jax-cuda13-plugin\nVersion: 0.1.2\n")
    with pytest.raises(UsageError, match="compiler for CUDA") as error:
        compile_workload(workload, H100, environment={"PYTHONPATH": str(tmp_path)})
    assert "jax-cuda13-plugin 0.1.2" in str(error.value.why)


COMPILE = """
import hashlib, sys
from counterpoint.compile.compiler import compile_workload
from counterpoint.compile.inputs.workload import load_workload
from counterpoint.hardware.targets import parse_target
compiled = compile_workload(load_workload(sys.argv[1]), parse_target("8xH100"))
print(hashlib.sha256(repr(list(compiled.program.instructions)).encode()).hexdigest())
"""


def test_no_cuda_toolkit_is_needed(lowered: Lowered, tmp_path: Path) -> None:
    """Everything that could be one is hidden, and the program comes out the same."""
    if not shutil.which("unshare"):
        pytest.skip("no unshare here to hide a toolkit with")
    hide = "".join(
        f"mount -t tmpfs none {path} && "
        for path in sorted({Path(it).resolve() for it in Path("/usr/local").glob("cuda*")})
    )
    call = [sys.executable, "-c", COMPILE, str(lowered.ir)]
    shell = ["unshare", "-m", "sh", "-c", f'{hide}exec "$@"', "sh"]
    if subprocess.run([*shell, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to hide a toolkit here")
    clean = {name: it for name, it in os.environ.items() if not name.startswith("CUDA")}
    clean["PATH"] = ":".join(it for it in clean["PATH"].split(":") if "cuda" not in it)
    hidden = subprocess.run(
        [*shell, *call], env=clean, capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout
    plain = repr(list(lowered.compile().program.instructions))
    assert hidden.strip() == hashlib.sha256(plain.encode()).hexdigest()


def test_the_stand_in_changes_nothing_against_a_real_toolkit(
    lowered: Lowered, workload: Workload
) -> None:
    real = Path("/usr/local/cuda")
    if not (real / "bin" / "ptxas").exists():
        pytest.skip("no CUDA toolkit here to compare with")
    compiled = compile_workload(workload, H100, {"xla_gpu_cuda_data_dir": str(real)})
    assert list(compiled.program.instructions) == list(lowered.compile().program.instructions)
