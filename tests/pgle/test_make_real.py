"""Profiles of real traces, against what a person computes from the spans.

The arithmetic here reads the files with other readers (JAX's for XPlane, polars for the tables in
nsys-jax zips) and shares no line with the package.
"""

from __future__ import annotations

import io
import json
import re
import statistics
import zipfile
from collections import defaultdict
from pathlib import Path

import polars as pl
import pytest

from counterpoint.pgle.making.make import make_profile
from counterpoint.pgle.making.modules import ProfileBuild
from counterpoint.pgle.profiles.files import read_profile
from counterpoint.pgle.profiles.profile import Profile
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.reading import read
from jax_process import ask_jax
from real_profiles import opened
from run_directory import RunDirectory

Kernels = dict[tuple[int, int, str], list[tuple[float, float]]]


def keyed(profile: Profile) -> dict[str, float]:
    return {cost.key: cost.us for cost in profile.costs}


GEMM = "data/traces/jax_gemm_mi300x.xplane.pb"
CONVOLUTION = "data/traces/jax_conv_mi300x_8gpu.xplane.pb"
READ = """
import json, re, shutil, sys
from pathlib import Path
from jax.experimental.profiler import get_profiled_instructions_proto
from jax.profiler import ProfileData

def kernels(path):
    for plane in ProfileData.from_file(path).planes:
        device = re.fullmatch(r"/device:GPU:(\\d+)", plane.name)
        for event in (event for line in plane.lines for event in line.events) if device else ():
            stats = dict(event.stats)
            if "hlo_op" in stats:
                place = (int(device[1]), int(stats["program_id"]), stats["hlo_op"])
                yield place, event.start_ns / 1e3, event.duration_ns / 1e3

directory, *paths = sys.argv[1:]
shutil.copy(paths[0], directory)
Path(directory, "theirs.pb").write_bytes(get_profiled_instructions_proto(directory))
Path(directory, "kernels.json").write_text(json.dumps([[*kernels(path)] for path in paths]))
print("null")
"""


@pytest.fixture(scope="module")
def read_by_jax(shared: Path, run_directory: RunDirectory) -> Path:
    """Kernels of two profiles, and the costs that JAX's converter makes of the first."""
    return run_directory.once(
        "read by JAX", lambda it: ask_jax(READ, it, shared / GEMM, shared / CONVOLUTION)
    )


def kernels_of(read_by_jax: Path, name: str) -> Kernels:
    """Start and duration (us) of every kernel, by device, program id and instruction."""
    found: Kernels = defaultdict(list)
    each = json.loads((read_by_jax / "kernels.json").read_text())
    for (device, program_id, op), start, duration in each[(GEMM, CONVOLUTION).index(name)]:
        found[device, program_id, op].append((start, duration))
    return {key: sorted(kernels) for key, kernels in found.items()}


def fingerprint_of(timeline: Timeline, program_id: int) -> str:
    entry = next(it for it in timeline.programs if it.fingerprints == (str(program_id),))
    program = entry.hlo()
    assert program is not None
    assert program.fingerprint is not None
    return program.fingerprint


@pytest.mark.system
def test_gemms_of_five_modules_keep_a_cost_each(shared: Path, read_by_jax: Path) -> None:
    timeline = read(shared / GEMM)
    expected: dict[str, float] = {}
    for (_, program_id, op), kernels in kernels_of(read_by_jax, GEMM).items():
        times = [duration for _, duration in kernels]
        fingerprint = fingerprint_of(timeline, program_id)
        expected[f"{fingerprint}::{op}"] = statistics.median(times[1:] or times)
    assert keyed(make_profile(timeline).profile) == pytest.approx(expected, abs=1e-3)
    gemms = [us for key, us in expected.items() if key.endswith("::custom-call.1")]
    assert len(gemms) == 5
    assert max(gemms) > 50 * min(gemms)


@pytest.mark.system
def test_the_converter_of_jax_makes_one_cost_of_them(shared: Path, read_by_jax: Path) -> None:
    merged = keyed(read_profile(read_by_jax / "theirs.pb"))
    ours = make_profile(read(shared / GEMM)).profile
    assert set(merged) == {cost.name for cost in ours.costs}  # bare: they match any module
    means = [us for key, us in keyed(ours).items() if key.endswith("::custom-call.1")]
    assert min(means) < 10
    assert max(means) > 500
    assert merged["custom-call.1"] == pytest.approx(214.59, abs=0.01)


@pytest.mark.system
def test_kernels_of_one_instruction_add_up_within_a_run(shared: Path, read_by_jax: Path) -> None:
    kernels = kernels_of(read_by_jax, CONVOLUTION)
    times: dict[str, list[float]] = defaultdict(list)
    launched: set[int] = set()
    for device in range(8):
        mine = {op: found for (of, _, op), found in kernels.items() if of == device}
        starts = [start for start, _ in min(mine.values(), key=lambda it: it[0])]
        assert len(starts) == 5
        for op, found in mine.items():
            for at in range(1, 4):  # the first run warms up, the last has no next start
                inside = [us for start, us in found if starts[at] <= start < starts[at + 1]]
                launched.add(len(inside))
                times[op] += [sum(inside)] if inside else []  # the profiler lost some
    assert launched == {0, 1, 2}
    made = make_profile(read(shared / CONVOLUTION))
    assert {cost.name: cost.us for cost in made.profile.costs} == pytest.approx(
        {op: statistics.median(of_op) for op, of_op in times.items()}, abs=2e-3
    )
    (module,) = made.modules
    assert (module.executions, module.devices, module.covered) == (3, 8, 1)


