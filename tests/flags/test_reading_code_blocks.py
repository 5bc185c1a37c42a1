"""Code blocks set something, the sentences around them nothing; notebooks; other texts."""

from __future__ import annotations

import json

import pytest

from counterpoint.core.errors import InputError
from counterpoint.flags.check.examination import check
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.parsed import ParsedSource
from counterpoint.flags.settings import Channel
from flag_sources import flags, lines

BOTH = [("xla_a", "1"), ("xla_b", "2")]


def document(*text: str) -> ParsedSource:
    return read_text("\n".join([*text, ""]), "README.md")


def log(*text: str) -> ParsedSource:
    return read_text("\n".join([*text, ""]), "train.log")


@pytest.mark.parametrize(
    "text",
    [
        "Set `--xla_gpu_autotune_level=0`, or `XLA_FLAGS=--xla_gpu_autotune_level=0 python x`.",
        "| `--xla_gpu_autotune_level` | `0` |",
        "- NCCL_PROTO: SIMPLE",
        "> NCCL_PROTO=LL is slow",
        "# JAX_PLATFORMS=cpu",
        "1. one\n    more of it: NCCL_PROTO=LL",
    ],
)
def test_a_sentence_sets_nothing(text: str) -> None:
    written = document("# Title", text, "```bash", "export NCCL_DEBUG=INFO", "```")
    assert [one.name for one in written.given] == ["NCCL_DEBUG"]
    assert not [it for it in check(written, version="0.10.2") if it.code == "FLAG503"]


def test_what_a_sentence_seems_to_set_is_named() -> None:
    (named,) = document("Try `--xla_gpu_autotune_level=0` and `NCCL_PROTO=LL`, not xla_a.").notes
    assert named.endswith(": xla_gpu_autotune_level, NCCL_PROTO")


@pytest.mark.parametrize(
    "block",
    [
        '```bash\nBASE=--xla_a=1\nexport XLA_FLAGS="$BASE --xla_b=2"\n```',
        '```console\n$ export XLA_FLAGS="--xla_a=1 --xla_b=2"\n```',
        '~~~ python\nimport os\nos.environ.update({"XLA_FLAGS": "--xla_a=1 --xla_b=2"})\n~~~',
        '  ```py\n  >>> os.environ["XLA_FLAGS"] = "--xla_a=1 --xla_b=2"\n  ```',
        "```yaml\nenv:\n- name: XLA_FLAGS\n  value: >-\n    --xla_a=1\n    --xla_b=2\n```",
        '> ```sh\n> export XLA_FLAGS="--xla_a=1 --xla_b=2"\n> ```',
        '- ```sh\n  export XLA_FLAGS="--xla_a=1 --xla_b=2"\n  ```',
        '.. code-block:: bash\n   :caption: x\n\n   export XLA_FLAGS="--xla_a=1 --xla_b=2"\n',
        'Then::\n\n   export XLA_FLAGS="--xla_a=1 --xla_b=2"\n',
        '\n    export XLA_FLAGS="--xla_a=1 --xla_b=2"\n',
        '```python\ndef (:\n  "--xla_a=1 --xla_b=2"\n```',
        "```\n--xla_a=1\n--xla_b=2\n```",
        "```shell\nXLA_FLAGS=--xla_a=1 --xla_b=2\nMINE=1\n```",
        'Text\n```bash\nXLA_FLAGS="--xla_a=1 --xla_b=2"\npython x.py\n```',
        '```Dockerfile\nFROM x\nENV XLA_FLAGS="--xla_a=1 --xla_b=2"\n```',
    ],
    ids=lambda text: " ".join(text.split()),
)
def test_flags_of_a_code_block_are_found(block: str) -> None:
    written = document("# Title", block, "The end.")
    assert flags(written) == BOTH
    assert all((one.place.line or 0) >= 3 for one in written.given)
    assert not any(one.conditional for one in written.given)


def test_a_backslash_of_a_value_is_kept() -> None:
    assert flags(document("```bash", 'export XLA_FLAGS="--xla_a=to\\a\\file"', "```")) == [
        ("xla_a", "to\\a\\file")
    ]


def test_each_block_is_a_program_of_its_own() -> None:
    block = "```bash\nexport XLA_FLAGS=--xla_gpu_autotune_level={0} NCCL_DEBUG={1}\n```\n"
    written = document(block.format(0, "INFO"), block.format(4, "WARN"))
    assert [flags(one) for one in written.programs] == [
        [("xla_gpu_autotune_level", "4")],
        [("xla_gpu_autotune_level", "0")],
    ]
    assert [one.settings.variables for one in written.programs] == [
        {"NCCL_DEBUG": "WARN"},
        {"NCCL_DEBUG": "INFO"},
    ]
    assert not written.issues
    assert not [it for it in check(written, version="0.10.2") if it.code == "FLAG205"]


