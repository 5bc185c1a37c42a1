"""What a compile without the device is told for a prediction, and what is said about it."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from counterpoint.compile.allocator import planned_bytes
from counterpoint.compile.assumptions import assumed_options
from counterpoint.compile.compiler import compile_workload
from counterpoint.compile.inputs.workload import Workload, load_workload
from counterpoint.compile.job import ProgramForm
from counterpoint.compile.notes import limit_notes, log_notes, stand_in_notes
from counterpoint.compile.source_line import source_line
from counterpoint.compile.task import CompileTask
from counterpoint.compile.workarounds import find_workaround, workaround_notes
from counterpoint.core.errors import UsageError
from counterpoint.flags.versions import version_number
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.reader import read_program
from lowered import H100, Lowered

TRITON_GEMM = "xla_gpu_enable_triton_gemm"
FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
WORKLOAD = Workload(name="jit_step", form=ProgramForm.MLIR, program=b"", origin="step.mlir")


def test_gemms_are_library_calls_unless_somebody_chose() -> None:
    told = assumed_options(WORKLOAD, H100, {"xla_gpu_enable_cublaslt": "true"}, {})
    assert told.options == {"xla_gpu_enable_cublaslt": "true", TRITON_GEMM: "false"}
    assert any("library calls" in note for note in told.notes)
    tuned = replace(WORKLOAD, autotuned=b"choices", config=H100.config)
    as_run = replace(WORKLOAD, options={TRITON_GEMM: "true"})
    for workload, options, environment in (
        (WORKLOAD, {TRITON_GEMM: "true"}, {}),
        (WORKLOAD, {"xla_gpu_load_autotune_results_from": "a.pbtxt"}, {}),
        (WORKLOAD, {}, {"XLA_FLAGS": f"--{TRITON_GEMM}=true"}),
        (tuned, {}, {}),
        (as_run, {}, {}),
    ):
        kept = assumed_options(workload, H100, options, environment)
        assert kept.options == options
        assert not any("library calls" in note for note in kept.notes)


def test_the_compiler_plans_with_what_the_allocator_of_a_run_has() -> None:
    told = assumed_options(WORKLOAD, H100, {}, {})
    assert told.memory_fraction == 0.75
    assert told.planned_bytes is not None
    assert 0.7 * 80e9 < told.planned_bytes < 0.8 * 86e9
    assert any("75%" in note and FRACTION in note for note in told.notes)
    more = assumed_options(WORKLOAD, H100, {}, {FRACTION: "0.94"})
    assert more.planned_bytes == int(told.planned_bytes / 0.75 * 0.94)
    newer = assumed_options(WORKLOAD, H100, {}, {"XLA_CLIENT_MEM_FRACTION": ".94"})
    assert newer.planned_bytes == more.planned_bytes
    without = {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
    assert assumed_options(WORKLOAD, H100, {}, without).planned_bytes is None
    slop = assumed_options(WORKLOAD, H100, {"xla_gpu_memory_limit_slop_factor": "112"}, {})
    assert any("more than the" in note for note in slop.notes)


@pytest.mark.parametrize("said", ["much", "0", "-1", "1.5", "nan"])
def test_a_fraction_that_is_none_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match=FRACTION):
        planned_bytes(H100.config, {FRACTION: said})


def test_the_memory_of_a_run_reaches_the_scheduler(lowered: Lowered) -> None:
    """With hardly any memory XLA says that it can't bring the program down to that."""
    step = lowered.compile()
    tight = compile_workload(load_workload(lowered.ir), H100, {}, {FRACTION: "0.00002"})
    assert not any("out of memory" in note for note in step.notes)
    assert any("out of memory" in note for note in tight.notes)


