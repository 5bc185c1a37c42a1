"""`counterpoint log` through the real clients, without a network, read back by the clients.

Each is skipped where the client is not installed. A client runs in a process of its own: it starts
threads and services, and registers what it does when the process ends.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from xspace_builder import US, hlo_proto, kernel, metadata, nvidia, xspace

from command_line import in_process
from counterpoint.report.summary import FIGURES
from transcripts import next_command

SECRET = "hunter2-and-more"  # noqa: S105
STEP = ("jit_step", 7)
HLO = {"fusion.1": "fusion", "all-reduce.1": "all-reduce"}
EXPECTED = {"step_ms": 0.01, "compute_ms": 0.006, "exposed_ms": 0.002, "idle_ms": 0.002}
_BLOCK = 32768


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """Six steps of 10 us: 6 us of compute, 2 of all-reduce, 2 of nothing; a secret in its name."""
    gpu = nvidia(0)
    for step in range(6):
        start, stream = step * 10 * US, "Stream #20(Compute)"
        kernel(gpu, stream, "fusion_1", start, 6 * US, op="fusion.1", module=STEP)
        reduce = "ncclDevKernel_AllReduce_Sum"
        kernel(gpu, stream, reduce, start + 6 * US, 2 * US, op="all-reduce.1", module=STEP)
    path = tmp_path / f"of-{SECRET}.xplane.pb"
    path.write_bytes(xspace(gpu, metadata({STEP: hlo_proto("jit_step", HLO)})))
    return path


def needs(client: str) -> None:
    if importlib.util.find_spec(client) is None:
        pytest.skip(f"{client} is not installed: pip install {client}")


@contextmanager
def client_of(name: str) -> Generator[Any]:
    """The client's module; its warnings are its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield import_module(name)


