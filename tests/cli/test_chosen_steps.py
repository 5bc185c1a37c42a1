"""`--steps A:B` and `--last N`: a part of a profile, explained as if only it had been recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xspace_builder import US, Plane, cpu_op, hlo_proto, host, kernel, metadata, nvidia, xspace
from xspace_builder import step_marker as mark

import counterpoint
from command_line import in_process
from counterpoint import UsageError
from counterpoint.diagnose.network.analysis import analyze_network
from counterpoint.timeline.storage.parquet import write_parquet
from golden_files import Golden
from transcripts import Transcript

STEP = ("jit_step", 7)
HLO = {"fusion.1": "fusion", "all-reduce.1": "all-reduce"}
LENGTHS = (30, 10, 12, 14, 11, 19, 13, 10)
"""Of the steps of a GPU, in microseconds; the last one is cut off by the end of the profile."""


def gpu_steps(lengths: tuple[int, ...] = LENGTHS, devices: int = 2) -> bytes:
    """Steps without markers, of which half computes, on devices that differ; called by a thread."""
    planes = [nvidia(ordinal) for ordinal in range(devices)]
    threads = host()
    at = 100
    for length in lengths:
        threads.add("python", "PjitFunction(step)", (at - 9) * US, 2 * US)
        threads.add("python", "$train.py:7 load", (at + length - 6) * US, 4 * US)
        for late, gpu in enumerate(planes):
            _kernels(gpu, at + late, length)
        at += length
    return xspace(*planes, threads, metadata({STEP: hlo_proto("jit_step", HLO)}))


def _kernels(gpu: Plane, at: int, length: int) -> None:
    half, stream = length // 2, "Stream #20(Compute)"
    kernel(gpu, stream, "fusion_1", at * US, half * US, op="fusion.1", module=STEP)
    nccl = "ncclDevKernel_AllReduce_Sum"
    kernel(gpu, stream, nccl, (at + half) * US, 2 * US, op="all-reduce.1", module=STEP)


def marked_steps(first: int, count: int) -> bytes:
    """Steps of a virtual CPU device in markers that begin with number `first`."""
    threads = host()
    for turn in range(count):
        start = (100 + 20 * turn) * US
        mark(threads, "python", first + turn, start, 19 * US)
        took = (9 + turn) * US
        cpu_op(threads, "worker", "fusion.1", start + US, took, module=STEP, run=turn, device=0)
    return xspace(threads, metadata({STEP: hlo_proto("jit_step", HLO)}))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bytes], Path]:
    directory = tmp_path_factory.mktemp("made")

    def make(name: str, content: bytes) -> Path:
        path = directory / f"{name}.xplane.pb"
        if not path.exists():
            path.write_bytes(content)
        return path

    return make


@pytest.fixture
def gpu(made: Callable[[str, bytes], Path]) -> Path:
    return made("gpu", gpu_steps())


def answer(command: str, *words: object) -> dict[str, Any]:
    done = in_process(command, *words, "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def error(*words: object) -> str:
    done = in_process(*words)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout
    return done.stderr


def figures(explained: dict[str, Any]) -> dict[str, Any]:
    """All but the choice itself, the count of runs, and rows of spans in the Timeline."""
    for key in ("notes", "step", "chosen_steps", "inputs", "programs"):
        explained.pop(key, None)
    for finding in explained.get("findings", []):
        for evidence in finding["evidence"]:
            del evidence["spans"]
    if "steps" in explained:
        del explained["steps"]["how"]
    return explained


class TestFigures:
    @pytest.mark.parametrize("command", ["explain", "network"])
    @pytest.mark.parametrize("step", [0, 3, len(LENGTHS) - 2])
    def test_one_step_is_explained_as_in_the_whole_profile(
        self, gpu: Path, command: str, step: int
    ) -> None:
        alone = answer(command, gpu, "--step", step)
        chosen = answer(command, gpu, "--steps", f"{step}:{step + 1}")
        assert chosen["chosen_steps"] == {
            "first": step, "last": step, "count": 1, "recorded": len(LENGTHS) - 1,
        }  # fmt: skip
        assert figures(chosen) == figures(alone)

    def test_all_steady_steps_are_explained_as_without_a_choice(self, gpu: Path) -> None:
        assert figures(answer("explain", gpu, "--last", 100)) == figures(answer("explain", gpu))
        assert figures(answer("explain", gpu, "--steps", "1:")) == figures(answer("explain", gpu))

    def test_step_times_are_those_of_the_chosen_steps(self, gpu: Path) -> None:
        steps = answer("explain", gpu, "--steps", "3:6")["steps"]
        assert (steps["count"], steps["median_ms"]) == (3, 0.014)
        assert (steps["min_ms"], steps["max_ms"]) == (0.011, 0.019)

    def test_the_last_steps_are_whole_ones(self, gpu: Path) -> None:
        chosen = answer("explain", gpu, "--last", 2)
        assert chosen["chosen_steps"] == {"first": 5, "last": 6, "count": 2, "recorded": 7}
        assert (chosen["steps"]["min_ms"], chosen["steps"]["max_ms"]) == (0.013, 0.019)

    def test_the_first_step_counts_only_if_no_other_is_chosen(self, gpu: Path) -> None:
        assert answer("explain", gpu, "--steps", ":1")["steps"]["median_ms"] == 0.03
        both = answer("explain", gpu, "--steps", ":2")
        assert (both["steps"]["count"], both["steps"]["median_ms"]) == (1, 0.01)
        assert any("step 0 is left out" in note for note in both["notes"])

    def test_one_device_of_some_steps(self, gpu: Path) -> None:
        chosen = answer("explain", gpu, "--steps", "4:5", "--device", 1)
        assert figures(chosen) == figures(answer("explain", gpu, "--step", 4, "--device", 1))

    def test_numbers_of_markers_choose(self, made: Callable[[str, bytes], Path]) -> None:
        path = made("marked", marked_steps(40, 6))
        chosen = answer("explain", path, "--steps", "42:44")
        assert chosen["chosen_steps"] == {"first": 42, "last": 43, "count": 2, "recorded": 5}
        assert (
            chosen["notes"][0] == "steps 42 to 43 alone: --steps 42:44 of 5 whole steps (40 to 44)"
        )

    def test_of_two_steps_the_first_is_whole(self, made: Callable[[str, bytes], Path]) -> None:
        path = made("two", gpu_steps((10, 12), devices=1))
        chosen = answer("explain", path, "--last", 5)
        assert chosen["chosen_steps"] == {"first": 0, "last": 0, "count": 1, "recorded": 1}
        assert figures(chosen) == figures(answer("explain", path))


class TestElsewhere:
    def test_python_takes_the_same(self, gpu: Path) -> None:
        whole = counterpoint.read(gpu)
        for chosen in (
            counterpoint.explain(gpu, steps="3:6"),
            counterpoint.explain(whole, steps=range(3, 6)),
            counterpoint.explain(counterpoint.read(gpu, steps="3:6")),
        ):
            assert chosen.chosen_steps is not None
            assert (chosen.steps.count, chosen.steps.median_ms) == (3, pytest.approx(0.014))
        assert whole.chosen is None
        assert analyze_network(whole, last=2).chosen_steps == counterpoint.read(gpu, last=2).chosen
        with pytest.raises(UsageError, match="exclude each other"):
            counterpoint.explain(whole, step=3, last=2)
        with pytest.raises(UsageError, match="successive"):
            counterpoint.read(gpu, steps=range(0, 6, 2))

    def test_nothing_else_is_kept(self, gpu: Path) -> None:
        whole, part = counterpoint.read(gpu), counterpoint.read(gpu, steps="3:5")
        assert part.steps["step"].unique().sort().to_list() == [3, 4]
        assert len(part.spans) == len(whole.spans) * 2 // len(LENGTHS)
        assert len(part.host_events) < len(whole.host_events)
        assert part.frame().collect()["step"].unique().sort().to_list() == [3, 4]

    def test_a_part_can_be_stored(self, gpu: Path, tmp_path: Path) -> None:
        done = in_process("convert", gpu, tmp_path / "part", "--last", 2)
        assert done.returncode == 0, done.stderr
        stored = answer("explain", tmp_path / "part")
        assert stored["chosen_steps"] == {"first": 5, "last": 6, "count": 2, "recorded": 7}
        assert figures(stored) == figures(answer("explain", gpu, "--last", 2))

    def test_a_stored_profile_is_cut_down(self, gpu: Path, tmp_path: Path) -> None:
        write_parquet(counterpoint.read(gpu), tmp_path / "all")
        stored = answer("explain", tmp_path / "all", "--last", 2)
        assert figures(stored) == figures(answer("explain", gpu, "--last", 2))


class TestErrors:
    WORDS = (
        ("--last 0", "--last 10"),
        ("--last -3", "--last 10"),
        ("--steps 3", "--steps 3:4"),
        ("--steps :", "--last 10"),
        ("--steps a:b", "--last 10"),
        ("--steps 1:2:3", "--last 10"),
        ("--steps=-3:", "--last 3"),
        ("--steps 2:-1", "--last 10"),
        ("--steps 5:5", "--steps 5:6"),
        ("--steps 5:2", "--steps 2:6"),
        ("--steps :0", "--last 10"),
        ("--steps 90:", "--steps 0:7"),
        ("--steps 50:60", "--steps 0:7"),
        ("--steps 7:", "--steps 0:7"),
        ("--step 3 --last 2", "omit --last"),
        ("--steps 2: --step 3", "omit --steps"),
        ("--steps 2: --last 3", "omit --last"),
    )

    @pytest.mark.parametrize("command", ["explain", "network"])
    def test_says_what_is_wrong_and_what_works(
        self, gpu: Path, command: str, golden: Golden
    ) -> None:
        told = Transcript(gpu.parent)
        for words, then in self.WORDS:
            done = told.run(command, gpu.name, *words.split(), code=2)
            assert done.stdout == ""
            advice = then if then.startswith("omit ") else f"use {then}"
            assert done.stderr.endswith(f"  next: {advice}\n"), words
        golden(f"chosen_steps_{command}.txt", told.text)
        for then in sorted({then for _, then in self.WORDS if then.startswith("--")}):
            assert in_process(command, gpu, *then.split()).returncode == 0

    @pytest.mark.parametrize("words", [("--last", 1), ("--steps", "0:1")])
    def test_a_profile_of_one_step_has_no_whole_one(
        self, made: Callable[[str, bytes], Path], words: tuple[object, ...]
    ) -> None:
        path = made("one", gpu_steps((10,), devices=1))
        assert error("explain", path, *words).endswith(f"  next: omit {words[0]}\n")