def test_what_a_version_cannot_do_is_said_where_it_matters() -> None:
    hosts_of_four = CompileTask(workload=WORKLOAD, target=parse_target("16x4xGB200"))
    windowed = CompileTask(
        workload=WORKLOAD, target=H100, options={"xla_gpu_threshold_for_windowed_einsum_mib": "0"}
    )
    assert ["has 4 GPUs" in note for note in limit_notes(hosts_of_four, "0.10.2")] == [True]
    assert ["windowed" in note for note in limit_notes(windowed, "0.11.0")] == [True]
    for task in (hosts_of_four, windowed, CompileTask(workload=WORKLOAD, target=H100)):
        assert list(limit_notes(task, "0.11.1")) == []
        assert list(limit_notes(task, "0.12.0.1")) == []
    assert list(limit_notes(CompileTask(workload=WORKLOAD, target=H100), "0.10.2")) == []
    bare = CompileTask(workload=WORKLOAD, target=replace(H100, config="gpu_device_info {}"))
    assert ["matrix units" in note for note in limit_notes(bare, "0.12.0")] == [True]


def test_racks_that_xla_cannot_express_are_said() -> None:
    task = CompileTask(workload=WORKLOAD, target=parse_target("20x4xGB200"))
    (note,) = limit_notes(task, "0.12.0")
    assert "here 2 of 10 hosts, in a run 18 hosts and a rest" in note
    assert not any("equal size" in note for note in limit_notes(task, "0.11.0"))


@pytest.mark.skipif(
    version_number(metadata.version("jaxlib")) < (0, 11, 1),
    reason="before jaxlib 0.11.1 the compiler is not told of hosts",
)
@pytest.mark.parametrize(("target", "together"), [("2x4xH100", 4), ("2x4xGB200", 8)])
def test_gpus_that_share_nvlink_are_one_partition(
    lowered: Lowered, tmp_path: Path, target: str, together: int
) -> None:
    """XLA's own account of the compile says how many it takes for neighbors."""
    flags = {"XLA_FLAGS": f"--xla_dump_to={tmp_path}"}
    compile_workload(load_workload(lowered.ir), parse_target(target), {}, flags)
    dumped = [file.read_text() for file in tmp_path.glob("*jit_step*.config.pbtxt")]
    assert dumped
    assert all(f"partition_size: {together}\n" in text for text in dumped)


STAND_INS = """\
HloModule jit_f, is_scheduled=true

%less (l: f32[], r: f32[]) -> pred[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  ROOT %is_less = pred[] compare(%l, %r), direction=LT
}

%widen (w: s8[8192,8192]) -> bf16[8192,8192] {
  %w = s8[8192,8192]{1,0} parameter(0)
  ROOT %c = bf16[8192,8192]{1,0} convert(%w)
}

ENTRY %main (k: f32[1048576], w: s8[8192,8192], x: bf16[16,8192]) -> bf16[16,8192] {
  %k = f32[1048576]{0} parameter(0)
  %w = s8[8192,8192]{1,0} parameter(1)
  %x = bf16[16,8192]{1,0} parameter(2)
  %sorted = f32[1048576]{0} sort(%k), dimensions={0}, to_apply=%less
  %wide = bf16[8192,8192]{1,0} fusion(%w), kind=kLoop, calls=%widen
  %experts = (bf16[16,8192]{1,0}, s8[64]{0}) custom-call(%x, %x),
    custom_call_target="__cublas$gemm", metadata={op_name="jit(f)/ragged_dot"}
  ROOT %y = (bf16[16,8192]{1,0}, s8[64]{0}) custom-call(%x, %wide),
    custom_call_target="__cublas$gemm"
}
"""


def test_work_that_a_gpu_hands_to_other_kernels_is_said() -> None:
    notes = list(stand_in_notes(read_program(STAND_INS.encode()), H100, "0.10.2"))
    expected = ("sort sorted:", "product y: weights of 8 bits", "product experts of ragged_dot")
    assert [note.startswith(start) for note, start in zip(notes, expected, strict=True)] == [
        True
    ] * 3
    for other in ("bf16", "pred"):  # a mask is no weight
        plain = STAND_INS.replace("ragged_dot", "dot").replace("s8[8192", f"{other}[8192")
        small = read_program(plain.replace("1048576", "1024").encode())
        assert not list(stand_in_notes(small, H100, "0.10.2"))


SCATTER = """\
HloModule jit_f, is_scheduled=true

%add (l: f32[], r: f32[]) -> f32[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  ROOT %sum = f32[] add(%l, %r)
}

ENTRY %main (t: f32[512,64], i: s32[4096,1], u: f32[4096,64]) -> f32[512,64] {
  %t = f32[512,64]{1,0} parameter(0)
  %i = s32[4096,1]{1,0} parameter(1)
  %u = f32[4096,64]{1,0} parameter(2)
  ROOT %it = f32[512,64]{1,0} scatter(%t, %i, %u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%add
}
"""


