"""Completion in a real bash, commands in groups, and colours only where they are wanted."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.cli.app import main
from counterpoint.cli.commands import COMMANDS, SECTIONS

BASH = shutil.which("bash")
COLOUR = re.compile(r"\x1b\[[0-9;]*\b(?:3[0-7]|9[0-7]|38|48)\b")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `counterpoint completion bash` prints."""
    path = tmp_path_factory.mktemp("bash") / "completion.bash"
    done = subprocess.run(
        [sys.executable, "-m", "counterpoint", "completion", "bash"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    path.write_text(done.stdout)
    return path


def completed(script: Path, line: str) -> list[str]:
    """What bash offers for the last word of a line."""
    asked = (
        'source "$0"; COMP_WORDS=($1); [[ $1 == *" " ]] && COMP_WORDS+=("")\n'
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _counterpoint; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [BASH or "bash", "--norc", "-c", asked, str(script), line],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.smoke
@pytest.mark.skipif(BASH is None, reason="no bash here")
def test_bash_completes_commands_options_and_choices(script: Path) -> None:
    for line, offered in (
        ("counterpoint exp", ["explain", "explain-code"]),
        ("counterpoint flags r", ["render", "recommend"]),
        ("counterpoint explain --de", ["--device"]),
        ("counterpoint tune sh", ["show"]),
        ("counterpoint tune --bud", ["--budget"]),
        ("counterpoint flags render --as sl", ["slurm"]),
        ("counterpoint completion f", ["fish"]),
    ):
        assert completed(script, line) == offered
    names = {it.name.partition(" ")[0] for it in COMMANDS}
    assert {*completed(script, "counterpoint ")} == names
    assert "-o bashdefault -o default" in script.read_text()  # files, too


@pytest.mark.system
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_of_their_own(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "explain" in script
    assert "--device" in script or "-l device" in script


def test_an_unknown_shell_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["completion", "csh"]) == 2
    assert "bash" in capsys.readouterr().err


def test_help_groups_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    names = [name for listed in SECTIONS.values() for name in listed]
    assert sorted(names) == sorted({it.name.partition(" ")[0] for it in COMMANDS})
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    places = [shown.index(f" {title} ─") for title in SECTIONS]
    assert places == sorted(places)


@pytest.mark.parametrize("words", [("--help",), ("explain", "--help"), ("flags", "list")])
def test_no_colour_is_shown_to_whom_does_not_want_it(words: tuple[str, ...]) -> None:
    def shown(**variables: str) -> str:
        environment = {"PATH": "/usr/bin:/bin", "TERM": "xterm-256color", **variables}
        return in_process(*words, environment=environment).stdout

    plain = shown()
    assert "\x1b" not in plain  # it is a pipe
    forced = shown(FORCE_COLOR="1")
    assert "\x1b[" in forced
    assert not COLOUR.search(shown(FORCE_COLOR="1", NO_COLOR="1"))
    # Colours in a pipe don't make it a narrow screen: every column stays.
    assert re.sub(r"\x1b\[[0-9;]*m", "", forced) == plain