def log(place: Path, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `counterpoint log` in a directory, with a secret among its variables."""
    environment = {**os.environ, "HOME": str(place), "MY_API_KEY": SECRET, **variables}
    for name in ("WANDB_RUN_ID", "MLFLOW_RUN_ID", "GITHUB_STEP_SUMMARY"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-m", "counterpoint", "log", *map(str, words)],
        cwd=place,
        env={**environment, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def check_logged(done: subprocess.CompletedProcess[str], place: Path) -> None:
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("logged ")
    assert SECRET not in done.stderr
    held = [path for path in place.rglob("*") if path.is_file() and path.suffix != ".pb"]
    assert [path for path in held if SECRET.encode() in path.read_bytes()] == []


def check_numbers(found: dict[str, float]) -> None:
    own = {
        name.removeprefix("counterpoint/"): value
        for name, value in found.items()
        if name.startswith("counterpoint/")
    }
    for name, value in EXPECTED.items():
        assert own[name] == pytest.approx(value, rel=1e-6)
    assert own["steps"] == 4  # the profile's first is left out, and the last is not whole
    assert own["devices"] == 1
    assert set(own) <= set(FIGURES)


def check_findings(columns: list[str], rows: list[list[Any]]) -> None:
    assert columns[:2] == ["code", "title"]
    assert rows
    assert all(row[0].startswith("STEP") for row in rows)


def check_page(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert "all-reduce.1" in text
    assert len(text) < 20_000_000


def records_of(path: Path) -> Iterator[bytes]:
    """The records of an offline run: blocks as those of LevelDB's log, after a header."""
    data, record = path.read_bytes(), b""
    assert data[:4] == b":W&B"
    at = 7
    while at + 7 <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def test_wandb_offline(profile: Path, tmp_path: Path) -> None:
    needs("wandb")
    words = (profile, "--to", "wandb", "--run-id", "abc123", "--project", "proj")
    check_logged(log(tmp_path, *words, WANDB_MODE="offline"), tmp_path)
    (run,) = tmp_path.glob("wandb/offline-run-*-abc123")
    with client_of("wandb.proto.wandb_internal_pb2") as proto:
        records = [proto.Record.FromString(data) for data in records_of(run / "run-abc123.wandb")]
    summary: dict[str, Any] = {}
    for record in records:
        for item in (*record.summary.update, *record.request.partial_history.item):
            name = item.key or "/".join(item.nested_key)
            if len(item.nested_key) < 2:  # the client's own remarks on tables
                summary[name] = json.loads(item.value_json)
    check_numbers(
        {name: value for name, value in summary.items() if isinstance(value, int | float)}
    )
    (started,) = [record.run for record in records if record.HasField("run")]
    assert started.project == "proj"
    (table,) = run.glob("files/media/table/counterpoint/findings*.json")
    found = json.loads(table.read_text())
    check_findings(found["columns"], found["data"])
    artifacts = [record.artifact for record in records if record.HasField("artifact")]
    (entry,) = [
        entry
        for artifact in artifacts
        if artifact.type == "counterpoint-report"
        for entry in artifact.manifest.contents
    ]
    assert entry.path == "report.html"
    check_page(Path(entry.local_path))


@pytest.mark.parametrize("store", ["sqlite:///{}/runs.db", "file://{}/mlruns"])
def test_mlflow(profile: Path, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("mlflow")
    if store.startswith("sqlite"):
        needs("sqlalchemy")
    monkeypatch.chdir(tmp_path)  # artifacts lie in ./mlruns by default
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = store.format(tmp_path)
    place = {"MLFLOW_TRACKING_URI": uri, "MLFLOW_ALLOW_FILE_STORE": "true"}
    with client_of("mlflow") as mlflow:
        client = mlflow.MlflowClient(uri)
        failed = client.create_run(client.create_experiment("training")).info.run_id
        client.set_terminated(failed, status="FAILED")
        check_logged(
            log(tmp_path, profile, "--to", "mlflow", MLFLOW_RUN_ID=failed, **place), tmp_path
        )
        check_logged(log(tmp_path, profile, "--to", "mlflow", **place), tmp_path)
        own = client.get_experiment_by_name("counterpoint").experiment_id
        (new,) = client.search_runs([own])
        assert new.info.status == "FINISHED"
        for run in (client.get_run(failed), new):
            check_numbers(run.data.metrics)
            local = Path(client.download_artifacts(run.info.run_id, "counterpoint", str(tmp_path)))
            found = json.loads((local / "findings.json").read_text())
            check_findings(found["columns"], found["data"])
            check_page(local / "report.html")
        assert client.get_run(failed).info.status == "FAILED"  # as the training left it
        refused = log(tmp_path, profile, "--to", "mlflow", "--run-id", "0" * 32, **place)
    assert refused.returncode == 3
    assert " mlflow" in refused.stderr.splitlines()[0]
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("client", ["tensorboardX", "tensorboard"])
def test_tensorboard(
    profile: Path, tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("tensorboard")
    needs(client)
    monkeypatch.setenv("MY_API_KEY", SECRET)
    from counterpoint.trackers import tracker

    monkeypatch.setattr(tracker, "TRACKERS", {"tensorboard": (client,)})
    place = tmp_path / "events"
    with client_of(client):
        done = in_process("log", profile, "--to", "tensorboard", "--dir", place)
    check_logged(done, tmp_path)
    with client_of("tensorboard.backend.event_processing.event_accumulator") as events:
        read = events.EventAccumulator(str(place)).Reload()
        check_numbers({tag: read.Scalars(tag)[0].value for tag in read.Tags()["scalars"]})
        tags = [tag for tag in read.Tags()["tensors"] if tag.startswith("counterpoint/findings")]
        (text,) = read.Tensors(tags[0])[0].tensor_proto.string_val
    assert text.decode().startswith("| code | title |")
    check_page(place / "counterpoint-report.html")


@pytest.mark.system
def test_trackio(profile: Path, tmp_path: Path) -> None:
    needs("trackio")
    words = (profile, "--to", "trackio", "--project", "proj")
    check_logged(log(tmp_path, *words, TRACKIO_DIR=str(tmp_path / "t")), tmp_path)
    program = (
        "import json; from trackio.sqlite_storage import SQLiteStorage as S;"
        "names = S.get_runs('proj'); print(json.dumps([names, S.get_logs('proj', names[0])]))"
    )
    read = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TRACKIO_DIR": str(tmp_path / "t")},
        capture_output=True,
        text=True,
        check=True,
    )
    (name,), (logged,) = json.loads(read.stdout.splitlines()[-1])
    assert name.startswith("of-<hidden>.xplane.pb-")
    check_numbers({key: value for key, value in logged.items() if isinstance(value, int | float)})
    rows = logged["counterpoint/findings"]["_value"]
    check_findings([*rows[0]], [[*row.values()] for row in rows])


def test_a_client_that_is_not_installed(profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from counterpoint.trackers import tracker

    monkeypatch.setattr(tracker, "TRACKERS", {"wandb": ("no_such_client",)})
    for words in (("log", profile), ("run", "--log", "wandb", "--", "true")):
        done = in_process(*words, *(("--to", "wandb") if words[0] == "log" else ()))
        assert done.returncode == 2
        assert "wandb: " in done.stderr.splitlines()[0]
        assert "pip install wandb" in done.stderr


def test_a_path_that_is_missing_is_named_before_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counterpoint.trackers import tracker

    monkeypatch.setattr(tracker, "TRACKERS", {"wandb": ("no_such_client",)})
    for path, said in (("nope", "no such file or directory"), ("no*pe", "nothing matches")):
        done = in_process("log", path, "--to", "wandb", cwd=tmp_path)
        assert done.returncode == 3
        assert f"error: {path}: {said}" in done.stderr


def title_of(*words: object, cwd: Path) -> str:
    done = in_process("log", *words, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["title"]


@pytest.fixture
def two_runs(tmp_path: Path) -> Path:
    """A directory with two Runs of one script, r6 and r7."""
    (tmp_path / "train.py").write_text("print(1)\n")
    for name in ("r6", "r7"):
        done = in_process("run", "-o", name, "--", sys.executable, "train.py", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    return tmp_path


def test_runs_of_one_script_have_names_of_their_own(two_runs: Path) -> None:
    names = [title_of(name, cwd=two_runs) for name in ("r6", "r7", "r6", two_runs / "r6")]
    assert re.fullmatch("r6-[0-9a-f]{6}", names[0])
    assert re.fullmatch("r7-[0-9a-f]{6}", names[1])
    assert names[2:] == names[:1] * 2
    (two_runs / "r7").rename(two_runs / "other")
    shutil.copytree(two_runs / "r6", two_runs / "r7")
    assert title_of("r7", cwd=two_runs) != names[1]  # another Run in a directory of that name


def test_profiles_of_one_file_name_have_names_of_their_own(profile: Path, tmp_path: Path) -> None:
    names: set[str] = set()
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        copied = shutil.copy(profile, tmp_path / place / "host.xplane.pb")
        names |= {title_of(copied, cwd=tmp_path), title_of(copied, cwd=tmp_path / place)}
    assert len(names) == 2
    assert all(name.startswith("host.xplane.pb-") for name in names)


@pytest.mark.system
def test_tensorboard_keeps_the_reports_of_two_results_apart(profile: Path, tmp_path: Path) -> None:
    needs("tensorboardX")
    other = shutil.copy(profile, tmp_path / "other.xplane.pb")

    def logged(path: object, *words: object) -> None:
        done = in_process("log", path, "--to", "tensorboard", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr

    for path in (profile, other, profile):
        logged(path)
    pages = [*(tmp_path / "tensorboard").glob("*/*.html")]
    assert len({page.parent for page in pages}) == len(pages) == 2
    assert len({page.read_text("utf-8") for page in pages}) == 2
    logged(profile, "--dir", "one")
    (first,) = (tmp_path / "one").glob("*.html")
    text = first.read_text("utf-8")
    logged(other, "--dir", "one")
    assert first.read_text("utf-8") == text
    assert len([*(tmp_path / "one").glob("counterpoint-report-other*.html")]) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--to is missing: name the tracker"),
        (("--to", "wandb", "--dir", "x"), "--dir applies only to TensorBoard"),
        (("--to", "tensorboard", "--run-id", "x"), "--run-id applies only to"),
        (("--to", "tensorboard", "--project", "x"), "--project applies only to"),
        (("--json", "--project", "x"), "--project applies only to"),
    ],
)
def test_options_that_do_not_fit(profile: Path, words: tuple[str, ...], said: str) -> None:
    done = in_process("log", profile, *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_the_numbers_as_json_need_no_client(profile: Path) -> None:
    done = in_process("log", profile, "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    check_numbers({f"counterpoint/{it['name']}": it["value"] for it in found["figures"]})
    explained = json.loads(in_process("explain", profile, "--json").stdout)
    values = {it["name"]: it["value"] for it in found["figures"]}
    parts = explained["breakdown"]
    assert values["exposed_ms"] == parts["collective_exposed_ms"]
    assert values["hidden_ms"] == parts["collective_hidden_ms"]
    assert values["step_ms"] == explained["steps"]["median_ms"]
    assert [it["code"] for it in found["findings"]] == [it["code"] for it in explained["findings"]]
    whole = values["compute_ms"] + values["exposed_ms"] + values["copies_ms"] + values["idle_ms"]
    assert whole == pytest.approx(values["window_ms"])


def test_every_number_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "summary.md").read_text("utf-8")
    rows = [f"| `{name}` | {unit} | {meaning} |" for name, (unit, meaning) in FIGURES.items()]
    assert [row for row in rows if row not in page] == []
    assert page.count("\n| `") == len(rows)


@pytest.mark.system
def test_a_failing_tracker_loses_neither_the_run_nor_its_exit_code(tmp_path: Path) -> None:
    fake = tmp_path / "clients" / "wandb"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text(f"raise OSError('no route for {SECRET}\\nsecond line')\n")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{fake.parent}:{os.environ.get('PYTHONPATH', '')}",
        "MY_API_KEY": SECRET,
    }
    words = (
        "run",
        "-o",
        "run",
        "--log",
        "wandb",
        "--",
        sys.executable,
        "-c",
        "raise SystemExit(7)",
    )
    done = subprocess.run(
        [sys.executable, "-m", "counterpoint", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7
    assert (tmp_path / "run" / "run.json").is_file()
    assert "OSError: no route for <hidden> second" in done.stderr
    assert next_command(done.stderr) == ["log", "run", "--to", "wandb"]
    assert SECRET not in done.stderr
