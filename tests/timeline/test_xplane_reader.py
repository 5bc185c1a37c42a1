"""Recordings of hand-made profiles: what each kind of plane gives, and what stays unknown."""

from __future__ import annotations

import polars as pl
import pytest
from xspace_builder import (
    MS,
    NS,
    US,
    Plane,
    Ref,
    Unsigned,
    amd,
    cpu_op,
    hlo_proto,
    host,
    kernel,
    memcpy,
    message,
    metadata,
    nvidia,
    step_marker,
    task_environment,
    tpu,
    tpu_op,
    xspace,
)

from counterpoint.core.errors import InputError
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.xplane import reader
from counterpoint.timeline.xplane.reader import is_xplane, read_xplane

COMPUTE = "Stream #20(Memset,Compute)"
COMMUNICATION = "Stream #24(Compute)"
COPIES = "Stream #13(MemcpyH2D)"


def read(*planes: Plane, **texts: list[str]) -> Recording:
    data = xspace(*planes, **texts)
    assert is_xplane(data[:100])
    return read_xplane(memoryview(data), "trace.xplane.pb")


def spans(recording: Recording) -> pl.DataFrame:
    """Spans with their ops and lines in words."""
    lines = pl.Series("line_name", recording.lines, dtype=pl.String)
    return (
        recording.spans.with_columns(line_name=lines.gather(recording.spans["line"]))
        .rename({"op": "row"})
        .join(recording.ops.with_row_index("row"), on="row", how="left")
        .sort("device", "start_ps")
    )


def training_gpu(ordinal: int) -> Plane:
    gpu = nvidia(ordinal)
    step = ("jit_train_step", 7)
    gpu.line(COMPUTE, timestamp_ns=1000)
    gpu.line(COMMUNICATION, timestamp_ns=1000)
    gpu.line(COPIES, timestamp_ns=1000)
    memcpy(gpu, COPIES, "H2D", 0, 3 * US, 4096)
    kernel(gpu, COMPUTE, "fusion_3", 5 * US, 2 * US, op="fusion.3", module=step)
    nccl = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    kernel(gpu, COMMUNICATION, nccl, 6 * US, 9 * US, op="all-gather-start.1", module=step)
    kernel(gpu, COMPUTE, "nvjet_hsh_128x128", 7 * US, 4 * US, op="gemm_fusion_dot.2", module=step)
    kernel(gpu, COMPUTE, "fusion_3", 20 * US, 1 * US, op="fusion.3", module=("jit_eval", 9))
    return gpu


def test_kernels_of_two_gpus_lie_on_their_streams() -> None:
    recording = read(training_gpu(0), training_gpu(1))
    assert [(device.ordinal, device.kind) for device in recording.devices] == [
        (0, "gpu"),
        (1, "gpu"),
    ]
    one = spans(recording).filter(pl.col("device") == 1)
    assert one.select("line_name", "name", "op", "module", "program_key").rows() == [
        (f"/device:GPU:1/{COPIES}", "MemcpyH2D", None, None, None),
        (f"/device:GPU:1/{COMPUTE}", "fusion_3", "fusion.3", "jit_train_step", "7"),
        (
            f"/device:GPU:1/{COMMUNICATION}",
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "all-gather-start.1",
            "jit_train_step",
            "7",
        ),
        (
            f"/device:GPU:1/{COMPUTE}",
            "nvjet_hsh_128x128",
            "gemm_fusion_dot.2",
            "jit_train_step",
            "7",
        ),
        (f"/device:GPU:1/{COMPUTE}", "fusion_3", "fusion.3", "jit_eval", "9"),
    ]
    assert one["start_ps"].to_list() == [US + at * US for at in (0, 5, 6, 7, 20)]
    assert one["dur_ps"].to_list() == [at * US for at in (3, 2, 9, 4, 1)]
    assert one["run_key"].null_count() == len(one)


def test_the_same_op_of_two_programs_stays_apart() -> None:
    recording = read(training_gpu(0))
    fusions = recording.ops.filter(pl.col("op") == "fusion.3")
    assert sorted(fusions["program_key"]) == ["7", "9"]


