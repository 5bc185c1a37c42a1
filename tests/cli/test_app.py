"""The command line as a user meets it: what is printed, where, and the exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoint import __version__
from counterpoint.cli.app import COMMANDS, Command, main

HERE = Path(__file__).parent
TRY_OUTS = tuple(
    Command(name, f"commands:{function}", f"Summary of {name}.")
    for name, function in [
        ("greet", "greet"),
        ("count", "count"),
        ("refuse", "refuse"),
        ("interrupt", "interrupt"),
        ("break-down", "break_down"),
        ("be-sent", "be_sent"),
    ]
)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line over the try-out commands: exit code, stdout, stderr."""
    monkeypatch.syspath_prepend(HERE)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments, TRY_OUTS)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"{__version__}\n", "")


def test_help_lists_every_command_with_its_summary(run: Run) -> None:
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    for command in TRY_OUTS:
        assert command.name in out
        assert command.summary in out


def test_no_command_is_help(run: Run) -> None:
    assert run() == run("--help")


def test_a_command_runs(run: Run) -> None:
    assert run("greet", "you", "--times", "2") == (0, "hello you hello you\n", "")


def test_a_command_may_choose_its_exit_code(run: Run) -> None:
    assert run("count") == (1, "", "")


def test_an_error_says_what_why_and_next(run: Run) -> None:
    code, out, err = run("refuse", "trace.xplane.pb")
    assert (code, out) == (3, "")
    assert err.splitlines() == [
        "error: trace.xplane.pb is empty",
        "  why: the capture was interrupted",
        "  next: record the profile again",
    ]


@pytest.mark.parametrize(
    ("arguments", "named", "suggested", "next"),
    [
        (["gret", "you"], '"gret"', 'Did you mean "greet"?', "counterpoint --help"),
        (["greet", "you", "--tims", "2"], "--tims", "--times", "counterpoint greet --help"),
        (["greet", "you", "--times", "x"], "'x'", "whole number", "counterpoint greet --help"),
        (["greet"], "counterpoint greet", "needs NAME", "counterpoint greet --help"),
        (["greet", "you", "--times"], "--times", "needs a value", "counterpoint greet --help"),
        (["greet", "you", "them"], "them", "unexpected argument", "counterpoint greet --help"),
        (["--versoin"], "--versoin", "greet", "counterpoint --help"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(
    run: Run, arguments: list[str], named: str, suggested: str, next: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert named in err
    assert suggested in err
    assert err.endswith(f"  next: {next}\n")


def test_ctrl_c_is_one_line(run: Run) -> None:
    assert run("interrupt") == (130, "", "interrupted\n")


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGQUIT", 131)])
def test_a_batch_system_that_ends_it_is_obeyed_as_ctrl_c_is(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = signal.signal(signal.Signals[name], signal.SIG_DFL)  # else ignored under nohup
    try:
        assert run("be-sent", name) == (code, "", f"ended by {name}\n")
        assert signal.getsignal(signal.Signals[name]) is signal.SIG_DFL
    finally:
        signal.signal(signal.Signals[name], before)
    assert not list(tmp_path.iterdir()), "it was sent the signal again while it tidied up"


def test_a_signal_that_is_ignored_stays_so(run: Run) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        assert run("be-sent", "SIGHUP") == (0, "", "")
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_a_predict_that_is_ended_leaves_no_directory_and_no_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    slow, ready, scratch = tmp_path / "slow.py", tmp_path / "ready", tmp_path / "scratch"
    os.mkfifo(ready)
    scratch.mkdir()
    slow.write_text(
        "import os, time\n"
        "def make_step(devices):\n"
        f"    open({str(ready)!r}, 'w').write(str(os.getpid()))\n"
        "    time.sleep(600)\n"
    )
    words = ["predict", f"{slow}:make_step", "--target", "8xH100"]
    running = subprocess.Popen(
        [sys.executable, "-m", "counterpoint", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    with running:
        child = int(ready.read_text())
        assert list(scratch.iterdir())
        running.send_signal(number)
        assert running.stderr is not None
        assert running.stderr.read().splitlines()[-1] == f"ended by {number.name}"
    assert running.returncode == 128 + number
    assert not list(scratch.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_programmers_error_keeps_its_traceback(run: Run) -> None:
    with pytest.raises(ZeroDivisionError):
        run("break-down")


def test_another_pipe_that_breaks_is_no_reader_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)
    with pytest.raises(BrokenPipeError):
        main(["break-pipe"], [Command("break-pipe", "commands:break_pipe", "")])


@pytest.mark.system
def test_a_reader_that_leaves_is_no_error() -> None:
    program = (
        "import sys; from counterpoint.cli.app import Command, main;"
        "sys.exit(main(['flood'], [Command('flood', 'commands:flood', '')]))"
    )
    flood = subprocess.Popen(
        [sys.executable, "-c", program], cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with flood:
        assert flood.stdout is not None
        assert flood.stderr is not None
        flood.stdout.readline()
        flood.stdout.close()
        assert flood.stderr.read() == b""
    assert flood.returncode == 141


@pytest.mark.smoke
def test_python_m_counterpoint_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "counterpoint", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{__version__}\n"


@pytest.mark.system
@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&- <&-", 0)])
def test_a_stream_that_is_closed_is_no_crash(closed: str, code: int, tmp_path: Path) -> None:
    line = f'"{sys.executable}" -m counterpoint runs . {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", line], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_explains_itself(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"counterpoint {command.name}" in shown
    assert "[default: ()]" not in shown


@pytest.mark.parametrize(
    ("words", "next"),
    [
        ("view r1 --html X", "counterpoint explain r1 --html X"),
        ("explain r1 --idle 2h", "counterpoint view r1 --idle 2h"),
        ("runs r1 --html X", "counterpoint runs --help"),
        ("view r1 --nowhere X", "counterpoint view --help"),
    ],
)
def test_an_option_of_a_related_command_is_named_with_that_command(
    capsys: pytest.CaptureFixture[str], words: str, next: str
) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err.endswith(f"  next: {next}\n")
