"""Recipes: each line has its reason, and each release gets the flags that it knows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoint.core.errors import InputError
from counterpoint.flags.jaxlib import installed_version
from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.recipe import Recipe, chip_generation, read_recipe, recipes
from counterpoint.flags.settings import Layout, Settings
from counterpoint.flags.text import render_xla_flags

SHARED_RELEASES = ("0.4.35", "0.5.3", "0.6.2", "0.7.2", "0.8.3", "0.9.2", "0.10.2", "0.12.0.1")
GUIDES = [
    "fsdp",
    "data-parallel",
    "collective-matmul",
    "pipeline-parallel",
    "latency-hiding",
    "combine-1GiB",
    "memory",
    "pgle-recommended",
    "pgle-log",
    "auto-pgle",
    "auto-pgle-cached",
    "pgle-profile-run",
    "cuda-graphs",
    "dus-fusion",
    "nccl-user-buffers",
    "nccl-channels",
    "nccl-one-host",
    "debug-dumps",
    "cudnn-fusions",
    "matmul-precision",
    "triton-gemm",
    "one-process-per-gpu",
    "megascale",
    "levanter-profiler",
    "levanter-profiler-marin",
]


def everything(recipe: Recipe) -> set[str]:
    """All names that a recipe says something of."""
    lines = (*recipe.lines, *recipe.arguments, *recipe.kernel)
    return {line.name for line in lines} | {name for name, _ in recipe.left_out}


def test_every_theme_of_the_guides_is_a_recipe() -> None:
    assert set(GUIDES) <= set(recipes())


@pytest.mark.parametrize("name", list(recipes()))
def test_each_line_says_why_and_on_what_ground(name: str) -> None:
    recipe = recipes()[name]
    assert recipe.about.endswith(".")
    assert recipe.source.startswith("https://")
    assert everything(recipe) or recipe.advice
    for line in (*recipe.lines, *recipe.arguments, *recipe.kernel):
        assert line.reason, line.name
        assert line.basis in ("documented", "measured", "rule of thumb"), line.name
    assert all(text for _, text in recipe.left_out)


@pytest.mark.parametrize("version", SHARED_RELEASES)
def test_each_release_knows_what_it_gets(shared: Path, version: str) -> None:
    known = json.loads((shared / "data" / "flags" / f"{version}.json").read_text())
    flags = known["flags"]
    for flag in {it for one in recipes().values() for it in one.resolve(version, None).flags}:
        assert flag in known["extra_flags"] or flags[flag]["has_flag"], flag
        assert flag in known["extra_flags"] or not flags[flag]["noop_setter"], flag


@pytest.mark.parametrize("name", list(recipes()))
def test_the_installed_xla_takes_each_recipe(xla: Callable[[str], object], name: str) -> None:
    assert xla(render_xla_flags(recipes()[name].resolve(installed_version()).xla)) is not None


def test_the_pgle_recipe_covers_the_page_it_comes_from(shared: Path) -> None:
    page = next((shared / "sources").glob("000_*.txt")).read_text("utf-8")
    wanted = page[page.index("### Recommended XLA Flags") : page.index("### About Combine")]
    asked = set(re.findall(r"--(xla_\w+)", wanted))
    assert len(asked) == 14
    assert asked <= everything(recipes()["pgle-recommended"])


ELSEWHERE = {
    "xla_gpu_pgle_profile_file_or_directory_path",  # `counterpoint pgle` sets it
    "xla_gpu_disable_async_collectives",
}


def test_every_flag_of_the_pages_is_in_a_recipe_or_left_out_with_a_reason(shared: Path) -> None:
    text = "\n".join(path.read_text("utf-8") for path in (shared / "sources").glob("*.txt"))
    flags = set(re.findall(r"\b(xla_(?:gpu|disable|dump)_\w+|megascale_\w+)\b", text))
    variables = set(re.findall(r"\b((?:NCCL|JAX|TF_CPP|CUDA)_[A-Z_0-9]+|XLA_PYTHON\w+)\b", text))
    told = {name for recipe in recipes().values() for name in everything(recipe)}
    assert len(flags) > 40
    assert flags - told <= ELSEWHERE
    assert not variables - told


def test_a_release_gets_the_name_that_it_has() -> None:
    recipe = recipes()["fsdp"]
    assert recipe.resolve("0.11.0", "H100").flags["xla_gpu_enable_pipelined_all_gather"] == "true"
    assert recipe.resolve("0.12.0", "H100").flags["xla_gpu_pipeline_all_gather"] == "on"
    assert "xla_gpu_enable_pipelined_all_gather" not in recipe.resolve("0.11.1").flags


@pytest.mark.parametrize(
    ("version", "chip", "asked", "queues"),
    [
        ("0.6.2", "H100", True, True),
        ("0.10.2", "H100", False, True),
        ("0.10.2", "A100-40GB", True, True),
        ("0.10.2", "B200", False, False),
        ("0.10.2", "GB200", False, False),
        ("0.10.2", None, True, True),
    ],
)
def test_what_a_chip_needs(version: str, chip: str | None, asked: bool, queues: bool) -> None:
    settings = recipes()["latency-hiding"].resolve(version, chip)
    assert ("xla_gpu_enable_latency_hiding_scheduler" in settings.flags) is asked
    assert ("CUDA_DEVICE_MAX_CONNECTIONS" in settings.variables) is queues


@pytest.mark.parametrize(
    ("chip", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "hopper"),
        ("GH200", "hopper"),
        ("B200", "blackwell"),
        ("NVIDIA A100-SXM4-40GB", "ampere"),
        ("MI300X", "amd"),
        ("TPU v5p", "tpu"),
        ("v5e", "tpu"),
        ("Voodoo", None),
    ],
)
def test_generations_are_told_by_names(chip: str, expected: str | None) -> None:
    assert chip_generation(chip) == expected


def test_libtpus_flags_travel_in_their_variable() -> None:
    variables = recipes()["megascale"].resolve("0.10.2", "v5p").variables
    assert variables["LIBTPU_INIT_ARGS"].startswith("--megascale_grpc_premap_memory_bytes=")
    assert recipes()["megascale"].resolve("0.10.2", "H100") == Settings()


def test_a_layout_is_part_of_settings() -> None:
    assert recipes()["one-process-per-gpu"].settings.layout == Layout(gpus_per_process=1)


def test_a_users_file_may_say_for_which_release_a_line_is(tmp_path: Path) -> None:
    text = """
    [xla_flags]
    xla_gpu_pipeline_all_gather = { value = "on", since = "0.12" }
    xla_a = [{ value = 1, before = "0.12" }, { value = 2, since = "0.12" }]
    """
    path = tmp_path / "s.toml"
    path.write_text(text)
    assert load_settings(path, version="0.10.2").xla == (("xla_a", "1"),)
    assert load_settings(path, version="0.12.0").xla[1] == ("xla_a", "2")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{ value = 1, chips = ["Voodoo"] }', "invalid chips 'Voodoo'"),
        ('{ value = 1, hosts = "many" }', "invalid hosts 'many'"),
        ("{ value = 1, chips = 3 }", "chips is not a list of strings"),
        ("{ value = 1, unknown = 3 }", "a table with value, unknown in it"),
    ],
)
def test_a_condition_that_means_nothing_is_refused(line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_recipe(f"[xla_flags]\nxla_a = {line}", "s.toml")


def test_a_layout_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="gpus_per_process"):
        read_recipe('[layout]\ngpus = "8"', "s.toml")