def test_a_gpu_tells_its_chip_and_bandwidth_but_no_peak() -> None:
    (device,) = read(training_gpu(0)).devices
    assert device.chip == "NVIDIA H100 80GB HBM3"
    assert device.peak_bytes == pytest.approx(3.35e12, rel=0.01)
    assert device.peak_flops is None


def test_an_amd_gpu_has_no_name_of_its_own() -> None:
    gpu = amd(0)
    kernel(
        gpu, "Stream #16(Kernel)", "Cijk_Ailk.kd", 0, US, op="custom-call.1", module=("jit_dot", 49)
    )
    recording = read(gpu)
    assert recording.devices[0].chip == "AMD, compute 9.4, 304 cores, 192 GiB, 2100 MHz"
    assert recording.devices[0].peak_bytes is None  # the profiler writes half of it
    assert spans(recording)["op"].to_list() == ["custom-call.1"]


def test_a_gpu_without_a_vendor_is_told_by_its_compute_capability() -> None:
    gpu = Plane(
        "/device:GPU:0",
        clock_rate=1_530_000,
        core_count=80,
        memory_size=Unsigned(16_945_512_448),
        compute_cap_major=7,
    )
    kernel(gpu, "Stream #16(Kernel)", "volta_sgemm", 0, US)
    chip = read(gpu).devices[0].chip
    assert chip == "Nvidia, compute 7.0, 80 cores, 16 GiB, 1530 MHz"


def test_lines_that_a_tool_derived_are_not_counted_twice() -> None:
    gpu = training_gpu(0)
    for line in (
        "XLA Ops",
        "XLA Modules - from #20",
        "Framework Ops",
        "Source code",
        "Launch Stats",
    ):
        gpu.add(line, "7/fusion.3", 5 * US, 2 * US)
    recording = read(gpu)
    assert len(recording.spans) == len(read(training_gpu(0)).spans)
    (note,) = [note for note in recording.notes if "derived" in note]
    assert "Framework Ops" in note


def test_counters_and_overhead_are_no_work() -> None:
    gpu = training_gpu(0)
    gpu.add("_counters_", "power_mw", US, 0, {"power_mw": 650_000.0})
    gpu.add("CUPTI overhead", "BUFFER_FLUSH", US, US)
    assert len(read(gpu).spans) == len(read(training_gpu(0)).spans)


def test_kernels_of_a_cuda_graph_have_no_op() -> None:
    gpu = nvidia(0)
    graph = {"cuda_graph_id": Unsigned(3), "cuda_graph_node_id": Unsigned(11)}
    kernel(gpu, COMPUTE, "loop_add_fusion", 0, US, stats=graph)
    kernel(gpu, COMPUTE, "loop_mul_fusion", 2 * US, US, module=("jit_f", 7), stats=graph)
    recording = read(gpu)
    assert spans(recording).select("op", "module").rows() == [(None, None), (None, "jit_f")]
    assert any("CUDA graph" in note for note in recording.notes)


@pytest.mark.parametrize("launcher", ["command_buffer", "command_buffer_12", "call.1"])
def test_the_launch_of_a_cuda_graph_is_not_the_op_of_its_kernels(launcher: str) -> None:
    gpu = nvidia(0)
    graph = {"cuda_graph_id": Unsigned(3), "cuda_graph_node_id": Unsigned(11)}
    module = ("jit_f", 7)
    kernel(gpu, COMPUTE, "add_fusion", 0, US, op=launcher, module=module, stats=graph)
    kernel(gpu, COMPUTE, "mul_fusion", 2 * US, US, op="fusion.4", module=module, stats=graph)
    recording = read(gpu)
    assert spans(recording)["op"].to_list() == [None, "fusion.4"]
    (note,) = [note for note in recording.notes if "CUDA graph" in note]
    assert "1 " in note


