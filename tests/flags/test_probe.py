"""The probe asks real interpreters; what older releases print is held to lines they printed."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.flags.flag_parser import FlagParser
from counterpoint.flags.probe import (
    misread_words,
    parsing_failed,
    probe,
    probe_flags,
    rejection_error,
    unknown_words,
)

needs_jaxlib = pytest.mark.skipif(
    importlib.util.find_spec("jaxlib") is None, reason="jaxlib is not here"
)


@pytest.mark.smoke
@needs_jaxlib
def test_all_rejected_flags_are_found_at_once() -> None:
    answer = probe_flags(
        sys.executable,
        "--xla_no_such=1 --xla_gpu_graph_level=0 --xla_gpu_autotune_level=abc"
        " --xla_gpu_enable_command_buffer=1 --xla_dump_to='a b' --xla_other='x  y'"
        " --xla_gpu_disable_async_collectives=allreduce,foo --xla_gpu_pgle_accuracy_checker=WARN"
        " --xla_gpu_enable_triton_gemm=maybe --xla_gpu_autotune_level",
    )
    told = {(flag.name, flag.value): flag for flag in answer.rejected}
    assert told.keys() == {
        ("xla_no_such", "1"),
        ("xla_gpu_graph_level", "0"),
        ("xla_gpu_autotune_level", "abc"),
        ("xla_gpu_enable_command_buffer", "1"),
        ("xla_other", "x  y"),
        ("xla_gpu_disable_async_collectives", "allreduce,foo"),
        ("xla_gpu_pgle_accuracy_checker", "WARN"),
        ("xla_gpu_enable_triton_gemm", "maybe"),
        ("xla_gpu_autotune_level", None),
    }
    assert told["xla_gpu_graph_level", "0"].reason == "unknown flag"
    assert "xla_gpu_enable_command_buffer=" in told["xla_gpu_graph_level", "0"].hint
    assert "'abc'" in told["xla_gpu_autotune_level", "abc"].reason
    assert "PGLE_STRICTNESS_LEVEL_WARN" in told["xla_gpu_pgle_accuracy_checker", "WARN"].hint
    assert "needs a value" in told["xla_gpu_autotune_level", None].hint
    assert answer.note is None
    error = rejection_error(answer, where="the inherited XLA_FLAGS")
    assert isinstance(error, UsageError)
    assert error.what.startswith("the inherited XLA_FLAGS: 9 flags that jaxlib ")


@pytest.mark.system
@needs_jaxlib
def test_good_flags_are_taken() -> None:
    answer = probe_flags(sys.executable, "--xla_gpu_enable_command_buffer='' --xla_dump_to='/a b'")
    assert answer.rejected == ()
    assert answer.version
    assert answer.note is None
    assert probe_flags(sys.executable, "").version == answer.version


@pytest.mark.system
@needs_jaxlib
def test_flags_in_a_file_are_asked_for_too(tmp_path: Path) -> None:
    (tmp_path / "flags").write_text("--xla_no_such=1\n--xla_dump_to=/a\n")
    (rejected,) = probe(sys.executable, str(tmp_path / "flags"))
    assert (rejected.name, rejected.reason) == ("xla_no_such", "unknown flag")


@needs_jaxlib
def test_nothing_of_the_user_sways_the_answer(tmp_path: Path, monkeypatch: object) -> None:
    """Neither a quiet log, nor inherited flags, nor files named like modules."""
    assert isinstance(monkeypatch, pytest.MonkeyPatch)
    (tmp_path / "jaxlib.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "XLA_FLAGS": "--xla_other=1"}
    (rejected,) = probe(sys.executable, "--xla_gpu_autotune_level=abc", quiet)
    assert rejected.value == "abc"


def script(directory: Path, text: str) -> Path:
    path = directory / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An interpreter that counts its starts in a file, and says it is jaxlib 1.2.3."""
    (tmp_path / "bin").mkdir()
    packages = tmp_path / "lib/python3.11/site-packages/jaxlib-1.2.3.dist-info"
    packages.mkdir(parents=True)
    for name in ("METADATA", "RECORD"):
        (packages / name).write_text(name)
    python = tmp_path / "bin/python"
    python.write_text(
        f"#!/bin/sh\necho x >> {tmp_path}/starts\necho 'jaxlib: 1.2.3'\n"
        'case "$XLA_FLAGS" in *bad*) echo "Unknown flags in XLA_FLAGS: --bad" >&2; exit 1;; esac\n'
        "echo taken\n"
    )
    python.chmod(0o755)
    return tmp_path


def starts(venv: Path) -> int:
    counted = venv / "starts"
    return len(counted.read_text().splitlines()) if counted.exists() else 0


def test_an_answer_is_kept_while_jaxlib_stays_as_it_is(venv: Path) -> None:
    environment = {"COUNTERPOINT_CACHE": str(venv / "cache"), "PATH": os.environ["PATH"]}
    python = venv / "bin/python"
    first = probe_flags(python, "--good=1 --bad", environment)
    assert [flag.name for flag in first.rejected] == ["bad"]
    asked = starts(venv)
    assert probe_flags(python, "--good=1 --bad", environment) == first
    assert starts(venv) == asked

    for changed in ({"JAX_ENABLE_X64": "1"}, {"PYTHONPATH": "/other"}, {"LD_PRELOAD": "/x.so"}):
        asked = starts(venv)
        assert probe_flags(python, "--good=1", environment | changed).rejected == ()
        assert starts(venv) > asked
    asked = starts(venv)
    (venv / "lib/python3.11/site-packages/jaxlib-1.2.3.dist-info/RECORD").write_text("another")
    assert probe_flags(python, "--good=1 --bad", environment) == first
    assert starts(venv) > asked


