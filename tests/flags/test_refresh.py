"""Learning an installed jaxlib from itself, and what is said where that can't be done."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from counterpoint.cli.app import main
from counterpoint.core.errors import InputError
from counterpoint.flags.catalogue.flag import Release, make_table, parse_table, render_table
from counterpoint.flags.catalogue.lookup import as_release, facts_at, path_of, releases
from counterpoint.flags.history import diff
from counterpoint.flags.refresh.descriptor import read_fields
from counterpoint.flags.refresh.installed import JaxlibFlags, add_to_table, find_library
from counterpoint.flags.refresh.parser import Parser, is_unknown
from counterpoint.report.catalogue.catalogue_document import refresh_document

pytestmark = pytest.mark.system


@dataclass(frozen=True)
class Refreshed:
    """One run of the real command."""

    home: Path
    data: dict[str, Any]


@pytest.fixture(scope="module")
def jaxlib() -> Path:
    found = importlib.util.find_spec("jaxlib")
    if found is None or found.origin is None:
        pytest.skip("jaxlib is not here")
    return Path(found.origin).parent


@pytest.fixture(scope="module")
def refreshed(jaxlib: Path, tmp_path_factory: pytest.TempPathFactory) -> Refreshed:
    del jaxlib
    home = tmp_path_factory.mktemp("home")
    done = command(home, "refresh", "--json")
    assert done.returncode == 0, done.stderr
    return Refreshed(home, json.loads(done.stdout))


def command(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "counterpoint", "flags", *arguments],
        env={**os.environ, "XDG_DATA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_installed_jaxlib_says_what_ships(refreshed: Refreshed) -> None:
    """The table was made by this command: doing it again brings no news."""
    data = refreshed.data
    if data["jaxlib"] not in releases():
        pytest.skip("this jaxlib does not ship with the catalogue")
    news = data["news"]
    assert (news["added"], news["removed"], news["renamed"], news["changed"]) == ([], [], [], [])
    assert data["flags"] > 300
    assert data["jax_options"] > 80


def test_what_was_learnt_goes_before_what_ships(refreshed: Refreshed) -> None:
    """A release nobody else knows is exact from then on, in the next process."""
    version = refreshed.data["jaxlib"]
    path = Path(refreshed.data["written_to"])
    table = parse_table(path.read_text("utf-8"))
    facts = {**table.at(version), "xla_of_tomorrow": {"type": "bool", "default": "false"}}
    tomorrow = path.with_name("jaxlib-99.1.0.jsonl")
    tomorrow.write_text(render_table(make_table({"99.1.0": facts})))
    done = command(refreshed.home, "list", "--jaxlib", "99.1", "--grep", "tomorrow", "--json")
    assert done.returncode == 0, done.stderr
    (flag,) = json.loads(done.stdout)["flags"]
    assert (flag["name"], flag["since"], flag["until"]) == ("xla_of_tomorrow", "99.1.0", None)
    told = command(refreshed.home, "diff", "99.1.0", version)
    assert "xla_of_tomorrow" in told.stdout
    tomorrow.write_text("{")
    damaged = command(refreshed.home, "list", "--jaxlib", "99.1")
    assert damaged.returncode == 3
    assert "is damaged" in damaged.stderr
    assert "Traceback" not in damaged.stderr


def test_the_parser_is_asked_as_often_as_one_likes(jaxlib: Path) -> None:
    del jaxlib
    with Parser(Path(sys.executable)) as parser:
        assert parser.parse("").options
        assert parser.parse("--xla_gpu_autotune_level=2").options != parser.parse("").options
        assert is_unknown(parser.parse("--xla_nobody_knows=2"))
        wrong = parser.parse("--xla_gpu_autotune_level=x")
        assert wrong.options is None
        assert not is_unknown(wrong)
        assert parser.parse("").options


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("/bin/cat", "failed to parse XLA flags"),
        ("/usr/bin/yes", "failed to parse XLA flags"),
        ("/nothere/python", "cannot be run"),
        ("/tmp", "cannot be run"),  # noqa: S108 - a directory that is everywhere
    ],
    ids=["cat", "yes", "nothing", "directory"],
)
def test_what_is_no_python_is_told(program: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Parser(Path(program))


def test_a_jaxlib_that_ends_the_process_at_its_start_is_told_to_be_damaged(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -BUS $$\n")
    python.chmod(0o755)
    with pytest.raises(InputError, match=r"damaged or truncated: .* with SIGBUS") as told:
        Parser(python)
    assert "--force-reinstall jaxlib" in str(told.value.next)


def test_a_program_that_is_no_python_is_told_without_what_it_was_given() -> None:
    with pytest.raises(InputError) as told:
        Parser(Path(shutil.which("ls") or "/bin/ls"))
    assert "import" not in str(told.value)


def test_a_python_without_jaxlib_is_told(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    (tmp_path / "jaxlib.py").write_text("raise ImportError('broken install')")
    with pytest.raises(InputError, match="broken install"):
        Parser(Path(sys.executable), environment)


def test_types_and_enums_are_read_without_loading_the_library(jaxlib: Path) -> None:
    fields = {field.name: field for field in read_fields(find_library(jaxlib))}
    assert len(fields) > 250
    assert fields["xla_gpu_enable_triton_gemm"].type == "bool"
    assert fields["xla_disable_hlo_passes"].type == "strings"
    assert fields["xla_backend_extra_options"].type == "map"
    assert "ALLREDUCE" in fields["xla_gpu_disable_async_collectives"].enum.values()


def test_a_plugin_is_held_to_its_release(jaxlib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flags", "refresh", "--plugin", str(find_library(jaxlib)), "--json"]) == 0
    plugin = json.loads(capsys.readouterr().out)["plugin"]
    if not plugin["only_in_plugin"]:
        assert (plugin["only_in_jaxlib"], plugin["other"]) == ([], [])


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read"), (b"", "is empty"), (b"#!/bin/sh\n", "is not a shared library")],
    ids=["missing", "empty", "script"],
)
def test_what_is_no_library_is_told(
    content: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plugin.so"
    if content is not None:
        path.write_bytes(content)
    assert main(["flags", "refresh", "--plugin", str(path)]) == 3
    assert said in capsys.readouterr().err


def test_a_library_without_xla_and_a_cut_one_are_told(tmp_path: Path) -> None:
    program = Path(shutil.which("ls") or "/bin/ls")
    with pytest.raises(InputError, match="no descriptor of XLA's options"):
        read_fields(program)
    cut = tmp_path / "cut.so"
    cut.write_bytes(program.read_bytes()[:5000])
    with pytest.raises(InputError, match="is truncated"):
        read_fields(cut)


def test_a_table_takes_a_release_in_and_keeps_the_others(tmp_path: Path) -> None:
    """This is how a maintainer adds a release to what ships."""
    path = tmp_path / "flags.jsonl"
    for version in ("0.10.2", "0.9.2"):
        learnt = JaxlibFlags(
            version=version, shared_object=path, jax=version, facts=facts_at(version)
        )
        add_to_table(learnt, path)
    table = parse_table(path.read_text("utf-8"))
    assert table.releases == ("0.9.2", "0.10.2")
    for version in table.releases:
        assert diff(as_release(version, table.at(version)), learnt_release(version), {}).empty


def test_what_is_kept_for_the_account_says_how_to_undo_that(tmp_path: Path) -> None:
    version = "0.10.2"
    learnt = JaxlibFlags(
        version=version, shared_object=tmp_path, jax=version, facts=facts_at(version)
    )
    news = diff(learnt.release, learnt.release, {})
    kept = refresh_document(learnt, news, path_of(version), None)
    assert "Later commands of this account use this table" in kept.legend
    assert f"To undo: rm {path_of(version)}" in kept.legend
    assert refresh_document(learnt, news, tmp_path / "mine.jsonl", None).legend == ""


def learnt_release(version: str) -> Release:
    return as_release(version, facts_at(version))


def test_a_place_that_cant_be_written_to_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/dev/null")
    assert main(["flags", "refresh"]) == 2
    assert "cannot create /dev/null" in capsys.readouterr().err
    assert main(["flags", "refresh", "-o", str(tmp_path / "nothere" / "flags.jsonl")]) == 2
    assert "cannot write" in capsys.readouterr().err
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["flags", "refresh", "-o", str(tmp_path / "notes.txt")]) == 3
    assert "is not a table of flags" in capsys.readouterr().err


def test_a_file_that_is_no_table_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    learnt = JaxlibFlags(version="0.9.2", shared_object=path, jax=None, facts=facts_at("0.9.2"))
    with pytest.raises(InputError, match="is not a table of flags"):
        add_to_table(learnt, path)
    assert path.read_text() == "mine"
