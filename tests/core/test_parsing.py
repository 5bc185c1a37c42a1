"""Texts that are nested without end: one clear error from every reader of TOML and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoint.core.errors import InputError
from counterpoint.core.parsing import parse_json, parse_toml
from counterpoint.cost.scalars import read_scalars
from counterpoint.cost.tables.kernel_toml import read_kernel_toml
from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.parse.source import read_source
from counterpoint.hardware.target_file import read_target
from counterpoint.runs.reader import read_run
from counterpoint.timeline.storage.parquet import read_parquet
from counterpoint.tune.space.space_file import read_space

MANY = 10_000
TOML = {
    "a dotted key": ".".join(["a"] * MANY) + " = 1\n",
    "a quoted key": " . ".join(['"a"'] * MANY) + " = 1\n",
    "a header": f"[{'.'.join(['a'] * MANY)}]\n",
    "headers of tables": f"[[{'.'.join(['a'] * MANY)}]]\n" * 3,
    "a key within a table": "[xla_flags]\nx = {" + ".".join(["a"] * MANY) + " = 1}\n",
    "lists": "a = " + "[" * MANY + "]" * MANY + "\n",
    "open lists": "a = " + "[" * 100 * MANY + "\n",
    "tables": "a = " + "{a = " * MANY + "1" + "}" * MANY + "\n",
    "lists of tables": "a = " + "[{a = " * MANY + "1" + "}]" * MANY + "\n",
    "several lines": "a = [\n" * MANY + "]\n" * MANY,
    "very much text": "a = 1\n" * 1_000_000,
}
READERS: dict[str, Callable[[Path], object]] = {
    "--space": read_space,
    "--target": lambda it: read_target(str(it)),
    "--calibration": read_scalars,
    "--kernels": read_kernel_toml,
    "--settings": load_settings,
    "flags check": read_source,
}


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_toml_file_that_is_nested_too_deep_is_one_error(
    read: Callable[[Path], object], text: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        read(path)
    assert str(path) in raised.value.what
    assert len(str(raised.value)) < 1_000
    assert raised.value.next or "MiB" in raised.value.what


def test_what_people_write_is_read() -> None:
    text = f"a.b.{'.'.join('c' * 60)} = [[1, [2]], {{d = {{e.f = 1}}}}]\n'x.y'.\"p.q\" = 'a.b.c'\n"
    assert parse_toml(text)["x.y"] == {"p.q": "a.b.c"}
    dots = 'about = "' + "a. b. c.d, 1.2 ..." * 200 + '"\n'
    assert list(parse_toml(dots)) == ["about"]


DEEP = "[" * 100_000


@pytest.mark.parametrize("text", [DEEP, f'{{"a": {DEEP}', DEEP + "]" * 100_000])
def test_json_that_is_nested_too_deep_is_an_error_of_the_text(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        parse_json(text)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text(text)
    for read in (read_run, read_parquet):
        with pytest.raises(InputError):
            read(tmp_path / "run")
    path = tmp_path / "space.json"
    path.write_text(text)
    with pytest.raises(InputError, match="nested too deep"):
        read_space(path)
    cell = json.dumps(text)
    for name, source in (
        ("x.ipynb", f'{{"cells": [{{"cell_type": "code", "source": {text}'),
        ("y.ipynb", f'{{"cells": [{{"cell_type": "code", "source": {cell}}}]}}'),
        ("Dockerfile", f"FROM x\nENV NCCL_ALGO=Ring\nCMD {text}\n"),
    ):
        (tmp_path / name).write_text(source)
        try:
            read_source(tmp_path / name)
        except InputError as error:
            assert len(str(error)) < 1_000  # noqa: PT017 - nothing to be read is no error, either
