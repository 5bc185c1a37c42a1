"""Hostile texts: what they cost to read grows with their length, or ends in one line."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import FrameType

import pytest

from counterpoint.cli.app import main
from counterpoint.core.errors import CounterpointError, InputError
from counterpoint.flags.check.examination import check
from counterpoint.flags.parse import python_values
from counterpoint.flags.parse.form import FORMS
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.parse.traced import Piece, TracedText

UNITS = {
    "a blank line": "\n",
    "a space": " ",
    "a line with an open quote": 'x="a\n',
    "a line with another open quote": "export A='x\n",
    "an open quote in flags": '--xla_a="b ',
    "an open bracket": "[",
    "an open brace": "{",
    "an open command": "$(",
    "a command in quotes": '"$(',
    "a default in a default": "${a:-",
    "a backquote": "`",
    "assignments before a command": "A=b ",
    "a name without an end": "A_",
    "a comment": "# --xla_a\n",
    "an open template": "{{ ",
    "a closed template": "}} ",
    "a heredoc": "bash <<E\n",
    "two heredocs on one line": "cat <<A <<B ",
    "a heredoc to a file": "cat <<E > f.sh\n",
    "a function that calls itself": "f() { f; f; }\nf\n",
    "a launcher": "srun --export=ALL,A=b ",
    "a script in a script": "bash -c '",
    "an open case": "case x in a) ",
    "an open loop": "for i in a; do ",
    "an instruction": "ENV A=$A$A\n",
    "an option of FROM": "FROM --a ",
    "a code block": "```sh\nNCCL_A=1\n",
    "a row of a table": "| xla_a | true ",
    "a list of YAML": "- ",
    "an anchor": "&a ",
    "a key with an open quote": 'a: "\n',
    "not": "not ",
    "a cell's variable": "%env A=b\n",
    "a flag": "--xla_a=1 ",
    "a value with flags": "XLA_FLAGS=--xla_a=1\n",
}


@pytest.mark.parametrize("form", [*FORMS, None])
def test_no_text_makes_a_reader_hang_or_crash(form: str | None) -> None:
    for unit in UNITS.values():
        for times in (3_000 // len(unit), 50):
            with contextlib.suppress(CounterpointError):
                read_text(unit * times, "x", form=form)


def calls(text: str, form: str) -> int:
    """How many functions are called to read it."""
    counted = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        read_text(text, "x", form=form)
    except CounterpointError:
        pass
    finally:
        sys.setprofile(None)
    return counted


# These two expand to what `test_what_is_put_together_has_a_limit` is about.
GROWING = [it for it in UNITS.values() if not it.startswith(("srun", "ENV"))]


@pytest.mark.parametrize("form", ["shell", "python", "yaml", "docker", "text"])
@pytest.mark.parametrize("unit", GROWING)
def test_the_work_grows_no_faster_than_the_text(unit: str, form: str) -> None:
    calls(unit * 3, form)  # modules are loaded
    once, twice, fourfold = (calls(unit * n, form) for n in (40, 80, 160))
    assert twice <= 2.5 * once + 2_000
    assert fourfold <= 2.5 * twice + 2_000


def test_a_mark_that_only_a_dashed_heredoc_would_end_at_is_looked_for_once() -> None:
    calls("cat <<A\n", "shell")  # modules are loaded
    once, fourfold = (calls("cat <<A\n" * n + "\tA\n", "shell") for n in (200, 800))
    assert fourfold <= 5 * once + 2_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.sh", "x=aaaaaaaa\n" + 'x="$x$x"\n' * 60),
        ("x.sh", "x=aaaaaaaa\n" + 'x+="$x"\n' * 60),
        ("x.sh", 'XLA_FLAGS="$XLA_FLAGS --xla_a=1"\n' * 20_000),
        ("x.sh", "srun --export=ALL,A=b " * 2_000),
        ("Dockerfile", "FROM x\nENV X=aaaaaaaa\n" + "ENV X=$X$X\n" * 60),
        ("x.py", "import os\nx = 'NCCL_AAA'\n" + "x = x + x\n" * 60),
        ("x.py", "import os\nx = '--xla_a=1'\n" + "x = f'{x} {x}'\n" * 60),
        ("x.py", "import os\nx = ['--xla_a=1']\n" + "x += x\n" * 60),
        ("x.py", "import os\n" + "os.environ['A'] += os.environ['A'] + 'aaaa'\n" * 60),
        ("x.yaml", "env:\n- {name: A, value: aaaaaaaa}\n" + "- {name: A, value: $(A)$(A)}\n" * 60),
    ],
)  # fmt: skip
def test_what_is_put_together_has_a_limit_that_is_said_in_one_line(name: str, text: str) -> None:
    with pytest.raises(InputError, match="too much text") as raised:
        read_text(text, name)
    assert raised.value.what.startswith(f"{name}")
    assert "\n" not in raised.value.what
    assert len(raised.value.what) < 200


def test_aliases_of_yaml_are_followed_once() -> None:
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)]
    text = "a0: &a0 {env: {NCCL_DEBUG: INFO}}\n" + "".join(rows)
    assert read_text(text, "x.yaml").settings.variables == {"NCCL_DEBUG": "INFO"}
    again = "a: &a [*a, {env: {NCCL_DEBUG: WARN}}]\n"
    assert read_text(again, "x.yaml").settings.variables == {"NCCL_DEBUG": "WARN"}
    shared = "a: {env: &e {NCCL_DEBUG: INFO}}\nb: {env: *e, other: {environment: *e}}\n"
    assert read_text(shared, "x.yaml").settings.variables == {"NCCL_DEBUG": "INFO"}


DEEP = [
    ("yaml", "a: " + "[" * 40_000),
    ("yaml", "a: " + "{a: " * 40_000),
    ("yaml", "- " * 40_000),
    ("shell", 'A="$(' * 5_000),
    ("shell", "A=${a:-" * 5_000 + "}" * 5_000),
    ("shell", "".join(f"bash <<E{n}\n" for n in range(2_000))
     + "".join(f"E{n}\n" for n in reversed(range(2_000)))),
    ("toml", "[xla_flags]\na = " + "[" * 40_000),
    ("python", "x = " + "-" * 100_000 + "1"),
    ("python", "x = " + "(" * 100_000),
    ("python", "import os\nx = " + "1+" * 50_000 + "1"),
]  # fmt: skip
COMMANDS = """
import io, json, sys
from counterpoint.cli.app import main
for form, text in json.load(sys.stdin):
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    print(main(["flags", "render", "-", "--form", form]), flush=True)
"""


@pytest.mark.system
def test_what_is_nested_too_deep_is_one_clear_error() -> None:
    """In a process of its own, which a stack that is too deep could end."""
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=json.dumps(DEEP), text=True, capture_output=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.stdout.split() == ["3"] * len(DEEP), done.stderr[-500:]
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_a_text_that_is_too_long_for_settings_is_refused() -> None:
    with pytest.raises(InputError, match="more than 1 MiB"):
        read_text("# x\n" * 300_000, "x.sh")


def test_python_that_would_fill_memory_is_refused() -> None:
    with pytest.raises(InputError, match="more than 512 KiB of Python"):
        read_text("x = 1\n" * 100_000, "x.py")


def test_more_settings_than_a_program_has_are_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="at most 5000 are checked") as raised:
        read_text("--xla_gpu_autotune_level=4\n" * 6_000, "x.flags", form="flags")
    assert "\n" not in raised.value.what


def test_a_toml_key_with_very_many_dots_is_refused_before_it_is_read() -> None:
    for key in ("a", '"a b"'):
        with pytest.raises(InputError, match=r"x\.toml: .* more than 64 dots \(at line 2\)"):
            read_text("# x\n[" + ".".join([key] * 100_000) + "]\n", "x.toml")
    told = 'about = "' + "a. b. c.d, 1.2 ..." * 200 + '"\n[env]\nNCCL_ALGO = "Ring"\n'
    assert read_text(told, "x.toml").settings.variables == {"NCCL_ALGO": "Ring"}


def test_only_the_first_unknown_flags_get_the_names_that_they_may_stand_for() -> None:
    names = [f"xla_gpu_autotune_levell{number}" for number in range(60)]
    text = " ".join(f"--{name}=1" for name in (*names, names[0]))
    written = read_text(text, "x.flags", form="flags")
    found = [it for it in check(written, version="0.10.2") if it.code == "FLAG101"]
    advised = [it.name for it in found if "did you mean" in it.advice]
    assert advised == [*names[:50], names[0]]
    assert len(found) == len(names) + 1


def test_a_line_of_nothing_but_env_has_a_limit() -> None:
    with pytest.raises(InputError, match="too much text"):
        read_text("env " * 20_000, "x.sh")


def test_holes_of_a_long_value_are_looked_up_where_they_stand() -> None:
    walks = 0

    class Pieces(tuple[Piece, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[Piece]:
            nonlocal walks
            walks += 1
            return super().__iter__()

    value = TracedText(Pieces(Piece("x", 1, known=n % 2 == 0) for n in range(100)))
    walks = 0
    assert [value.shown_between(at, at + 1) for at in range(100)] == ["x"] * 100
    assert walks == 0


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("x.sh", ". more.sh\n" * 2_000, 3),
        ("x.sh", "export NCCL_ALGO=Ring\n" + ". more.sh\n" * 2_000, 0),
        ("x.py", "import os\nos.environ['NCCL_ALGO'] = 'Ring'\n" + "exec(x)\n" * 2_000, 0),
    ],
)
def test_of_very_many_parts_that_are_not_read_some_are_printed(
    name: str, text: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert main(["flags", "check", str(path), "--no-probe"]) == code
    told = capsys.readouterr()
    assert "more" in told.err
    assert len(told.out + told.err) < 10_000


@pytest.mark.system
def test_very_many_compiler_options_have_a_limit() -> None:
    with pytest.raises(InputError, match="too much text"):
        read_text("import jax\n" + 'jax.jit(f, compiler_options={"xla_a": 1})\n' * 3_000, "x.py")


def test_a_line_of_very_many_expressions_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = list[str]()

    def encode(line: str) -> bytes:
        encoded.append(line)
        return line.encode()

    monkeypatch.setattr(python_values, "_encoded", lru_cache(16)(encode))
    line = "x = [" + "a*b," * 500 + "os.environ['XLA_FLAGS']]"
    read_text(f"import os\n{line}\nos.environ['XLA_FLAGS'] = '--xla_a=1'\n", "x.py")
    assert encoded.count(line) == 1
