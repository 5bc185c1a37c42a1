"""A Run directory: written by one job only, read with whatever is damaged or missing in it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.core.basis import Unknown
from counterpoint.core.errors import InputError, UsageError
from counterpoint.report.runs import run_json, runs_json
from counterpoint.runs.layout import find_runs, is_run
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.processes import start_of
from counterpoint.runs.reader import list_runs, read_run
from counterpoint.runs.reports import effective_flags, read_compiler_report
from counterpoint.runs.run import Run, RunSettings
from counterpoint.runs.scores import seen_steps
from counterpoint.runs.writer import RankStart, RunStart, RunWriter
from golden_files import Golden

LOCAL = RunStart(
    name="train",
    command=("python", "train.py"),
    cwd="/home/me",
    settings=RunSettings((("xla_gpu_autotune_level", "4"),), (("NCCL_DEBUG", "INFO"),)),
    launcher="local",
    world_size=1,
    version="0.1.0",
)
SLURM = replace(LOCAL, launcher="slurm", world_size=2, job="42.0")
OK = Outcome(OutcomeKind.OK, 0)


def seconds(run: Run) -> float:
    timing = seen_steps(run)
    assert not isinstance(timing, Unknown)
    return timing.seconds


def written(path: Path, outcome: Outcome | None = OK, start: RunStart = LOCAL) -> Path:
    """A Run as one rank leaves it; None for one that goes on."""
    writer = RunWriter.claim(path, start)
    writer.add_rank(0)
    writer.start_rank(RankStart(0), os.getpid())
    if outcome is not None:
        writer.end_rank(0, outcome)
        writer.end()
    return path


def steps(rank: Path, *lines: object, name: str = "steps-7.jsonl") -> None:
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    (rank / "agent" / name).write_text(text)


def process(rank: Path, facts: dict[str, object], pid: int = 7) -> None:
    (rank / "agent" / f"process-{pid}.json").write_text(json.dumps({"pid": pid, **facts}))


def annotation(start: tuple[int, float]) -> object:
    return {"step": start[0], "start_s": start[1], "source": "annotation"}


class TestRoundTrip:
    def test_what_is_written_is_read(self, tmp_path: Path) -> None:
        run = read_run(written(tmp_path / "run"))
        assert (run.name, run.command, run.cwd) == ("train", ("python", "train.py"), "/home/me")
        assert run.settings == LOCAL.settings
        assert run.outcome == OK
        assert run.ended is not None
        assert run.ended >= run.started
        assert run.ranks[0].host == socket.gethostname()
        assert json.loads((tmp_path / "run" / "run.json").read_text())["state"] == "ended"

    def test_a_run_that_goes_on_says_so(self, tmp_path: Path) -> None:
        run = read_run(written(tmp_path / "run", None))
        assert (run.outcome.kind, run.ended) == (OutcomeKind.RUNNING, None)

    def test_the_reserve_is_there_while_it_runs_and_gone_afterwards(self, tmp_path: Path) -> None:
        going_on = written(tmp_path / "a", None)
        assert (going_on / "rank0" / ".reserve").stat().st_size == 65536
        ended = written(tmp_path / "b")
        assert not (ended / "rank0" / ".reserve").exists()

    def test_no_temporary_file_is_left(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        assert not [file for file in path.rglob("*") if file.name.startswith(".")]


class TestLost:
    def test_a_run_whose_keeper_is_gone_is_lost(self, tmp_path: Path) -> None:
        program = (
            "import sys, os, signal; from pathlib import Path; sys.path[:0] = sys.argv[2:];"
            "from test_directory import written; written(Path(sys.argv[1]), None);"
            "os.kill(os.getpid(), signal.SIGKILL)"
        )
        here = Path(__file__).parent
        done = subprocess.run(
            [sys.executable, "-c", program, tmp_path / "run", here.parent, here], check=False
        )
        assert done.returncode == -9
        assert read_run(tmp_path / "run").outcome.kind is OutcomeKind.LOST

    def test_a_keeper_that_nobody_has_buried_keeps_nothing(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run", None)
        with subprocess.Popen([sys.executable, "-c", ""]) as keeper:
            os.waitid(os.P_PID, keeper.pid, os.WEXITED | os.WNOWAIT)
            manifest = path / "rank0" / "rank.json"
            told = json.loads(manifest.read_text())
            told["keeper"] = {"pid": keeper.pid, "started": start_of(keeper.pid)}
            manifest.write_text(json.dumps(told))
            assert read_run(path).outcome.kind is OutcomeKind.LOST

    def test_of_ranks_the_one_that_failed_tells_more_than_those_lost(self, tmp_path: Path) -> None:
        writers = [RunWriter.claim(tmp_path / "run", SLURM) for _ in range(2)]
        for number, writer in enumerate(writers):
            writer.add_rank(number)
            writer.start_rank(RankStart(number), os.getpid())
        writers[0].end_rank(0, Outcome(OutcomeKind.ERROR, 7, detail="ValueError"))
        rank = tmp_path / "run" / "rank1"
        told = json.loads((rank / "rank.json").read_text())
        told["keeper"]["started"] += 1
        (rank / "rank.json").write_text(json.dumps(told))
        run = read_run(tmp_path / "run")
        assert str(run.outcome) == "error, exit code 7: rank 0: ValueError"
        assert (run.state, run.ended) == ("ended", run.ranks[0].ended)

    def test_a_number_that_was_given_out_again_is_not_taken_for_the_keeper(
        self, tmp_path: Path
    ) -> None:
        path = written(tmp_path / "run", None)
        manifest = path / "rank0" / "rank.json"
        told = json.loads(manifest.read_text())
        told["keeper"]["started"] += 1
        manifest.write_text(json.dumps(told))
        assert read_run(path).outcome.kind is OutcomeKind.LOST

    def test_of_another_host_nothing_is_known(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run", None)
        manifest = path / "rank0" / "rank.json"
        told = json.loads(manifest.read_text()) | {"host": "elsewhere", "keeper": {"pid": 2**22}}
        manifest.write_text(json.dumps(told))
        assert read_run(path).outcome.kind is OutcomeKind.RUNNING


class TestRefusals:
    def test_a_second_run_into_the_same_directory(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        before = (path / "run.json").read_bytes()
        with pytest.raises(UsageError, match="contains a run"):
            RunWriter.claim(path, LOCAL)
        assert (path / "run.json").read_bytes() == before

    def test_a_directory_with_other_things(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("mine")
        with pytest.raises(UsageError, match=r"it contains thesis\.tex"):
            RunWriter.claim(tmp_path, LOCAL)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]

    def test_an_empty_directory_is_taken(self, tmp_path: Path) -> None:
        assert is_run(written(tmp_path))

    def test_a_file_where_the_directory_is_to_be(self, tmp_path: Path) -> None:
        (tmp_path / "run").write_text("mine")
        with pytest.raises(UsageError, match="can't write"):
            RunWriter.claim(tmp_path / "run", LOCAL)

    def test_ranks_of_one_job_share_a_directory(self, tmp_path: Path) -> None:
        first, second = (RunWriter.claim(tmp_path / "run", SLURM) for _ in range(2))
        first.add_rank(0)
        second.add_rank(1)
        with pytest.raises(UsageError, match="has a rank 1"):
            second.add_rank(1)

    def test_arguments_may_differ_from_rank_to_rank(self, tmp_path: Path) -> None:
        RunWriter.claim(tmp_path / "run", SLURM).add_rank(0)
        other = replace(SLURM, command=("python", "train.py", "--rank=1"), name="eval")
        RunWriter.claim(tmp_path / "run", other).add_rank(1)

    def test_the_directory_of_another_job_is_refused(self, tmp_path: Path) -> None:
        RunWriter.claim(tmp_path / "run", SLURM)
        with pytest.raises(UsageError, match="contains a run"):
            RunWriter.claim(tmp_path / "run", replace(SLURM, job="43.0"))

    def test_without_a_name_of_the_job_ranks_of_one_command_meet(self, tmp_path: Path) -> None:
        hydra = replace(SLURM, launcher="pmi", job=None)
        first, second = (RunWriter.claim(tmp_path / "run", hydra) for _ in range(2))
        first.add_rank(0)
        second.add_rank(1)
        with pytest.raises(UsageError, match="contains a run"):
            RunWriter.claim(tmp_path / "run", replace(hydra, name="other"))
        with pytest.raises(UsageError, match="has a rank 0"):
            RunWriter.claim(tmp_path / "run", hydra).add_rank(0)

    def test_what_did_not_start_leaves_nothing(self, tmp_path: Path) -> None:
        writer = RunWriter.claim(tmp_path / "deep" / "run", LOCAL)
        writer.add_rank(0)
        writer.withdraw([0])
        assert not (tmp_path / "deep" / "run").exists()

    def test_a_rank_that_did_not_start_leaves_the_others(self, tmp_path: Path) -> None:
        first, second = (RunWriter.claim(tmp_path / "run", SLURM) for _ in range(2))
        first.add_rank(0)
        second.add_rank(1)
        second.withdraw([1])
        assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["rank0", "run.json"]


class TestRanks:
    def test_the_last_rank_to_end_ends_the_run(self, tmp_path: Path) -> None:
        writers = [RunWriter.claim(tmp_path / "run", SLURM) for _ in range(2)]
        for number, writer in enumerate(writers):
            writer.add_rank(number)
            writer.start_rank(RankStart(number), os.getpid())
        manifest = tmp_path / "run" / "run.json"
        writers[0].end_rank(0, OK)
        writers[0].end()
        assert json.loads(manifest.read_text())["state"] == "running"
        writers[1].end_rank(1, Outcome(OutcomeKind.ERROR, 7))
        writers[1].end()
        told = json.loads(manifest.read_text())
        assert (told["state"], told["outcome"]["kind"]) == ("ended", "error")

    def test_a_rank_that_has_not_come_yet_keeps_the_run_open(self, tmp_path: Path) -> None:
        run = read_run(written(tmp_path / "run", start=SLURM))
        assert run.outcome.kind is OutcomeKind.RUNNING
        assert "1 ranks are missing" in run.outcome.detail

    def test_a_rank_that_never_came_is_lost(self, tmp_path: Path) -> None:
        manifest = written(tmp_path / "run", start=SLURM) / "rank0" / "rank.json"
        told = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(told | {"ended": "2026-01-01T00:00:00.000+00:00"}))
        run = read_run(tmp_path / "run")
        assert str(run.outcome) == "lost: 1 ranks are missing"


class TestDamage:
    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "null", '{"schema": "counterpoint.run/1"}', '{"schema": "x"}']
    )
    def test_a_damaged_manifest_is_one_clear_error(self, tmp_path: Path, text: str) -> None:
        path = written(tmp_path / "run")
        (path / "run.json").write_text(text)
        assert is_run(path)
        with pytest.raises(InputError, match=r"run\.json"):
            read_run(path)
        assert (find_runs(tmp_path), list_runs(tmp_path)) == ([path], [])

    def test_a_damaged_rank_is_left_out_and_said(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        (path / "rank0" / "rank.json").write_text('{"rank": 0')
        run = read_run(path)
        assert (run.ranks, run.outcome) == ((), OK)
        assert "rank 0 is omitted" in run.notes[0]

    def test_a_damaged_rank_with_a_profile_is_used(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        (path / "rank0" / "rank.json").write_text('{"rank": 0')
        file = path / "rank0" / "profile" / "plugins" / "profile" / "1" / "host.xplane.pb"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x")
        run = read_run(path)
        assert (run.profiles, run.outcome) == ((file,), OK)
        assert "profile" in run.notes[0]

    def test_a_directory_without_a_manifest_is_no_run(self, tmp_path: Path) -> None:
        assert not is_run(tmp_path)
        with pytest.raises(InputError, match="a Run directory"):
            read_run(tmp_path)

    def test_somebody_else_s_run_json_is_no_run(self, tmp_path: Path) -> None:
        (tmp_path / "run.json").write_text('{"schema": "theirs"}')
        assert not is_run(tmp_path)


class TestSteps:
    def test_times_from_one_start_to_the_next(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        starts = [(0, 1.0), (1, 4.0), (2, 4.5), (3, 5.0)]
        steps(
            path / "rank0", *({"step": n, "start_s": s, "source": "annotation"} for n, s in starts)
        )
        run = read_run(path)
        assert run.ranks[0].step_seconds == (3.0, 0.5, 0.5)
        assert seconds(run) == 0.5

    def test_annotations_count_before_more_lines(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        seen = [{"step": n, "start_s": float(n), "source": "annotation"} for n in range(3)]
        steps(path / "rank0", *seen)
        lines = [{"step": n, "start_s": n / 2, "source": "log"} for n in range(9)]
        steps(path / "rank0", *lines, name="steps-log.jsonl")
        rank = read_run(path).ranks[0]
        assert (rank.step_source, rank.step_seconds) == ("annotation", (1.0, 1.0))

    def test_one_annotation_times_nothing_so_lines_do(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        steps(path / "rank0", {"step": 0, "start_s": 0.0, "source": "annotation"})
        lines = [{"step": n, "start_s": n / 2, "source": "log"} for n in range(3)]
        steps(path / "rank0", *lines, name="steps-log.jsonl")
        assert read_run(path).ranks[0].step_source == "log"

    def test_of_two_processes_the_one_with_most_steps(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        for pid, count in ((7, 3), (8, 5)):
            seen = [{"step": n, "start_s": n * pid, "source": "api"} for n in range(count)]
            steps(path / "rank0", *seen, name=f"steps-{pid}.jsonl")
        assert read_run(path).ranks[0].step_seconds == (8.0,) * 4

    def test_every_tenth_step_tells_the_mean_of_ten(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        lines = [{"step": n, "start_s": n / 5, "source": "log"} for n in (10, 20, 30)]
        steps(path / "rank0", *lines, name="steps-log.jsonl")
        assert read_run(path).ranks[0].step_seconds == pytest.approx((0.2, 0.2))

    def test_the_program_s_own_seconds_are_used(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        lines = [
            {"step": n, "start_s": float(n), "source": "log", "seconds": s}
            for n, s in enumerate((9.0, 0.25, 0.25))
        ]
        steps(path / "rank0", *lines, name="steps-log.jsonl")
        assert seconds(read_run(path)) == 0.25

    def test_steps_under_the_profiler_do_not_count(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        starts = [0.0, 9.0, 10.0, 11.0, 12.0, 15.0, 18.0, 19.0]
        steps(
            path / "rank0",
            *({"step": n, "start_s": s, "source": "annotation"} for n, s in enumerate(starts)),
        )
        window = {"state": "done", "opened_s": 12.1, "closed_s": 17.9}
        process(path / "rank0", {"window": window})
        compiled = json.dumps({"kind": "backend", "at_s": 8.0, "seconds": 7.0})
        (path / "rank0" / "agent" / "compiles-7.jsonl").write_text(f"{compiled}\n")
        timing = seen_steps(read_run(path))
        assert not isinstance(timing, Unknown)
        assert (timing.seconds, timing.steps, timing.left_out) == (1.0, 4, 3)

    def test_the_median_of_an_even_number_is_the_mean_of_both(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        starts = [0.0, 1.0, 3.0, 7.0, 15.0]
        steps(
            path / "rank0",
            *({"step": n, "start_s": s, "source": "annotation"} for n, s in enumerate(starts)),
        )
        assert seconds(read_run(path)) == 3.0  # of 1, 2, 4 and 8

    def test_a_start_over_makes_no_negative_step(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        starts = [(5, 1.0), (6, 2.0), (0, 30.0), (1, 31.0)]
        steps(
            path / "rank0", *({"step": n, "start_s": s, "source": "annotation"} for n, s in starts)
        )
        assert read_run(path).ranks[0].step_seconds == (1.0, 1.0)

    def test_half_a_line_is_left_out_and_said(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        good = {"step": 1, "start_s": 1.0, "source": "annotation"}
        steps(path / "rank0", good, '{"step": 2, "sta')
        rank = read_run(path).ranks[0]
        assert len(rank.steps) == 1
        (note,) = rank.notes
        assert note.startswith("steps-7.jsonl: 1 damaged ")

    def test_without_steps_the_median_is_unknown(self, tmp_path: Path) -> None:
        assert isinstance(seen_steps(read_run(written(tmp_path / "run"))), Unknown)


class TestFiles:
    def test_modules_the_largest_first(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        dump = path / "rank0" / "xla"
        dump.mkdir()
        for name, size in (("module_0000.jit_init", 10), ("module_0002.jit_step", 99)):
            (dump / f"{name}.cpu_after_optimizations.hlo.pb").write_bytes(bytes(size))
            (dump / f"{name}.debug_options").write_text(f'xla_dump_to: "{name}"\n')
        rank = read_run(path).ranks[0]
        assert [file.name[:20] for file in rank.hlo] == [
            "module_0002.jit_step",
            "module_0000.jit_init",
        ]

    def test_the_module_that_took_longest_to_compile_is_the_step_s(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        dump = path / "rank0" / "xla"
        dump.mkdir()
        for name, size in (("module_0000.jit_table", 99), ("module_0002.jit_step", 10)):
            (dump / f"{name}.cpu_after_optimizations.hlo.pb").write_bytes(bytes(size))
            (dump / f"{name}.debug_options").write_text(f'xla_dump_to: "{name}"\n')
        took = [
            ("backend", "jit_step", 9.0),
            ("backend", "jit_table", 1.0),
            ("lower", "step", 99.0),
        ]
        (path / "rank0" / "agent" / "compiles-7.jsonl").write_text(
            "".join(
                json.dumps({"kind": kind, "module": name, "seconds": seconds}) + "\n"
                for kind, name, seconds in took
            )
        )
        rank = read_run(path).ranks[0]
        assert [file.name[:11] for file in rank.hlo] == ["module_0002", "module_0000"]
        assert rank.step_module == "jit_step"
        assert effective_flags(rank) == {"xla_dump_to": "module_0002.jit_step"}
        (told,) = run_json(read_run(path)).ranks
        assert told.compiles == {"backend": 2, "lower": 1}
        assert told.step_module == "jit_step"
        assert set(told.flags_by_module) == {"module_0000.jit_table", "module_0002.jit_step"}

    @pytest.mark.parametrize(
        ("executions", "starts", "step"),
        [
            ({"step": 30}, (), "jit_step"),
            ({"a program compiled ahead of time": 30}, (), "jit_step"),
            ({}, (6.0, 9.0), "jit_step"),
            ({}, (1.5, 9.0), "jit_table"),  # all were compiled within it
            ({}, (), None),
        ],
    )
    def test_a_small_step_s_module_is_found_by_what_ran(
        self, tmp_path: Path, executions: dict[str, int], starts: tuple[float, ...], step: str
    ) -> None:
        path = written(tmp_path / "run")
        dump, agent = path / "rank0" / "xla", path / "rank0" / "agent"
        dump.mkdir()
        for name, size in (("module_0000.jit_table", 99), ("module_0002.jit_step", 10)):
            (dump / f"{name}.cpu_after_optimizations.hlo.pb").write_bytes(bytes(size))
            (dump / f"{name}.before_optimizations.hlo.pb").write_bytes(bytes(size))
            (dump / f"{name}.debug_options").write_text(f'xla_dump_to: "{name}"\n')
        aot = "a program compiled ahead of time" in executions
        took = [("jit_table", 9.0, 5.0, False), ("jit_step", 0.1, 8.0, aot)]
        (agent / "compiles-7.jsonl").write_text(
            "".join(
                json.dumps(
                    {"kind": "backend", "module": name, "seconds": seconds, "at_s": at, "aot": aot}
                )
                + "\n"
                for name, seconds, at, aot in took
            )
        )
        process(path / "rank0", {"executions": executions})
        steps(path / "rank0", *map(annotation, enumerate(starts)))
        rank = read_run(path).ranks[0]
        assert rank.known_step_module == step
        assert rank.step_module == (step or "jit_table")
        assert read_compiler_report(path).step.partition(".")[2] == (step or "jit_table")
        assert (step or "jit_table") in rank.hlo[0].name

    def test_json_has_all_that_the_manifest_has(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        told, manifest = (
            json.loads(runs_json([read_run(path)]))["runs"][0],
            json.loads((path / "run.json").read_text()),
        )
        assert set(manifest) <= set(told)
        alike = ("schema", "version", "name", "state", "launcher", "job", "settings", "outcome")
        assert {key: told[key] for key in alike} == {key: manifest[key] for key in alike}

    def test_in_a_directory_of_the_user_s_own_only_what_this_run_made(self, tmp_path: Path) -> None:
        old, new = (tmp_path / f"{n}.after_optimizations.hlo.pb" for n in ("old", "new"))
        old.write_bytes(b"x")
        os.utime(old, (1, 1))
        writer = RunWriter.claim(tmp_path / "run", LOCAL)
        writer.add_rank(0)
        writer.start_rank(RankStart(0, xla_dump_to=str(tmp_path)), os.getpid())
        new.write_bytes(b"x")
        assert read_run(tmp_path / "run").ranks[0].hlo == (new,)

    def test_the_newest_profile_counts(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        for day in ("2026_01_01_00_00_00", "2026_01_02_00_00_00"):
            session = path / "rank0" / "profile" / "plugins" / "profile" / day
            session.mkdir(parents=True)
            (session / "host.xplane.pb").write_bytes(b"x")
        (found,) = read_run(path).profiles
        assert "2026_01_02" in str(found)

    @pytest.mark.parametrize("inside", [True, False])
    def test_a_profile_is_where_its_process_says(self, tmp_path: Path, inside: bool) -> None:
        path = written(tmp_path / "run")
        place = path / "rank0" / "profile" if inside else tmp_path / "of the program's own"
        file = place / "plugins" / "profile" / "2026_01_01_00_00_00" / "host.xplane.pb"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x")
        named = str(file.relative_to(path / "rank0")) if inside else str(file)
        process(path / "rank0", {"window": {"state": "done", "files": [named]}})
        assert read_run(path).profiles == (file,)

    def test_the_programs_own_profile_stands_in_for_a_missing_one(self, tmp_path: Path) -> None:
        path = written(tmp_path / "run")
        sessions = tmp_path / "out" / "plugins" / "profile"
        for day, age in (("2026_01_01", 10**6), ("2026_01_02", 0), ("2026_01_03", -(10**6))):
            file = sessions / day / "host.xplane.pb"
            file.parent.mkdir(parents=True)
            file.write_bytes(b"x")
            ended = read_run(path).ranks[0].ended
            assert ended is not None
            os.utime(file, (ended.timestamp() - age * 1e-3, ended.timestamp() - age * 1e-3))
        process(path / "rank0", {"own_profiles": [str(tmp_path / "out"), "gs://bucket/there"]})
        run = read_run(path)
        assert run.profiles == (sessions / "2026_01_02" / "host.xplane.pb",)
        assert run.own_profile == sessions / "2026_01_02"

        ours = path / "rank0" / "profile" / "plugins" / "profile" / "1" / "host.xplane.pb"
        ours.parent.mkdir(parents=True)
        ours.write_bytes(b"x")
        assert read_run(path).profiles == (ours,)
        assert read_run(path).own_profile is None


class TestReached:
    """LOCAL asks for xla_gpu_autotune_level=4."""

    @pytest.mark.parametrize(
        ("flags", "compiled", "notes"),
        [
            (
                "--xla_other=1",
                1,
                ("the program itself sets XLA_FLAGS",),
            ),
            (
                "--xla_gpu_autotune_level=4 --xla_gpu_autotune_level='0'",
                1,
                ("it sets --xla_gpu_autotune_level=0 itself",),
            ),
            ('--a=b --xla_gpu_autotune_level="4"', 1, ()),
            ("--xla_other=1", 0, ()),
            ("flags.txt", 1, ()),
            (None, 1, ()),
        ],
    )
    def test_settings_are_laid_beside_what_the_program_had(
        self, tmp_path: Path, flags: str | None, compiled: int, notes: tuple[str, ...]
    ) -> None:
        path = written(tmp_path / "run")
        for pid in (7, 8):
            process(path / "rank0", {"xla_flags": flags, "compiles": {"count": compiled}}, pid)
        missed = "xla_gpu_autotune_level=4 did not reach the program: "
        assert read_run(path).notes == tuple(missed + note for note in notes)

    @pytest.mark.parametrize(("had", "noted"), [("/elsewhere", True), ("DUMP", False)])
    def test_modules_that_went_elsewhere_are_missed(
        self, tmp_path: Path, had: str, noted: bool
    ) -> None:
        dump = str(tmp_path / "run" / "rank0" / "xla")
        writer = RunWriter.claim(tmp_path / "run", LOCAL)
        writer.add_rank(0)
        writer.start_rank(RankStart(0, xla_dump_to=dump), os.getpid())
        flags = f"--xla_gpu_autotune_level=4 --xla_dump_to={had.replace('DUMP', dump)}"
        process(tmp_path / "run" / "rank0", {"xla_flags": flags, "compiles": {"count": 1}})
        notes = read_run(tmp_path / "run").notes
        assert any("XLA's modules " in note for note in notes) is noted


class TestWhyNoProfile:
    def test_an_agent_that_was_shut_out(self, tmp_path: Path) -> None:
        writer = RunWriter.claim(tmp_path / "run", LOCAL)
        rank = writer.add_rank(0)
        writer.start_rank(RankStart(0, profile=True), os.getpid())
        writer.end_rank(0, OK)
        nothing = read_run(writer.path).why_no_profile
        assert "PYTHONPATH=x:$PYTHONPATH" in nothing
        (rank / "ir").mkdir()
        (rank / "ir" / "jax_ir0_jit_step_compile.mlir").write_text("module {}")
        assert read_run(writer.path).why_no_profile.startswith("JAX ran, ")

    CASES: Mapping[str, tuple[dict[str, object] | None, Outcome | None]] = {
        "no process had the agent": (None, OK),
        "the start step never began": ({"state": "waiting", "asked": {"start_step": 5}}, OK),
        "no pause was long enough": ({"state": "waiting", "asked": {"start_step": None}}, OK),
        "it ended within the window": ({"state": "open", "asked": {"start_step": 5}}, OK),
        "it goes on, before the window": (
            {"state": "waiting", "asked": {"start_step": None}},
            None,
        ),
        "it goes on, within the window": ({"state": "open", "asked": {"start_step": 5}}, None),
        "the profile was taken away": (
            {"state": "done", "path": "/mine", "files": ["/mine/x.xplane.pb"]},
            OK,
        ),
    }

    def test_each_reason_is_its_own(self, tmp_path: Path, golden: Golden) -> None:
        told: dict[str, str] = {}
        for number, (case, (window, outcome)) in enumerate(self.CASES.items()):
            writer = RunWriter.claim(tmp_path / f"run{number}", LOCAL)
            rank = writer.add_rank(0)
            writer.start_rank(RankStart(0, profile=True), os.getpid())
            if window is not None:
                process(rank, {"window": window})
            if outcome is not None:
                writer.end_rank(0, outcome)
            told[case] = read_run(writer.path).why_no_profile
        assert len({*told.values()}) == len(told)
        assert "/mine" in told["the profile was taken away"]
        golden("why_no_profile.txt", "\n".join(f"## {case}\n{why}\n" for case, why in told.items()))
