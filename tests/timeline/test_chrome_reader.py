"""What is read out of Chrome traces, by small ones with the answer worked out by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from trace_builder import Event, packed, process, span, spans_of, text_of, thread

from counterpoint.cli.app import main
from counterpoint.core.errors import InputError
from counterpoint.timeline.chrome import reader
from counterpoint.timeline.chrome.reader import read_trace_json
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Device, Host, machines

HLO = "%all-reduce.7 = f32[1024]{0} all-reduce(f32[1024]{0} %x), replica_groups={{0,1}}"


def tpu(pid: int, ordinal: int) -> list[Event]:
    names = {2: "XLA Modules", 3: "XLA Ops", 4: "Async XLA Ops", 5: "Steps", 6: "XLA TraceMe"}
    return [
        process(pid, f"/device:TPU:{ordinal}"),
        *(thread(pid, tid, name) for tid, name in names.items()),
    ]


def test_a_tpu_core_has_ops_async_windows_executions_and_steps() -> None:
    about = {
        "hlo_category": "all-reduce",
        "long_name": HLO,
        "tf_op": "jit(train)/psum:",
        "source": "model.py:12",
        "model_flops": "1024",
        "bytes_accessed": "8192",
        "run_id": "850",
    }
    recording = read_trace_json(
        packed(
            [
                *tpu(3, 0),
                span((3, 2), 10.0, 25.5, "jit_train(12190760917235803885)", run_id="850"),
                span((3, 3), 11.25, 2.5, "all-reduce.7", **about),
                span((3, 4), 12.000001, 4.396159, "copy-start.1", hlo_category="copy-start"),
                span((3, 5), 9.0, 30.0, "17"),
                span((3, 6), 9.5, 1.0, "barrier-cores"),
            ]
        ),
        "logs/worker-3.trace.json.gz",
    )
    assert recording.host == "worker-3"
    assert recording.devices == (Device(ordinal=0, kind="tpu"),)
    assert spans_of(recording) == [
        ("tpu0", "/device:TPU:0/XLA Ops", "all-reduce.7", 11_250_000, 2_500_000),
        ("tpu0", "/device:TPU:0/Async XLA Ops", "copy-start.1", 12_000_001, 4_396_159),
    ]
    assert recording.spans["run_key"].to_list() == [850, None]
    assert recording.ops.rows(named=True)[0] == {
        "name": "all-reduce.7",
        "op": "all-reduce.7",
        "module": None,
        "program_key": None,
        "async_window": False,
        "hint": "all-reduce",
        "scope": "jit(train)/psum:",
        "source": "model.py:12",
        "flops": 1024.0,
        "bytes": 8192.0,
        "text": HLO,
    }
    assert recording.ops["async_window"].to_list() == [False, True]
    assert recording.executions.rows() == [
        (0, "jit_train", "12190760917235803885", 850, 10_000_000, 25_500_000)
    ]
    assert recording.markers.rows() == [(0, 17, "17", 9_000_000, 30_000_000)]
    assert not recording.truncated
    assert any("XLA TraceMe" in note for note in recording.notes)


def test_a_gpu_has_its_streams_and_not_the_lines_derived_from_them() -> None:
    kernel = {
        "hlo_op": "fusion.1",
        "hlo_module": "jit_f",
        "name": "jit(f)/mul",
        "tf_op": "XlaModule:",
    }
    recording = read_trace_json(
        text_of(
            [
                process(1, "/device:GPU:1"),
                thread(1, 14, "Stream #14(Compute)"),
                thread(1, 20, "Stream #20(MemcpyD2H)"),
                thread(1, 5, "XLA Ops - from #14"),
                thread(1, 6, "XLA Ops"),
                span((1, 14), 5, 2, "loop_fusion_kernel", **kernel),
                span((1, 20), 6, 1, "MemcpyD2H"),
                span((1, 5), 5, 2, "fusion.1"),
                span((1, 6), 5, 2, "fusion.1"),
            ]
        ),
        "gpu.trace.json",
    )
    assert spans_of(recording) == [
        ("gpu1", "/device:GPU:1/Stream #14(Compute)", "loop_fusion_kernel", 5_000_000, 2_000_000),
        ("gpu1", "/device:GPU:1/Stream #20(MemcpyD2H)", "MemcpyD2H", 6_000_000, 1_000_000),
    ]
    columns = recording.ops.select("op", "module", "scope").rows()
    assert columns == [("fusion.1", "jit_f", "jit(f)/mul"), (None, None, None)]


def test_ops_on_host_threads_belong_to_virtual_cpu_devices() -> None:
    def op(at: float, name: str, device: int) -> Event:
        where = {"hlo_op": name, "hlo_module": "jit_f", "device_ordinal": str(device)}
        return span((701, 9), at, 1.5, name, **where, run_id="7")

    recording = read_trace_json(
        text_of(
            [
                process(701, "/host:CPU"),
                thread(701, 9, "pool/9"),
                thread(701, 1, "python"),
                span((701, 1), 0, 50, "train", step_num="4"),
                span((701, 1), 1, 5, "$pjit.py:10 call"),
                op(10, "dot.1", 2),
                op(12, "dot.1", 0),
                span((701, 9), 11.6, 0.09, "end: dot.1"),
                span((701, 9), 12, 1e-06, "ThreadpoolListener::Record"),
                span((701, 9), 13, 1e-06, "mark"),
            ]
        ),
        "cpu.trace.json",
    )
    assert spans_of(recording) == [
        ("cpu2", "/host:CPU/pool/9", "dot.1", 10_000_000, 1_500_000),
        ("cpu0", "/host:CPU/pool/9", "dot.1", 12_000_000, 1_500_000),
    ]
    assert recording.spans["run_key"].to_list() == [7, 7]
    assert len(recording.ops) == 1  # the same op on two devices is one row
    assert recording.markers.rows() == [(None, 4, "train", 0, 50_000_000)]
    events = recording.host_events.select("name", "start_ps", "dur_ps").rows()
    named = [(recording.host_names[name], start, length) for name, start, length in events]
    assert sorted(named) == [("$pjit.py:10 call", 1_000_000, 5_000_000), ("train", 0, 50_000_000)]
    assert any(note.startswith("1 book-keeping marks") for note in recording.notes)


def test_an_op_lasts_until_its_end_is_marked_where_no_other_of_its_name_runs() -> None:
    def op(at: float, tid: int, device: int, run: str = "7") -> Event:
        where = {"hlo_op": "dot.1", "hlo_module": "jit_f", "device_ordinal": str(device)}
        return span((701, tid), at, 2, "dot.1", **where, run_id=run)

    def end(at: float, tid: int) -> Event:
        return span((701, tid), at, 0.5, "end: dot.1")

    waits = "ThunkExecutor::Execute (wait for completion)"
    recording = read_trace_json(
        text_of(
            [
                process(701, "/host:CPU"),
                *(thread(701, number, f"pool/{number}") for number in (1, 2, 3)),
                op(10, 1, 0),
                end(100, 2),  # by another thread
                op(200, 1, 0),
                end(202.1, 1),  # at once
                op(300, 1, 0),
                op(310, 2, 1),  # at the same time on another device: which ends first?
                end(390, 3),
                end(400, 3),
                op(500, 1, 0, "8"),
                span((701, 3), 490, 60, waits, run_id="8"),  # no op outlasts its run
                end(580, 2),
            ]
        ),
        "cpu.trace.json",
    )
    times = recording.spans.select("start_ps", "dur_ps").rows()
    spans = [(start // 1_000_000, length // 1_000_000) for start, length in times]
    assert sorted(spans) == [(10, 90), (200, 2), (300, 2), (310, 2), (500, 50)]


def test_threads_without_xla_names_hold_work_only_where_none_has_such_a_name() -> None:
    recording = read_trace_json(
        text_of(
            [
                process(1, "/device:CPU:3"),
                thread(1, 1, "pool/1"),
                thread(1, 2, "Framework Ops"),
                *tpu(2, 0),
                thread(2, 9, "pool/1"),
                span((1, 1), 1, 1, "dot.1"),
                span((1, 2), 1, 1, "dot"),
                span((2, 3), 2, 1, "add.1"),
                span((2, 9), 2, 1, "unknown"),
            ]
        ),
        "a.json",
    )
    assert [row[:3] for row in spans_of(recording)] == [
        ("cpu3", "/device:CPU:3/pool/1", "dot.1"),
        ("tpu0", "/device:TPU:0/XLA Ops", "add.1"),
    ]
    assert any("Framework Ops, pool/1" in note for note in recording.notes)


def test_devices_of_two_hosts_in_one_file_stay_apart() -> None:
    recording = read_trace_json(
        text_of(
            [
                process(1, "b /device:GPU:0"),
                process(2, "a /device:GPU:0"),
                thread(1, 1, "Stream #1"),
                thread(2, 1, "Stream #1"),
                span((1, 1), 1, 1, "on b"),
                span((2, 1), 2, 1, "on a"),
            ]
        ),
        "two.json",
    )
    assert recording.devices == (Device(ordinal=0, kind="gpu"),) * 2
    assert [row[2] for row in spans_of(recording)] == ["on a", "on b"]
    assert recording.spans["device"].to_list() == [0, 1]


def test_names_may_come_behind_the_events() -> None:
    events = [span((3, 3), 1, 1, "a", hlo_category="x"), *tpu(3, 0)]
    recording = read_trace_json(text_of(events), "late.json")
    assert [row[:3] for row in spans_of(recording)] == [("tpu0", "/device:TPU:0/XLA Ops", "a")]


def test_times_are_exact_to_the_picosecond() -> None:
    text = text_of(tpu(3, 0))[:-4]
    times = [
        ("4.3961589999999999", 4_396_159),
        ("9.9999999999999995e-07", 1),
        ("1144986.718988", 1_144_986_718_988),
        ("8600000000.123456", 8_600_000_000_123_456),  # more digits than a double holds
    ]
    for at, _ in times:
        event = f'{{"ph":"X","pid":3,"tid":3,"ts":{at},"dur":{at},"name":"a"}},'
        text += event.encode()
    recording = read_trace_json(text + b"{}]}", "exact.json")
    exact = [value for _, value in times]
    assert recording.spans["start_ps"].to_list() == exact
    assert recording.spans["dur_ps"].to_list() == exact


def test_times_since_1970_count_from_the_first() -> None:
    text = """[{"ph":"M","pid":0,"name":"process_name","args":{"name":"/device:TPU:0"}},
      {"ph":"M","pid":0,"tid":1,"name":"thread_name","args":{"name":"XLA Ops"}},
      {"ph":"X","pid":0,"tid":1,"ts":1763600000000000.125,"dur":2.5,"name":"a"},
      {"ph":"X","pid":0,"tid":1,"ts":1763600000000003.625,"dur":1,"name":"b"}]"""
    recording = read_trace_json(text.encode(), "absolute.json")
    assert recording.spans["start_ps"].to_list() == [125_000, 3_625_000]


def pytorch(rank: int, gpu: int, sees: int) -> bytes:
    kernel = {"name": "gemm", "cat": "kernel", "ph": "X", "pid": gpu, "tid": 7, "ts": 1, "dur": 2}
    trace = {
        "deviceProperties": [{"id": each, "name": "H100"} for each in range(sees)],
        "distributedInfo": {"rank": rank, "world_size": 16},
        "traceEvents": [{**kernel, "args": {"device": gpu, "stream": 7}}],
    }
    return json.dumps(trace, indent=1).encode()


@pytest.mark.parametrize(
    ("name", "rank", "gpu", "sees", "host"),
    [
        ("rank3.trace.json", 3, 3, 8, "host 0"),
        ("rank11.trace.json", 11, 3, 8, "host 1"),
        ("node7_4711.1759300074.pt.trace.json", 11, 0, 1, "node7"),
        ("rank3.trace.json", 3, 0, 1, None),
        ("rank3.trace.json", 3, 5, 8, None),
    ],
)
def test_pytorchs_ranks_share_the_host_that_their_traces_tell(
    name: str, rank: int, gpu: int, sees: int, host: str | None
) -> None:
    """Eight ranks of one machine were eight hosts, though each trace lists eight GPUs."""
    recording = read_trace_json(pytorch(rank, gpu, sees), name)
    machine = Host(name=recording.host, source="").machine
    assert machine == (host or "rank3")
    assert any("does not tell its host" in note for note in recording.notes) == (host is None)
    assert machines(assemble([recording], [name]).hosts) == (1 if host else None)


@pytest.mark.parametrize(
    ("sees", "told"),
    [
        (8, "in 2 processes on 1 host\n"),
        (1, "in 2 processes (hosts not recorded)\n"),
    ],
)
@pytest.mark.parametrize("command", ["explain", "network"])
def test_hosts_that_traces_do_not_tell_are_not_counted(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    sees: int,
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_bytes(pytorch(rank, rank % sees, sees))
    assert main([command, "rank0.json", "rank1.json"]) == 0
    assert told in capsys.readouterr().out


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(
    ("listed", "device", "chip"),
    [
        ({1: "H100", 2: "A100"}, 2, "A100"),
        ({0: "MI300X"}, 9, "MI300X"),  # the process sees one GPU, which has another number
        ({0: "H100", 1: "A100"}, 9, None),
    ],
)
def test_kineto_names_the_chips_of_a_trace(
    behind: bool, listed: dict[int, str], device: int, chip: str | None
) -> None:
    kernel = {**span((1, 7), 0, 5, "gemm", device=device), "cat": "kernel"}
    gpus = {"deviceProperties": [{"id": id_, "name": name} for id_, name in listed.items()]}
    events = {"traceEvents": [kernel]}
    trace = {**events, **gpus} if behind else {**gpus, **events}
    recording = read_trace_json(json.dumps(trace).encode(), "kineto.json")
    assert [found.chip for found in recording.devices] == [chip]


def test_kineto_tells_bytes_and_ranks_of_collectives() -> None:
    told = {
        "Collective name": "_allgather_base",
        "In msg nelems": 512,
        "Out msg nelems": 4096,
        "dtype": "BFloat16",
        "Group size": 8,
    }
    kernel = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    sizes = [told, told, {**told, "Out msg nelems": 64}, {}]
    trace = {
        "baseTimeNanoseconds": 1_759_300_074_000_000_000,
        "distributedInfo": {"rank": 3, "world_size": 8},
        "traceEvents": [
            {**span((1, 7), 10 * at, 5, kernel, device=3, **args), "cat": "kernel"}
            for at, args in enumerate(sizes)
        ],
    }
    recording = read_trace_json(json.dumps(trace).encode(), "kineto.json")
    ops = assemble([recording], ["kineto.json"]).ops
    assert ops.select("collective", "bytes", "group_size", "bus_factor").rows() == [
        ("all-gather", 8192, 8, 7 / 8),
        ("all-gather", 128, 8, 7 / 8),
        ("all-gather", None, None, None),
    ]
    assert ops["lane"].unique().to_list() == ["collective"]
    assert (recording.zero_ns, recording.rank) == (1_759_300_074_000_000_000, (3, 8))
    notes = assemble([recording], ["kineto.json"]).notes
    assert any("1 of 8 ranks" in note for note in notes)


def test_kineto_tells_the_bytes_of_copies_of_which_an_op_has_the_mean() -> None:
    copies = [
        {**span((1, 7), 10 * at, 5, "Memcpy HtoD", device=0, bytes=size), "cat": "gpu_memcpy"}
        for at, size in enumerate((1000, 1000, 4000))
    ]
    kernel = {**span((1, 7), 50, 5, "gemm", device=0), "cat": "kernel"}
    recording = read_trace_json(json.dumps([*copies, kernel]).encode(), "kineto.json")
    assert recording.ops.select("name", "bytes").rows() == [("Memcpy HtoD", 2000.0), ("gemm", None)]


def test_kineto_kernels_are_work_on_gpus_and_profiler_steps_are_markers() -> None:
    def kineto(cat: str, tid: int, at: int, name: str, **args: object) -> Event:
        return {**span((4242, tid), at, 5, name, **args), "cat": cat}

    trace = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0}, {"id": 1, "name": "H100"}],
        "traceEvents": [
            process(4242, "python3"),
            kineto("user_annotation", 1, 0, "ProfilerStep#12"),
            kineto("cpu_op", 1, 1, "aten::mm"),
            kineto("kernel", 7, 20, "gemm", device=1, stream=7),
            kineto("gpu_memcpy", 7, 26, "Memcpy DtoH", device=1, stream=7),
            kineto("gpu_user_annotation", 7, 20, "ProfilerStep#12"),
            kineto("kernel", 8, 25, "gemm", device=1, stream=8),
            kineto("gpu_user_annotation", 8, 26, "ProfilerStep#12"),
            kineto("gpu_user_annotation", 8, 26, "forward"),
            {"ph": "s", "id": 1, "pid": 4242, "tid": 1, "ts": 1},
        ],
        "traceName": "x.json",
    }
    recording = read_trace_json(json.dumps(trace, indent=1).encode(), "kineto.json")
    assert [row[0:3] for row in spans_of(recording)] == [
        ("gpu1", "python3/7", "gemm"),
        ("gpu1", "python3/7", "Memcpy DtoH"),
        ("gpu1", "python3/8", "gemm"),
    ]
    assert recording.ops["hint"].to_list() == ["kernel", "gpu_memcpy"]
    assert recording.markers.rows() == [
        (None, 12, "ProfilerStep", 0, 5_000_000),
        (0, 12, "ProfilerStep", 20_000_000, 11_000_000),
    ]
    assert [device.chip for device in recording.devices] == ["H100"]
    assert any("1 events" in note and "'s'" in note for note in recording.notes)
    assert any("recorded by PyTorch" in note for note in recording.notes)


def test_begins_and_ends_are_paired_by_thread() -> None:
    def mark(phase: str, tid: int, at: float, name: str | None = None) -> Event:
        return {"ph": phase, "pid": 1, "tid": tid, "ts": at, **({"name": name} if name else {})}

    recording = read_trace_json(
        json.dumps(
            [
                mark("E", 1, 0),  # ends what began before the trace
                mark("B", 1, 1, "outer"),
                mark("B", 2, 1.5, "elsewhere"),
                mark("B", 1, 2, "inner"),
                mark("E", 1, 3),
                mark("E", 1, 7.5),
                mark("E", 2, 2),
                mark("B", 1, 9, "never ends"),
            ]
        ).encode(),
        "pairs.json",
    )
    rows = recording.host_events.rows()
    found = {recording.host_names[name]: (start, length) for _, name, start, length in rows}
    assert found == {
        "outer": (1_000_000, 6_500_000),
        "inner": (2_000_000, 1_000_000),
        "elsewhere": (1_500_000, 500_000),
    }
    assert any("2 unmatched" in note for note in recording.notes)
    assert any("no device process" in note for note in recording.notes)


def test_a_list_on_top_packed_or_not_and_a_path_give_the_same(tmp_path: Path) -> None:
    events = [*tpu(3, 0), span((3, 3), 1, 1, "a")]
    bare = json.dumps(events, indent=2).encode()
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf" + bare)
    expected = read_trace_json(text_of(events), "a.json").spans
    for data in (bare, gzip.compress(bare, mtime=0), path):
        assert_frame_equal(read_trace_json(data, "a.json").spans, expected)


def test_nothing_depends_on_the_order_of_the_events() -> None:
    events = [*tpu(4, 1), *tpu(3, 0), span((4, 3), 5, 1, "b"), span((3, 3), 1, 1, "a")]
    forward = read_trace_json(text_of(events), "a")
    backward = read_trace_json(text_of(events[::-1]), "a")
    assert (
        forward.devices
        == backward.devices
        == (
            Device(ordinal=0, kind="tpu"),
            Device(ordinal=1, kind="tpu"),
        )
    )
    assert spans_of(forward) == spans_of(backward)


def test_the_cap_on_events_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA keeps the first 1,000,000 spans by start and drops the rest without a word."""
    assert reader.MOST_EVENTS == 1_000_000
    monkeypatch.setattr(reader, "MOST_EVENTS", 2000)
    one = json.dumps(span((3, 3), 1, 1, "a")).encode()
    text = text_of(tpu(3, 0))[:-4] + b",".join([one] * 2000) + b",{}]}"
    recording = read_trace_json(text, "capped.json")
    assert len(recording.spans) == 2000
    assert recording.truncated
    assert any("1,000,000 events" in note and ".xplane.pb" in note for note in recording.notes)


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_trace_json(tmp_path / "none.json", "none.json")


def test_a_tpu_trace_of_vllm(shared: Path) -> None:
    path = shared / "data/traces/vllm_qwen3_2tpu.trace.json.gz"
    recording = read_trace_json(path, path.name)
    assert recording.devices == (Device(ordinal=0, kind="tpu"), Device(ordinal=1, kind="tpu"))
    assert len(recording.spans) == 6908
    assert len(recording.executions) == 8
    step = recording.executions.filter(module="jit_step_fun", device=0)
    assert step.select("program_key", "run_key", "start_ps", "dur_ps").rows() == [
        ("5120112285394406626", 850, 1_144_986_718_988, 66_914_493_397)
    ]
    first = recording.spans.row(0, named=True)
    assert (first["start_ps"], first["dur_ps"]) == (1_144_995_949_630, 1_320_453)
    assert recording.ops.row(first["op"], named=True)["op"] == "slice.1996"
    reductions = recording.ops.filter(pl.col("hint") == "all-reduce")
    assert len(reductions) > 0
    assert reductions["text"].str.contains("replica_groups").all()