def test_a_graph_traced_as_a_whole_is_one_span_without_op() -> None:
    gpu = nvidia(0)
    graph = {"cuda_graph_id": Unsigned(3), "cuda_graph_exec_id": Unsigned(3)}
    gpu.add("Stream #20(CudaGraph)", "CudaGraphExec:3", 0, 50 * US, graph)
    recording = read(gpu)
    assert spans(recording).select("name", "op").rows() == [("CudaGraphExec:3", None)]
    assert any("CUDA graph" in note for note in recording.notes)


def test_a_profile_without_command_buffers_says_so() -> None:
    threads = host()
    threads.add("python", "WARNING: CommandBuffer disabled when profiling", US, US)
    recording = read(training_gpu(0), threads)
    assert any("command buffers" in note for note in recording.notes)


def test_nested_annotations_of_older_files_give_the_innermost_op() -> None:
    gpu = nvidia(0)
    kernel(gpu, COMPUTE, "fusion_2", 0, US, op="while.3::fusion.2", module=("jit_f", 7))
    assert spans(read(gpu))["op"].to_list() == ["fusion.2"]


def test_the_scope_of_a_kernel_is_that_of_its_thunk() -> None:
    gpu = nvidia(0)
    annotated = {"prefix": Ref("jit(f)/jit(main)")}
    kernel(
        gpu,
        COMPUTE,
        "fusion_2",
        0,
        US,
        op="fusion.2",
        scope="transpose(jvp())/dot",
        stats=annotated,
    )
    kernel(gpu, COMPUTE, "fusion_4", US, US, op="fusion.4", scope="jit(f)/jit(main)/add")
    assert spans(read(gpu))["scope"].to_list() == [
        "jit(f)/jit(main)/transpose(jvp())/dot",
        "jit(f)/jit(main)/add",
    ]


def tensor_core(ordinal: int) -> Plane:
    core = tpu(ordinal)
    module = "jit_train_step(2433868464432466958)"
    core.add("XLA Modules", module, 0, 100 * US, {"run_id": 41, "replica_id": ordinal})
    core.add("XLA Modules", module, 110 * US, 95 * US, {"run_id": 42, "replica_id": ordinal})
    core.add("Steps", "5", 0, 105 * US)
    core.add("Steps", "6", 110 * US, 95 * US)
    tpu_op(
        core,
        "%fusion.3 = f32[8,128]{1,0} fusion(f32[8,128]{1,0} %p), kind=kLoop, calls=%fused",
        US,
        2 * US,
        stats={"device_offset_ps": US, "device_duration_ps": 2 * US},
        hlo_category="loop fusion",
        tf_op="jit(train_step)/jvp()/mul:",
        source="model.py:12",
        flops=4096,
        bytes_accessed=8192,
        program_id=2433868464432466958,
    )
    start = "%copy-start = (f32[8]{0}, f32[8]{0:S(5)}, u32[]{:S(2)}) copy-start(f32[8]{0} %p)"
    tpu_op(core, start, 2 * US, 30 * US, line="Async XLA Ops", stats={"hlo_op": Ref("copy-done")})
    core.add("XLA TraceMe", "barrier-cores", 0, US)
    return core


def test_a_tpu_op_is_read_out_of_its_hlo_text() -> None:
    recording = read(tensor_core(0))
    (fusion, copy) = spans(recording).to_dicts()
    assert (fusion["name"], fusion["op"], fusion["async_window"]) == ("fusion.3", "fusion.3", False)
    assert fusion["hint"] == "loop fusion"
    assert fusion["scope"] == "jit(train_step)/jvp()/mul"
    assert (fusion["source"], fusion["flops"], fusion["bytes"]) == ("model.py:12", 4096, 8192)
    assert fusion["program_key"] == "2433868464432466958"
    assert fusion["text"].startswith("%fusion.3 = ")
    assert (copy["op"], copy["async_window"]) == ("copy-start", True)


def test_a_tpu_says_what_it_can_do() -> None:
    (device,) = read(tensor_core(0)).devices
    assert (device.kind, device.chip) == ("tpu", "TPU v6 Lite")
    assert (device.peak_flops, device.peak_bytes) == (918e12, 1638e9)


