"""Names and values from anybody's files: what is written sets exactly these, and runs nothing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from counterpoint.cli.app import main
from counterpoint.core.errors import UsageError
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.forms import SettingsForm, render
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.settings import Settings
from counterpoint.flags.text import parse_xla_flags
from counterpoint.workflow.feedback.task import ScriptPhase, script

Captured = pytest.CaptureFixture[str]
BASH = shutil.which("bash")
needs_bash = pytest.mark.skipif(BASH is None, reason="bash is not here")

CANARY = "canary"
HOSTILE = (
    *(f"; touch {CANARY};", f"$(touch {CANARY})", f"`touch {CANARY}`", f"\ntouch {CANARY}\n"),
    *(f'"; touch {CANARY}; "', f"'; touch {CANARY}; '", f'\\"; touch {CANARY} #'),
    *("!!", "!t", "a!b"),
    *(f"\rtouch {CANARY}\r", f"\N{LINE SEPARATOR}touch {CANARY}", "\x1b]0;x\7", "\t", "é", "\x85"),
    *(f'"""\nopen("{CANARY}", "w")\n"""', f"'+open('{CANARY}','w')+'"),
    *("# x", "\n- name: B", "$(B)"),
)  # fmt: skip
values = st.lists(
    st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    max_size=3,
).map("".join)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
own = st.sampled_from(["NCCL_", "JAX_", "no", "NULL", "y", "Off"])
"""Begins as no variable does that a shell itself uses."""
variables = st.builds(lambda start, name: f"{start}{name}", own, names) | own
some = st.builds(
    Settings,
    st.lists(st.tuples(names.map(lambda it: f"xla_{it}"), values), max_size=3).map(tuple),
    st.dictionaries(variables, values, max_size=3).map(lambda it: tuple(it.items())),
    st.dictionaries(names, values, max_size=2).map(lambda it: tuple(it.items())),
)
several = examples(suppress_health_check=[HealthCheck.function_scoped_fixture])


def expected(settings: Settings) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    return settings.variables, settings.xla


def told(real: dict[str, str]) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    return real, parse_xla_flags(real.pop("XLA_FLAGS", ""))


def in_bash(text: str, directory: Path, *options: str) -> dict[str, str]:
    """What a bash has in its environment that was told these lines."""
    done = subprocess.run(
        [str(BASH), "--norc", "--noprofile", *options],
        input=f"{text}\nenv -0 > environment\n".encode(),
        capture_output=True,
        check=False,
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        timeout=60,
    )
    real = (directory / "environment").read_bytes().decode()
    (directory / "environment").unlink()
    assert not (directory / CANARY).exists(), done.stderr
    found = dict(entry.split("=", 1) for entry in real.split("\0") if "=" in entry)
    shells = ("PATH", "LC_ALL", "PWD", "SHLVL", "_", "OLDPWD")
    return {name: value for name, value in found.items() if name not in shells}


@needs_bash
@pytest.mark.parametrize("options", [(), ("-i",)], ids=["script", "typed"])
@pytest.mark.parametrize("form", [SettingsForm.BASH, SettingsForm.SLURM])
@several
@given(settings=some)
def test_bash_sets_exactly_these_and_runs_nothing(
    form: SettingsForm, options: tuple[str, ...], settings: Settings, tmp_path: Path
) -> None:
    text = render(settings, form).replace('srun "$@"', "")
    assert told(in_bash(text, tmp_path, *options)) == expected(settings)


@needs_bash
def test_an_interactive_bash_replaces_what_stands_behind_an_exclamation_mark(
    tmp_path: Path,
) -> None:
    in_bash(f'touch {CANARY}x\nexport A="; !t"\n', tmp_path, "-i")
    assert "A" not in in_bash('export A="a!zzz"\n', tmp_path, "-i")


@needs_bash
@several
@given(settings=some)
def test_the_printed_commands_of_a_workflow_set_these_and_run_nothing_else(
    settings: Settings, tmp_path: Path
) -> None:
    phase = ScriptPhase(purpose="x", command=("env", "-0"), settings=settings)
    text = script("x", [phase])
    done = subprocess.run(
        [str(BASH), "-c", text],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert not (tmp_path / CANARY).exists()
    found = dict(it.split("=", 1) for it in done.stdout.decode().split("\0") if "=" in it)
    assert {name: found[name] for name in settings.variables} == settings.variables
    assert parse_xla_flags(found.get("XLA_FLAGS", "")) == settings.xla


@pytest.mark.system
@several
@given(settings=some)
def test_python_sets_exactly_these_and_runs_nothing(settings: Settings, tmp_path: Path) -> None:
    code = (
        render(settings, SettingsForm.PYTHON) + "import json; print(json.dumps(dict(os.environ)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "utf8", "-"],
        input=code.encode(), capture_output=True, check=True, cwd=tmp_path, env={},
    )  # fmt: skip
    assert not (tmp_path / CANARY).exists()
    real = json.loads(done.stdout)
    assert told({name: it for name, it in real.items() if name != "LC_CTYPE"}) == expected(settings)


@several
@given(settings=some)
def test_yaml_holds_exactly_these(settings: Settings) -> None:
    document = yaml.safe_load(render(settings, SettingsForm.K8S))
    assert list(document) == ["env"]
    assert all(set(one) == {"name", "value"} for one in document["env"])
    put_in = {one["name"]: as_kubernetes_does(one["value"]) for one in document["env"]}
    assert told(put_in) == expected(settings)


def as_kubernetes_does(value: str) -> str:
    return re.sub(r"\$(\$|\([^)]*\))", lambda it: "$" if it[1] == "$" else "PUT IN", value)


@several
@given(settings=some)
def test_an_env_file_holds_exactly_these_or_is_refused(settings: Settings) -> None:
    try:
        lines = render(settings, SettingsForm.ENV).split("\n")
    except UsageError:
        return
    entries = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert told(dict(entries)) == expected(settings)


@several
@given(settings=some)
def test_compiler_options_are_a_dict_and_comments(settings: Settings, tmp_path: Path) -> None:
    text = render(settings, SettingsForm.COMPILER_OPTIONS, release("0.10.2"))
    found: dict[str, object] = {}
    exec(compile(text, "rendered", "exec"), {"__builtins__": {}}, found)  # noqa: S102
    assert set(found) == {"compiler_options"}
    assert dict(settings.options).keys() <= found["compiler_options"].keys()  # type: ignore[attr-defined]
    assert not (tmp_path / CANARY).exists()


@given(name=st.text() | st.builds(lambda a, b: a + b, names, st.text(max_size=3)))
def test_a_setting_has_a_plain_name_or_does_not_exist(name: str) -> None:
    pair = ((name, "1"),)
    for made in (
        lambda: Settings(pair),
        lambda: Settings(env=pair),
        lambda: Settings((), (), pair),
    ):
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            made()
        else:
            with pytest.raises(UsageError, match="not a setting"):
                made()


BAD = (f"NCCL_A;touch {CANARY};B", f"NCCL_A\ntouch {CANARY}\n", f"NCCL_$(touch {CANARY})", "NCCL_Ä")


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    "text",
    [
        'import os\nos.environ[{name!r}] = "1"\nos.environ["NCCL_OK"] = "2"\n',
        'import os\nos.environ.update({{{name!r}: "1", "NCCL_OK": "2"}})\n',
    ],
)
def test_a_bad_name_in_a_file_is_an_error_of_that_file_and_never_written(
    bad: str, text: str, tmp_path: Path, capsys: Captured
) -> None:
    source = tmp_path / "train.py"
    source.write_text(text.format(name=bad))
    assert main(["flags", "check", str(source), "--no-probe"]) == 1
    said = capsys.readouterr().out
    assert "FLAG501 error" in said
    assert main(["flags", "check", str(source), "--no-probe", "--fix"]) == 1
    assert source.read_text() == text.format(name=bad)  # the program stays as its author wrote it
    assert "not fixed" in capsys.readouterr().out
    for form in SettingsForm:
        assert main(["flags", "render", str(source), "--as", form, "--jaxlib", "0.10.2"]) == 0
        written = capsys.readouterr()
        assert "NCCL_OK" in written.out
        assert CANARY not in written.out
        assert "left out" in written.err


def test_a_bad_name_of_a_flag_or_an_option_is_no_setting() -> None:
    text = 'compiler_options = {"xla_a\\nimport os": "1", "xla_b": "x\\nimport os"}\n'
    written = read_text(text, "x.py", form="python")
    assert dict(written.settings.options) == {"xla_b": "x\nimport os"}
    shown = render(written.settings, SettingsForm.BASH)
    assert all(line.startswith("#") for line in shown.splitlines())
    assert read_text("--xla_a;b=1 --xla_c=2", "x", form="flags").settings.flags == {"xla_c": "2"}


@pytest.mark.parametrize(
    ("name", "table"),
    [("settings.toml", '[env]\n"A;B" = 1\n'), ("s.toml", '[xla_flags]\n"1a" = 1\n')],
)
def test_a_settings_file_with_a_bad_name_is_refused(
    name: str, table: str, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / name
    path.write_text(table)
    assert main(["flags", "render", str(path), "--as", "bash"]) == 3
    assert name in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "bad", "kept"),
    [
        ("a.yaml", 'env:\n- {name: NCCL_ALGO, value: Ring}\n- {name: "NCCL A", value: "1"}\n',
         "NCCL A", 'export NCCL_ALGO="Ring"\n'),
        ("b.yaml", "env: [{name: http.proxy, value: a}, {name: NCCL A}, {name: NCCL_ALGO}]\n",
         "NCCL A", 'export NCCL_ALGO=""\n'),
        ("a.sh", "env 'NCCL-Q=1' http.proxy=1 NCCL_ALGO=Ring python x.py\n",
         "NCCL-Q", 'export NCCL_ALGO="Ring"\n'),
    ],
)  # fmt: skip
def test_a_variable_with_an_odd_name_is_reported_and_those_beside_it_are_read(
    name: str, text: str, bad: str, kept: str, tmp_path: Path, capsys: Captured
) -> None:
    source = tmp_path / name
    source.write_text(text)
    assert main(["flags", "check", str(source), "--no-probe"]) == 1
    assert f"FLAG501 error: {bad}" in capsys.readouterr().out
    assert main(["flags", "render", str(source), "--as", "bash"]) == 0
    written = capsys.readouterr()
    assert written.out.endswith(kept)
    assert written.out.count("export") == 1
    assert f"{bad}=" in written.err
    assert "http.proxy" not in written.err


def test_words_of_env_that_need_a_shell_are_told_as_not_read() -> None:
    written = read_text('env $OPTS "$X=1" NCCL_ALGO=Ring python x.py\n', "x.sh")
    assert written.settings.variables == {"NCCL_ALGO": "Ring"}
    assert written.unread == ("line 1: $OPTS", "line 1: $X=1")


def test_a_name_of_any_length_is_printed_shortened(capsys: Captured) -> None:
    name = "xla_" + "a" * 9_000
    assert main(["flags", "check", f"--{name}=1", "--no-probe"]) == 1
    out = capsys.readouterr().out
    assert f"--{name[:200]}...: " in out
    assert len(out) < 600
