"""Python programs as sources: their constants are followed, nothing is run."""

from __future__ import annotations

import pytest

from counterpoint.core.errors import InputError
from counterpoint.flags.parsed import IssueKind
from counterpoint.flags.settings import Channel
from flag_sources import flags, issue, kinds, lines, program

BOTH = [("xla_a", "1"), ("xla_b", "2")]


@pytest.mark.parametrize(
    "text",
    [
        'os.environ["XLA_FLAGS"] = "--xla_a=1 --xla_b=2"',
        'os.environ["XLA_FLAGS"] = "--xla_a=1"\nos.environ["XLA_FLAGS"] += " --xla_b=2"',
        'os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_a=1 --xla_b=2"',
        'os.environ["XLA_FLAGS"] = "--xla_a=1 " + os.getenv("XLA_FLAGS", "") + "--xla_b=2"',
        'os.environ.setdefault("XLA_FLAGS", "--xla_a=1 --xla_b=2")',
        'os.environ.update({"XLA_FLAGS": "--xla_a=1 --xla_b=2"})',
        'os.environ.update(XLA_FLAGS="--xla_a=1 --xla_b=2")',
        'os.putenv("XLA_FLAGS", "--xla_a=1 --xla_b=2")',
        'os.environ["XLA_FLAGS"] = ("--xla_a=1 "\n    "--xla_b=2")',
        'N = 1\nos.environ["XLA_FLAGS"] = f"--xla_a={N} --xla_b=2"',
        'FLAGS = ["--xla_a=1", "--xla_b=2"]\nos.environ["XLA_FLAGS"] = " ".join(FLAGS)',
        'A = ["--xla_a=1"]\nA += ["--xla_b=2"]\nos.environ["XLA_FLAGS"] = " ".join([*A])',
        'def main():\n  env = {}\n  env["XLA_FLAGS"] = "--xla_a=1 --xla_b=2"\n  run(env=env)',
        'subprocess.run(x, env=dict(os.environ, XLA_FLAGS="--xla_a=1 --xla_b=2"))',
        'with x:\n  os.environ["XLA_FLAGS"] = """\n    --xla_a=1\n    --xla_b=2\n  """',
        'XLA_FLAGS = "--xla_a=1 --xla_b=2"',
    ],
    ids=lambda text: " ".join(text.split()),
)
def test_flags_are_found_however_a_program_sets_them(text: str) -> None:
    assert flags(program("import os, subprocess", text)) == BOTH


def test_each_flag_has_its_own_line() -> None:
    written = program(
        "import os",
        'BASE = "--xla_a=1"',
        'os.environ["XLA_FLAGS"] = (',
        '    "--xla_b=2 "',
        '    "--xla_c=3 "',
        ") + BASE",
    )
    assert lines(written) == [("xla_b", 4), ("xla_c", 5), ("xla_a", 2)]


def test_other_variables_are_read_from_the_environment_of_the_process() -> None:
    written = program("import os", 'os.environ.update({"NCCL_DEBUG": "INFO", "MINE": "1"})')
    assert written.settings.variables == {"NCCL_DEBUG": "INFO", "MINE": "1"}


def test_an_expression_that_is_not_constant_is_an_issue_and_the_rest_is_read() -> None:
    written = program(
        "import os", 'os.environ["XLA_FLAGS"] = f"--xla_a={f(x)} --xla_b=2 " + more()'
    )
    assert kinds(written) == [IssueKind.UNKNOWABLE] * 2
    assert [one.text for one in written.issues] == ["--xla_a=f(x)", "more()"]
    assert written.settings.flags == {"xla_b": "2"}


def test_flags_behind_the_first_use_of_a_device_come_too_late() -> None:
    written = program(
        "import os, jax",
        'os.environ["XLA_FLAGS"] = "--xla_a=1"',
        "print(jax.devices())",
        'os.environ["XLA_FLAGS"] = "--xla_b=2"',
    )
    found = issue(written)
    assert (found.kind, found.place.line) == (IssueKind.TOO_LATE, 4)
    assert found.why.endswith("in line 3 (`jax.devices`)")
    assert flags(written) == [("xla_a", "1")]


@pytest.mark.parametrize(
    ("name", "late"),
    [
        ("XLA_PYTHON_CLIENT_PREALLOCATE", True),
        ("XLA_CLIENT_MEM_FRACTION", True),
        ("NCCL_ALGO", False),  # read by the first collective
        ("CUDA_VISIBLE_DEVICES", False),
    ],
)
def test_what_is_read_with_the_first_device_comes_too_late_behind_it(name: str, late: bool) -> None:
    behind = program("import os, jax", "jax.devices()", f'os.environ["{name}"] = "x"')
    assert [one.kind for one in behind.issues] == [IssueKind.TOO_LATE] * late
    before = program("import os, jax", f'os.environ["{name}"] = "x"', "jax.devices()")
    assert not before.issues


@pytest.mark.parametrize(
    "use",
    [
        "import jax.numpy as jnp\njnp.zeros(3)",
        "from jax import random\nrandom.key(0)",
        "from jax import local_device_count as n\nn()",
    ],
    ids=lambda use: use.replace("\n", "; "),
)
def test_arrays_and_keys_use_a_device_too(use: str) -> None:
    written = program("import os", use, 'os.environ["XLA_FLAGS"] = "--xla_b=2"')
    assert kinds(written) == [IssueKind.TOO_LATE]


