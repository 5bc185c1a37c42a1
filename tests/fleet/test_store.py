"""A store of runs: whole or not at all, and readable by others; its history finds what moved."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from fsspec import AbstractFileSystem
from s3_server import S3Server, s3_bucket, s3_server

from command_line import in_process
from counterpoint.core import CounterpointError, Range
from counterpoint.diagnose.compare import StepChange
from counterpoint.fleet.digest import from_bytes, make_digest, merge
from counterpoint.fleet.history import compare_runs, history_of
from counterpoint.fleet.store import MOST_OPS, RUNS, StoredFacts, add_run, parse_query, read_runs
from counterpoint.fleet.tasks import Gathering
from counterpoint.timeline import read, remote
from counterpoint.tune.trial import levels_of_runs
from made_fleet import write_profiles

DAY = date(2026, 11, 10)


@pytest.fixture(scope="module")
def gathering(tmp_path_factory: pytest.TempPathFactory) -> Gathering:
    paths = write_profiles(tmp_path_factory.mktemp("fleet"), hosts=2)
    digests = merge(*(make_digest(read(path)) for path in paths))
    return Gathering(digests=digests, profiles=2, failures=(), read_bytes=1, retried=0, notes=())


def other_run(gathering: Gathering, number: int) -> Gathering:
    """The same digests under other keys: the run of another night."""
    digests = gathering.digests.with_columns(key=pl.col("key") + str(number))
    return Gathering(digests=digests, profiles=2, failures=(), read_bytes=1, retried=0, notes=())


def facts(number: int, ms: float, commit: str, **more: object) -> StoredFacts:
    return StoredFacts(
        model="a/b c",
        name=f"run-{number}",
        source="x",
        day=DAY + timedelta(days=number),
        commit=commit,
        steps_s=tuple(ms * 1e-3 * (1 + 0.001 * at) for at in (-1, 0, 1)),
        settings=(("NCCL_NVLS_ENABLE", "1" if number < 6 else "0"),),
        **more,  # pyright: ignore[reportArgumentType]
    )


@pytest.fixture(scope="module")
def store(gathering: Gathering, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten nights; from the seventh on, steps take a tenth longer."""
    place = str(tmp_path_factory.mktemp("store"))
    noise = np.random.default_rng(1).normal(0, 0.002, 10)
    for number in range(10):
        ms = (100.0 if number < 6 else 110.0) * (1 + noise[number])
        commit = "aaaa1111" if number < 6 else "bbbb2222"
        add_run(place, facts(number, ms, commit), other_run(gathering, number))
    return place


