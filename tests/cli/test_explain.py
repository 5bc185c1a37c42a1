"""`counterpoint explain` as a process: its output, its exit codes, and every kind of bad input."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from xspace_builder import US, hlo_proto, host, kernel, metadata, nvidia, xspace

from command_line import in_process
from counterpoint.cli.output import check_output
from counterpoint.core.errors import UsageError
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.run import RunSettings
from counterpoint.runs.writer import RankStart, RunStart, RunWriter
from golden_files import Golden
from transcripts import Transcript

STEP = ("jit_step", 7)
HLO = {"fusion.1": "fusion", "all-reduce.1": "all-reduce"}


def profile(*, with_hlo: bool = True) -> bytes:
    """Four steps of 10 us on one GPU: 6 us of compute, 2 of all-reduce, 2 of nothing."""
    gpu = nvidia(0)
    for step in range(4):
        start = step * 10 * US
        kernel(gpu, "Stream #20(Compute)", "fusion_1", start, 6 * US, op="fusion.1", module=STEP)
        kernel(
            gpu,
            "Stream #20(Compute)",
            "ncclDevKernel_AllReduce_Sum",
            start + 6 * US,
            2 * US,
            op="all-reduce.1",
            module=STEP,
        )
    planes = [gpu, metadata({STEP: hlo_proto("jit_step", HLO)})] if with_hlo else [gpu]
    return xspace(*planes)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "made.xplane.pb"
    path.write_bytes(profile())
    return path


def explain(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command, its output in files."""
    return in_process("explain", *arguments, cwd=cwd)


class TestOutput:
    def test_one_screen(self, made: Path) -> None:
        done = explain(made)
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.splitlines()
        assert "1 x H100 SXM (gpu) on 1 host" in done.stdout
        assert "Step time   0.0100 ms" in done.stdout
        assert len(lines) <= 60
        assert "\x1b" not in done.stdout

    @pytest.mark.system
    def test_the_command_it_names_next_works(self, made: Path, tmp_path: Path) -> None:
        last = explain(made).stdout.splitlines()[-1]
        command, *arguments = shlex.split(last.removeprefix("next: "), comments=True)
        assert command == "counterpoint"
        subprocess.run(
            [sys.executable, "-m", command, *arguments],
            cwd=tmp_path,
            capture_output=True,
            check=True,
            timeout=60,
        )
        written = ["profile.pftrace"] if "convert" in arguments else []
        assert [path.name for path in tmp_path.iterdir()] == written

    def test_json(self, made: Path) -> None:
        done = explain(made, "--json", "--top", 1)
        assert (done.returncode, done.stderr) == (0, "")
        data = json.loads(done.stdout)
        assert data["schema"] == "counterpoint.explain/1"
        assert data["inputs"] == [str(made)]
        parts = data["breakdown"]
        assert (parts["compute_ms"], parts["collective_exposed_ms"], parts["idle_ms"]) == (
            0.006,
            0.002,
            0.002,
        )
        assert [row["op"] for row in data["ops"]] == ["fusion.1", "all-reduce.1"]

    @pytest.mark.parametrize("by", ["scope", "source", "category", "op"])
    def test_ops_are_grouped_as_asked(self, made: Path, by: str) -> None:
        shown = explain(made, "--by", by)
        assert shown.returncode == 0, shown.stderr
        section = shown.stdout[shown.stdout.index("Top ops") :].split("\n\n")[0]
        titles = next(line for line in section.splitlines() if "self ms" in line)
        assert titles.split()[0] == by
        assert (
            f"--by {', '.join(it for it in ('scope', 'source', 'category', 'op') if it != by)}"
            in (" ".join(section.split()))
        )

    def test_one_step_of_one_device(self, made: Path) -> None:
        done = explain(made, "--json", "--step", 1, "--device", "0,0")
        data = json.loads(done.stdout)
        assert (data["step"], data["selected_devices"], data["steps"]["count"]) == (1, [0], 1)

    @pytest.mark.parametrize("name", ["out.json", "out.txt", "out.md"])
    def test_a_file_by_its_ending(self, made: Path, tmp_path: Path, name: str) -> None:
        done = explain(made, "-o", name, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", f"wrote {name}\n")
        text = (tmp_path / name).read_text()
        if name.endswith(".json"):
            assert json.loads(text)["devices"] == 1
        else:
            assert "Step time" in text
        assert text.startswith({"out.json": "{", "out.txt": "Profile", "out.md": "```"}[name])
        assert [path.name for path in tmp_path.iterdir()] == [name]

    def test_force_overwrites(self, made: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.json"
        out.write_text("precious")
        assert explain(made, "-o", out, "--force").returncode == 0
        assert json.loads(out.read_text())["devices"] == 1

    @pytest.mark.system
    def test_a_reader_that_leaves_is_no_error(self, made: Path) -> None:
        command = f"{sys.executable} -m counterpoint explain {made} --json | head -c 1"
        done = subprocess.run(
            ["/bin/sh", "-c", command], capture_output=True, text=True, check=True, timeout=60
        )
        assert (done.stdout, done.stderr) == ("{", "")

    @pytest.mark.system
    @pytest.mark.parametrize("option", ["--json", "--top=3", "--help"])
    def test_a_full_disk_is_one_line(self, made: Path, option: str) -> None:
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "counterpoint", "explain", made, option],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                timeout=60,
            )
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: ")
        assert line.endswith(os.strerror(errno.ENOSPC))

    @pytest.mark.system
    def test_a_profile_through_a_pipe(self, made: Path) -> None:
        command = f"cat {made} | {sys.executable} -m counterpoint explain /dev/stdin --json"
        done = subprocess.run(
            ["/bin/sh", "-c", command], capture_output=True, text=True, check=True, timeout=60
        )
        assert json.loads(done.stdout)["inputs"] == ["/dev/stdin"]

    @pytest.mark.system
    def test_an_encoding_without_the_names_is_no_error(self, made: Path, tmp_path: Path) -> None:
        named = tmp_path / "profil-日本.xplane.pb"
        named.write_bytes(made.read_bytes())
        done = subprocess.run(
            [sys.executable, "-m", "counterpoint", "explain", named],
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            check=True,
            timeout=60,
        )
        assert rb"profil-\u65e5\u672c.xplane.pb" in done.stdout

    @pytest.mark.system
    def test_ctrl_c_leaves_nothing_behind(self, tmp_path: Path) -> None:
        """Interrupted while it waits for its input: a pipe to which nobody writes."""
        source = tmp_path / "slow.xplane.pb"
        os.mkfifo(source)
        # A shell lets its background jobs ignore Ctrl-C, and children inherit that.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            running = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "counterpoint",
                    "explain",
                    source,
                    "-o",
                    tmp_path / "o.json",
                ],
                stderr=subprocess.PIPE,
                text=True,
            )
        finally:
            signal.signal(signal.SIGINT, before)
        with running, source.open("wb"):  # it opens when the other end is opened, too
            assert running.stderr is not None
            running.send_signal(signal.SIGINT)
            assert running.wait(60) == 130
            assert running.stderr.read().splitlines()[-1] == "interrupted"
        assert [path.name for path in tmp_path.iterdir()] == ["slow.xplane.pb"]