@pytest.mark.parametrize(
    ("target", "jaxlib", "said"),
    [
        ("1xA100", "0.10.2", True),
        ("1xL40S", "0.11.0", True),
        ("1xA100", "0.10.1", False),
        ("1xA100", "0.11.1", False),
        ("1xH100", "0.10.2", False),
    ],
)
def test_releases_that_add_float32_by_swapping_are_named(
    target: str, jaxlib: str, said: bool
) -> None:
    notes = list(stand_in_notes(read_program(SCATTER.encode()), parse_target(target), jaxlib))
    assert [note.startswith("scatter it: jaxlib") for note in notes] == [True] * said
    unique = SCATTER.replace("index_vector_dim=1,", "index_vector_dim=1, unique_indices=true,")
    assert not list(stand_in_notes(read_program(unique.encode()), parse_target(target), jaxlib))


def test_warnings_of_the_compiler_become_notes() -> None:
    (tight,) = log_notes(
        "W1122 02:57:41.985275 6243 hlo_rematerialization.cc:3231] Can't reduce memory use below"
        " 33.44GiB (35908857856 bytes) by rematerialization; only reduced to 170.90GiB"
        " (183500800000 bytes), down from 195.31GiB (209715200000 bytes) originally\n"
    )
    assert "with its arguments, within 33.44 GiB" in tight
    assert "reached 170.90 GiB" in tight
    line = (
        "E1122 spmd_partitioner.cc:637] [spmd] Involuntary full rematerialization. The compiler was"
        " not able to go from sharding {devices=[8,1]<=[8]} to {devices=[1,8]<=[8]} without doing a"
        " full rematerialization of the tensor for HLO operation: %dot.5 = f32[8,8] dot(%a, %b),"
        ' metadata={op_name="jit(step)/layer/dot_general"}. You probably want to enrich\n'
    )
    (gathered,) = log_notes(line + line.replace("dot.5", "dot.6"))
    assert gathered.startswith("2 tensors ")
    assert gathered.endswith("jit(step)/layer/dot_general")
    assert list(log_notes("I1122 all is well\n")) == []


def test_a_known_failure_is_led_around_unless_the_user_says_otherwise() -> None:
    said = "NOT_FOUND: No FFI handler registered for te_gemm on a platform CUDA"
    found = find_workaround(said, {})
    assert found is not None
    assert find_workaround(said, {found.option: "False"}) is None
    assert find_workaround("INTERNAL: something else", {}) is None
    assert find_workaround(said.replace("te_gemm", "lapack_sgees_ffi"), {}) is None  # for CPUs
    assert list(workaround_notes({found.option: found.value}, {})) == [found.note]
    assert list(workaround_notes({found.option: found.value}, {found.option: "True"})) == []


PROGRAM = b"""module @jit_f {
  %0 = stablehlo.tanh %arg0 : tensor<64x64xf32> loc(#loc16)
}
#loc2 = loc("/home/me/step.py":6:6 to :17)
#loc3 = loc("/home/me/step.py":9:4 to :59)
#loc7 = loc("f"(#loc2))
#loc8 = loc("<module>"(#loc3))
#loc12 = loc(callsite(#loc7 at #loc8))
#loc16 = loc("jit(f)/tanh"(#loc12))
"""


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ('%t = tanh(%x), metadata={op_name="jit(f)/tanh"}', "/home/me/step.py:6, in jit(f)/tanh"),
        ('"jit(f)/tanh"(callsite("f"("/home/me/step.py":6:6 to :17) at ', "/home/me/step.py:6"),
        ('metadata={op_name="x" source_file="a.py" source_line=7}', "a.py:7"),
        ('"-":2:8: use of value', "line 2 of the module: %0 = stablehlo.tanh"),
        ("INTERNAL: no place at all", None),
        ('metadata={op_name="jit(f)/unknown"}', None),
    ],
)
def test_an_error_leads_to_the_line_of_the_program(said: str, place: str | None) -> None:
    found = source_line(said, PROGRAM)
    assert found == place or (place and found and found.startswith(place))
