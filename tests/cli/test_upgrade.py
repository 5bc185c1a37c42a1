"""`counterpoint upgrade`: what it refuses, what it leaves behind, and its answer in every form.

uv and pip are real here. Where nothing of a release is needed, their index is a directory of small
wheels; one deep test has two real releases of JAX, if they can be installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.cli.app import main
from counterpoint.cli.pages import upgraded_page, write_page
from counterpoint.report.predict.upgrade_document import upgrade_document
from counterpoint.report.predict.upgrade_json import upgrade_json
from counterpoint.workflow.upgrade import installation
from json_schemas_checked import validator
from made_upgrade import slower_upgrade

STEP = """\
module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<256x256xf32>) -> tensor<256x256xf32> {
    %0 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [0]
      : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %1 = stablehlo.sine %0 : tensor<256x256xf32>
    return %1 : tensor<256x256xf32>
  }
}
"""


def wheel(index: Path, version: str, code: str, *, needs: str = "", python: str = ">=3.10") -> None:
    """Put a release of JAX that is nothing but this code into an index."""
    about = f"Metadata-Version: 2.1\nName: jax\nVersion: {version}\nRequires-Python: {python}\n"
    about += "Provides-Extra: cuda13-local\n" + (f"Requires-Dist: {needs}\n" if needs else "")
    info = f"jax-{version}.dist-info"
    files = {
        "jax/__init__.py": code,
        f"{info}/METADATA": about,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{name},sha256={_digest(text)},{len(text)}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    file = f"jax-{version}-py3-none-any.whl"
    with (index / "index.html").open("a") as listing:
        listing.write(f'<a href="{file}" data-requires-python="{escape(python)}">{file}</a>\n')
    with zipfile.ZipFile(index / file, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def _digest(text: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture(params=["uv", "pip"])
def installer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """uv, and pip as where there is no uv; each with one index that it may ask."""
    if request.param == "pip":
        monkeypatch.setattr(installation, "find_uv", lambda: None)
    return str(request.param)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a step, and an index beside it that is all that an installer may ask."""
    (tmp_path / "step.mlir").write_text(STEP)
    (tmp_path / "simple" / "jax").mkdir(parents=True)
    (tmp_path / "simple" / "jax" / "index.html").touch()
    for name in [it for it in os.environ if it.startswith("UV_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "simple").as_uri())
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    monkeypatch.setenv("COUNTERPOINT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code and the error of a command that is refused, in one line."""
    code = main(["upgrade", "--target", "1xH100", *words])
    said = capsys.readouterr()
    assert said.out == ""
    assert "counterpoint/cli" not in said.err  # no traceback of ours
    assert said.err.count("error: ") == 1
    return code, " ".join(said.err.split())


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--from", "0.10.2", "--to", "0.10.2"], "are one release"),
        (["--from", "v0.10", "--to", "0.10.0"], "are one release"),
        (
            ["--from", "0.12.0", "--to", "0.10.2"],
            "next: use --from 0.10.2 --to 0.12.0",
        ),
        (["--from", "0.12.0", "--to", "0.10.2"], "--from 0.12.0 is newer than --to 0.10.2"),
        (["--from", "0.7.2", "--to", "0.10.2"], "can't compile with releases before 0.8.0"),
        (["--from", "next", "--to", "0.10.2"], "--from next: not a version of JAX"),
        (["--from", "", "--to", "0.10.2"], "--from '': not a version of JAX"),
        (["--from", "0.10.1", "--to", ""], "use --to newest"),
        (["--from", "0.10.1", "--to", "0.5.0"], "use --to newest"),
        (["--from", "0.12.0", "--to", "0.12.0"], "use --from 0.10.2"),
        (["--from", "0.10.1", "--to", "newestt"], "use --to newest"),
        (["--from", "0.10.1", "--to", "0.10.2", "--fail-above", "much"], "--fail-above"),
        (["--from", "0.10.1", "--to", "0.10.2", "--timeout", "0"], "--timeout"),
        (["--from", "0.10.1", "--to", "0.10.2", "--with", "a b"], "--with"),
    ],
)
def test_what_can_not_be_meant_is_refused_at_once(
    words: list[str],
    error: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor is uv missed before that."""
    if "--with" not in words:  # which asks this Python
        monkeypatch.setattr(sys, "executable", str(place / "python"))
        monkeypatch.setenv("PATH", str(place))
    workload = ["step.mlir"] if "--with" not in words else ["step.py:make_step"]
    code, said = refused(capsys, *workload, *words)
    assert code == 2
    assert error in said
    assert not (place / "cache" / "environments").exists()


@pytest.mark.parametrize(
    ("workload", "status", "error"),
    [
        (["nowhere.mlir"], 3, "nowhere.mlir: no such file"),
        (["nowhere.py:make_step"], 3, "nowhere.py: no such file"),
        (["--", "python", "-u", "nowhere.py"], 3, "nowhere.py: no such file"),
        (["--", "pyhton", "train.py"], 2, "pyhton was not found"),
        (["sharded.mlir"], 2, "jit_step is made for 8 devices, but 1xH100 has 1"),
    ],
)
def test_a_workload_that_is_not_there_is_told_before_the_index_is_asked(
    workload: list[str],
    status: int,
    error: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", (place / "no index").as_uri())
    (place / "sharded.mlir").write_text(STEP.replace("partitions = 1", "partitions = 8"))
    code, said = refused(capsys, "--from", "0.10.1", "--to", "newest", *workload)
    assert code == status
    assert f"error: {error}" in said
    assert "next: " in said
    assert "predict" not in said


@pytest.mark.system
@pytest.mark.usefixtures("installer")
def test_releases_that_can_not_be_had_are_told_before_anything_is_installed(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(place / "simple" / "jax", "0.10.1", "")
    wheel(place / "simple" / "jax", "0.10.3", "", needs="jaxlib==0.10.3")
    wheel(place / "simple" / "jax", "0.10.4", "", python=">=4")
    for to, error in (
        ("0.10.2", "the package index has no JAX 0.10.2 why: the newest releases there: 0.10.3"),
        ("0.10.3", "JAX 0.10.3 and the packages of the workload do not go together why:"),
        ("0.10.4", "JAX 0.10.4 has no packages for the Pythons installed here"),
    ):
        code, said = refused(capsys, "step.mlir", "--from", "0.10.1", "--to", to)
        assert code == 3, said
        assert error in said
    code, said = refused(capsys, "step.mlir", "--from", "0.99.0", "--to", "newest")
    assert code == 3, said
    assert "no JAX 0.99.0" in said
    assert not [*(place / "cache").rglob("jax-*")]


@pytest.mark.system
@pytest.mark.usefixtures("place", "installer")
def test_an_index_that_can_not_be_reached_is_told_as_such(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    code, said = refused(capsys, "step.mlir", "--from", "0.10.1", "--to", "newest")
    assert code == 3
    assert "can't be reached" in said


@pytest.mark.system
@pytest.mark.usefixtures("installer")
def test_a_workload_that_fails_with_a_release_is_told_with_its_name(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both releases are installed; the first one can't be imported."""
    wheel(place / "simple" / "jax", "0.10.1", "raise ImportError('it is broken in 0.10.1')")
    wheel(place / "simple" / "jax", "0.10.2", "")
    (place / "train.py").write_text("import jax\n")
    words = ("--from", "0.10.1", "--to", "0.10.2", "--", "python", "train.py")
    code, said = refused(capsys, *words)
    assert code == 3
    assert "error: with jax 0.10.1: python train.py " in said
    assert "ImportError: " in said
    kept = [it.name for it in (place / "cache" / "environments" / "v1").iterdir() if it.is_dir()]
    assert sorted(name.rpartition("-py")[0] for name in kept) == ["jax-0.10.1", "jax-0.10.2"]


@contextmanager
def silent_index() -> Generator[tuple[str, threading.Event]]:
    """An index that takes a question and never answers."""
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with ExitStack() as waiting:
                while True:
                    try:
                        waiting.enter_context(server.accept()[0])
                    except OSError:
                        return
                    asked.set()

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/simple", asked
        finally:
            server.shutdown(socket.SHUT_RDWR)
            serving.join()


@pytest.mark.system
def test_ctrl_c_ends_uv_too_and_leaves_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(place / "tmp"))
    (place / "tmp").mkdir()
    words = ["upgrade", "step.mlir", "--target", "1xH100", "--from", "0.10.1", "--to", "0.10.2"]
    with silent_index() as (url, asked):
        started = subprocess.Popen(
            [sys.executable, "-m", "counterpoint", *words],
            env={**os.environ, "UV_DEFAULT_INDEX": url},
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert asked.wait(60)
            os.killpg(started.pid, signal.SIGINT)  # as a terminal does
            out, said = started.communicate(timeout=60)
        finally:
            started.kill()
    assert started.returncode == 130
    assert out == ""
    assert "Traceback" not in said
    assert [*(place / "tmp").iterdir()] == []
    assert [it for it in (place / "cache").rglob("*") if it.is_file() and it.stat().st_size] == []
    with pytest.raises(ProcessLookupError):
        os.killpg(started.pid, 0)  # uv was in its group


def test_the_json_and_the_page_of_a_made_up_upgrade(tmp_path: Path) -> None:
    found = slower_upgrade()
    data = json.loads(upgrade_json(found))
    validator("upgrade").validate(data)
    assert data["change"] == pytest.approx(0.1)
    assert [it["version"] for it in data["steps"]] == ["0.10.1", "0.10.1.1", "0.10.2"]
    assert [it["error"] is None for it in data["steps"]] == [True, False, True]
    page = tmp_path / "page.html"
    write_page(upgraded_page(found, upgrade_document(found), upgrade_json(found)), page)
    assert "jax 0.10.2 is slower" in page.read_text()


@pytest.mark.parametrize(("limit", "exceeded"), [(0.05, True), (0.099, True), (0.101, False)])
def test_the_limit_counts_if_the_step_is_certainly_longer(limit: float, exceeded: bool) -> None:
    found = slower_upgrade()
    assert found.slower_by_more_than(limit) is exceeded
    faster = replace(found, before=found.after, after=found.before)
    assert not faster.slower_by_more_than(-0.5)


@pytest.mark.system
def test_two_real_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer as JSON, as a page, and for CI."""
    (tmp_path / "step.mlir").write_text(STEP)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "counterpoint"
    if (home / "environments").is_dir():  # installed once, on the machine of a developer
        monkeypatch.setenv("COUNTERPOINT_CACHE", str(home))
    words = ("upgrade", "step.mlir", "--target", "1xH100", "--from", "0.10.1", "--to", "0.10.2")
    done = in_process(*words, "--json", "--html", "page.html", cwd=tmp_path)
    if done.returncode == 3 and re.search("can't be reached|has no packages", done.stderr):
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    validator("upgrade").validate(data)
    assert [data[it]["jaxlib"] for it in ("before", "after")] == ["0.10.1", "0.10.2"]
    assert data["before"]["step_ms"] > 0
    assert data["before"]["held_bytes"] > 0
    assert data["flags"]["changed"]
    assert "jit_step" in (tmp_path / "page.html").read_text()
    gate = in_process(*words, "--fail-above", "2%", cwd=tmp_path)
    assert gate.returncode == (1 if data["change"] > 0.02 else 0)
    assert "step, ms" in gate.stdout
