"""SQLite exports of Nsight Systems, compared with what was worked out by hand.

Two launching threads drive two GPUs; each runs jit_step (program 3) and then jit_other (program 4),
both of which have a `fusion.3`. Times are in nanoseconds, GPU 1 runs 10 ns behind GPU 0.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from nsys_export import NEW, OLD, PID, Export, thread

from counterpoint.timeline.nsys.sqlite import read_sqlite
from counterpoint.timeline.recording import (
    EXECUTIONS,
    HOST_EVENTS,
    MARKERS,
    OPS,
    SPANS,
    Recording,
)

MAIN = thread(1)
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"


def two_gpus(export: Export) -> None:
    for gpu in (0, 1):
        tid, late = thread(101 + gpu), 10 * gpu
        first = late  # correlations count on from 1 for GPU 0, from 11 for GPU 1
        name = f"XlaLauncher:#global={gpu + 8},local={gpu},process=4,slice=0#"
        export.insert("ThreadNames", nameId=export.text(name), globalTid=tid)
        export.insert(
            "TARGET_INFO_GPU", id=gpu, name="NVIDIA H100 80GB HBM3", memoryBandwidth=3_352_000
        )
        export.insert(
            "TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=gpu, pid=100
        ) if export.new else 0
        export.module(tid, 1000, 2000, "jit_step", 3)
        export.thunk(tid, 1100, 1200, "fusion.3", scope="jit(step)/mul[axes=(0,)]")
        export.thunk(tid, 1200, 1300, "all-gather-start.1")
        export.module(tid, 3000, 4000, "jit_other", 4)
        export.thunk(tid, 3100, 3200, "fusion.3")
        export.thunk(tid, 3300, 3400, "copy.1")
        for turn, start in enumerate((1110, 1120, 1210, 3110, 3310, 4500)):
            export.call(tid, start, 1 + first + turn)
        export.kernel(gpu, 7, 5000 + late, 5100 + late, "fusion_3", 1 + first)
        export.kernel(gpu, 7, 5100 + late, 5150 + late, "reduce_kernel", 2 + first)
        export.kernel(gpu, 9, 5050 + late, 5400 + late, GATHER, 3 + first)
        export.kernel(gpu, 7, 6000 + late, 6040 + late, "fusion_3", 4 + first)
        export.copy(gpu, 7, 6050 + late, 6090 + late, 2, 5 + first)
        export.memset(gpu, 7, 7000 + late, 7001 + late, 6 + first)


@pytest.fixture(params=[OLD, NEW])
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Recording:
    with Export(tmp_path / "two.sqlite", request.param) as export:
        two_gpus(export)
    return read_sqlite(export.path)


def test_copies_tell_their_bytes(recording: Recording) -> None:
    copies = recording.ops.filter(pl.col("hint") == "memcpy")
    assert copies.select("name", "bytes").rows() == [("MemcpyD2H", 64.0)]
    others = recording.ops.filter(pl.col("hint").is_null() | (pl.col("hint") != "memcpy"))
    assert others["bytes"].null_count() == len(others)


def spans_of(recording: Recording) -> pl.DataFrame:
    """Spans with what they point to."""
    ops = recording.ops.with_row_index("row").rename({"op": "hlo_op"})
    lines = pl.Series("line_name", recording.lines, pl.String)
    spans = recording.spans.join(ops, left_on="op", right_on="row", maintain_order="left")
    return spans.with_columns(
        line=lines.gather(recording.spans["line"]),
        start=pl.col("start_ps") / 1000,
        dur=pl.col("dur_ps") / 1000,
    ).sort("device", "start", "dur")


def test_tables_have_the_schemas_of_a_recording(recording: Recording) -> None:
    assert dict(recording.spans.schema) == SPANS
    assert dict(recording.ops.schema) == OPS
    assert dict(recording.executions.schema) == EXECUTIONS
    assert dict(recording.host_events.schema) == HOST_EVENTS
    assert dict(recording.markers.schema) == MARKERS


def test_work_belongs_to_the_op_and_module_it_was_launched_under(recording: Recording) -> None:
    spans = spans_of(recording).filter(pl.col("device") == 1)
    columns = ("name", "hlo_op", "module", "program_key", "hint", "line", "start", "dur")
    assert spans.select(columns).rows() == [
        ("fusion_3", "fusion.3", "jit_step", "3", None, "GPU 1/stream 7", 5010, 100),
        (GATHER, "all-gather-start.1", "jit_step", "3", "nccl", "GPU 1/stream 9", 5060, 350),
        ("reduce_kernel", "fusion.3", "jit_step", "3", None, "GPU 1/stream 7", 5110, 50),
        ("fusion_3", "fusion.3", "jit_other", "4", None, "GPU 1/stream 7", 6010, 40),
        ("MemcpyD2H", "copy.1", "jit_other", "4", "memcpy", "GPU 1/stream 7", 6060, 40),
        ("Memset", None, None, None, "memset", "GPU 1/stream 7", 7010, 1),
    ]
    assert "2 of 12 GPU activities" in recording.notes[0]


def test_the_same_op_in_two_modules_is_two_ops(recording: Recording) -> None:
    fusions = recording.ops.filter(pl.col("op") == "fusion.3", pl.col("name") == "fusion_3")
    assert fusions["module"].to_list() == ["jit_step", "jit_other"]
    assert fusions["scope"].to_list() == ["jit(step)/mul[axes=(0,)]", None]


def test_executions_last_from_the_first_of_their_work_to_the_last(recording: Recording) -> None:
    told = recording.executions.select(
        "device", "module", "program_key", pl.col("start_ps", "dur_ps") // 1000
    )
    assert told.rows() == [
        (0, "jit_step", "3", 5000, 400),
        (0, "jit_other", "4", 6000, 90),
        (1, "jit_step", "3", 5010, 400),
        (1, "jit_other", "4", 6010, 90),
    ]


def test_spans_carry_the_key_of_their_execution(recording: Recording) -> None:
    keys = dict(recording.executions.select("run_key", "module").rows())
    assert len(keys) == 4
    spans = spans_of(recording)
    assert (
        spans["run_key"].replace_strict(keys, default=None).to_list() == spans["module"].to_list()
    )


def test_devices_and_host_are_described(recording: Recording) -> None:
    assert [device.ordinal for device in recording.devices] == [0, 1]
    assert {device.chip for device in recording.devices} == {"NVIDIA H100 80GB HBM3"}
    assert {device.peak_bytes for device in recording.devices} == {3_352_000.0}
    assert recording.host == "node7 (process 4)"


def test_host_threads_hold_ranges_and_api_calls(recording: Recording) -> None:
    lines = pl.Series(recording.lines).gather(recording.host_events["line"])
    names = pl.Series(recording.host_names).gather(recording.host_events["name"])
    events = recording.host_events.with_columns(line_name=lines, named=names).filter(
        pl.col("line_name").str.ends_with(" 101")
    )
    calls = events.filter(pl.col("named") == "cuLaunchKernel")
    assert calls.select(pl.col("start_ps", "dur_ps") // 1000).rows()[:2] == [(1110, 5), (1120, 5)]
    assert "TSL:Thunk:#hlo_op=copy.1#" in set(events["named"])
    assert len(events) == 6 + 6


def test_kernels_on_one_line_never_cross(tmp_path: Path) -> None:
    with Export(tmp_path / "cross.sqlite") as export:
        for start, end in ((0, 100), (10, 20), (30, 40), (35, 50), (100, 110)):
            export.kernel(0, 7, start, end, "k", 1)
    spans = spans_of(read_sqlite(export.path))
    assert spans.select("line", "start").rows() == [
        ("GPU 0/stream 7", 0),
        ("GPU 0/stream 7 (2)", 10),
        ("GPU 0/stream 7 (2)", 30),
        ("GPU 0/stream 7 (3)", 35),
        ("GPU 0/stream 7", 100),
    ]


def test_an_execution_cut_by_the_end_of_the_profile_is_none(tmp_path: Path) -> None:
    with Export(tmp_path / "cut.sqlite") as export:
        export.module(MAIN, 1000, None, "jit_step", 3)
        export.thunk(MAIN, 1100, 1200, "fusion.3")
        export.call(MAIN, 1110, 1)
        export.kernel(0, 7, 2000, 2100, "fusion_3", 1)
    recording = read_sqlite(export.path)
    assert spans_of(recording).select("hlo_op", "module", "run_key").rows() == [
        ("fusion.3", "jit_step", None)
    ]
    assert len(recording.executions) == 0
    assert "had not ended" in " ".join(recording.notes)


def test_a_step_marker_of_jax_is_a_marker(tmp_path: Path) -> None:
    with Export(tmp_path / "step.sqlite") as export:
        export.range(MAIN, 100, 900, "train#step_num=17,_r=1#")
    markers = read_sqlite(export.path).markers
    assert markers.rows() == [(None, 17, "TSL:train", 100_000, 800_000)]


def graph_of_three(export: Export) -> None:
    """Nodes 31 and 32 are clones of nodes made under their ops; nobody saw node 33 being made."""
    export.module(MAIN, 100, 1000, "jit_step", 3)
    export.thunk(MAIN, 200, 900, "command_buffer.1")
    export.thunk(MAIN, 300, 400, "fusion.3")
    export.thunk(MAIN, 400, 500, "all-reduce-start")
    export.node(MAIN, 310, 21)
    export.node(MAIN, 410, 22)
    export.node(MAIN, 600, 31, origin=21)
    export.node(MAIN, 600, 32, origin=22)
    export.call(MAIN, 700, 9, "cuGraphLaunch")
    export.module(MAIN, 2000, 3000, "jit_step", 3)
    export.thunk(MAIN, 2100, 2200, "command_buffer.1")
    export.call(MAIN, 2110, 10, "cuGraphLaunch")
    for start, correlation in ((1500, 9), (3500, 10)):
        export.kernel(0, 7, start, start + 10, "fusion_3", correlation, graphNodeId=31)
        export.kernel(0, 7, start + 10, start + 90, "ncclDevKernel", correlation, graphNodeId=32)
        export.kernel(0, 7, start + 90, start + 95, "late", correlation, graphNodeId=33)


def test_a_process_that_never_came_to_a_gpu_has_no_work_and_no_tables_for_it(
    tmp_path: Path,
) -> None:
    with Export(tmp_path / "cpu.sqlite") as export:
        export.range(MAIN, 1000, 2000, "train")
        for kind in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "GRAPH_TRACE"):
            export.execute(f"DROP TABLE CUPTI_ACTIVITY_KIND_{kind}")
    recording = read_sqlite(export.path)
    assert len(recording.spans) == 0
    assert recording.devices == ()
    assert any("no GPU activity" in note for note in recording.notes)


def test_a_graph_node_is_the_op_it_was_made_under(tmp_path: Path) -> None:
    with Export(tmp_path / "graph.sqlite") as export:
        graph_of_three(export)
    recording = read_sqlite(export.path)
    spans = spans_of(recording)
    assert spans["hlo_op"].to_list() == ["fusion.3", "all-reduce-start", None] * 2
    assert set(spans["module"]) == {"jit_step"}
    assert spans["run_key"].n_unique() == 2
    assert recording.executions.select(pl.col("start_ps", "dur_ps") // 1000).rows() == [
        (1500, 95),
        (3500, 95),
    ]
    notes = " ".join(recording.notes)
    assert "2 of 6 GPU activities" in notes
    assert "--xla_gpu_enable_command_buffer=" in notes


def test_a_node_made_under_the_launching_thunk_alone_has_no_op(tmp_path: Path) -> None:
    with Export(tmp_path / "plain.sqlite") as export:
        export.module(MAIN, 100, 1000, "jit_step", 3)
        export.thunk(MAIN, 200, 900, "command_buffer.1")
        export.node(MAIN, 310, 21)
        export.call(MAIN, 700, 9, "cuGraphLaunch")
        export.kernel(0, 7, 1500, 1510, "fusion_3", 9, graphNodeId=21)
    spans = spans_of(read_sqlite(export.path))
    assert spans.select("name", "hlo_op", "module").rows() == [("fusion_3", None, "jit_step")]


def test_a_graph_recorded_whole_is_one_span_of_its_launching_op(tmp_path: Path) -> None:
    with Export(tmp_path / "whole.sqlite") as export:
        export.module(MAIN, 100, 1000, "jit_step", 3)
        export.thunk(MAIN, 200, 900, "command_buffer.1")
        export.call(MAIN, 700, 9, "cuGraphLaunch")
        export.graph(0, 7, 1500, 1600, 9)
    recording = read_sqlite(export.path)
    assert spans_of(recording).select("name", "hlo_op", "hint", "dur").rows() == [
        ("CUDA graph 5", "command_buffer.1", "graph", 100)
    ]
    assert "--cuda-graph-trace=node" in " ".join(recording.notes)


def test_processes_that_see_other_gpus_under_the_same_number(tmp_path: Path) -> None:
    other = (1 << 48) + (200 << 24)
    with Export(tmp_path / "masked.sqlite") as export:
        for gpu, pid in ((2, 100), (5, 200)):
            export.insert("TARGET_INFO_GPU", id=gpu, name=f"GPU of {pid}")
            export.insert("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=0, pid=pid)
        export.kernel(0, 7, 0, 10, "a", 1)
        export.kernel(0, 7, 5, 15, "b", 1, globalPid=other)
    recording = read_sqlite(export.path)
    assert [(d.ordinal, d.chip) for d in recording.devices] == [
        (2, "GPU of 100"),
        (5, "GPU of 200"),
    ]
    assert spans_of(recording).select("device", "name").rows() == [(0, "a"), (1, "b")]


def test_calls_of_two_processes_with_the_same_correlation_stay_apart(tmp_path: Path) -> None:
    other = (1 << 48) + (200 << 24)
    with Export(tmp_path / "pids.sqlite") as export:
        for pid, op in ((PID, "fusion.1"), (other, "fusion.2")):
            tid = thread(1, pid)
            export.module(tid, 0, 100, "jit_step", 3)
            export.thunk(tid, 10, 20, op)
            export.call(tid, 11, 1)
        export.kernel(0, 7, 200, 210, "k", 1)
        export.kernel(1, 7, 200, 210, "k", 1, globalPid=other)
    assert spans_of(read_sqlite(export.path))["hlo_op"].to_list() == ["fusion.1", "fusion.2"]


def test_times_of_a_machine_that_has_run_for_years_count_from_the_earliest(tmp_path: Path) -> None:
    uptime = 10 * 365 * 86_400 * 10**9
    with Export(tmp_path / "uptime.sqlite") as export:
        export.execute("DELETE FROM NVTX_EVENTS")
        export.kernel(0, 7, uptime, uptime + 10, "a", 1)
        export.kernel(0, 7, uptime + 30, uptime + 50, "b", 2)
    spans = spans_of(read_sqlite(export.path))
    assert spans.select("start", "dur").rows() == [(0, 10), (30, 20)]


def test_impossible_times_are_left_out_and_counted(tmp_path: Path) -> None:
    with Export(tmp_path / "odd.sqlite") as export:
        export.kernel(0, 7, 100, 110, "a", 1)
        export.kernel(0, 7, 100, 90, "backwards", 2)
        export.kernel(0, 7, 120, (1 << 63) - 1, "endless", 3)
    recording = read_sqlite(export.path)
    assert spans_of(recording)["name"].to_list() == ["a"]
    assert recording.notes[0].startswith("2 GPU activities")


def test_settings_are_kept_and_secrets_are_not(tmp_path: Path) -> None:
    with Export(tmp_path / "env.sqlite") as export:
        for value in ('XLA_FLAGS="--xla_gpu_x=1"', 'HF_TOKEN="s"', 'JAX_API_KEY="s"'):
            export.insert("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE", value=value)
        export.insert(
            "TARGET_INFO_SYSTEM_ENV",
            name="DeviceEnvironment",
            nameEnum=610,
            value="NCCL_ALGO=Ring;AWS_SECRET=s;CUDA_DEVICE_MAX_CONNECTIONS=1",
        )
    facts = read_sqlite(export.path).environment
    assert facts == {
        "NCCL_ALGO": "Ring",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "XLA_FLAGS": "--xla_gpu_x=1",
        "EXPORT_SCHEMA_VERSION": "3.25.0",
    }


def test_warnings_of_the_profiler_are_passed_on(tmp_path: Path) -> None:
    with Export(tmp_path / "warned.sqlite") as export:
        for severity, text in (
            (1, "started"),
            (2, "Not all CUDA events"),
            (2, "Not all CUDA events"),
        ):
            export.insert("DIAGNOSTIC_EVENT", timestamp=1, severity=severity, text=text)
    notes = read_sqlite(export.path).notes
    assert notes[-1].endswith(" CUDA events (2 times)")
    assert "no GPU activity" in notes[0]


_MANY = "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES (?, ?, ?, ?, ?)"


def test_a_schema_that_nobody_has_looked_at_is_read_with_a_note(tmp_path: Path) -> None:
    with Export(tmp_path / "next.sqlite") as export:
        two_gpus(export)
        export.execute("UPDATE META_DATA_EXPORT SET value = '3.99.1'")
    recording = read_sqlite(export.path)
    assert len(recording.spans) == 12
    assert recording.notes[-1].count("3.99.1")


def test_many_rows_come_back_in_order_with_their_texts(tmp_path: Path) -> None:
    rows = 70_000  # more than one batch
    with Export(tmp_path / "many.sqlite") as export:
        for i in range(rows):
            start = 10 * i
            export.execute(_MANY, (start, start + 5, 59, f"range {i % 3}", MAIN))
    recording = read_sqlite(export.path)
    events = recording.host_events
    assert (events["start_ps"] // 10_000).to_list() == list(range(rows))
    names = pl.Series(recording.host_names).gather(events["name"])
    assert names.to_list()[:4] == ["range 0", "range 1", "range 2", "range 0"]


def test_a_pytorch_export_has_kernels_without_ops(shared: Path) -> None:
    recording = read_sqlite(shared / "data/traces/pytorch_h100_2gpu.nsys.sqlite")
    assert [device.ordinal for device in recording.devices] == [0, 1]
    assert recording.lines[:2] == ("GPU 0/stream 7", "GPU 1/stream 15")
    assert recording.host == "modal"
    counts = dict(recording.ops["hint"].gather(recording.spans["op"]).value_counts().rows())
    assert counts == {None: 3_442, "memcpy": 904, "memset": 22}
    assert recording.ops["op"].null_count() == len(recording.ops)
    assert len(recording.executions) == 0
    assert len(recording.host_events) == 16_782 + 5_796
    assert recording.notes[0].startswith("no NVTX ranges")
    window_ns = (155_330_248_986, 156_330_248_986)  # META_DATA_EXPORT, DERIVED_WINDOW_NS
    assert (recording.spans["start_ps"] // 1000).is_between(*window_ns).all()
