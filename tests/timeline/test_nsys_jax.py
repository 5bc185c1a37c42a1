"""Bundles of nsys-jax and nsys-jax-combine: small ones made by hand, and those of a real run.

Expected figures of the real run (Pax, FSDP over 4 A100, one process each) are those of nsys-jax's
own analysis of the same files.
"""

from __future__ import annotations

import lzma
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest
from nsys_bundle import (
    TRACE,
    Bundle,
    Range,
    combine,
    module,
    parquet,
    thunk,
    to_2024_4,
    to_2024_5,
    to_2026_1,
    write_zip,
)

from counterpoint.core.errors import InputError
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.proto_reader import program_from_proto
from counterpoint.timeline.nsys.archive import is_nsys_jax
from counterpoint.timeline.nsys.bundle import read_nsys_jax, read_nsys_jax_ranks
from counterpoint.timeline.recording import Recording

STEP = "jit_step,program_id=3"
OTHER = "jit_other,program_id=4"


def one_gpu() -> list[Range]:
    """Two executions of jit_step, one of jit_other; both have a fusion.3."""
    return [
        module(10, STEP, 1000, 400),
        thunk(11, 10, "fusion.3", 1000, 100),
        thunk(12, 10, "all-gather-start.1", 1050, 350),
        Range(id=13, parent=12, text="NCCL:ncclGroupEnd", start=1050, dur=350),
        thunk(14, 10, "while.1", 1100, 200),
        thunk(15, 14, "custom-call.2", 1100, 150),
        module(20, STEP, 2000, 100),
        thunk(21, 20, "fusion.3", 2000, 100),
        module(30, OTHER, 3000, 60),
        thunk(31, 30, "fusion.3", 3000, 60),
    ]


def spans_of(recording: Recording) -> pl.DataFrame:
    """Spans with what they point to, times in nanoseconds."""
    ops = recording.ops.with_row_index("row").rename({"op": "hlo_op"})
    return (
        recording.spans.join(ops, left_on="op", right_on="row", maintain_order="left")
        .with_columns(
            line=pl.Series(recording.lines).gather(recording.spans["line"]),
            start=pl.col("start_ps") / 1000,
            dur=pl.col("dur_ps") / 1000,
        )
        .sort("device", "start", "dur")
    )


