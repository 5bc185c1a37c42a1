"""Every recipe, given to the installed compiler: it takes all of it, and uses it as asked."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.forms import compiler_options
from counterpoint.flags.recipe import recipes
from counterpoint.flags.settings import Settings
from counterpoint.flags.text import render_xla_flags
from counterpoint.runs.reports import read_debug_options
from jaxlib_flags import find_library
from xla_compiler import Compiler
from xla_options import OptionField, read_fields

Fields = Mapping[int, tuple[int | bytes, ...]]
Parser = Callable[[str], "Fields | None"]

CHIP = "H100"
FLAGGED = [name for name, recipe in recipes().items() if recipe.flags]


@pytest.fixture(scope="module")
def here() -> Release:
    return release(pytest.importorskip("jaxlib.version").__version__)


@pytest.fixture(scope="module")
def numbered() -> dict[str, OptionField]:
    found = importlib.util.find_spec("jaxlib")
    if found is None or found.origin is None:
        pytest.skip("jaxlib is not here")
    return {field.name: field for field in read_fields(find_library(Path(found.origin).parent))}


def resolved(name: str, here: Release) -> Settings:
    """The recipe for this release, and the lines for any chip: none may be left out untried."""
    recipe = recipes()[name]
    return recipe.resolve(here.version, CHIP).merged(recipe.resolve(here.version, "A100"))


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def encoded(field: OptionField, value: str) -> tuple[int | bytes, ...]:
    """What a field holds when the flag is set to a value, written down without XLA."""
    enum = {name: number for number, name in field.enum.items()}
    if field.type == "bool":
        return (int(value == "true"),)
    if field.type in ("int32", "int64"):
        return (int(value),)
    if field.type == "enum":
        name = next(it for it in enum if it == value or it.endswith(f"_{value.upper()}"))
        return (enum[name],)
    if field.type == "enums":
        packed = b"".join(varint(enum[name]) for name in value.split(",") if name)
        return (packed,) if packed else ()
    if field.type == "strings":
        return tuple(name.encode() for name in value.split(","))
    return (value.encode(),)


@pytest.mark.parametrize("name", FLAGGED)
def test_xla_flags_come_to_what_was_asked_and_to_nothing_else(
    xla: Parser, here: Release, numbered: Mapping[str, OptionField], name: str
) -> None:
    flags = resolved(name, here).flags
    base, found = xla(""), xla(render_xla_flags(flags.items()))
    assert base is not None
    assert found is not None, flags
    expected = dict(base)
    for flag, value in flags.items():
        field = numbered[here.flags[flag].alias_of or flag]
        expected[field.number] = encoded(field, value)
    keys = expected.keys() | found.keys()
    differing = {key for key in keys if found.get(key, ()) != expected.get(key, ())}
    assert not differing, flags


@pytest.mark.parametrize("name", FLAGGED)
def test_a_sharded_step_compiles_with_it_and_its_options_hold(
    compiler: Compiler, here: Release, tmp_path: Path, name: str
) -> None:
    settings = resolved(name, here)
    asked = compiler_options(settings, here)
    flags = {line for line, _ in asked.left_out if line.partition("=")[0] in settings.flags}
    assert not flags  # each flag of a recipe can be told a single compile
    dump = str(tmp_path / "dump")
    options = {name: it for name, it in asked.taken.items() if not isinstance(it, float)}
    assert options == asked.taken
    compiled = compiler.compile("small", **{**options, "xla_dump_to": dump})
    assert compiled.error is None, compiled.error
    effective = [read_debug_options(path) for path in Path(dump).glob("*.debug_options")]
    assert effective
    for told in effective:
        for flag, value in asked.taken.items():
            if flag == "xla_dump_to":
                continue
            shown = told.get(flag)
            if shown is None:  # the default, or an empty list: neither is written
                assert value == "" or here.flags[flag].is_default(str(value).lower()), flag
            else:
                assert shown == (str(value).lower() if isinstance(value, bool) else str(value))


HARD = Settings(
    (
        ("xla_gpu_disable_async_collectives", "allreduce,AllGather"),
        ("xla_gpu_enable_command_buffer", "-FUSION"),
        ("xla_gpu_enable_latency_hiding_scheduler", "1"),
        ("xla_gpu_auto_spmd_partitioning_memory_budget_ratio", "1.5"),
        ("xla_gpu_autotune_gemm_rtol", "0"),
        ("xla_gpu_experimental_pipeline_parallelism_opt_level", "1"),
        ("xla_disable_hlo_passes", "rematerialization"),
        ("xla_disable_hlo_passes", "latency-hiding-scheduler"),
    )
)


def test_values_that_options_write_otherwise_than_flags_are_taken(
    compiler: Compiler, here: Release
) -> None:
    taken: dict[str, Any] = compiler_options(HARD, here).taken
    assert len(taken) == len(HARD.flags)
    assert compiler.compile("small", **taken).error is None
