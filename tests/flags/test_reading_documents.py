"""Documents and other texts: flags and variables with their values, line by line."""

from __future__ import annotations

import pytest

from counterpoint.core.errors import InputError
from counterpoint.flags.check.examination import check
from counterpoint.flags.parse import read_text
from counterpoint.flags.parsed import ParsedSource
from counterpoint.flags.settings import Channel
from flag_sources import flags, lines

BOTH = [("xla_a", "1"), ("xla_b", "2")]


def document(*text: str) -> ParsedSource:
    return read_text("\n".join([*text, ""]), "README.md")


def test_a_flag_that_is_only_mentioned_is_no_setting() -> None:
    written = document(
        "Mind `--xla_gpu_memory_limit_slop_factor`, and --xla_b=.",
        "    --xla_gpu_memory_limit_slop_factor=70",
    )
    assert flags(written) == [("xla_gpu_memory_limit_slop_factor", "70")]
    assert "not checked: --xla_b" in written.notes[1]
    assert not check(written, version="0.10.2")


def test_all_that_is_only_mentioned_is_named() -> None:
    names = [f"--xla_gpu_{letter}" for letter in "abcdefghi"]
    (note,) = document(*(f"Set {name}=<> for this." for name in names)).notes
    assert [name for name in names if name not in note] == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("try xla_gpu_graph_level and `xla_gpu_autotune_level` here", 2),
        ("xla_gpu_graph_level: level 0 turns CUDA graphs off.", 0),  # a key with a value
        ("see xla_gpu_graph_level.md, a/xla_gpu_graph_level and xla_gpu_graph_level(1)", 0),
        ("the modules xla_bridge and xla_client", 0),
        ("- **xla_gpu_graph_level**, or xla_gpu_autotune_level.", 2),
        ("xla_gpu_graph_level = 0", 0),
    ],
)
def test_a_flag_is_named_without_dashes_too(text: str, named: int) -> None:
    written = document(text)
    assert not written.given
    names = [name for note in written.notes for name in note.split() if name.startswith("--xla_")]
    assert len(names) == named


def test_in_the_value_of_a_variable_a_bare_name_is_a_flag() -> None:
    assert flags(document('    XLA_FLAGS="--xla_a --xla_b=2"')) == [
        ("xla_a", "true"),
        ("xla_b", "2"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        'export LIBTPU_INIT_ARGS="--xla_a=1 --xla_b=2"',
        'LIBTPU_INIT_ARGS="--xla_a=1\n  --xla_b=2"',
        "LIBTPU_INIT_ARGS=--xla_a=1 \\\n  --xla_b=2",
        '```\nexport LIBTPU_INIT_ARGS="--xla_a=1 --xla_b=2"\n```',
    ],
    ids=lambda text: " ".join(text.split()),
)
def test_the_variable_says_where_a_flag_is_read(text: str) -> None:
    written = document(text, "", "--xla_c=3")
    assert [(it.channel, it.name) for it in written.given] == [
        (Channel.LIBTPU_INIT_ARGS, "xla_a"),
        (Channel.LIBTPU_INIT_ARGS, "xla_b"),
        (Channel.XLA_FLAGS, "xla_c"),
    ]


def test_a_link_is_no_part_of_a_value() -> None:
    written = document("See [`NCCL_LAUNCH_MODE`=GROUP](https://x), [NCCL_ALGO=Ring](https://y).")
    assert written.settings.variables["NCCL_ALGO"] == "Ring"


def test_lists_of_variables_are_read() -> None:
    written = document("- NCCL_PROTO: SIMPLE,LL", "- `NCCL_NVLS_ENABLE`:1 ", "NCCL_DEBUG: for logs")
    assert written.settings.variables == {"NCCL_PROTO": "SIMPLE,LL", "NCCL_NVLS_ENABLE": "1"}


def test_rows_of_a_table_are_read() -> None:
    written = document("| Flag | Value |", "|---|---|", "| `--xla_a` | `1` | x |", "| xla_b | 2 |")
    assert flags(written) == BOTH
    assert not flags(document("| `--xla_a` | Makes it faster | 1.5 |"))


@pytest.mark.parametrize("value", [".XX", "$SHARE", "{share}"])
def test_a_placeholder_is_not_known(value: str) -> None:
    (one,) = document(f"Set XLA_PYTHON_CLIENT_MEM_FRACTION={value} to some share").given
    assert not one.known


@pytest.mark.parametrize(
    "block",
    [
        '```bash\nBASE=--xla_a=1\nexport XLA_FLAGS="$BASE --xla_b=2"\n```',
        '```console\n$ export XLA_FLAGS="--xla_a=1 --xla_b=2"\n```',
        '~~~ python\nimport os\nos.environ.update({"XLA_FLAGS": "--xla_a=1 --xla_b=2"})\n~~~',
        '  ```py\n  >>> os.environ["XLA_FLAGS"] = "--xla_a=1 --xla_b=2"\n  ```',
        "```yaml\nenv:\n- name: XLA_FLAGS\n  value: >-\n    --xla_a=1\n    --xla_b=2\n```",
        '> ```sh\n> export XLA_FLAGS="--xla_a=1 --xla_b=2"\n> ```',
        '.. code-block:: bash\n   :caption: x\n\n   export XLA_FLAGS="--xla_a=1 --xla_b=2"\n',
        '```python\ndef (:\n  "--xla_a=1 --xla_b=2"\n```',
        "```\n--xla_a=1\n--xla_b=2\n```",
    ],
    ids=lambda text: " ".join(text.split()),
)
def test_flags_of_a_code_block_are_found(block: str) -> None:
    written = document("# Title", block, "The end.")
    assert flags(written) == BOTH
    assert all((one.place.line or 0) >= 3 for one in written.given)


def test_variables_of_a_dict_in_a_code_block_are_read() -> None:
    written = document("```python", "os.environ.update({", '  "NCCL_PROTO": "SIMPLE",', "})", "```")
    assert lines(written) == [("NCCL_PROTO", 3)]


def test_two_code_blocks_give_nothing_twice() -> None:
    block = ("```bash", 'export XLA_FLAGS="--xla_gpu_autotune_level={}"', "```")
    text = "\n".join(block)
    written = document(text.format(0), text.format(4), "With --xla_gpu_autotune_level=2 ...")
    assert [value for _, value in flags(written)] == ["0", "4", "2"]
    assert not [it for it in check(written, version="0.10.2") if it.code == "FLAG205"]


def test_comments_and_names_that_stand_for_any_are_no_settings_of_a_code_block() -> None:
    assert flags(
        document("```sh", "# --xla_c=1", 'export XLA_FLAGS="--flag1=x --xla_a=1"', "```")
    ) == [("xla_a", "1")]


def test_a_notebook_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match=r"x\.ipynb") as raised:
        read_text('{"cells": []}', "x.ipynb")
    assert raised.value.next == "jupyter nbconvert --to=script x.ipynb"
