"""`counterpoint pgle check`: every kind of PROGRAM, the verdict, the exit code."""

from __future__ import annotations

import json
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xspace_builder import US, field_bytes, kernel, metadata, nvidia, xspace

from counterpoint.cli.app import main
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.pgle.lookups import xla_lookups
from counterpoint.pgle.profiles.files import write_profile
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.run import RunSettings
from counterpoint.runs.writer import RankStart, RunStart, RunWriter
from golden_files import Golden
from transcripts import Transcript, next_command

PROGRAMS = Path(__file__).parent.parent / "hlo" / "data"
STEP = PROGRAMS / "gpu_step.hlo.pb.xz"
LOWERED = "module @jit_step attributes {mhlo.num_partitions = 8 : i32} {}\n"
RUNS = 4

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = main(["pgle", "check", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture(scope="session")
def step() -> Program:
    return read_program(STEP)


@pytest.fixture
def good(step: Program, tmp_path: Path) -> Path:
    costs = (InstructionCost(it.names[0], 10.0, step.fingerprint) for it in xla_lookups(step))
    return write_profile(Profile(tuple(costs)), tmp_path / "good.pbtxt")


@pytest.fixture
def poor(tmp_path: Path) -> Path:
    """Two costs, one of a collective that bears the wrong name."""
    costs = (InstructionCost("custom-call.3", 10.0), InstructionCost("all-gather.1", 300.0))
    return write_profile(Profile(costs), tmp_path / "poor.pbtxt")


def dumped(directory: Path, *names: str) -> Path:
    """As XLA dumps modules: MODULE among what its file is called."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        data = lzma.decompress((PROGRAMS / f"{name}.hlo.pb.xz").read_bytes())
        module = read_program(data).name
        path = directory / f"module_{number:04}.{module}.sm_9.0_gpu_after_optimizations.hlo.pb"
        path.write_bytes(data)
    return directory


def recorded(path: Path, times: dict[str, int]) -> Path:
    """A profile that embeds the step's HLO; each instruction runs once per run, in microseconds."""
    module = ("jit_step", 7)
    proto = field_bytes(1, lzma.decompress(STEP.read_bytes()))
    gpu, at = nvidia(0), 0
    for _ in range(RUNS):
        for op, us in times.items():
            kernel(gpu, "Stream #20(Compute)", f"k_{op}", at, us * US, op=op, module=module)
            at += (us + 1) * US
        at += 100 * US
    path.write_bytes(xspace(gpu, metadata({module: proto})))
    return path


def test_a_good_profile_is_a_clear_yes_and_names_the_next_step(run: Run, good: Path) -> None:
    code, out, err = run(good, "--program", STEP)
    assert (code, err) == (0, "")
    assert out.startswith("Good enough   yes")
    assert "39 of 39, 100.0%" in out
    assert "6 of 6, 100.0%" in out
    words = ["pgle", "manual", "--profile", str(good), "--", "python", "train.py"]
    assert next_command(out) == words


def test_a_poor_profile_is_a_no_with_its_reasons(run: Run, poor: Path) -> None:
    code, out, _ = run(poor, "--program", STEP)
    assert code == 1
    assert "1 of 39 instructions" in out
    assert "all-gather-start.1" in out  # what all-gather.1 should be
    assert "make_fixtures.py:" in out
    assert next_command(out)[:2] == ["pgle", "make"]


def test_thresholds_can_be_lowered(run: Run, poor: Path) -> None:
    assert run(poor, "--program", STEP, "--min-coverage", "0")[0] == 0


def test_a_stale_profile_fails_whatever_it_covers(run: Run, step: Program, tmp_path: Path) -> None:
    costs = tuple(InstructionCost(it.names[0], 10.0) for it in xla_lookups(step))
    stale = Profile(costs, origin={"module " + "0" * 32: "jit_step, as it was"})
    path = write_profile(stale, tmp_path / "stale.pbtxt")
    code, out, _ = run(path, "--program", STEP, "--min-coverage", "0")
    assert code == 1
    assert "stale: made from " + "0" * 32 in out.replace("\n           ", " ")


def test_a_directory_of_dumps_gives_its_step_or_the_module_asked_for(
    run: Run, good: Path, tmp_path: Path
) -> None:
    dumps = dumped(tmp_path / "xla", "gpu_zoo", "gpu_step")
    zoo = next(dumps.glob("*jit_run*"))
    zoo.write_bytes(zoo.read_bytes() + field_bytes(9999, b"x" * 1_000_000))  # large, but idle
    code, out, _ = run(good, "--program", dumps)
    assert code == 0
    assert "program      jit_step" in out
    assert "others: jit_run" in out
    code, out, _ = run(good, "--program", dumps, "--module", "jit_step")
    assert code == 0
    assert "jit_step" in out


def test_a_module_that_is_not_there_is_refused_with_those_that_are(
    run: Run, good: Path, tmp_path: Path
) -> None:
    dumps = dumped(tmp_path / "xla", "gpu_zoo", "gpu_step")
    code, out, err = run(good, "--program", dumps, "--module", "jit_stpe")
    assert (code, out) == (3, "")
    assert "jit_stpe" in err
    assert "jit_run, jit_step" in err
    assert "--module jit_run" in err


def test_a_profile_that_embeds_its_hlo_tells_the_share_of_time(
    run: Run, poor: Path, tmp_path: Path
) -> None:
    trace = recorded(
        tmp_path / "a.xplane.pb", {"custom-call.3": 90, "all-gather-start": 5, "loop_add_fusion": 5}
    )
    code, out, _ = run(poor, "--program", trace, "--min-coverage", "0", "--json")
    data: dict[str, Any] = json.loads(out)
    assert code == 0
    assert data["schema"] == "counterpoint.pgle-check/1"
    assert data["time_us"] == {"found": 90.0, "whole": 100.0, "share": 0.9}
    assert "runs on 1 device" in data["measured"]
    measured = {it["name"]: it["measured_us"] for it in data["answers"]}
    assert measured["all-gather-start"] == 5.0
    assert measured["custom-call.2"] is None
    assert run(poor, "--program", trace, "--min-coverage", "0", "--min-time", "0.95")[0] == 1


def a_run(path: Path) -> Path:
    start = RunStart(
        name="train",
        command=("python", "train.py"),
        cwd="/home/me",
        settings=RunSettings(),
        launcher="local",
        world_size=1,
        version="0.1.0",
    )
    writer = RunWriter.claim(path, start)
    writer.add_rank(0)
    writer.start_rank(RankStart(0), os.getpid())
    writer.end_rank(0, Outcome(OutcomeKind.OK, 0))
    writer.end()
    return path


def test_a_run_gives_its_profiles_program_and_times(run: Run, good: Path, tmp_path: Path) -> None:
    path = a_run(tmp_path / "run")
    session = path / "rank0" / "profile" / "plugins" / "profile" / "2026_01_01"
    session.mkdir(parents=True)
    recorded(session / "host.xplane.pb", {"custom-call.3": 10})
    code, out, _ = run(good, "--program", path)
    assert code == 0
    assert "0.01" in out
    assert "100.0%" in out


def test_a_run_without_a_profile_gives_its_dump(run: Run, good: Path, tmp_path: Path) -> None:
    path = a_run(tmp_path / "run")
    dumped(path / "rank0" / "xla", "gpu_step")
    code, out, _ = run(good, "--program", path)
    assert code == 0
    assert "time          ?" in out


def test_a_run_without_any_program_is_refused(run: Run, good: Path, tmp_path: Path) -> None:
    assert run(good, "--program", a_run(tmp_path / "run"))[0] == 3


def test_dumps_from_before_optimisation_are_refused(run: Run, good: Path, tmp_path: Path) -> None:
    dumps = tmp_path / "xla"
    dumps.mkdir()
    shutil.copy(STEP, dumps / "module_0001.jit_step.before_optimizations.hlo.pb")
    assert run(good, "--program", dumps)[0] == 3


def test_apply_is_named_where_there_is_something_to_compile(
    run: Run, good: Path, tmp_path: Path
) -> None:
    dumps = dumped(tmp_path / "xla", "gpu_step")
    assert next_command(run(good, "--program", dumps)[1])[:2] == ["pgle", "manual"]
    (dumps / "jax_ir0000_jit_step_compile.mlir").write_text(LOWERED)
    out = run(good, "--program", dumps)[1]
    apply = ["pgle", "apply", str(good), "--program", str(dumps), "--target", "8xH100"]
    assert next_command(out) == apply
    out = run(good, "--program", dumps, "--module", "jit_step")[1]
    assert next_command(out) == [*apply[:-2], "--module", "jit_step", *apply[-2:]]


def test_the_recording_a_program_was_found_in_is_what_to_make_a_profile_of(
    run: Run, poor: Path, tmp_path: Path
) -> None:
    trace = recorded(tmp_path / "a.xplane.pb", {"custom-call.3": 90})
    out = run(poor, "--program", trace)[1]
    assert next_command(out) == ["pgle", "make", str(trace), "-o", "step.pbtxt"]


def test_a_program_for_a_cpu_is_refused_with_what_to_do(
    run: Run, good: Path, tmp_path: Path
) -> None:
    dumps = dumped(tmp_path / "xla", "cpu_step")
    file = next(dumps.iterdir())
    file.rename(dumps / file.name.replace("sm_9.0_gpu_after", "cpu_after"))
    (dumps / "jax_ir0000_jit_step_compile.mlir").write_text(LOWERED)
    code, out, err = run(good, "--program", dumps)
    assert (code, out) == (3, "")
    assert "compiled for CPU" in err
    assert f"pgle apply {good} --program {dumps} --target 8xH100" in err
    assert "no fingerprint" not in err


def test_times_that_a_dump_cannot_tell_need_a_recording(run: Run, good: Path) -> None:
    code, out, _ = run(good, "--program", STEP, "--min-time", "0.5")
    assert code == 1
    assert next_command(out) == ["run", "--", "python", "train.py"]


def test_a_recording_of_a_cpu_is_refused(run: Run, good: Path, tmp_path: Path) -> None:
    proto = field_bytes(1, lzma.decompress((PROGRAMS / "cpu_step.hlo.pb.xz").read_bytes()))
    trace = tmp_path / "a.xplane.pb"
    trace.write_bytes(xspace(metadata({("jit_step", 7): proto})))
    assert run(good, "--program", trace)[0] == 3


def test_a_module_for_the_host_does_not_stand_for_the_step(
    run: Run, good: Path, tmp_path: Path
) -> None:
    dumps = dumped(tmp_path / "xla", "gpu_step", "cpu_step")
    file = next(dumps.glob("module_0001*"))
    file.rename(dumps / file.name.replace("sm_9.0_gpu_after", "cpu_after"))
    assert run(good, "--program", dumps)[0] == 0


def test_stablehlo_is_not_scheduled_yet(run: Run, good: Path, tmp_path: Path) -> None:
    module = tmp_path / "ir" / "step.mlir"
    module.parent.mkdir()
    module.write_text(LOWERED)
    for place in (module, module.parent):
        code, out, err = run(good, "--program", place)
        assert (code, out) == (3, "")
        assert f"pgle apply {good} --program {place} --target 8xH100" in err


def test_a_rank_of_a_run_is_a_program_too(run: Run, good: Path, tmp_path: Path) -> None:
    path = a_run(tmp_path / "run")
    dumped(path / "rank0" / "xla", "gpu_step")
    assert run(good, "--program", path / "rank0")[0] == 0


def test_hlo_text_is_a_program_too(run: Run, good: Path) -> None:
    assert run(good, "--program", PROGRAMS / "gpu_step.txt.xz")[0] == 0


def test_a_program_for_another_compiler_cannot_be_told(run: Run, poor: Path) -> None:
    code, out, _ = run(poor, "--program", PROGRAMS / "cpu_step.hlo.pb.xz", "--min-coverage", "0")
    assert code == 0
    assert "has no fingerprint" in out


def test_what_it_says(
    golden: Golden, step: Program, good: Path, poor: Path, tmp_path: Path
) -> None:
    names = (it.names[0] for it in xla_lookups(step))
    stale = tuple(InstructionCost(it, 10.0) for it in names)
    write_profile(
        Profile(stale, origin={"module " + "0" * 32: "jit_step, as it was"}),
        tmp_path / "stale.pbtxt",
    )
    shutil.copy(STEP, tmp_path / "step.hlo.pb.xz")
    (tmp_path / "lowered.mlir").write_text(LOWERED)
    recorded(tmp_path / "a.xplane.pb", {"custom-call.3": 90, "loop_add_fusion": 10})
    for name in ("gpu", "two", "cpu", "early"):
        (tmp_path / name).mkdir()
    dumped(tmp_path / "gpu", "gpu_step")
    dumped(tmp_path / "two", "gpu_zoo", "gpu_step")
    cpu = next(dumped(tmp_path / "cpu", "cpu_step").iterdir())
    cpu.rename(cpu.with_name(cpu.name.replace("sm_9.0_gpu_after", "cpu_after")))
    shutil.copy(STEP, tmp_path / "early" / "module_0001.jit_step.before_optimizations.hlo.pb")
    recorded(tmp_path / "on_cpu.xplane.pb", {})
    proto = field_bytes(1, lzma.decompress((PROGRAMS / "cpu_step.hlo.pb.xz").read_bytes()))
    (tmp_path / "on_cpu.xplane.pb").write_bytes(xspace(metadata({("jit_step", 7): proto})))
    a_run(tmp_path / "run")
    assert good.parent == poor.parent == tmp_path
    told = Transcript(tmp_path)
    for code, words in (
        (0, "good.pbtxt --program step.hlo.pb.xz"),
        (1, "good.pbtxt --program step.hlo.pb.xz --min-time 0.5"),
        (1, "poor.pbtxt --program step.hlo.pb.xz --top 3"),
        (1, "stale.pbtxt --program step.hlo.pb.xz --min-coverage 0"),
        (1, "poor.pbtxt --program a.xplane.pb --top 1"),
        (0, "good.pbtxt --program two"),
        (3, "good.pbtxt --program two --module jit_stpe"),
        (3, "good.pbtxt --program run"),
        (3, "good.pbtxt --program early"),
        (3, "good.pbtxt --program cpu"),
        (3, "good.pbtxt --program on_cpu.xplane.pb"),
        (3, "good.pbtxt --program lowered.mlir"),
        (3, "nowhere.pbtxt --program step.hlo.pb.xz"),
        (3, "good.pbtxt --program nowhere"),
        (2, "good.pbtxt --program step.hlo.pb.xz --min-coverage 90"),
        (2, "good.pbtxt --program step.hlo.pb.xz --min-time -1"),
        (2, "good.pbtxt --program step.hlo.pb.xz --top 0"),
        (2, "good.pbtxt"),
        (3, "step.hlo.pb.xz --program step.hlo.pb.xz"),
        (3, "good.pbtxt --program good.pbtxt"),
    ):
        done = told.run("pgle", "check", *words.split(), code=code)
        if code > 1:
            assert done.stdout == ""
            assert done.stderr.startswith("error: ")
    golden("pgle_check.txt", told.text)