STEP = "pjit__wrapped_step_fn"
RANKS = range(4)
Run = dict[str, list[tuple[int, int]]]
"""Start and duration (ns) of each thunk of one run of the step, by instruction."""


def step_runs(path: Path) -> list[Run]:
    with zipfile.ZipFile(path) as archive:
        name = "nvtx_gpu_proj_trace/trace.parquet"
        table = pl.read_parquet(io.BytesIO(archive.read(name)))
    rows = table.drop_nulls(["Name", "RangeStack"]).rows(named=True)
    module = re.compile(rf"TSL:XlaModule:#.*hlo_module={STEP},")
    modules = sorted(
        (row["Projected Start"], int(row["RangeId"])) for row in rows if module.match(row["Name"])
    )
    runs: dict[int, Run] = {number: defaultdict(list) for _, number in modules}
    for row in rows:
        op = re.match(r"TSL:Thunk:#.*hlo_op=([^#,]+)", row["Name"])
        parents = [int(part) for part in row["RangeStack"].split(":") if part]
        inside = next((number for number in parents if number in runs), None)
        if op and inside is not None:
            runs[inside][op[1]].append((row["Projected Start"], row["Projected Duration"]))
    return [runs[number] for _, number in modules]


@pytest.fixture(scope="module")
def pax(shared: Path) -> tuple[ProfileBuild, list[list[Run]]]:
    paths = [shared / f"data/traces/pax_fsdp4_4proc_proc{rank}.zip" for rank in RANKS]
    return make_profile(opened(*paths)), [step_runs(path)[2:] for path in paths]  # two warm up


def costs_of_step(made: ProfileBuild) -> list[dict[str, float]]:
    fingerprints = [it.fingerprint for it in made.modules if it.name == STEP]
    assert len(fingerprints) == 2  # rank 3 compiled another
    return [
        {cost.name: cost.us for cost in made.profile.costs if cost.fingerprint == fingerprint}
        for fingerprint in fingerprints
    ]


@pytest.mark.system
def test_device_time_of_two_builds_is_counted_once(
    pax: tuple[ProfileBuild, list[list[Run]]],
) -> None:
    steps = [it for it in pax[0].modules if it.name == STEP]
    assert sorted(it.devices for it in steps) == [1, 3]
    assert sum(it.covered_ms for it in steps) == pytest.approx(
        sum(ns for rank in pax[1] for run in rank for thunks in run.values() for _, ns in thunks)
        / 1e6,
        rel=1e-3,
    )


@pytest.mark.system
def test_a_fsdp_step_costs_what_its_thunks_take(pax: tuple[ProfileBuild, list[list[Run]]]) -> None:
    made, ranks = pax
    times: dict[str, list[float]] = defaultdict(list)
    for runs in ranks:
        for run in runs:
            for op, thunks in run.items():
                times[op].append(sum(duration for _, duration in thunks) / 1e3)
    work = {
        op: statistics.median(of_op)
        for op, of_op in times.items()
        if not re.match(r"(all-gather|all-reduce|reduce-scatter|reduce)[.-]", op)
    }
    assert len(work) > 2000
    for costs in costs_of_step(made):
        inputs = {op for op in work if op.startswith("input_")}  # some with a part named within
        assert {op: costs[op] for op in work if op not in inputs} == pytest.approx(
            {op: us for op, us in work.items() if op not in inputs}, abs=1e-3
        )
        assert all(costs[op] >= work[op] - 1e-3 for op in inputs)
        fusion, part = "input_reduce_fusion.132", "reduce.2048.1"  # the part is named by its root
        sums = [a + b for a, b in zip(times[fusion], times[part], strict=True)]
        assert costs[fusion] == pytest.approx(statistics.median(sums), abs=1e-3)


@pytest.mark.system
def test_its_collectives_cost_the_stay_of_the_last_rank(
    pax: tuple[ProfileBuild, list[list[Run]]],
) -> None:
    made, ranks = pax
    ops = [op for op in ranks[0][0] if re.match(r"(all-gather|all-reduce|reduce-scatter)[.-]", op)]
    assert len(ops) == 23
    offsets = []
    for rank in RANKS:
        ends = [
            [start + duration for run in runs for op in ops for start, duration in run[op]]
            for runs in (ranks[rank], ranks[0])
        ]
        offsets.append(statistics.median(a - b for a, b in zip(*ends, strict=True)))
    assert max(map(abs, offsets)) > 1e6  # clocks are milliseconds apart
    expected = {
        op: statistics.median(
            max(
                (ranks[rank][at][op][0][0] - offsets[rank], ranks[rank][at][op][0][1])
                for rank in RANKS
            )[1]
            / 1e3
            for at in range(3)
        )
        for op in ops
    }
    waited = {
        op: statistics.median(ranks[rank][at][op][0][1] / 1e3 for rank in RANKS for at in range(3))
        for op in ops
    }
    starts = {"reduce-scatter.131": "reduce-scatter-start"} | {
        f"reduce-scatter.{131 + at}": f"reduce-scatter-start.{at}" for at in (1, 2, 3)
    }
    for costs in costs_of_step(made):
        found = {op: costs[starts.get(op, op)] for op in ops}
        assert found == pytest.approx(expected, rel=0.02)
        assert sum(found.values()) < sum(waited.values())
