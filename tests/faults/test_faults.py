"""Whatever ends a command while it writes, its files are whole: the old ones or the new ones."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import counterpoint
from fuzz.seeds import runs
from timelines import two_devices
from tune_programs import program

INJECT = Path(__file__).parent / "inject.py"
PROGRAM = Path(__file__).parents[1] / "hlo" / "data" / "gpu_step.hlo.pb.xz"
SCRIPT = "export XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true\npython train.py\n"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs of all commands."""
    place = tmp_path_factory.mktemp("inputs")
    counterpoint.write_parquet(two_devices(), place / "t.parquet")
    (place / "step.hlo.pb").write_bytes(lzma.decompress(PROGRAM.read_bytes()))
    (place / "run.sh").write_text(SCRIPT)
    cost = 'costs { name: "%s::fusion.3" cost_us: %d }'
    lines = [cost % (digit * 32, 1 + int(digit)) for digit in "012"]
    (place / "p.pbtxt").write_text("\n".join(lines))
    for seed in runs(tmp_path_factory.mktemp("seeds")):
        for name, content in seed.files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
    return place


COMMANDS: dict[str, tuple[str, ...]] = {
    "new": ("convert", "t.parquet", "new"),
    "new.json.gz": ("convert", "t.parquet", "new.json.gz"),
    "new.pftrace": ("convert", "t.parquet", "new.pftrace"),
    "new.html": ("explain", "t.parquet", "--html", "new.html"),
    "new.md": ("explain", "t.parquet", "-o", "new.md"),
    "new.json": ("network", "t.parquet", "-o", "new.json"),
    "diff.md": ("compare", "t.parquet", "t.parquet", "-o", "diff.md"),
    "new.pbtxt": ("pgle", "make", "t.parquet", "-o", "new.pbtxt"),
    "modules": ("pgle", "merge", "p.pbtxt", "-o", "modules"),
    "new.sh": ("flags", "render", "run.sh", "-o", "new.sh"),
    "predicted": ("predict", "step.hlo.pb", "--target", "8xH100", "-o", "predicted"),
    "fixed.sh": ("flags", "check", "run.sh", "--no-probe", "--fix", "-o", "fixed.sh"),
    "new.env": ("tune", "show", "s", "--arm", "base", "-o", "new.env"),
    "study.html": ("tune", "show", "s", "--html", "study.html"),
    "study.tgz": ("tune", "show", "s", "--bundle", "study.tgz"),
}


