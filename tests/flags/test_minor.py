"""Which remarks stand alone, and that none is on settings that no run of the job gets together."""

from __future__ import annotations

import pytest

from counterpoint.flags.check.examination import CheckRequest, Examination, examine
from counterpoint.flags.parse.source import read_text

BOTH = ("NCCL_ALGO=NVLS", "NCCL_PROTO=LL128")


def examined(name: str, text: str, select: tuple[str, ...] = ()) -> Examination:
    return examine(read_text(text, name), CheckRequest(version="0.10.2", select=select))


def codes(name: str, text: str) -> list[str]:
    return [one.code for one in examined(name, text).standing]


def reasons(found: Examination) -> set[str]:
    return {one.minor for one in found.remarks}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("export XLA_FLAGS=--xla_gpu_autotune_level=4\n", "repeating a default"),
        ("export NCCL_LL_BUFFSIZE=-2\n", "repeating a default"),
        ("export XLA_FLAGS=--xla_gpu_autotune_level=$(n)\n", "known only when the program runs"),
        ("export XLA_PYTHON_CLIENT_MEM_FRACTION=0.9\n", "under an old name that still works"),
    ],
)
def test_what_nobody_acts_on_is_minor_unless_it_is_asked_for(text: str, reason: str) -> None:
    found = examined("job.sh", text)
    assert (found.standing, reasons(found)) == ((), {reason})
    assert examined("job.sh", text, select=("FLAG",)).standing


def test_a_test_and_a_workflow_are_no_jobs_but_their_aborts_are_errors() -> None:
    debugging = "import os\nos.environ['JAX_DEBUG_NANS'] = '1'\n"
    assert codes("train.py", debugging) == ["FLAG409"]
    assert codes("tests/conftest.py", debugging) == []
    assert codes("conftest.py", "import os\nos.environ['XLA_FLAGS'] = '--xla_no=1'\n") == [
        "FLAG101"
    ]
    steps = "jobs:\n  a:\n    env:\n      {}\n    steps:\n    - run: python x.py\n"
    workflow = ".github/workflows/ci.yml"
    assert codes(workflow, steps.format("NCCL_P2P_DISABLE: '1'")) == []
    assert codes(workflow, steps.format("XLA_FLAGS: --xla_no=1")) == ["FLAG101"]


def test_a_literal_of_a_unit_test_is_no_error() -> None:
    text = (
        "def test_it(monkeypatch):\n"
        "    monkeypatch.setenv('XLA_PYTHON_CLIENT_MEM_FRACTION', 'not-a-number')\n"
    )
    found = examined("tests/test_memory.py", text)
    assert (found.standing, found.failed, reasons(found)) == ((), False, {"of tests"})
    assert examined("memory.py", text).failed


def test_branches_are_never_combined() -> None:
    one, other = (f"  export {it}\n" for it in BOTH)
    assert codes("job.sh", f"{one}{other}python x.py\n") == ["FLAG506"]
    assert codes("job.sh", f"if x; then\n{one}{other}fi\npython x.py\n") == ["FLAG506"]
    assert codes("job.sh", f"if x; then\n{one}else\n{other}fi\npython x.py\n") == []
    case = f"case $1 in\na)\n{one};;\nb)\n{other};;\nesac\npython x.py\n"
    assert codes("job.sh", case) == []


def test_what_one_branch_lacks_is_not_missing_if_another_has_it() -> None:
    expect, cache = "JAX_COMPILATION_CACHE_EXPECT_PGLE=1", "JAX_COMPILATION_CACHE_DIR=/c"
    text = "export {}\nif x; then\n  export {}\nelse\n  export NCCL_DEBUG=INFO\nfi\npython x.py\n"
    assert codes("job.sh", text.format(expect, cache)) == []
    assert codes("job.sh", text.format(expect, "NCCL_IB_DISABLE=1")) == ["FLAG408"]


@pytest.mark.parametrize(
    ("tests", "found"),
    [
        (("platform == 'gpu'", "platform == 'tpu'"), []),
        (("fast and platform == 'gpu'", "platform == 'tpu'"), []),
        (("platform == 'gpu'", "fast"), ["FLAG205"]),
        (("platform == 'gpu'", "platform != 'tpu'"), ["FLAG205"]),
    ],
)
def test_two_values_of_a_variable_are_alternatives(
    tests: tuple[str, str], found: list[str]
) -> None:
    add = "  flags += ['--xla_disable_hlo_passes={}']\n"
    text = (
        "import os\nflags = []\n"
        f"if {tests[0]}:\n{add.format('a')}if {tests[1]}:\n{add.format('b')}"
        "os.environ['XLA_FLAGS'] = ' '.join(flags)\n"
    )
    remarks = examined("train.py", text).remarks
    assert [one.code for one in remarks if one.code == "FLAG205"] == found


def test_blocks_of_a_page_are_not_combined_but_complete_each_other() -> None:
    block = "```sh\nexport {}\npython x.py\n```\n"
    assert codes("a.md", "".join(map(block.format, BOTH))) == []
    assert codes("a.md", block.format(f"{BOTH[0]}\nexport {BOTH[1]}")) == ["FLAG506"]
    expect, cache = "JAX_COMPILATION_CACHE_EXPECT_PGLE=1", "JAX_COMPILATION_CACHE_DIR=/c"
    assert codes("a.md", block.format(expect)) == ["FLAG408"]
    assert codes("a.md", block.format(cache) + block.format(expect)) == []


def test_nothing_is_a_mere_default_after_inherited_flags() -> None:
    default = "--xla_gpu_enable_highest_priority_async_stream=true"
    assert examined("job.sh", f"export XLA_FLAGS='{default}'\npython x.py\n").remarks
    assert not examined("job.sh", f'export XLA_FLAGS="$XLA_FLAGS {default}"\npython x.py\n').remarks
    text = f'import os\nos.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " {default}"\n'
    assert not examined("train.py", text).remarks


def test_a_list_of_variables_in_an_input_of_an_action_is_no_script() -> None:
    text = (
        "jobs:\n  a:\n    steps:\n    - uses: ./launch\n      with:\n        ENVS: |\n"
        "          URL=\\$(NAME):1;\n          XLA_FLAGS=--xla_a=1 --xla_b=2;\n"
    )
    written = read_text(text, "launch.yml")
    assert not written.issues
    assert any("XLA_FLAGS" in part for part in written.unread)


def test_a_remedy_that_is_applied_is_not_advised() -> None:
    late = 'import os\nimport jax\nos.environ["JAX_ENABLE_X64"] = "1"\n'
    assert codes("train.py", late) == ["FLAG211"]
    assert codes("train.py", f'{late}jax.config.update("jax_enable_x64", True)\n') == []


def test_a_threshold_too_large_to_be_reached_is_no_limit() -> None:
    flags = "--xla_gpu_enable_pipelined_all_gather=true "
    flags += "--xla_gpu_all_gather_combine_threshold_bytes"
    assert codes("job.sh", f'export XLA_FLAGS="{flags}=134217728"\npython x.py\n') == ["FLAG304"]
    assert codes("job.sh", f'export XLA_FLAGS="{flags}=8589934592"\npython x.py\n') == []


def test_what_libtpu_makes_of_a_strange_name_is_not_known() -> None:
    assert codes(".env", "LIBTPU_INIT_ARGS=--my-flag=true --performance=high\n") == []
    assert codes(".env", "XLA_FLAGS=--xla-flag=true\n") != []