def test_comments_are_no_settings_of_a_code_block() -> None:
    written = document("```sh", "# --xla_c=1", 'export XLA_FLAGS="--xla_a=1"', "```")
    assert flags(written) == [("xla_a", "1")]
    assert not written.unread


def notebook(*cells: str, kind: str = "code") -> str:
    found = [{"cell_type": kind, "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps({"cells": found}, indent=1)


def test_the_cells_of_a_notebook_are_one_program() -> None:
    text = notebook(
        "%pip install jax\nimport os\n",
        'flags = "--xla_a=1"\nos.environ["XLA_FLAGS"] = flags\n',
        "!nvidia-smi\nif x:\n    %time f()\n",
        'os.environ["XLA_FLAGS"] += " --xla_b=2"\nimport jax\njax.devices()\n',
        'os.environ["XLA_FLAGS"] = "--xla_c=3"',
    )
    written = read_text(text, "x.ipynb")
    assert written.form == "notebook"
    assert flags(written) == BOTH
    rows = text.splitlines()
    assert all("xla_" in rows[(one.place.line or 0) - 1] for one in written.given)
    assert [issue.kind.name for issue in written.issues] == ["TOO_LATE"]


def test_a_notebook_has_cells_for_a_shell_and_variables_of_its_own() -> None:
    text = notebook(
        "%env JAX_PLATFORMS=cpu",
        "%%bash\nexport NCCL_DEBUG=INFO\n./x\n",
        "!XLA_FLAGS=--xla_a=1 python x.py",
        "%%writefile x.sh\nexport NCCL_PROTO=LL\n",
        "this is (no Python: NCCL_ALGO=Ring",
    )
    written = read_text(text, "x.ipynb")
    names = {one.name for program in written.programs for one in program.given}
    assert names == {"JAX_PLATFORMS", "NCCL_DEBUG", "xla_a"}
    assert "NCCL_ALGO" in " ".join(written.unread)
    assert "NCCL_PROTO" in " ".join(written.notes)
    assert not read_text(notebook("NCCL_DEBUG=INFO", kind="markdown"), "x.ipynb").given


def test_what_is_no_notebook_is_an_error() -> None:
    with pytest.raises(InputError, match=r"x\.ipynb: not a notebook"):
        read_text("{", "x.ipynb")


@pytest.mark.parametrize(
    "text",
    [
        'LIBTPU_INIT_ARGS="--xla_a=1 --xla_b=2"',
        'LIBTPU_INIT_ARGS="--xla_a=1\n  --xla_b=2"',
        "LIBTPU_INIT_ARGS=--xla_a=1 \\\n  --xla_b=2",
    ],
    ids=lambda text: " ".join(text.split()),
)
def test_in_a_log_the_variable_says_where_a_flag_is_read(text: str) -> None:
    written = log(text, "", "--xla_c=3")
    assert [(it.channel, it.name) for it in written.given] == [
        (Channel.LIBTPU_INIT_ARGS, "xla_a"),
        (Channel.LIBTPU_INIT_ARGS, "xla_b"),
        (Channel.XLA_FLAGS, "xla_c"),
    ]


def test_lines_of_a_log_are_read_one_by_one() -> None:
    written = log(
        "I0301 --xla_gpu_autotune_level=0, and --xla_b",
        "NCCL_PROTO: SIMPLE,LL",
        '  - name: "NCCL_NVLS_ENABLE"',
        '    value: "1"',
        "See [NCCL_ALGO=Ring](https://y).",
        "NCCL_DEBUG: for logs",
    )
    assert written.settings.variables == {
        "NCCL_PROTO": "SIMPLE,LL",
        "NCCL_NVLS_ENABLE": "1",
        "NCCL_ALGO": "Ring",
    }
    assert flags(written) == [("xla_gpu_autotune_level", "0")]
    assert lines(written)[0] == ("NCCL_PROTO", 2)


@pytest.mark.parametrize("value", [".XX", "$SHARE", "{share}"])
def test_a_placeholder_is_not_known(value: str) -> None:
    (one,) = log(f"Set XLA_PYTHON_CLIENT_MEM_FRACTION={value} to some share").given
    assert not one.known
