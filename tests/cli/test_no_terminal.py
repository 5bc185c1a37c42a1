"""Every command without a terminal: no TERM, no COLUMNS, a closed stdin, output into a file."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from command_line import in_process
from counterpoint.cli.commands import COMMANDS, Command

BARE = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
MISSING = {
    "explain": ("no-such-file",),
    "network": ("no-such-file",),
    "compare": ("no-such-a", "no-such-b"),
    "convert": ("no-such-file", "out"),
    "predict": ("no-such-file", "--target", "8xH100"),
    "log": ("no-such-file", "--json"),
    "tune show": ("no-such-study",),
    "calibrate": ("no-such-file", "--target", "8xH100", "-o", "x.toml"),
    "pgle show": ("no-such.pbtxt",),
    "pgle check": ("no-such.pbtxt", "--program", "no-such-dump"),
    "flags effective": ("no-such-run",),
    "flags check": ("no-such-script",),
    "flags render": ("no-such-script",),
    "flags thresholds": ("--program", "no-such-dump"),
    "runs": ("no-such-directory",),
    "pgle make": ("no-such-file", "-o", "x.pbtxt"),
    "pgle merge": ("no-such.pbtxt", "no-such-other.pbtxt", "-o", "x.pbtxt"),
    "pgle diff": ("no-such.pbtxt", "no-such-other.pbtxt"),
    "pgle apply": ("no-such.pbtxt", "--program", "no-such-dump", "--target", "8xH100"),
    "view": ("no-such-file",),
}
"""Inputs that are not there: exit code 3, as the page about exit codes says, with the reason."""
WRONG_VALUES = (
    ("explain x --by nosuch", "--by takes scope, source, category or op, not 'nosuch'"),
    ("explain x --as nosuch", "--as takes digest, not 'nosuch'"),
    (
        "tune show x --as nosuch",
        "--as takes env, bash, python, slurm, k8s, compiler_options or digest, not 'nosuch'",
    ),
    ("run --per x -- true", "--per takes gpu or node, not 'x'"),
    ("run --timeout x -- true", "--timeout takes a number, not 'x'"),
    ("flags effective x --rank y", "--rank takes a whole number, not 'y'"),
    ("explain x --top 1.5", "--top takes a whole number, not '1.5'"),
    ("explain x --top 0x10", "--top takes a whole number, not '0x10'"),
    ("completion x", "SHELL takes bash, zsh or fish, not 'x'"),
    ("tune show ''", "an argument is empty"),
    ("convert x ''", "an argument is empty"),
    ("flags list --changed-since x", "--changed-since x: unknown release"),
    ("flags recommend --for fsdp --jaxlib x", "--jaxlib x: not a release"),
    ("run --env xla_gpu_autotune_level=3 -- true", "is a flag of XLA, not a variable"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda it: it.name)
@pytest.mark.parametrize("term", [None, "dumb"])
def test_every_command_has_its_help(command: Command, term: str | None) -> None:
    name = command.name
    variables = BARE if term is None else {**BARE, "TERM": term}
    done = in_process(*name.split(), "--help", environment=variables)
    assert done.returncode == 0, done.stderr
    assert f"counterpoint {name}" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_an_error_and_not_a_question(name: str) -> None:
    done = in_process(*name.split(), *MISSING[name], environment={**BARE, "TERM": "dumb"})
    assert done.returncode == 3, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(("line", "error"), WRONG_VALUES)
def test_a_wrong_value_is_named_with_what_the_option_takes(line: str, error: str) -> None:
    done = in_process(*shlex.split(line), environment=BARE)
    assert done.returncode == 2
    assert error in done.stderr
    assert "Literal" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.smoke
def test_closed_streams_and_a_reader_that_goes() -> None:
    line = shlex.join([sys.executable, "-m", "counterpoint", "skill"])
    closed = subprocess.run(
        ["/bin/bash", "-c", f"{line} <&-"], env=BARE, capture_output=True, text=True, check=False
    )
    assert (closed.returncode, closed.stderr) == (0, "")
    gone = subprocess.run(
        [
            "/bin/bash",
            "-o",
            "pipefail",
            "-c",
            f"{line.replace('skill', 'flags list --all')} | true",
        ],
        env=BARE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert gone.returncode in (0, 141)
    assert "Traceback" not in gone.stderr


def test_lines_of_the_help_end_at_its_width() -> None:
    text = in_process("view", "--help", environment={**os.environ, "COLUMNS": "80"}).stdout
    assert text.startswith("Usage: counterpoint view")
    assert "profile in pieces" in text