def test_executions_and_steps_of_a_tpu_are_its_own() -> None:
    recording = read(tensor_core(0), tensor_core(1))
    runs = recording.executions.filter(pl.col("device") == 1)
    assert runs.select("module", "program_key", "run_key", "start_ps", "dur_ps").rows() == [
        ("jit_train_step", "2433868464432466958", 41, 0, 100 * US),
        ("jit_train_step", "2433868464432466958", 42, 110 * US, 95 * US),
    ]
    steps = recording.markers.filter(pl.col("device") == 1)
    assert steps.select("step", "start_ps", "dur_ps").rows() == [
        (5, 0, 105 * US),
        (6, 110 * US, 95 * US),
    ]


def test_planes_that_are_not_read_are_named() -> None:
    sparse = Plane("/device:TPU:0 SparseCore 0")
    sparse.add("Sparse Core Ops", "all-gather", 0, US)
    notes = "\n".join(read(tensor_core(0), sparse).notes)
    assert "SparseCore 0" in notes


def test_ops_of_virtual_cpu_devices_are_told_apart() -> None:
    threads = host()
    module = ("jit_f", 6)
    cpu_op(threads, "tf_Client/1", "dot.1", 0, US, run=-1_158_002_028, device=1, module=module)
    cpu_op(threads, "tf_Client/2", "dot.1", NS, US, run=-1_158_002_028, device=0, module=module)
    cpu_op(threads, "tf_Client/1", "all-reduce", 2 * US, US, run=5, device=1, module=module)
    threads.add("tf_Client/1", "Rendezvous", 2 * US, NS)
    recording = read(threads)
    ordinal = {index: device.ordinal for index, device in enumerate(recording.devices)}
    rows = spans(recording).select("device", "op", "program_key", "run_key").rows()
    assert sorted((ordinal[device], *rest) for device, *rest in rows) == [
        (0, "dot.1", "6", -1_158_002_028),
        (1, "all-reduce", "6", 5),
        (1, "dot.1", "6", -1_158_002_028),
    ]
    assert {device.kind for device in recording.devices} == {"cpu"}
    assert recording.host_names == ("Rendezvous",)


def test_step_markers_of_the_user_are_kept() -> None:
    threads = host()
    threads.line("python", timestamp_ns=50)
    step_marker(threads, "python", 10, 0, 3 * MS)
    step_marker(threads, "python", 11, 4 * MS, 3 * MS)
    recording = read(training_gpu(0), threads)
    assert recording.markers.rows() == [
        (None, 10, "train", 50 * NS, 3 * MS),
        (None, 11, "train", 50 * NS + 4 * MS, 3 * MS),
    ]
    assert recording.host_events.height == 2


