"""Python programs whose parts exclude each other, and flags that stand in dicts and lists."""

from __future__ import annotations

import pytest

from counterpoint.flags.check.examination import check
from counterpoint.flags.parsed import IssueKind, ParsedSource
from counterpoint.flags.settings import Channel
from flag_sources import flags, kinds, program

LEVEL = "--xla_gpu_autotune_level"


def twice(written: ParsedSource) -> list[int | None]:
    """The lines of flags of which it is said that they are given twice."""
    found = check(written, version="0.10.2")
    return [one.place.line for one in found if one.code == "FLAG205"]


@pytest.mark.parametrize(
    "text",
    [
        (
            f'def a(env):\n  env["XLA_FLAGS"] = "{LEVEL}=0"\n'
            f'def b(env):\n  env["XLA_FLAGS"] = "{LEVEL}=4"\n'
        ),
        (
            f'if chip == "a":\n  os.environ["XLA_FLAGS"] = "{LEVEL}=0"\n'
            f'if chip == "b":\n  os.environ["XLA_FLAGS"] = "{LEVEL}=4"\n'
        ),
        (
            f'if big():\n  os.environ["XLA_FLAGS"] = "{LEVEL}=0"\n'
            f'elif small():\n  os.environ["XLA_FLAGS"] = "{LEVEL}=4"\n'
        ),
        (
            "def a():\n  if big():\n"
            f'    os.environ["XLA_FLAGS"] = "{LEVEL}=0"\n    return\n'
            f'  os.environ["XLA_FLAGS"] = "{LEVEL}=4"\n'
        ),
        (
            f'match chip:\n  case 1:\n    os.environ["XLA_FLAGS"] = "{LEVEL}=0"\n'
            f'  case 2:\n    os.environ["XLA_FLAGS"] = "{LEVEL}=4"\n'
        ),
    ],
    ids=["functions", "one choice", "elif", "return", "match"],
)
def test_parts_that_exclude_each_other_give_nothing_twice(text: str) -> None:
    written = program("import os", text)
    level = "xla_gpu_autotune_level"
    assert [flags(one) for one in written.programs] == [[(level, "4")], [(level, "0")]]
    assert not twice(written)
    assert not written.issues


@pytest.mark.parametrize(
    "text",
    [
        f'os.environ["XLA_FLAGS"] = "{LEVEL}=0"\nif x:\n  os.environ["XLA_FLAGS"] += " {LEVEL}=4"',
        (
            f'def a():\n  os.environ["XLA_FLAGS"] = "{LEVEL}=0"\n  if x:\n    pass\n'
            f'  os.environ["XLA_FLAGS"] += " {LEVEL}=4"'
        ),
        f'BASE = "{LEVEL}=0"\ndef a():\n  os.environ["XLA_FLAGS"] = BASE + " {LEVEL}=4"',
    ],
    ids=["module and if", "one function", "constant and function"],
)
def test_what_one_program_can_have_twice_is_still_said(text: str) -> None:
    assert twice(program("import os", text)) == [2] or twice(program("import os", text)) == [3]


def test_a_dict_with_names_of_flags_is_read() -> None:
    written = program(
        "options = dict(",
        '    xla_gpu_enable_triton_gemm="false",',
        "    xla_gpu_all_reduce_combine_threshold_bytes=64 * 1024 * 1024,",
        ")",
        "options.update(xla_gpu_autotune_level=level())",
        'run(xla_flags="--xla_a=1")',
    )
    assert [(it.name, it.value, it.place.line, it.known) for it in written.given] == [
        ("xla_gpu_enable_triton_gemm", "false", 2, True),
        ("xla_gpu_all_reduce_combine_threshold_bytes", "67108864", 3, True),
        ("xla_gpu_autotune_level", "level()", 5, False),
    ]
    assert {it.channel for it in written.given} == {Channel.COMPILER_OPTIONS}
    assert any("as compiler_options" in note for note in written.notes)


def test_a_dict_with_flags_of_tpus_is_for_libtpu() -> None:
    written = program("o = dict(xla_tpu_a=1)", "o.update(dict(xla_tpu_b=1, xla_enable_c=1))")
    assert {it.channel for it in written.given} == {Channel.LIBTPU_INIT_ARGS}
    assert len(written.given) == 3


@pytest.mark.parametrize(
    "more",
    ['flags += ["--xla_a=1", "--xla_b=2"]', 'flags.extend(["--xla_a=1", "--xla_b=2"])',
     'flags.append("--xla_a=1")\nflags.append("--xla_b=2")'],
)  # fmt: skip
@pytest.mark.parametrize(
    "before", ["[]", 'shlex.split(os.environ.get("XLA_FLAGS", ""))', "given_elsewhere()"]
)
def test_a_list_that_grows_is_followed(before: str, more: str) -> None:
    written = program(f"flags = {before}", more, 'os.environ["XLA_FLAGS"] = " ".join(flags)')
    assert flags(written) == [("xla_a", "1"), ("xla_b", "2")]
    assert kinds(written) == ([IssueKind.UNKNOWABLE] if "elsewhere" in before else [])


def test_what_a_program_alone_knows_needs_no_shell() -> None:
    (issue,) = program("import os", 'os.environ["XLA_FLAGS"] = more()').issues
    assert issue.kind is IssueKind.UNKNOWABLE
    assert "shell" not in issue.why