@pytest.mark.parametrize("layout", [to_2024_4, to_2024_5, to_2026_1])
def test_a_thunk_without_thunks_inside_is_a_span(
    layout: Callable[[Sequence[Range]], pl.DataFrame], tmp_path: Path
) -> None:
    recording = read_nsys_jax(Bundle(one_gpu(), layout).write(tmp_path / "a.zip"))
    columns = ("hlo_op", "module", "program_key", "run_key", "hint", "line", "start", "dur")
    assert spans_of(recording).select(columns).rows() == [
        ("fusion.3", "jit_step", "3", 0, None, "GPU 0/compute", 1000, 100),
        ("all-gather-start.1", "jit_step", "3", 0, "nccl", "GPU 0/collectives", 1050, 350),
        ("custom-call.2", "jit_step", "3", 0, None, "GPU 0/compute", 1100, 150),
        ("fusion.3", "jit_step", "3", 6, None, "GPU 0/compute", 2000, 100),
        ("fusion.3", "jit_other", "4", 8, None, "GPU 0/compute", 3000, 60),
    ]
    told = recording.executions.select("module", "run_key", pl.col("start_ps", "dur_ps") // 1000)
    assert told.rows() == [
        ("jit_step", 0, 1000, 400),
        ("jit_step", 6, 2000, 100),
        ("jit_other", 8, 3000, 60),
    ]
    assert len(recording.ops) == 4
    assert set(recording.ops["scope"]) == {"jit(f)/jit(main)"}


def test_a_collective_is_known_by_the_nccl_range_in_it(tmp_path: Path) -> None:
    ranges = [
        module(1, STEP, 0, 10),
        thunk(2, 1, "custom-call.9", 0, 10),
        Range(id=3, parent=2, text="NCCL:ncclAllReduce", start=0, dur=10),
    ]
    spans = spans_of(read_nsys_jax(Bundle(ranges).write(tmp_path / "a.zip")))
    assert spans.select("hlo_op", "hint", "line").rows() == [
        ("custom-call.9", "nccl", "GPU 0/collectives")
    ]


def test_each_launching_thread_has_its_device(tmp_path: Path) -> None:
    ranges = [
        module(1, STEP, 100, 10, tid=71),
        thunk(2, 1, "fusion.3", 100, 10, tid=71),
        module(3, STEP, 105, 10, tid=70),
        thunk(4, 3, "fusion.3", 105, 10, tid=70),
        module(5, OTHER, 50, 1, tid=1),
        thunk(6, 5, "fusion.3", 50, 1, tid=1),
    ]
    bundle = Bundle(ranges, launchers={70: 0, 71: 1}, process=5)
    recording = read_nsys_jax(bundle.write(tmp_path / "a.zip"))
    assert [(d.ordinal, d.chip, d.peak_bytes) for d in recording.devices] == [
        (0, "NVIDIA H100", 3352.0),
        (1, "NVIDIA H100", 3352.0),
    ]
    assert spans_of(recording).select("device", "start").rows() == [(0, 105), (1, 100)]
    assert recording.executions["device"].to_list() == [0, 1]
    assert recording.host == "node7 (process 5)"
    assert "1 of 3 thunks" in " ".join(recording.notes)


def test_threads_without_names_are_told_by_launching_equally_much(tmp_path: Path) -> None:
    """Bundles of mid-2024 hold no thread metadata: one thread for each of four GPUs, and a main."""
    ranges = [module(100, OTHER, 50, 1, tid=1), thunk(101, 100, "fusion.3", 50, 1, tid=1)]
    for tid in (73, 71, 70, 72):
        ranges.append(module(10 * tid, STEP, tid, 10, tid=tid))
        ranges += [
            thunk(10 * tid + part, 10 * tid, f"fusion.{part}", tid + part, 1, tid=tid)
            for part in (1, 2, 3)
        ]
    members = Bundle(ranges).members()
    del members["thread-metadata.parquet"], members["device-metadata.parquet"]
    recording = read_nsys_jax(write_zip(tmp_path / "a.zip", members))
    assert [device.ordinal for device in recording.devices] == [0, 1, 2, 3]
    starts = spans_of(recording).filter(hlo_op="fusion.1").select("device", "start").sort("device")
    assert starts.rows() == [(0, 71), (1, 72), (2, 73), (3, 74)]
    assert "its 4 launching threads" in " ".join(recording.notes)


def test_a_module_measured_by_the_autotuner_has_no_program(tmp_path: Path) -> None:
    ranges = [module(1, "gemm_fusion_dot.571", 0, 10), thunk(2, 1, "triton_gemm", 0, 10)]
    recording = read_nsys_jax(Bundle(ranges).write(tmp_path / "a.zip"))
    assert recording.executions.select("module", "program_key").rows() == [
        ("gemm_fusion_dot.571", None)
    ]


def test_ranges_that_share_an_id_have_an_unknown_module(tmp_path: Path) -> None:
    ranges = [
        module(1, STEP, 0, 10),
        module(1, STEP, 20, 10),
        thunk(2, 1, "fusion.3", 0, 10),
        thunk(3, 1, "fusion.3", 20, 10),
    ]
    recording = read_nsys_jax(Bundle(ranges, to_2024_5).write(tmp_path / "a.zip"))
    assert (
        spans_of(recording).select("hlo_op", "module", "run_key").rows()
        == [("fusion.3", None, None)] * 2
    )
    assert "1 range ids" in " ".join(recording.notes)


def test_programs_that_ran_are_unpacked_when_asked_for(tmp_path: Path) -> None:
    programs = {"0003.jit_step": b"step", "0004.jit_other": b"other", "0099.jit_idle": b"idle"}
    recording = read_nsys_jax(Bundle(one_gpu(), programs=programs).write(tmp_path / "a.zip"))
    assert {key: (p.name, p.load()) for key, p in recording.programs.items()} == {
        "3": ("jit_step", b"step"),
        "4": ("jit_other", b"other"),
    }


def test_a_damaged_program_is_told_when_asked_for(tmp_path: Path) -> None:
    members = Bundle(one_gpu(), programs={"0003.jit_step": b"step" * 99}).members()
    name = next(name for name in members if name.startswith("dump/"))
    members[name] = members[name][:-20]
    recording = read_nsys_jax(write_zip(tmp_path / "a.zip", members))
    with pytest.raises(InputError, match=r"a\.zip: dump/module_0003.* damaged"):
        recording.programs["3"].load()


def test_host_ranges_are_host_events(tmp_path: Path) -> None:
    bundle = Bundle(one_gpu(), host_ranges=[(5, 9, "TSL:XlaCompile", 1), (6, 7, "TSL:XlaPass", 1)])
    recording = read_nsys_jax(bundle.write(tmp_path / "a.zip"))
    assert recording.host_names == ("TSL:XlaCompile", "TSL:XlaPass")
    line = len(recording.lines) - 1
    assert recording.host_events.rows() == [(line, 0, 5000, 4000), (line, 1, 6000, 1000)]


def test_a_bundle_without_metadata_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {TRACE: parquet(to_2024_4(one_gpu()))})
    recording = read_nsys_jax(path)
    assert len(recording.spans) == 5
    assert recording.host == str(path)
    notes = " ".join(recording.notes)
    assert "name the GPU" in notes
    assert "host activity" in notes