@pytest.mark.parametrize("damage", ["", "{", "{}", '{"rejected": 1}', "[" * 5000])
def test_a_damaged_answer_is_asked_for_again(venv: Path, damage: str) -> None:
    environment = {"COUNTERPOINT_CACHE": str(venv / "cache"), "PATH": os.environ["PATH"]}
    first = probe_flags(venv / "bin/python", "--bad", environment)
    (kept,) = (venv / "cache/probe").iterdir()
    kept.write_text(damage)
    assert probe_flags(venv / "bin/python", "--bad", environment) == first


def test_no_answer_is_kept_where_the_cache_is_off(venv: Path) -> None:
    environment = {"COUNTERPOINT_CACHE": "off", "PATH": os.environ["PATH"]}
    for count in (1, 2):
        assert probe_flags(venv / "bin/python", "--good", environment).rejected == ()
        assert starts(venv) == count


def test_an_interpreter_without_jaxlib_gives_a_note(tmp_path: Path) -> None:
    # -S: without site-packages
    answer = probe_flags(script(tmp_path, f'exec {sys.executable} -S -E "$@"'), "--xla_a=1")
    assert answer.rejected == ()
    assert answer.note
    assert "cannot import jaxlib" in answer.note


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("exec sleep 60", "did not answer within 0.3 s"),
        ("echo broken >&2; exit 7", "broken"),
        ("exit 7", "exited without output"),
    ],
)
def test_what_can_not_be_asked_gives_a_note(tmp_path: Path, text: str, note: str) -> None:
    answer = probe_flags(script(tmp_path, text), "--xla_a=1", timeout_s=0.3)
    assert answer.rejected == ()
    assert answer.note
    assert note in answer.note


def test_no_interpreter_gives_a_note(tmp_path: Path) -> None:
    assert "no such program" in str(probe_flags(tmp_path / "none", "--xla_a=1").note)
    assert "no such program" in str(probe_flags("no-such-python", "--xla_a=1", {"PATH": ""}).note)


def test_bad_text_is_refused_before_anybody_is_asked() -> None:
    with pytest.raises(UsageError, match="stray"):
        probe(sys.executable, "--xla_a=1 stray")


OLD = "2026-11-21 09:34:27.5: F external/xla/xla/parse_flags_from_env.cc:226] "


@pytest.mark.parametrize(
    "log",
    [
        f"{OLD}Unknown flags in XLA_FLAGS: --xla_a=1 2 --xla_b \n",  # 0.4.35, with SIGABRT
        "F1121 5642 parse_flags_from_env.cc:234] Unknown flags in XLA_FLAGS: --xla_a=1 2 --xla_b\n",
        "Unknown flags in XLA_FLAGS: --xla_a=1 2 --xla_b\nPerhaps you meant TF_XLA_FLAGS?",
    ],
)
def test_unknown_flags_of_each_release(log: str) -> None:
    words = ["--xla_known=1", "--xla_a=1 2", "--xla_a=1", "--xla_b"]
    assert unknown_words(log, words) == ("--xla_a=1 2", "--xla_b")


def test_wrong_values_of_each_release() -> None:
    log = (
        "E external/xla/xla/tsl/util/command_line_flags.cc:55] Couldn't interpret value abc for"
        " flag xla_n.\n"
        "E1121 debug_options_flags.cc:145] Illegal value for --xla_list '1'\n"
        "E1121 debug_options_flags.cc:133] Illegal value for xla_mixed 'A,+B': All values must be"
        " incremental or none of them.\n"
        "F1121 parse_flags_from_env.cc:220] Check failed: tsl::Flags::Parse(&env_argv->argc,"
        " env_argv->argv.data(), flag_list) Flag parsing failed.\n"
        "usage: --xla_n=abc Illegal value for --xla_fine '2'\n"
    )
    words = ["--xla_fine=2", "--xla_n=abc", "--xla_list=1", "--xla_mixed=A,+B"]
    assert misread_words(log, words) == ("--xla_n=abc", "--xla_list=1", "--xla_mixed=A,+B")
    assert parsing_failed(log)
    assert not parsing_failed("Unknown flag in XLA_FLAGS: --x")


@pytest.mark.system
@needs_jaxlib
def test_a_parser_tells_unknown_flags_from_those_that_it_misreads() -> None:
    python = Path(sys.executable)
    parser = FlagParser(python, dict(os.environ), 60.0)
    for words, strangers, misread in (
        (["--xla_dump_to=/a b"], (), ()),
        (["--xla_dump_to=/a b", "--xla_no_such=1"], ("--xla_no_such=1",), ()),
        (["--xla_gpu_autotune_level=abc"], (), ("--xla_gpu_autotune_level=abc",)),
    ):
        reply = parser.ask(words)
        assert reply.taken is not bool(strangers or misread)
        assert unknown_words(reply.log, words) == strangers
        assert misread_words(reply.log, words) == misread
