"""What `counterpoint flags check` says of what it can't read: no verdict holds for that."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from counterpoint.cli.app import main
from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.probe import probe_flags

Captured = pytest.CaptureFixture[str]

needs_jaxlib = pytest.mark.skipif(
    importlib.util.find_spec("jaxlib") is None, reason="jaxlib is not here"
)


@pytest.fixture
def probed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the flags that most of these tests set, the same jaxlib has one answer."""
    monkeypatch.setattr("counterpoint.flags.option_probe.probe_flags", _answer)


_answer = cache(probe_flags)


def checked(*words: str | Path) -> int:
    return main(["flags", "check", *map(str, words)])


PLUS = '" --xla_gpu_autotune_level=3"'
INHERITS = "the previous value of XLA_FLAGS"
UNREAD_PYTHON = {
    f'os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + {PLUS}': INHERITS,
    f'os.environ["XLA_FLAGS"] = os.getenv("XLA_FLAGS", "--xla_dump_to=/x") + {PLUS}': INHERITS,
    f'os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS") or "") + {PLUS}': INHERITS,
    f'os.environ["XLA_FLAGS"] = os.environ["XLA_FLAGS"] + {PLUS}': INHERITS,
    f'os.environ["XLA_FLAGS"] += {PLUS}': INHERITS,
    f'os.environ.setdefault("XLA_FLAGS", {PLUS})': INHERITS,
    f'env = os.environ.copy(); env["XLA_FLAGS"] = env.get("XLA_FLAGS", "") + {PLUS}': INHERITS,
    f'os.environ["XLA_FLAGS"] = " ".join([os.getenv("MY_FLAGS", ""), {PLUS}])': INHERITS.replace(
        "XLA_FLAGS", "MY_FLAGS"
    ),
    'load_dotenv("prod.env")': 'load_dotenv("prod.env")',
    "dotenv.load_dotenv()": "dotenv.load_dotenv()",
    'os.environ.update(json.load(open("x.json")))': 'os.environ.update(json.load(open("x.json")))',
    "os.environ.update(**more)": "os.environ.update(**more)",
    "os.environ |= more": "os.environ |= more",
    "os.environ = more": "os.environ = more",
    "for k, v in more.items(): os.environ[k] = v": "os.environ[k] = v",
    "e = os.environ; e[name] = value": "e[name] = value",
    "os.environ.setdefault(name, value)": "os.environ.setdefault(name, value)",
    "os.putenv(name, value)": "os.putenv(name, value)",
    'del os.environ["XLA_FLAGS"]': 'del os.environ["XLA_FLAGS"]',
    'os.environ.pop("XLA_FLAGS", None)': 'os.environ.pop("XLA_FLAGS", None)',
    "os.environ.clear()": "os.environ.clear()",
    'exec(open("more.py").read())': 'exec(open("more.py").read())',
    'runpy.run_path("more.py")': 'runpy.run_path("more.py")',
    "subprocess.run(command, env=more)": "subprocess.run(command, env=more)",
    "subprocess.Popen(c, env={**os.environ, **more})": (
        "subprocess.Popen(c, env={**os.environ, **more})"
    ),
    'os.system("XLA_FLAGS=--xla_a=1 python x.py")': (
        'os.system("XLA_FLAGS=--xla_a=1 python x.py")'
    ),
    'subprocess.run(["bash", "-c", "export NCCL_ALGO=Ring; x"])': (
        'subprocess.run(["bash", "-c", "export NCCL_ALGO=Ring; x"])'
    ),
    "os.execve(path, words, more)": "os.execve(path, words, more)",
    "ray.init(runtime_env=more)": "ray.init(runtime_env=more)",
    "jax.config.update(name, True)": "jax.config.update(name, True)",
    "jax.jit(f, compiler_options=more)": "jax.jit(f, compiler_options=more)",
    "utils.set_xla_flags()": "utils.set_xla_flags()",
}