class Injector:
    """The program that injects faults, until the tests of this module are over."""

    def __init__(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, str(INJECT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, fault: str, **request: object) -> dict[str, Any]:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        print(json.dumps({"fault": fault, **request}, default=str), file=self._program.stdin)
        self._program.stdin.flush()
        return json.loads(self._program.stdout.readline())

    def end(self) -> None:
        self._program.communicate()


@pytest.fixture(scope="module")
def injected() -> Generator[Injector]:
    injector = Injector()
    yield injector
    injector.end()


def visible(files: dict[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in files.items() if not name.startswith(".")}


@pytest.mark.system
@pytest.mark.parametrize(
    "out", [pytest.param(it, marks=[pytest.mark.smoke] * (it == "modules")) for it in COMMANDS]
)
@pytest.mark.parametrize("old", [False, True], ids=["new", "over an old one"])
def test_killed_at_each_file_operation(
    inputs: Path, tmp_path: Path, injected: Injector, out: str, old: bool
) -> None:
    words, start = [*COMMANDS[out]], inputs
    if old:
        start = tmp_path / "start"
        shutil.copytree(inputs, start)
        if out in ("new", "predicted"):
            counterpoint.write_parquet(two_devices(), start / out)
        elif out == "modules":
            (start / out).mkdir()
            (start / out / f"{'0' * 32}.pbtxt").write_text("")
        else:
            (start / out).write_text("the old one")
        words.append("--force")
    again = [*words] if old else [*words, "--force"]
    answer = injected("killed", inputs=start, place=tmp_path / "place", words=words, again=again)
    before, done = visible(answer["before"]), visible(answer["done"])
    assert answer["code"] == 0, answer["error"]
    assert before != done or (old and out == "new")
    assert answer["seen"]
    for seen in answer["seen"]:
        assert seen["killed"]
        assert visible(seen["left"]) in (before, done)
        assert seen["repeated"] == 0, seen["error"]
        assert seen["end"] == answer["done"]
        assert seen["scratch"] == []


@pytest.mark.system
@pytest.mark.parametrize("out", COMMANDS)
def test_full_and_read_only_file_systems(
    inputs: Path, tmp_path: Path, injected: Injector, out: str
) -> None:
    size = sum(path.stat().st_size for path in inputs.rglob("*") if path.is_file()) >> 10
    told = 0
    for fault, kib in (
        ("full", size),
        ("full", size + 64),
        ("full", 2 * size + 300),
        ("locked", 0),
    ):
        answer = injected(
            fault, inputs=inputs, place=tmp_path / "place", words=COMMANDS[out], kib=kib
        )
        if "denied" in answer:
            pytest.skip(f"no file system can be mounted here: {answer['denied']}")
        if "failed" in answer:  # the inputs alone fill it
            continue
        error = answer["error"]
        assert "Traceback" not in error
        assert not [name for name in answer["hidden"] if name not in (".tmp", ".cache")]
        if answer["code"] == 0:
            assert fault == "full"
            assert answer["left"].keys() > answer["before"].keys()
        else:
            told += 1
            assert answer["code"] in (2, 3), error
            assert ("No space left" in error) if fault == "full" else ("Read-only" in error), error
            assert len([line for line in error.splitlines() if line.startswith("error: ")]) == 1
            assert visible(answer["left"]) == answer["before"]
    assert told


@pytest.mark.system
def test_runs_stay_readable_wherever_a_run_is_killed(
    inputs: Path, tmp_path: Path, injected: Injector
) -> None:
    answer = injected(
        "killed",
        inputs=inputs,
        place=tmp_path / "place",
        words=["run", "-o", "r/next", "--no-profile", "--", sys.executable, "-c", "print(1)"],
        again=["runs", "r", "--json"],
    )
    assert answer["code"] == 0, answer["error"]
    assert sum(seen["killed"] for seen in answer["seen"]) > 5
    for seen in answer["seen"]:
        assert seen["left"].items() >= answer["before"].items()
        assert seen["repeated"] == 0, seen["error"]
        assert seen["left"].items() <= seen["end"].items()


@pytest.mark.system
def test_the_cache_of_the_viewer_holds_whole_pages_wherever_it_is_killed(
    inputs: Path, tmp_path: Path, injected: Injector
) -> None:
    words = ["view", "t.parquet", "--no-browser", "--idle", "1s"]
    answer = injected(
        "killed", inputs=inputs, place=tmp_path / "place", words=words, again=words, most=8
    )
    assert answer["code"] == 0, answer["error"]
    (whole,) = pages(answer["done"]).values()
    for seen in answer["seen"]:
        assert seen["killed"]
        assert seen["repeated"] == 0, seen["error"]
        assert seen["scratch"] == []
        assert pages(seen["end"])
        assert not [name for name in seen["end"] if "/.part-" in name]
        for page in (*pages(seen["left"]).values(), *pages(seen["end"]).values()):
            assert page == whole


def pages(files: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return the pages of the viewer's cache by name, without those that are being written."""
    found: dict[str, dict[str, str]] = {}
    for name, digest in files.items():
        parts = Path(name).parts
        if parts[:2] == (".cache", "view") and len(parts) == 4 and not parts[2].startswith("."):
            found.setdefault(parts[2], {})[parts[3]] = digest
    return found


@pytest.mark.system
def test_a_study_goes_on_wherever_tune_is_killed(
    inputs: Path, tmp_path: Path, injected: Injector
) -> None:
    start = tmp_path / "start"
    shutil.copytree(inputs, start)
    program(start)
    words = ["tune", "-o", "study", "--arm", "env:SAVES=0.2", "--budget", "6trials"]
    words += ["--confirm-rows", "0", "--executor", "local"]
    words += ["--", sys.executable, "train.py", "counter"]
    answer = injected(
        "killed",
        inputs=start,
        place=tmp_path / "place",
        words=words,
        again=words,
        after=["tune", "show", "study", "--json"],
        most=3,
    )
    assert answer["code"] == 0, answer["error"]
    for seen in answer["seen"]:
        assert seen["killed"]
        assert seen["left"].items() >= answer["before"].items()
        assert (seen["repeated"], seen["after"]) == (0, 0), seen["error"]
        told = json.loads(seen["out"])
        assert told["state"] == "done"
        ran = {arm["name"]: arm["trials"] for arm in told["arms"]}
        # What had ended is not run again; the trial that was killed with it is, and counts twice.
        assert ran.keys() == {"base", "env:SAVES=0.2"}
        assert ran["base"] >= 4
        assert ran["env:SAVES=0.2"] >= 1  # where a row was broken off, the next takes its budget
        assert sum(ran.values()) <= 7


@pytest.mark.system
def test_nothing_takes_less_than_no_time_if_the_clock_goes_back(
    inputs: Path, tmp_path: Path, injected: Injector
) -> None:
    start, place = tmp_path / "start", tmp_path / "place"
    shutil.copytree(inputs, start)
    program(start)
    command = ["--", sys.executable, "train.py", "counter"]
    tune = ["tune", "-o", "study", "--arm", "env:SAVES=0.2", "--budget", "6trials"]
    tune += ["--confirm-rows", "0", "--executor", "local"]
    commands = [
        ["run", "-o", "late/one", "--no-profile", *command],
        ["runs", "late", "--json"],
        [*tune, *command],
        ["tune", "show", "study", "--json"],
        ["runs", "study/runs", "--json"],
    ]
    answer = injected("clock", inputs=start, place=place, commands=commands)
    for ended in answer["ended"]:
        assert ended["code"] == 0, ended["error"]
        assert "Traceback" not in ended["error"]
    one, shown, trials = (json.loads(answer["ended"][at]["out"]) for at in (1, 3, 4))
    assert len(trials["runs"]) == 6
    for run in (*one["runs"], *trials["runs"]):
        assert run["outcome"]["kind"] == "ok"
        assert run["steps"] == 24
        assert run["median_step_ms"] > 0
        assert datetime.fromisoformat(run["ended"]) >= datetime.fromisoformat(run["started"])
    journal = [*map(json.loads, (place / "study" / "journal.jsonl").read_text().splitlines())]
    walls = [json.loads(text) for text in re.findall(r'"wall_s": ?([^,}]+)', json.dumps(journal))]
    assert len(walls) == 6
    assert min(walls) > 0
    assert shown["state"] == "done"


@pytest.mark.system
def test_pgle_auto_leaves_readable_runs_wherever_it_is_killed(
    inputs: Path, tmp_path: Path, injected: Injector
) -> None:
    start = tmp_path / "start"
    shutil.copytree(inputs, start)
    (start / "tools").mkdir()
    (start / "tools" / "nvidia-smi").write_text("#!/bin/sh\n")  # a sign of GPUs
    (start / "tools" / "nvidia-smi").chmod(0o755)
    words = ["pgle", "auto", "-o", "r/auto", "--", sys.executable, "-c", "print(1)"]
    answer = injected(
        "killed",
        inputs=start,
        place=tmp_path / "place",
        words=words,
        again=["runs", "r", "--json"],
        after=["runs", "r"],
        most=6,
    )
    assert "Traceback" not in answer["error"]
    assert sum(seen["killed"] for seen in answer["seen"]) > 5
    for seen in answer["seen"]:
        assert seen["left"].items() >= answer["before"].items()
        assert (seen["repeated"], seen["after"]) == (0, 0), seen["error"]
        assert seen["left"].items() <= seen["end"].items()
