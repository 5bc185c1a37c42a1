"""What a log proves of a PGLE profile: `pgle check --log`, `run` and `flags effective`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Counterpoint
from counterpoint.cli.app import main
from transcripts import next_command

LOGS = Path(__file__).parent.parent / "pgle" / "data"  # the compiler's own
FLAG = "xla_gpu_pgle_profile_file_or_directory_path"
ECHO = "import sys; sys.stderr.write(open(sys.argv[1]).read())"
QUOTED = """\
PGLE found async wrapped instruction: custom-call.4.1 in custom-call-start.1
PGLE found latency for async op custom-call-start.1 and (assumed)custom-call-done.1 in instruction costs
"""  # noqa: E501 - as the page quotes it
OLD = """\
2023-07-21 16:09:43.551600: I external/xla/xla/service/gpu/gpu_hlo_schedule.cc:478] Using PGLE profile from /tmp/profile.pb
2023-07-21 16:09:43.551741: I external/xla/xla/service/gpu/gpu_hlo_schedule.cc:573] Found profile, using profile guided latency estimator
"""  # noqa: E501


@pytest.mark.parametrize(
    ("name", "code", "verdict", "because"),
    [
        ("full.loud", 0, "used", "XLA found costs of"),
        ("half.usual", 0, "used", "XLA found 8 costs, and missed 7"),
        ("absent.usual", 1, "NOT used", "PGLE profile file does not exist"),
        ("foreign.usual", 1, "NOT used", "found none of its costs"),
        ("error.loud", 1, "NOT used: the compile failed", "7 missing instructions"),
        ("full.usual", 1, "in doubt", "not verbose enough"),
    ],
)
def test_a_log_that_is_there_already_is_read(
    name: str, code: int, verdict: str, because: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LOGS / f"{name}.log"
    assert main(["pgle", "check", "--log", str(log)]) == code
    told = capsys.readouterr().out
    assert told.splitlines()[0] == f"The profile is   {verdict}"
    assert because in " ".join(told.split())
    assert main(["pgle", "check", "--log", str(log), "--json"]) == code
    assert json.loads(capsys.readouterr().out)["schema"] == "counterpoint.pgle-log/1"


@pytest.mark.parametrize(
    ("text", "use"),
    [
        (QUOTED, "used"),
        (f"  {QUOTED}", "used"),
        (QUOTED.replace("PGLE found", "PGLE missed"), "unknown"),
        ("PGLE missed cost for: all-gather-start\n", "not used"),
        ("PGLE found latency between a and b in latency info\n", "used"),
        (OLD, "unknown"),  # opened, which does not show that a cost was found
        (OLD + QUOTED, "used"),
        ("Found 0 instructions from the profile.\n", "not used"),
    ],
)
def test_lines_are_read_as_pages_quote_them(
    text: str, use: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.log").write_text(f"step 1\n{text}step 2\n")
    main(["pgle", "check", "--log", str(tmp_path / "train.log"), "--json"])
    assert json.loads(capsys.readouterr().out)["use"] == use


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("import jax\nprint(1)\n", "no line of it is XLA's: it is not the log of a compile, or"),
        ("I0101 12:00:00.0 1 gpu_compiler.cc:60] compiles\n", "XLA mentions no profile"),
        ("W0101 12:00:00.0 1 gpu_compiler.cc:60] slow\n", "the log is not verbose enough"),
    ],
)
def test_a_text_without_lines_of_xla_may_be_no_log(
    text: str, because: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.py").write_text(text)
    assert main(["pgle", "check", "--log", str(tmp_path / "one.py")]) == 1
    assert because in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("profile", "log", "told"),
    [
        ("/nope.pbtxt", "absent.usual", "NOT used: PGLE profile file does not exist"),
        ("/nope", "none.usual", "NOT used: /nope is no directory, and its name ends in neither"),
        ("/nope.pbtxt", "none.usual", "in doubt: /nope.pbtxt does not exist here"),
        ("half.pbtxt", "half.usual", "used: "),
    ],
)
def test_a_run_says_whether_its_profile_was_used(
    profile: str, log: str, told: str, counterpoint: Counterpoint, tmp_path: Path
) -> None:
    words = ("run", "-o", "r", "--set", f"{FLAG}={profile}", "--", sys.executable, "-c", ECHO)
    done = counterpoint(*words, LOGS / f"{log}.log")
    (line,) = [line for line in done.stderr.splitlines() if "PGLE     " in line]
    assert told in line
    assert done.returncode == 0
    listed = counterpoint("runs", "--json", ".")
    assert listed.returncode == 0, listed.stderr
    (found,) = json.loads(listed.stdout)["runs"]
    use, _, reason = told.partition(": ")
    known = {"used": "used", "NOT used": "not used", "in doubt": "unknown"}
    assert found["pgle"]["profile"] == profile
    assert found["pgle"]["use"] == known[use]
    assert found["pgle"]["reason"].startswith(reason)
    checked = counterpoint("pgle", "check", "--log", "r")
    assert checked.returncode == (0 if told.startswith("used") else 1)
    assert checked.stdout == counterpoint("pgle", "check", "--log", tmp_path / "r").stdout.replace(
        str(tmp_path / "r"), "r"
    )


def test_a_run_without_a_profile_says_nothing_of_it(counterpoint: Counterpoint) -> None:
    done = counterpoint("run", "--", sys.executable, "-c", ECHO, LOGS / "absent.usual.log")
    assert "PGLE     " not in done.stderr


@pytest.mark.system
def test_a_profile_that_no_gpu_read_is_not_applied(
    counterpoint: Counterpoint, tmp_path: Path
) -> None:
    (tmp_path / "x.py").write_text("import jax\njax.jit(lambda x: x @ x)(jax.numpy.ones((8, 8)))\n")
    words = ("run", "-o", "r", "--set", f"{FLAG}=/nope.pbtxt", "--", sys.executable, "x.py")
    assert "NOT used: it ran on cpu" in counterpoint(*words, JAX_PLATFORMS="cpu").stderr
    done = counterpoint("flags", "effective", "r", "--json")
    assert done.returncode == 1
    (flag,) = [it for it in json.loads(done.stdout)["flags"] if it["name"] == FLAG]
    assert flag["outcome"] == "ignored"


@pytest.mark.parametrize("log", ["-", "/dev/stdin"])
def test_a_log_is_read_from_a_pipe(log: str) -> None:
    """As `kubectl logs train | counterpoint pgle check --log -`."""
    words = [sys.executable, "-m", "counterpoint", "pgle", "check", "--log", log]
    text = (LOGS / "full.loud.log").read_bytes()
    done = subprocess.run(words, input=text, capture_output=True, check=False)
    assert done.stdout.decode().startswith("The profile is   used\n")
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("p.pbtxt",), "no --program was given"),
        ((), "no PROFILE was given"),
        (("p.pbtxt", "--log", "x"), "--log is checked alone"),
        (("--log", "missing.log"), "missing.log: no such file"),
        (("--log", "."), ".: not a log"),
        (("--log", "/dev/zero"), "/dev/zero: not a log"),
        (("--log", "--json"), "--log needs a value"),
    ],
)
def test_what_is_missing_is_told(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pgle", "check", *words]) in (2, 3)
    said = capsys.readouterr().err
    assert told in said
    assert next_command(said)