@pytest.mark.parametrize("packed", [True, False])
def test_the_chip_is_what_xla_compiled_for_where_nothing_names_the_gpu(
    tmp_path: Path, packed: bool
) -> None:
    config = b'gpu_device_info { }\nplatform_name: "CUDA"\ndevice_description_str: "NVIDIA H100"\n'
    name = "dump/module_0040.jit_step.gpu_target_config.pbtxt" + ".xz" * packed
    members = {
        TRACE: parquet(to_2024_4(one_gpu())),
        name: lzma.compress(config) if packed else config,
    }
    recording = read_nsys_jax(write_zip(tmp_path / "a.zip", members))
    assert [device.chip for device in recording.devices] == ["NVIDIA H100"]


def test_a_combined_bundle_has_a_recording_for_each_rank(tmp_path: Path) -> None:
    later = [
        Range(id=r.id, parent=r.parent, text=r.text, start=r.start + 500, dur=r.dur)
        for r in one_gpu()
    ]
    step, other = {"0003.jit_step": b"of a"}, {"0003.jit_step": b"of b"}
    same = {"0004.jit_other": b"of both"}
    path = combine(
        tmp_path / "all.zip",
        {
            "rank0": Bundle(one_gpu(), process=0, programs=step | same).members(),
            "rank1": Bundle(later, process=1, programs=other | same).members(),
        },
    )
    with zipfile.ZipFile(path) as archive:
        assert is_nsys_jax(archive)
        recordings = read_nsys_jax_ranks(archive)
    assert [r.host for r in recordings] == ["node7 (process 0)", "node7 (process 1)"]
    assert [r.source for r in recordings] == [f"{path}/rank0", f"{path}/rank1"]
    assert [spans_of(r)["start"][0] for r in recordings] == [1000, 1500]
    assert [r.programs["3"].load() for r in recordings] == [b"of a", b"of b"]
    assert [r.programs["4"].load() for r in recordings] == [b"of both", b"of both"]
    with pytest.raises(InputError, match="the first of 2 ranks"):
        read_nsys_jax(path)


def test_sniffing(tmp_path: Path) -> None:
    with zipfile.ZipFile(write_zip(tmp_path / "a.zip", {"notes.txt": b"hello"})) as archive:
        assert not is_nsys_jax(archive)
    with zipfile.ZipFile(Bundle(one_gpu()).write(tmp_path / "b.zip")) as archive:
        assert is_nsys_jax(archive)


@pytest.fixture(scope="module")
def pax(shared: Path) -> list[Recording]:
    traces = shared / "data/traces"
    return [read_nsys_jax(traces / f"pax_fsdp4_4proc_proc{i}.zip") for i in range(4)]


@pytest.fixture(scope="module")
def program(pax: list[Recording]) -> Program:
    return program_from_proto(pax[0].programs["40"].load())


def is_step(executions: pl.DataFrame) -> pl.DataFrame:
    return executions.filter(pl.col("module") == "pjit__wrapped_step_fn").sort("start_ps")


@pytest.mark.system
def test_real_every_step_has_2610_thunks_on_every_rank(pax: list[Recording]) -> None:
    for recording in pax:
        steps = is_step(recording.executions)
        spans = recording.spans.join(steps.select("run_key"), on="run_key")
        assert spans.group_by("run_key").len()["len"].to_list() == [2610] * 5


def test_real_ranks_have_their_own_gpu_and_name(pax: list[Recording]) -> None:
    assert [r.devices[0].ordinal for r in pax] == [0, 1, 2, 3]
    assert {r.devices[0].chip for r in pax} == {"NVIDIA A100-SXM4-40GB"}
    assert {r.devices[0].peak_bytes for r in pax} == {1.5552e12}
    assert [r.host for r in pax] == [f"nvdl-a112-luna04 (process {i})" for i in range(4)]


