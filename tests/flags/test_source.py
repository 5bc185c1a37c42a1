"""Settings from files and recipes; shell lines are held to bash itself."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.errors import CounterpointError, InputError, UsageError
from counterpoint.flags.forms import render
from counterpoint.flags.lines.source import load_settings, read_shell_settings
from counterpoint.flags.settings import Settings

SCRIPT = r"""#!/bin/bash
set -eu
# what the guide says
export XLA_FLAGS="--xla_gpu_enable_latency_hiding_scheduler=true
--xla_gpu_pgle_profile_file_or_directory_path=path\to\profile.pbtxt"
export XLA_FLAGS="${XLA_FLAGS} --xla_gpu_enable_command_buffer=''"
DUMP=--xla_dump_to=/x; export A=1 B='x y'"z"   # two at once
export XLA_FLAGS="$XLA_FLAGS \
  $DUMP"
NCCL_DEBUG=INFO
export NCCL_DEBUG
export GONE=1
unset GONE
"""


def write(directory: Path, text: str, name: str = "flags") -> str:
    (directory / name).write_text(text)
    return str(directory / name)


def test_a_script_is_read_as_its_shell_would(tmp_path: Path) -> None:
    loaded = load_settings(write(tmp_path, SCRIPT))
    assert loaded.xla == (
        ("xla_gpu_enable_latency_hiding_scheduler", "true"),
        ("xla_gpu_pgle_profile_file_or_directory_path", r"path\to\profile.pbtxt"),
        ("xla_gpu_enable_command_buffer", ""),
        ("xla_dump_to", "/x"),
    )
    assert loaded.variables == {"A": "1", "B": "x yz", "NCCL_DEBUG": "INFO"}


def test_flag_lines_and_plain_assignments(tmp_path: Path) -> None:
    text = "--xla_a=1 --xla_b='x y' \\\n  --xla_c=3\n# why\n--xla_d=4\nNCCL_DEBUG=WARN\n"
    loaded = load_settings(write(tmp_path, text))
    assert loaded == Settings(
        (("xla_a", "1"), ("xla_b", "x y"), ("xla_c", "3"), ("xla_d", "4")),
        (("NCCL_DEBUG", "WARN"),),
    )


@pytest.mark.parametrize(
    "text",
    [
        "XLA_FLAGS=--xla_a=1 python train.py",
        "export XLA_FLAGS=--xla_a=1 && python train.py",
        'export XLA_FLAGS="${XLA_FLAGS:-} --xla_a=1"',
    ],
)
def test_what_a_script_does_with_its_settings_does_not_matter(tmp_path: Path, text: str) -> None:
    assert load_settings(write(tmp_path, text)) == Settings((("xla_a", "1"),))


def test_toml_takes_plain_values_and_reasons(tmp_path: Path) -> None:
    text = """
    [xla_flags]
    xla_a = true
    xla_b = 3
    xla_c = ["x", "y"]
    xla_d = { value = "", reason = "because" }
    [env]
    XLA_CLIENT_MEM_FRACTION = 0.9
    """
    assert load_settings(write(tmp_path, text, "s.toml")) == Settings(
        (("xla_a", "true"), ("xla_b", "3"), ("xla_c", "x,y"), ("xla_d", "")),
        (("XLA_CLIENT_MEM_FRACTION", "0.9"),),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("export A=$HOME/x", r":1: `\$HOME` needs a shell"),
        ("\nexport A=${B:-1}", r":2: `\$\{B:-1\}` needs a shell"),
        ("A=$(nproc)", r"`\$\(nproc\)` needs a shell"),
        ('A="`nproc`"', r"``nproc`` needs a shell"),
        ('A=x$1"$#"', r":1: `\$1` needs a shell"),
        ("A=$((B+1))", r"`\$\(\(B\+1\)\)` needs a shell"),
        ("export A=${B:+1}", r"`\$\{B:\+1\}` needs a shell"),
        ("python train.py", "no settings found"),
        ("source more.sh\nA=1", r"not read: line 1: source more\.sh"),
        ("f() { export XLA_FLAGS=--xla_a=$1; }\nf 1", r":1: `\$1` needs a shell"),
        ("cat <<E\nXLA_FLAGS=--xla_a=1\nE\n", "not read: line 1: "),
        ('export XLA_FLAGS="--xla_a=$((3-2))"', r":1: `\$\(\(3-2\)\)` needs a shell"),
        ("if x; then export NCCL_A=1; fi", "NCCL_A is set within `if`"),
        ("export XLA_FLAGS=--xla_a=1 --xla_b=2", "--xla_b=2: not quoted"),
        ("export A='x", r":1: unclosed quote"),
        ('A=1\n\nB="x', r":3: unclosed quote"),
        ("A=1\n--xla_a=1 stray", r":2: stray is not a flag"),
        ("export XLA_FLAGS='--xla_a=1 stray'", r":1: stray is not a flag"),
        ("# nothing\n", "no settings found"),
        ("", "no settings found"),
    ],
)
def test_what_needs_a_shell_or_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CounterpointError, match=message) as raised:
        load_settings(write(tmp_path, text))
    assert raised.value.next


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[xla_flags", "not a TOML file"),
        ("[flags]\na = 1", "unknown key `flags`"),
        ("xla_flags = 3", "xla_flags is not a table"),
        ("[xla_flags]\n'--xla_a' = 1", "not a name"),
        ("[xla_flags]\nxla_a = { reason = 'x' }", "a table with reason"),
        ("[xla_flags]\nxla_a = 2020-01-01", "invalid value"),
        ("[env]\nXLA_FLAGS = '--xla_a=1'", r"write flags under \[xla_flags\]"),
        ("about = 3", "about is not a string"),
    ],
)
def test_toml_that_says_something_else_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_settings(write(tmp_path, text, "s.toml"))


def test_an_unknown_name_lists_the_recipes() -> None:
    with pytest.raises(UsageError, match=r"^pgle-recomended: ") as raised:
        load_settings("pgle-recomended")
    assert "pgle-recommended" in str(raised.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0")
    with pytest.raises(InputError, match="binary: "):
        load_settings(str(tmp_path / "binary"))
    with pytest.raises(InputError, match="can't be read"):
        load_settings(tmp_path)


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=12)


@given(values=st.lists(words, min_size=1, max_size=4))
def test_bash_reads_quotes_as_we_do(values: list[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not here")
    lines = [f"V{i}={_double(value)}{shlex.quote(value)}" for i, value in enumerate(values)]
    script = "\n".join([*lines, 'V0+="[$V0]"', "W=$V0\\x"])
    shown = "".join(f"printf '%s\\0' \"$V{i}\";" for i in range(len(values)))
    done = subprocess.run(
        [bash, "-c", f"{script}\n{shown}printf '%s\\0' \"$W\""],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    told = done.stdout.decode().split("\0")[:-1]
    read = read_shell_settings(script, "script").variables
    assert [*(read[f"V{i}"] for i in range(len(values))), read["W"]] == told


def _double(value: str) -> str:
    """In double quotes, with what is special there escaped."""
    special = '\\"$`'
    return '"' + "".join(f"\\{c}" if c in special else c for c in value) + '"'


RENDERED = Settings(
    (("xla_gpu_a", "true"), ("xla_gpu_b", "1")),
    (("NCCL_X", "a b $HOME"), ("JAX_ENABLE_PGLE", "true"), ("P", "/x y/$(n)")),
)


@pytest.mark.parametrize(
    ("form", "name"),
    [("env", "x.env"), ("bash", "x.sh"), ("python", "x.py"), ("slurm", "x.sbatch"),
     ("k8s", "x.yaml")],
)  # fmt: skip
def test_every_form_that_is_written_is_applied_again(tmp_path: Path, form: str, name: str) -> None:
    assert load_settings(write(tmp_path, render(RENDERED, form), name)) == RENDERED


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.py", "import os\nif f():\n    os.environ['NCCL_A'] = '1'\n", "within an `if`"),
        ("x.py", "import os\nos.environ['NCCL_A'] = f()\n", "when the program"),
        ("x.env", "NCCL_A=1 # why\n", "docker"),
    ],
)
def test_what_is_not_certain_is_not_applied(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        load_settings(write(tmp_path, text, name))


def test_an_env_file_with_quotes_is_for_a_shell(tmp_path: Path) -> None:
    text = 'XLA_FLAGS="--xla_a=1 --xla_b=2"\nNCCL_X=1\n'
    loaded = load_settings(write(tmp_path, text, "x.env"))
    assert loaded == Settings((("xla_a", "1"), ("xla_b", "2")), (("NCCL_X", "1"),))
