"""Documents and notebooks: code blocks in their own languages, and what the text says between."""

from __future__ import annotations

import json

import pytest

from counterpoint.core.errors import InputError
from counterpoint.flags.check.examination import check
from counterpoint.flags.parse import read_text
from counterpoint.flags.parsed import IssueKind, ParsedSource
from counterpoint.flags.settings import Channel
from flag_sources import flags, kinds, lines, slip

BOTH = [("xla_a", "1"), ("xla_b", "2")]


def document(*text: str) -> ParsedSource:
    return read_text("\n".join([*text, ""]), "README.md")


def notebook(*cells: str) -> ParsedSource:
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return read_text(json.dumps({"cells": [{"cell_type": "markdown"}, *made]}), "x.ipynb")


def test_a_flag_that_is_only_mentioned_is_no_setting() -> None:
    written = document(
        "Mind `--xla_gpu_memory_limit_slop_factor`, and --xla_b=.",
        "    --xla_gpu_memory_limit_slop_factor=70",
    )
    assert flags(written) == [("xla_gpu_memory_limit_slop_factor", "70")]
    assert "not checked: --xla_b" in written.notes[1]
    assert not check(written, version="0.10.2")


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


def test_a_placeholder_in_a_command_is_no_redirection() -> None:
    written = document(
        "```sh", "export NCCL_DEBUG=<your level> # mind", "x storage --type=a --size=1", "```"
    )
    assert [(one.name, one.known) for one in written.given] == [("NCCL_DEBUG", False)]
    assert kinds(written) == [IssueKind.UNKNOWABLE]


@pytest.mark.parametrize("value", [".XX", "$SHARE", "{share}"])
def test_a_placeholder_is_not_known(value: str) -> None:
    (one,) = document(f"Set XLA_PYTHON_CLIENT_MEM_FRACTION={value} to some share").given
    assert not one.known


@pytest.mark.parametrize(
    "block",
    [
        '```bash\nBASE=--xla_a=1\nexport XLA_FLAGS="$BASE --xla_b=2"\n```',
        '```console\n$ export XLA_FLAGS="--xla_a=1 --xla_b=2"\nout: --xla_c=3\n```',
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
def test_a_code_block_is_read_in_its_language(block: str) -> None:
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


def test_the_cells_of_a_notebook_are_one_program() -> None:
    written = notebook(
        'import os\nflags = "--xla_a=1"',
        'os.environ["XLA_FLAGS"] = flags + " --xla_b=2"',
        "import jax\njax.devices()",
        'os.environ["XLA_FLAGS"] += " --xla_c=3"',
    )
    assert written.form == "python"
    assert flags(written) == BOTH
    assert [str(one.place) for one in written.given] == ["x.ipynb, cell 2:2", "x.ipynb, cell 3:1"]
    late = slip(written)
    assert (late.kind, str(late.place)) == (IssueKind.TOO_LATE, "x.ipynb, cell 5:1")
    assert late.why == "cell 4, line 2 (`jax.devices`) has made XLA read it already"


@pytest.mark.parametrize(
    "cell",
    [
        "%env XLA_FLAGS=--xla_a=1 --xla_b=2",
        "%set_env XLA_FLAGS --xla_a=1 --xla_b=2",
        "%pip install jax\nn = 2\n%env XLA_FLAGS=--xla_a=1 --xla_b={n}",
        "if x:\n  !pip install jax \\\n    flax\nx = !ls\n%env XLA_FLAGS=--xla_a=1 --xla_b=2",
        '%%bash\nexport XLA_FLAGS="--xla_a=1 --xla_b=2"\npython train.py',
        '!XLA_FLAGS="--xla_a=1 --xla_b=2" python train.py',
    ],
    ids=lambda text: " ".join(text.split()),
)
def test_magics_of_a_notebook_are_read(cell: str) -> None:
    assert flags(notebook(cell)) == BOTH


def test_remarks_come_in_the_order_of_the_cells() -> None:
    first, last = 'os.environ["XLA_FLAGS"] = "--xla_x=1"', 'os.environ["XLA_FLAGS"] += " --xla_y=1"'
    found = check(notebook(first, *[""] * 8, last), version="0.10.2")
    assert [one.place.where for one in found] == ["x.ipynb, cell 2", "x.ipynb, cell 11"]


def test_a_cell_that_is_no_python_is_noted_and_the_rest_is_read() -> None:
    written = notebook("def (:", "%%html\n--xla_c=1", "%env XLA_FLAGS=--xla_a=1")
    assert flags(written) == [("xla_a", "1")]
    assert written.notes == ("cell 2: not Python, not read",)
    assert not kinds(written)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": 1}'])
def test_what_is_no_notebook_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match=r"x\.ipynb: not a notebook"):
        read_text(text, "x.ipynb")