def test_what_moved_is_found_with_what_changed(store: str) -> None:
    done = in_process("history", store, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (moved,) = found["moved"]
    assert (moved["at"], moved["verdict"]) == (6, "slower")
    assert moved["change"] == pytest.approx(0.1, abs=0.01)
    assert [(each["what"], each["before"], each["after"]) for each in moved["what"]] == [
        ("commit", "aaaa1111", "bbbb2222"),
        ("NCCL_NVLS_ENABLE", "1", "0"),
    ]
    assert [run["day"] for run in found["runs"]][:2] == ["2026-11-10", "2026-11-11"]
    assert {run["model"] for run in found["runs"]} == {"a/b c"}
    # These profiles name the release of JAX, which is not jaxlib's.
    assert {(run["jax"], run["jaxlib"]) for run in found["runs"]} == {("0.10.2", None)}
    assert "  jax 0.10.2  aaaa1111" in in_process("history", store).stdout
    text = in_process("history", store, "--since", "2026-11-17").stdout
    assert "3 runs, too few to tell" in text
    assert "2026-11-16" not in text


def test_two_queries_are_compared(store: str) -> None:
    a, b = f"{store}?NCCL_NVLS_ENABLE=1", f"{store}?commit=bbbb&since=2026-11-17"
    done = in_process("compare", a, b, "--json", "--fail-above", "5%")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert (found["a_runs"], found["b_runs"], found["verdict"]) == (6, 3, "slower")
    assert found["range"][0] < 0.1 < found["range"][1]
    assert {each["what"] for each in found["differs"]} == {"commit", "NCCL_NVLS_ENABLE"}
    assert "B is slower" in in_process("compare", a, b).stdout
    assert in_process("compare", a, a, "--fail-above", "5%").returncode == 0


def test_runs_of_one_step_decide_nothing(gathering: Gathering, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    for number, ms in enumerate((100.0, 140.0)):
        one_step = replace(facts(number, ms, "aaaa1111"), steps_s=(ms * 1e-3,))
        add_run(store, one_step, other_run(gathering, number))
    a, b = (f"{store}?day=2026-11-1{number}" for number in range(2))
    assert in_process("compare", a, b).returncode == 0
    done = in_process("compare", a, b, "--fail-above", "5%")
    assert done.returncode == 3
    assert "cannot be separated from noise" in done.stderr


def test_two_stored_runs_are_told_as_two_runs_are(gathering: Gathering, tmp_path: Path) -> None:
    """Which steps the tables are of; and no range for single runs on virtual devices."""
    store = str(tmp_path / "store")
    on_cpus = replace(gathering, digests=gathering.digests.with_columns(kind=pl.lit("cpu")))
    for number, ms in enumerate((100.0, 140.0)):
        add_run(store, facts(number, ms, "a", steps_from="log"), other_run(gathering, number))
        add_run(store, facts(number + 2, ms, "a"), other_run(gathering, number + 2))
        add_run(store, facts(number + 4, ms, "a"), other_run(on_cpus, number + 4))
    days = [f"{store}?day=2026-11-1{number}" for number in range(6)]
    noted = "profiled steps, which include profiler overhead"
    timed = in_process("compare", *days[:2], "--fail-above", "5%")
    assert timed.returncode == 1
    assert noted in timed.stdout
    assert "log lines that name a step" in timed.stdout
    profiled = in_process("compare", *days[2:4]).stdout
    assert noted not in profiled
    assert "B is slower" in profiled
    virtual = in_process("compare", *days[4:], "--fail-above", "5%")
    assert virtual.returncode == 3
    assert "range unknown: virtual devices share the host's processors" in virtual.stdout
    assert "cannot be separated from noise: virtual devices" in virtual.stderr
    assert {*read_runs(parse_query(f"{store}?chip=cpu"))["day"]} == {
        DAY + timedelta(4),
        DAY + timedelta(5),
    }


def test_the_gate_of_two_queries_is_that_of_two_runs(gathering: Gathering, tmp_path: Path) -> None:
    """The likely change exceeds the limit, and the whole range is above zero."""
    store = str(tmp_path / "store")
    for number, ms in enumerate((100.0, 102.0, 105.0, 107.0)):
        add_run(store, facts(number, ms, "ab"[number // 2]), other_run(gathering, number))
    a, b = (f"{store}?commit={name}" for name in "ab")
    low, high = json.loads(in_process("compare", a, b, "--json").stdout)["range"]
    assert low < 0 < high
    assert in_process("compare", a, b, "--fail-above", "1%").returncode == 0
    found = compare_runs(*(read_runs(parse_query(f"{store}?day=2026-11-1{at}")) for at in (0, 2)))
    assert isinstance(found.step, StepChange)
    assert isinstance(found.step.range, Range)
    assert found.step.range.low < 0.045 < found.step.change
    assert found.slower_by_more_than(0.045)
    assert not found.slower_by_more_than(0.055)


def test_a_run_that_is_stored_again_counts_once(gathering: Gathering, tmp_path: Path) -> None:
    for commit in ("one", "two"):
        add_run(str(tmp_path), facts(1, 100.0, commit), gathering)
    runs = read_runs(parse_query(str(tmp_path)))
    assert runs["commit"].to_list() == ["two"]
    (kept,) = tmp_path.glob("hosts/*/*/*.parquet")
    assert from_bytes(kept.read_bytes(), "x").equals(gathering.digests)


def test_others_read_it(store: str) -> None:
    """Polars finds model and day in the names of the directories, as DuckDB and pandas do."""
    found = pl.read_parquet(f"{store}/runs/**/*.parquet", hive_partitioning=True)
    assert set(found["model"]) == {"a/b c"}
    assert found["day"].dtype == pl.Date
    assert found.drop("model", "day").schema == pl.Schema(RUNS)
    assert found["step_ms"].median() == pytest.approx(103, abs=8)


_KILLED = """
import os, signal, sys
from datetime import date
from pathlib import Path
from counterpoint.fleet import store
from counterpoint.fleet.digest import from_bytes
from counterpoint.fleet.tasks import Gathering
digests = from_bytes(Path(sys.argv[2]).read_bytes(), "x")
left = int(sys.argv[3])
def hook(event, arguments):
    global left
    if event in ("open", "os.rename", "os.mkdir") and sys.argv[1] in str(arguments[0]):
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
made = Gathering(digests=digests, profiles=2, failures=(), read_bytes=1, retried=0, notes=())
facts = store.StoredFacts(model="m", name="n", source="s", day=date(2026, 1, 2))
store.add_run(sys.argv[1], facts, made)
"""


@pytest.mark.system
def test_a_run_is_stored_whole_or_not_at_all(gathering: Gathering, tmp_path: Path) -> None:
    """Killed at one file operation after the other, until it ends by itself."""
    digest = tmp_path / "digest"
    from counterpoint.fleet.digest import to_bytes

    digest.write_bytes(to_bytes(gathering.digests))
    whole = 0
    for number in (2, 5, 7, 9, 11, 99):
        place = tmp_path / f"store-{number}"
        words = [sys.executable, "-c", _KILLED, str(place), str(digest), str(number)]
        done = subprocess.run(words, check=False, env={**os.environ, "PYTHONPATH": _path()})
        assert done.returncode in (0, -signal.SIGKILL)
        seen = list(place.glob("runs/model=*/day=*/*.parquet"))
        for path in seen:
            assert len(pl.read_parquet(path, hive_partitioning=False)) == 1
            assert list(place.glob(f"hosts/*/*/{path.name}"))
        whole += bool(seen)
        add_run(str(place), StoredFacts(model="m", name="n", source="s", day=DAY), gathering)
        assert len(read_runs(parse_query(f"{place}?day=2026-11-10"))) == 1
    assert 0 < whole < 6


def _path() -> str:
    return os.pathsep.join(entry for entry in sys.path if entry)


@pytest.mark.parametrize("runs", [2, 6, 20])
def test_noise_moves_nothing(gathering: Gathering, tmp_path: Path, runs: int) -> None:
    _, row = add_run(str(tmp_path), facts(1, 100.0, "c"), gathering)
    random = np.random.default_rng(runs)
    moved = 0
    for _ in range(20):
        steps = 100 * np.exp(random.normal(0, 0.01, runs))
        made = pl.concat(
            row.with_columns(step_ms=pl.lit(float(ms)), steps_ms=pl.lit([float(ms)]))
            for ms in steps
        )
        moved += bool(history_of(made, levels_of_runs).moved)
    assert moved <= 3  # of 20 with a probability of 5% each, more have a chance of 1.6%


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("history", "nowhere"), 3, "not a store"),
        (("history", "STORE", "--since", "yesterday"), 2, "not a day"),
        (("history", "STORE?jaxlib=9"), 3, "no run in this store with jaxlib=9"),
        (("compare", "STORE?a=b", "STORE?c=d"), 3, "no run in this store"),
        (("store", "STORE", "none.xplane.pb"), 3, "none.xplane.pb"),
        (("store", "STORE", "none.xplane.pb", "--day", "x"), 2, "not a day"),
        (("store", "STORE"), 2, "a profile is required"),
    ],
)
def test_what_it_refuses(store: str, words: tuple[str, ...], status: int, text: str) -> None:
    done = in_process(*(word.replace("STORE", store) for word in words))
    assert (done.returncode, text in done.stderr) == (status, True), done.stderr


def test_a_damaged_file_is_named(gathering: Gathering, tmp_path: Path) -> None:
    add_run(str(tmp_path), facts(1, 100.0, "c"), gathering)
    (path,) = tmp_path.glob("runs/*/*/*.parquet")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CounterpointError, match=path.name):
        read_runs(parse_query(str(tmp_path)))


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as made:
        yield made


@pytest.mark.system
class TestBucket:
    """A store in a bucket of a real server of S3's protocol."""

    @pytest.fixture
    def bucket(
        self, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[AbstractFileSystem]:
        monkeypatch.setenv("COUNTERPOINT_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(remote, "PAUSES_S", (0.01, 0.01, 0.01))
        with s3_bucket(server, "nightly", monkeypatch) as system:
            yield system

    def test_from_the_command_line(self, bucket: AbstractFileSystem, tmp_path: Path) -> None:
        for path in write_profiles(tmp_path / "run", hosts=2):
            bucket.put(str(path), f"nightly/run-7/plugins/profile/2023_11_14_22_00_00/{path.name}")
        words = ("--model", "m", "--name", "run 7", "--jobs", 1)
        done = in_process("store", "s3://nightly/store/", "s3://nightly/run-7", *words)
        assert done.returncode == 0, done.stderr
        assert "run 7: " in done.stdout
        # The day is the one that the profile records.
        found = json.loads(in_process("history", "s3://nightly/store", "--json").stdout)
        assert [run["day"] for run in found["runs"]] == ["2023-11-14"]
        assert found["runs"][0]["devices"] == 4
        assert sorted(path.rpartition("/")[0] for path in bucket.find("nightly/store")) == [
            f"nightly/store/{kind}/model=m/day=2023-11-14" for kind in ("hosts", "runs")
        ]

    def test_it_says_what_a_directory_says(
        self, bucket: AbstractFileSystem, store: str, gathering: Gathering
    ) -> None:
        bucket.put(f"{store}/runs", "nightly/runs", recursive=True)
        here, there = (in_process("history", place).stdout for place in (store, "s3://nightly"))
        assert there == here.replace(store, "s3://nightly")
        command = next(line for line in there.splitlines() if line.startswith("next: "))
        done = in_process(*shlex.split(command)[2:], "--json")
        assert done.returncode == 0, done.stderr
        assert [json.loads(done.stdout)[name] for name in ("a_runs", "b_runs")] == [1, 1]
        add_run("s3://nightly", facts(11, 100.0, "cccc"), other_run(gathering, 11))
        assert len(read_runs(parse_query("s3://nightly?commit=cccc"))) == 1

    def test_what_passes_is_tried_again(
        self, bucket: AbstractFileSystem, server: S3Server, gathering: Gathering
    ) -> None:
        server.faults += [("PUT", "/hosts/", 503), ("PUT", "/runs/", 503), ("GET", "/runs/", 503)]
        add_run("s3://nightly", facts(1, 100.0, "one"), gathering)
        server.faults.append(("GET", "/runs/", "cut"))
        assert read_runs(parse_query("s3://nightly"))["commit"].to_list() == ["one"]
        assert not server.faults
        assert len(bucket.find("nightly/runs")) == 1

    @pytest.mark.parametrize(
        ("status", "text"), [(403, "the store refuses access: as asked"), (404, "not found")]
    )
    @pytest.mark.usefixtures("bucket")
    def test_what_is_refused(
        self,
        server: S3Server,
        gathering: Gathering,
        status: int,
        text: str,
    ) -> None:
        """Whatever part of a run is refused, no part of it counts."""
        for number, part in enumerate(("/hosts/", "/runs/")):
            server.refused[:] = [("PUT", part, status)]
            with pytest.raises(CounterpointError, match=text) as refused:
                add_run("s3://nightly", facts(number, 100.0, "one"), other_run(gathering, number))
            assert part in str(refused.value)
        server.refused.clear()
        assert "no run in this store" in in_process("history", "s3://nightly").stderr
        add_run("s3://nightly", facts(1, 100.0, "one"), gathering)
        server.refused.append(("GET", "/runs/", status))
        done = in_process("history", "s3://nightly")
        assert (done.returncode, text in done.stderr) == (3, True)
        assert "Traceback" not in done.stderr

    @pytest.mark.usefixtures("bucket")
    def test_there_is_no_such_bucket(self, gathering: Gathering) -> None:
        with pytest.raises(CounterpointError, match="not found"):
            add_run("s3://none", facts(1, 100.0, "one"), gathering)
        done = in_process("history", "s3://none")
        assert (done.returncode, "s3://none: not found" in done.stderr) == (3, True)


def test_runs_of_one_day_and_single_ones_have_a_next_command(
    gathering: Gathering, tmp_path: Path
) -> None:
    add_run(str(tmp_path), facts(1, 100.0, "one"), gathering)
    assert "next: counterpoint explain x\n" in in_process("history", tmp_path).stdout
    kept = replace(facts(1, 100.0, "one"), source="kept.digest.parquet")
    add_run(str(tmp_path / "of-digests"), kept, gathering)
    told = in_process("history", tmp_path / "of-digests").stdout
    assert "next: counterpoint explain kept.digest.parquet --executor local\n" in told
    add_run(str(tmp_path), facts(1, 101.0, "two"), other_run(gathering, 2))
    told = in_process("history", tmp_path).stdout
    command = next(line for line in told.splitlines() if line.startswith("next: "))
    done = in_process(*shlex.split(command)[2:], "--json")
    assert done.returncode == 0, done.stderr
    differs = json.loads(done.stdout)["differs"]
    assert [(each["before"], each["after"]) for each in differs] == [("one", "two")]


def test_a_plus_in_a_name_is_a_plus(gathering: Gathering, tmp_path: Path) -> None:
    given = replace(facts(1, 100.0, "one"), model="llama+moe")
    add_run(str(tmp_path), given, gathering)
    assert in_process("history", tmp_path, "--model", "llama+moe").returncode == 0
    assert len(read_runs(parse_query(f"{tmp_path}?model=llama+moe"))) == 1
    assert len(read_runs(parse_query(f"{tmp_path}?model=llama%2Bmoe"))) == 1


def test_a_run_without_a_whole_step_is_not_stored(tmp_path: Path) -> None:
    """Its program's runs have lengths, but they are no step times."""
    (path,) = write_profiles(tmp_path / "one", hosts=1, steps=1)
    done = in_process("store", tmp_path / "store", path, "--day", "2026-11-10")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        3,
        f"error: {path}: no whole step in this profile, so its step time is unknown",
    )
    assert not (tmp_path / "store").exists()


def test_an_op_that_is_not_kept_has_an_unknown_time(store: str) -> None:
    runs = read_runs(parse_query(store))
    ops = [{"op": f"op.{at}", "category": None, "ms": 1.0, "count": 1.0} for at in range(MOST_OPS)]
    full = runs.with_columns(ops=pl.Series([ops] * len(runs), dtype=runs.schema["ops"]))
    other = [{"op": "other", "category": None, "ms": 2.0, "count": 1.0}]
    short = runs.with_columns(ops=pl.Series([other] * len(runs), dtype=runs.schema["ops"]))
    found = {each.name: each for each in compare_runs(full, short).ops}
    assert (found["other"].a_ms, found["other"].b_ms) == (None, 2.0)
    assert (found["op.7"].a_ms, found["op.7"].b_ms) == (1.0, 0.0)