@pytest.mark.parametrize("decoder", ["compiled", "numpy"])
def test_markers_without_numbers_are_numbered_in_order(
    decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `jax.profiler.StepTraceAnnotation("train")` leaves."""
    if decoder == "numpy":
        monkeypatch.setattr(reader, "compiled_host", lambda *_: None)
    threads = host()
    threads.line("python", timestamp_ns=50)
    for at, name in ((0, "train"), (4, "train"), (8, "eval"), (12, "train")):
        threads.add("python", name, at * MS, 3 * MS, {"_r": 1})
    recording = read(training_gpu(0), threads)
    assert recording.markers["step"].to_list() == [0, 1, 0, 2]
    assert recording.markers["name"].to_list() == ["train", "train", "eval", "train"]
    assert any("'train' have no step_num" in note for note in recording.notes)


def test_an_annotation_is_no_marker_of_a_step() -> None:
    threads = host()
    threads.line("python", timestamp_ns=50)
    threads.add("python", "train", 0, 3 * MS, {"batch": 1})
    assert read(training_gpu(0), threads).markers.is_empty()


def test_programs_are_found_by_the_id_that_their_kernels_carry() -> None:
    proto = hlo_proto("jit_train_step", {"p": "parameter", "fusion.3": "fusion"})
    plane = metadata(
        {("jit_train_step", 7): proto, ("jit_eval", 9): b"\x0a\x00"}, jax_version="0.10.2"
    )
    recording = read(plane, training_gpu(0))
    assert set(recording.programs) == {"7", "9"} == set(recording.ops["program_key"].drop_nulls())
    assert recording.programs["7"].name == "jit_train_step"
    assert recording.programs["7"].load() == proto
    assert recording.environment["jax_version"] == "0.10.2"


def test_other_bytes_in_the_metadata_are_no_programs() -> None:
    plane = metadata({("jit_f", 7): hlo_proto("jit_f", {})})
    plane.describe("jit_f(7) llo", {"llo_proto": b"\x01\x02"})
    plane.describe("SYMBOL_MAP:9", {"symbol_id": "9", "symbol_type": "SYMBOL_MAP"})
    assert set(read(plane, training_gpu(0)).programs) == {"7"}


def test_the_task_tells_when_it_was_recorded() -> None:
    start = 1_795_174_735_448_212_126
    recording = read(training_gpu(0), task_environment(start, start + 603_104))
    assert recording.environment["profile_start_time"] == str(start)


def test_times_since_1970_fit() -> None:
    gpu = nvidia(0)
    gpu.line(COMPUTE, timestamp_ns=1_795_174_735_448_212_126)
    kernel(gpu, COMPUTE, "fusion_3", 5 * US, 2 * US)
    threads = host()
    threads.line("python", timestamp_ns=1_795_174_735_448_212_000)
    step_marker(threads, "python", 1, 0, MS)
    recording = read(gpu, threads)
    gap = recording.spans["start_ps"].item() - recording.markers["start_ps"].item()
    assert gap == 126 * NS + 5 * US


def test_dropped_events_are_admitted() -> None:
    dropped = (
        "Detected GPU events dropped on host-0: Profiler has collected 5 driver events and 9 device"
        " events. 120 events dropped because total device(activity) events reaches max."
    )
    recording = read(training_gpu(0), warnings=[dropped])
    assert recording.truncated
    assert any("120 events dropped" in note for note in recording.notes)


def test_errors_of_the_profiler_are_passed_on() -> None:
    recording = read(training_gpu(0), errors=["CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"])
    assert any("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" in note for note in recording.notes)


def test_a_host_profile_says_that_it_has_no_device() -> None:
    threads = host()
    threads.add("python", "PjitFunction(f)", 0, US)
    recording = read(threads)
    assert recording.devices == ()
    assert recording.spans.is_empty()
    assert any("no device plane" in note for note in recording.notes)


def test_a_gpu_that_did_nothing_is_still_there() -> None:
    recording = read(training_gpu(0), nvidia(1))
    assert [device.ordinal for device in recording.devices] == [0, 1]


def test_sums_of_many_kernels_are_left_out_and_said() -> None:
    gpu = training_gpu(0)
    gpu.line(COMPUTE).events.append(message((1, gpu.event_id("fusion_3")), (3, MS), (5, 400)))
    recording = read(gpu)
    assert len(recording.spans) == len(read(training_gpu(0)).spans)
    assert any("summarize" in note for note in recording.notes)


def test_a_plane_in_pieces_is_one_device() -> None:
    recording = read(training_gpu(0), training_gpu(0))
    assert len(recording.devices) == 1
    assert len(recording.spans) == 2 * len(read(training_gpu(0)).spans)


def test_kernel_names_need_not_be_unicode() -> None:
    data = xspace(training_gpu(0)).replace(b"nvjet_hsh", b"nvjet\xff\xfe\xfd_")
    names = read_xplane(memoryview(data), "t")
    assert any(name.startswith("nvjet\ufffd") for name in names.ops["name"])


def test_a_file_without_planes_is_refused() -> None:
    with pytest.raises(InputError, match=r"trace\.xplane\.pb"):
        read_xplane(memoryview(xspace()), "trace.xplane.pb")