BAD_FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "2 GB"),
    "truncated": (lambda: profile()[:900], "cut off"),
    "cut off, and U+FFFD by chance": (
        lambda: (profile().replace(b"jit_step", b"\xef\xbf\xbdsteps") + b"\xff")[:900],
        "cut off",
    ),
    "no profile": (lambda: b"loss=0.7\n", "supported: XPlane"),
    "picture": (lambda: b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "supported: XPlane"),
    "web page": (lambda: b"<!DOCTYPE html><html></html>", "download"),
    "zeros": (lambda: bytes(4096), "supported: XPlane"),
    "text conversion": (
        lambda: profile().decode(errors="replace").encode(),
        "text conversion",
    ),
    "no device plane": (
        lambda: xspace(host(), metadata({STEP: hlo_proto("jit_step", HLO)})),
        "no device",
    ),
}


def check_error(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """One error: what, and why or what next; nothing else, and no result."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    first, *others = done.stderr.splitlines()
    assert first.startswith("error: ")
    labels = [line.split()[0] for line in others]
    assert labels in (["why:", "next:"], ["why:"], ["next:"], [])
    for word in words:
        assert word in done.stderr


class TestTimings:
    def test_the_time_of_reading_and_of_each_rule_is_shown(self, made: Path) -> None:
        done = explain(made, "--timings", "--json")
        timings = json.loads(done.stdout)["timings"]
        assert timings["reading"] > 0
        assert {"table spans", "rule STEP101"} <= set(timings)
        assert "\nTime of " in explain(made, "--timings").stdout

    def test_it_is_left_out_otherwise(self, made: Path) -> None:
        assert json.loads(explain(made, "--json").stdout)["timings"] is None
        assert "\nTime of " not in explain(made).stdout


class TestBadInput:
    @pytest.mark.parametrize("kind", BAD_FILES)
    def test_a_file(self, kind: str, tmp_path: Path) -> None:
        content, word = BAD_FILES[kind]
        path = tmp_path / "bad.xplane.pb"
        path.write_bytes(content())
        done = explain(path)
        check_error(done, 3, str(path), word)
        assert len(done.stderr.splitlines()) > 1  # why, or what to do

    def test_a_broken_real_file(self, shared: Path) -> None:
        path = shared / "data" / "traces" / "corrupt_utf8_mangled.xplane.pb"
        check_error(explain(path), 3, "text conversion", "binary mode")

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        check_error(explain(tmp_path / "nowhere" / "x.pb"), 3, "no such file", f"ls {tmp_path}")

    def test_a_name_that_can_not_be_one(self, tmp_path: Path) -> None:
        check_error(explain(tmp_path / ("x" * 300)), 3, "can't be looked up", "too long")

    def test_a_directory_without_profiles(self, tmp_path: Path) -> None:
        (tmp_path / "README").touch()
        check_error(explain(tmp_path), 3, "no profile in this directory", "README", ".xplane.pb")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_directory_that_may_not_be_read(self, tmp_path: Path) -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0)
        check_error(explain(closed), 3, "permission", str(closed))
        check_error(explain(closed / "x.xplane.pb"), 3, "ermission", str(closed))

    def test_a_profile_without_hlo_is_an_honest_partial_answer(self, tmp_path: Path) -> None:
        path = tmp_path / "no-hlo.xplane.pb"
        path.write_bytes(profile(with_hlo=False))
        done = explain(path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "no HLO" in done.stdout
        assert "unknown: " in done.stdout


class TestWrongUse:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--step", "99"], ["no step 99", "0 to 3"]),
            (["--step", "two"], ["two", "explain --help"]),
            (["--step", "1.5"], ["--step", "whole number", "'1.5'"]),
            (["--top", "2.7"], ["--top", "whole number", "'2.7'"]),
            (["--device", "7"], ["no device 7", "0 (host-0, gpu 0)"]),
            (["--device", "gpu0"], ["'gpu0'", "--device 0,1"]),
            (["--top", "0"], ["--top", "not 0"]),
            (["--by", "layer"], ["layer", "scope", "source", "category", "op"]),
            (["-o", "out.html"], [".html", ".json, .txt, .md"]),
            (["-o", "out.txt", "--json"], ["out.txt", ".json"]),
            (["-o", "memory://out.json"], ["URLs can be read, not written"]),
            (["-o", "no/where/out.json"], ["does not exist"]),
        ],
        ids=lambda value: value[0] if isinstance(value, list) else "",
    )
    def test_an_option(self, made: Path, arguments: list[str], words: list[str]) -> None:
        check_error(explain(made, *arguments), 2, *words)

    def test_an_empty_path(self) -> None:
        check_error(explain(""), 2, "an argument is empty")

    def test_no_path(self) -> None:
        check_error(explain(), 2, "a profile is required", "counterpoint explain PATH")

    def test_a_file_is_not_overwritten_unasked(self, made: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.json"
        out.write_text("precious")
        check_error(explain(made, "-o", out), 2, "exists", "--force")
        assert out.read_text() == "precious"

    def test_a_wrong_output_is_refused_before_any_reading(self, tmp_path: Path) -> None:
        check_error(explain(tmp_path / "missing.pb", "-o", "out.html"), 2, ".html")


def test_what_it_says(golden: Golden, tmp_path: Path) -> None:
    (tmp_path / "made.xplane.pb").write_bytes(profile())
    (tmp_path / "no_hlo.xplane.pb").write_bytes(profile(with_hlo=False))
    told = Transcript(tmp_path)
    for name in ("made", "no_hlo"):
        told.run("explain", f"{name}.xplane.pb")
    golden("explain.txt", told.text)


def test_what_it_says_of_bad_files_and_options(golden: Golden, tmp_path: Path) -> None:
    (tmp_path / "made.xplane.pb").write_bytes(profile())
    (tmp_path / "exists.json").touch()
    (tmp_path / "no_profiles").mkdir()
    (tmp_path / "no_profiles" / "README").touch()
    told = Transcript(tmp_path)
    for number, (kind, (content, _)) in enumerate(BAD_FILES.items(), 1):
        name = f"{number}-{kind.replace(' ', '-')}.xplane.pb"
        (tmp_path / name).write_bytes(content())
        told.run("explain", name, code=3)
    for words in (
        "--step 99",
        "--step two",
        "--step 1.5",
        "--device 7",
        "--device gpu0",
        "--top 0",
        "--by layer",
        "-o out.html",
        "-o out.txt --json",
        "-o memory://out.json",
        "-o no/where/out.json",
        "-o exists.json",
    ):
        told.run("explain", "made.xplane.pb", *words.split(), code=2)
    told.run("explain", code=2)
    told.run("explain", "", code=2)
    told.run("explain", "nowhere/x.pb", code=3)
    told.run("explain", "no_profiles", code=3)
    golden("explain_refused.txt", told.text)


OK = Outcome(OutcomeKind.OK, 0)
OUT_OF_MEMORY = Outcome(OutcomeKind.OUT_OF_MEMORY, 1, detail="999 bytes")


def run(path: Path, outcome: Outcome | None, *, profiled: bool = True, steps: int = 0) -> Path:
    """A Run of one rank as its keeper leaves it; None for one that goes on."""
    start = RunStart(
        name="train",
        command=("python", "train.py", "--lr", "1 e"),
        cwd="/home/me",
        settings=RunSettings((("xla_gpu_autotune_level", "4"),), (("NCCL_DEBUG", "INFO"),)),
        launcher="local",
        world_size=1,
        version="0.1.0",
    )
    writer = RunWriter.claim(path, start)
    writer.add_rank(0)
    writer.start_rank(RankStart(0), os.getpid())
    if profiled:
        place = path / "rank0" / "profile" / "plugins" / "profile" / "2026_01_01"
        place.mkdir(parents=True)
        (place / "host.xplane.pb").write_bytes(profile())
    lines = [{"step": k, "start_s": k / 10, "source": "annotation"} for k in range(steps)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (path / "rank0" / "agent" / "steps-7.jsonl").write_text(text)
    if outcome is not None:
        writer.end_rank(0, outcome)
        writer.end()
    return path


class TestRun:
    def test_how_it_ended_stands_at_the_top(self, tmp_path: Path) -> None:
        done = explain(run(tmp_path / "r", OUT_OF_MEMORY))
        assert done.returncode == 0
        assert done.stdout.splitlines()[1].endswith("exit code 1: 999 bytes")

    def test_of_one_that_ended_well_nothing_is_said(self, tmp_path: Path) -> None:
        assert "\n  run " not in explain(run(tmp_path / "r", OK)).stdout

    def test_one_that_goes_on(self, tmp_path: Path) -> None:
        path = run(tmp_path / "r", None)
        assert "\n  run      running" in explain(path).stdout

    def test_json(self, tmp_path: Path, made: Path) -> None:
        path = run(tmp_path / "r", OUT_OF_MEMORY)
        told = {"path": str(path), "outcome": "out_of_memory", "detail": "999 bytes"}
        assert json.loads(explain(path, "--json").stdout)["run"] == told
        assert json.loads(explain(made, "--json").stdout)["run"] is None

    def test_without_a_profile_the_error_says_how_it_ended(self, tmp_path: Path) -> None:
        path = run(tmp_path / "r", OUT_OF_MEMORY, profiled=False)
        stderr = path / "rank0" / "stderr.log"
        check_error(
            explain(path), 3, f"{path}: out of memory, exit code 1: 999 bytes;", str(stderr)
        )

    def test_and_the_command_that_gets_one(self, tmp_path: Path) -> None:
        path = run(tmp_path / "r", OK, profiled=False, steps=9)
        check_error(
            explain(path),
            3,
            f"{path}: this run has no profile",
            f"next: counterpoint run -o {path}-2 --set xla_gpu_autotune_level=4"
            " --env NCCL_DEBUG=INFO -- python train.py --lr '1 e'",
        )

    def test_one_that_goes_on_is_waited_for(self, tmp_path: Path) -> None:
        path = run(tmp_path / "r", None, profiled=False)
        check_error(explain(path), 3, f"{path}: running", f"next: counterpoint explain {path}")

    def test_a_directory_of_runs_names_the_newest(self, tmp_path: Path) -> None:
        for name in ("z", "a"):
            run(tmp_path / name, OK)
        run(tmp_path / "m", OK, profiled=False)
        newest = tmp_path / "a"
        check_error(explain(tmp_path), 3, "a directory of 3 runs", f"counterpoint explain {newest}")

    def test_a_damaged_one_may_hold_a_profile(self, tmp_path: Path) -> None:
        path = run(tmp_path / "r", OK)
        (path / "run.json").write_text('{"schema": "counterpoint.run/1", ')
        done = explain(path)
        check_error(done, 3, "damaged", f"next: counterpoint explain {path}/rank*/profile")
        assert explain(f"{path}/rank*/profile").returncode == 0


class TestFile:
    def test_a_directory_is_no_file(self, tmp_path: Path) -> None:
        (tmp_path / "out.json").mkdir()
        with pytest.raises(UsageError, match="directory"):
            check_output(tmp_path / "out.json", force=True, endings=(".json",))