@pytest.mark.parametrize("line", UNREAD_PYTHON)
@needs_jaxlib
@pytest.mark.usefixtures("probed_once")
def test_of_a_program_that_inherits_or_loads_settings_it_is_not_said_that_xla_starts(
    line: str, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "train.py"
    first = (
        'os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=3"' if "autotune" not in line else ""
    )
    path.write_text(f"import os, json, jax\n{first}\n{line}\n")
    assert checked(path, "--python", sys.executable) == 0
    said = capsys.readouterr().err
    assert f"not read: line 3: {UNREAD_PYTHON[line]}\n" in said
    assert re.search("XLA starts with .*; 1 part ", said)
    assert checked(path, "--no-probe", "--json") == 0
    assert json.loads(capsys.readouterr().out)["unread"] == [f"line 3: {UNREAD_PYTHON[line]}"]
    assert main(["flags", "render", str(path), "--as", "bash"]) == 0
    assert f"not read: {path}: line 3: {UNREAD_PYTHON[line]}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(c, env={**os.environ, 'NCCL_DEBUG': 'WARN'})",
        "subprocess.run(c, env=dict(os.environ, NCCL_DEBUG='WARN'))",
        "e = dict(os.environ); e['NCCL_DEBUG'] = 'WARN'; subprocess.run(c, env=e)",
        "subprocess.run(['ls', '-l'], env=None)",
        "agent.run(env=gym.make('Pong'))",
        "model.update(parameters)",
        "table[name] = value",
        "os.environ.pop('HOME', None)",
        "def set_xla_flags(): pass\nset_xla_flags()",
        "jax.jit(f, compiler_options={'xla_gpu_autotune_level': 3})",
        "print(os.environ.get('XLA_FLAGS', ''))",
    ],
)
def test_a_program_that_sets_all_by_itself_has_nothing_that_is_not_read(line: str) -> None:
    flag = 'os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=3"'
    assert not read_text(f"import os, jax\n{flag}\n{line}\n", "train.py").not_read


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("job.sh", 'export XLA_FLAGS="$XLA_FLAGS --xla_gpu_autotune_level=3"\n'),
        ("job.sh", 'XLA_FLAGS="${XLA_FLAGS:-} --xla_gpu_autotune_level=3" python x.py\n'),
        ("job.sh", 'docker run -e XLA_FLAGS="$XLA_FLAGS --xla_gpu_autotune_level=3" x\n'),
        ("Dockerfile", 'FROM x\nENV XLA_FLAGS="$XLA_FLAGS --xla_gpu_autotune_level=3"\n'),
        (
            "pod.yaml",
            (
                "args:\n- bash\n- -c\n- |\n"
                '    export XLA_FLAGS="$XLA_FLAGS --xla_gpu_autotune_level=3"\n    python x.py\n'
            ),
        ),
    ],
)
@needs_jaxlib
@pytest.mark.usefixtures("probed_once")
def test_what_a_script_inherits_is_not_promised_either(
    name: str, text: str, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert checked(path, "--python", sys.executable) == 0
    said = capsys.readouterr().err
    assert f": {INHERITS}\n" in said
    assert re.search("XLA starts with .*; 1 part ", said)


def test_flags_that_are_put_behind_inherited_ones_can_be_applied(tmp_path: Path) -> None:
    for name, text in (
        ("job.sh", 'export XLA_FLAGS="$XLA_FLAGS --xla_a=1"\n'),
        ("train.py", 'import os\nos.environ["XLA_FLAGS"] += " --xla_a=1"\n'),
    ):
        (tmp_path / name).write_text(text)
        assert load_settings(tmp_path / name).flags == {"xla_a": "1"}


@needs_jaxlib
def test_a_command_finds_the_environment_that_is_read(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job.sh"
    path.write_text('export XLA_FLAGS="$XLA_FLAGS --xla_gpu_autotune_level=3"\npython x.py\n')
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)  # JAX sets it where it was imported
    assert main(["flags", "check", "--python", sys.executable, "--", "bash", str(path)]) == 0
    assert capsys.readouterr().err.endswith(" XLA starts\n")


@needs_jaxlib
def test_of_a_value_that_is_known_only_when_it_runs_nothing_is_promised(
    tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "job.sh"
    path.write_text('export XLA_FLAGS="--xla_gpu_autotune_level=3 $(cat more)"\n')
    assert checked(path, "--python", sys.executable) == 0
    assert re.search("XLA starts with .*; 1 value ", capsys.readouterr().err)