@pytest.mark.parametrize(
    "harmless",
    [
        "import jax",
        "import jax\njax.config.update('jax_enable_x64', True)",
        "import jax\n@jax.jit\ndef f(x):\n  return jax.numpy.sin(x)",
        "import jax\njax.distributed.initialize()",
    ],
    ids=lambda text: " ".join(text.split()),
)
def test_flags_behind_the_import_of_jax_are_in_time(harmless: str) -> None:
    written = program("import os", harmless, 'os.environ["XLA_FLAGS"] = "--xla_b=2"')
    assert not written.issues


def test_jaxs_own_variables_behind_its_import_come_too_late() -> None:
    found = issue(program("import os, jax", 'os.environ["JAX_ENABLE_PGLE"] = "true"'))
    assert (found.kind, found.channel) == (IssueKind.TOO_LATE, Channel.ENVIRONMENT)
    assert found.suggestion == 'jax.config.update("jax_enable_pgle", ...)'


def test_jax_config_is_read() -> None:
    written = program("import jax", 'jax.config.update("jax_enable_pgle", True)')
    (one,) = written.given
    assert (one.channel, one.name, one.value) == (Channel.JAX_CONFIG, "jax_enable_pgle", "true")
    assert written.settings.variables == {"JAX_ENABLE_PGLE": "true"}


def test_compiler_options_keep_what_python_calls_their_values() -> None:
    written = program(
        "import jax",
        'BASE = {"xla_a": True}',
        'f = jax.jit(g, compiler_options={**BASE, "xla_b": 3, "xla_c": "X"})',
    )
    assert [(one.channel, one.name, one.value, one.place.line) for one in written.given] == [
        (Channel.COMPILER_OPTIONS, "xla_a", "True", 2),
        (Channel.COMPILER_OPTIONS, "xla_b", "3", 3),
        (Channel.COMPILER_OPTIONS, "xla_c", "X", 3),
    ]


def test_an_assignment_that_drops_flags_is_an_issue() -> None:
    written = program(
        "import os",
        'os.environ["XLA_FLAGS"] = "--xla_a=1"',
        'os.environ["XLA_FLAGS"] = "--xla_b=2"',
    )
    assert issue(written).kind is IssueKind.OVERWRITTEN
    assert issue(written).why.endswith("of line 2: --xla_a")


def test_constants_that_nothing_hands_to_a_program_are_not_read_and_named() -> None:
    written = program(
        "LIMIT = 98304",
        'VMEM = f" --xla_tpu_scoped_vmem_limit_kib={LIMIT}"',
        'FUSION = (" --xla_tpu_fuse=true"',
        '          " --xla_enable_async_all_gather=true")',
    )
    assert not written.given
    assert "xla_tpu_scoped_vmem_limit_kib" in written.unread[0]


def test_a_text_that_only_mentions_flags_is_no_library() -> None:
    assert not program("HELP = 'run with --xla_a=1, or -x'", 'JSON = """{"a": "--xla_b"}"""').given


def test_programs_of_many_nested_values_are_read_in_no_time() -> None:
    deep = "x" + "".join(f".f({{'XLA_A': [{number}]}})" for number in range(60))
    nested = "{'XLA_A': " * 40 + "1" + "}" * 40
    written = program("import os", "async def f():", f"  y = {deep}", f"y = {nested}")
    assert written.form == "python"


def test_what_several_functions_add_is_read_in_a_row_and_said() -> None:
    written = program(
        "def base(env):",
        '  env["XLA_FLAGS"] = "--xla_a=1"',
        "def more(env):",
        '  env["XLA_FLAGS"] += "--xla_b=2"',
    )
    assert flags(written) == BOTH
    assert any(note.startswith("line 4: several functions") for note in written.notes)


def test_what_is_no_python_is_an_error_with_its_line() -> None:
    with pytest.raises(InputError, match=r"train\.py:2: not Python"):
        program("import os", "def (:")


@pytest.mark.parametrize(
    "text",
    [
        "from jax._src import config\nwith config.enable_pgle(True):\n  step()",
        "import jax._src.config as c\nwith f(), c.enable_pgle(True) as x:\n  step()",
        "with config.enable_pgle(True):\n  step()",
        'import jax\njax.config.update("jax_enable_pgle", True)',
        'from jax import config\nconfig.update("jax_enable_pgle", True)',
        'from jax._src import config\nconfig.config.update("jax_enable_pgle", True)',
    ],
)
def test_jax_s_configuration_is_set_for_all_or_for_a_block(text: str) -> None:
    written = program(text)
    (one,) = written.given
    assert (one.channel, one.name, one.meant) == (Channel.JAX_CONFIG, "jax_enable_pgle", "true")
    assert any("in its block" in note for note in written.notes) is ("with" in text)


def test_other_blocks_of_jax_are_no_settings() -> None:
    assert not program("import jax\nwith jax.named_scope('x'), jax.set_mesh(m):\n  y()").given