def test_real_steady_steps_take_what_nsys_jax_says(pax: list[Recording]) -> None:
    # It takes the mean over the ranks that share rank 0's fingerprint, without two first runs.
    steady = [is_step(r.executions)["dur_ps"][2:] for r in pax[:3]]
    assert pl.concat(steady).mean() / 1e9 == pytest.approx(126.51, abs=0.005)  # type: ignore[operator]


def test_real_collectives_lie_on_their_own_line(pax: list[Recording]) -> None:
    for recording in pax:
        spans = spans_of(recording)
        collectives = spans.filter(pl.col("line").str.contains("collectives"))
        stems = set(collectives["hlo_op"].str.extract(r"^([a-z-]+?)(?:-start)?(?:\.\d+)?$"))
        assert stems == {"all-gather", "all-reduce", "reduce-scatter"}
        steps = collectives.join(is_step(recording.executions).select("run_key"), on="run_key")
        assert len(steps) == 5 * 23
        assert set(recording.lines[:2]) == {
            f"GPU {recording.devices[0].ordinal}/compute",
            f"GPU {recording.devices[0].ordinal}/collectives",
        }


def numbered(recording: Recording) -> pl.DataFrame:
    """Executions with `turn`, counted as nsys-jax counts.

    It counts per fingerprint, so programs 1 and 38 (both jit__psum) are one to it, and so is all
    that has no program id because the autotuner ran it.
    """
    program = pl.col("program_key").fill_null("autotuner").replace("38", "1")
    return (
        recording.executions.sort("start_ps")
        .with_columns(program=program)
        .with_columns(turn=pl.int_range(pl.len()).over("program"))
    )


def test_real_steady_executions_and_thunks_are_as_many_as_nsys_jax_counts(
    pax: list[Recording],
) -> None:
    # All modules were compiled while they were profiled: it leaves out the first two of each.
    steady = [numbered(r).filter(pl.col("turn") >= 2).select("run_key") for r in pax]
    spans = [spans_of(r).join(keys, on="run_key") for r, keys in zip(pax, steady, strict=True)]
    assert sum(len(keys) for keys in steady) == 1_183
    assert sum(len(frame) for frame in spans) == 32_565
    assert sum(len(frame.filter(pl.col("hint") == "nccl")) for frame in spans) == 288


@pytest.mark.parametrize(
    ("kind", "bytes_of_one_rank", "ranks_apart", "ranks_together"),
    [
        ("all-gather", 7_077_888, 110.5, 116.1),
        ("reduce-scatter", 20_103_936, 148.7, 150.9),
        ("all-reduce", 129_024, 9.72, 9.82),
    ],
)
def test_real_bus_bandwidth_is_that_of_nsys_jax(
    pax: list[Recording],
    program: Program,
    kind: str,
    bytes_of_one_rank: int,
    ranks_apart: float,
    ranks_together: float,
) -> None:
    """Bus bandwidth of the fastest device of each instance in steps 2 to 4, averaged.

    nsys-jax takes rank 3, whose fingerprint differs, for another program, so that its instances
    are apart from those of ranks 0 to 2. All four ranks together waited less than that says.
    """
    bus_bytes = {
        op: told.bytes * told.bus_factor
        for op in set(pax[0].ops.filter(pl.col("module") == "pjit__wrapped_step_fn")["op"])
        if (instruction := program.instruction(op))
        and (told := collective(program, instruction))
        and told.kind == kind
        and told.bytes == bytes_of_one_rank * (1 if kind == "all-reduce" else 4)
        and told.bus_factor is not None
    }
    spans = pl.concat(
        spans_of(recording)
        .join(is_step(recording.executions).select("run_key").with_row_index("step"), on="run_key")
        .filter(pl.col("step") >= 2, pl.col("hlo_op").is_in(list(bus_bytes)))
        .select("step", "hlo_op", "dur", rank=pl.lit(rank))
        for rank, recording in enumerate(pax)
    ).with_columns(bandwidth=pl.col("hlo_op").replace_strict(bus_bytes) / pl.col("dur"))
    for instance, expected in (
        (["hlo_op", "step", pl.col("rank") == 3], ranks_apart),
        (["hlo_op", "step"], ranks_together),
    ):
        fastest = spans.group_by(instance).agg(pl.col("bandwidth").max())
        assert fastest["bandwidth"].mean() == pytest.approx(expected, rel=0.001)
