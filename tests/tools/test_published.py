"""Published recipes: true to what their repositories say, and to each release's names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.settings import Channel
from published_recipe import Published, published
from recipe_pages import VERSIONS
from recipe_verdict import Effect, judge_published, remains_of

PAGE = Path(__file__).parents[2] / "docs" / "recipes-of-others.md"
REPOSITORIES = {
    "gpu-recipes": "AI-Hypercomputer/gpu-recipes",
    "maxtext": "AI-Hypercomputer/maxtext",
    "axlearn": "apple/axlearn",
    "jax-toolbox": "NVIDIA/JAX-Toolbox",
    "jax-docs": "jax-ml/jax",
}


def names(recipe: Published) -> set[str]:
    return {one.name for one in recipe.written.through(Channel.XLA_FLAGS)} | set(recipe.named)


def ours(entry: dict[str, Any]) -> list[Published]:
    repository = f"https://github.com/{REPOSITORIES[entry['source']]}"
    return [
        one
        for one in published()
        if one.repository == repository and set(one.paths) & set(entry["paths"])
    ]


@pytest.fixture(scope="session")
def entries(shared: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        (shared / "data" / "flags" / "recipes.json").read_text()
    )
    return found


def test_each_recipe_has_its_flags_places_and_chip() -> None:
    for recipe in published():
        assert names(recipe), recipe.name
        assert recipe.chip in ("H100", "H200", "B200"), recipe.name
        assert len(recipe.commit) == 40, recipe.name
        assert all(url.startswith("https://github.com/") for url in recipe.urls), recipe.name
    assert len({one.name for one in published()}) == len(published())


def test_none_of_the_known_recipes_is_missing_and_each_has_the_same_flags(
    entries: list[dict[str, Any]],
) -> None:
    for entry in entries:
        found = ours(entry)
        assert found, entry["paths"]
        assert set().union(*map(names, found)) >= set(entry["flags"]), entry["paths"]


@pytest.mark.parametrize("version", ["0.5.3", "0.6.2", "0.8.3", "0.10.2", "0.11.0", "0.12.0.1"])
def test_the_unknown_flags_of_each_are_those_that_the_release_ended_at(
    entries: list[dict[str, Any]], version: str
) -> None:
    for entry in entries:
        unknown = {
            name
            for recipe in ours(entry)
            for name in judge_published(recipe, version).those(Effect.UNKNOWN)
        }
        assert unknown == set(entry["unknown"].get(version, ())), (entry["paths"], version)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_remains_of_a_recipe_is_known_to_the_release(version: str) -> None:
    for recipe in published():
        words = (remains_of(recipe, version) or "").split()
        kept = [word.partition("=")[0] for word in words if word[:2] == "--"]
        assert all(release(version).flags[name[2:]].xla_flags for name in kept), recipe.name


def test_what_a_recipe_asks_for_is_told_from_what_holds_anyway() -> None:
    (recipe,) = [one for one in published() if one.name == "AXLearn, A4 High"]
    verdict = judge_published(recipe, "0.10.2")

    assert verdict.effects["xla_gpu_enable_pipelined_reduce_scatter"] is Effect.DEFAULT
    assert verdict.effects["xla_gpu_cudnn_gemm_fusion_level"] is Effect.IDLE
    assert verdict.effects["xla_gpu_enable_latency_hiding_scheduler"] is Effect.UNASKED
    assert verdict.effects["xla_gpu_enable_pipelined_all_gather"] is Effect.WORKS
    assert "FLAG505" in {one.code for one in verdict.remarks}
    assert "cudnn_gemm_fusion_level" not in (remains_of(recipe, "0.10.2") or "")


def test_flags_of_a_page_of_alternatives_are_not_held_against_each_other() -> None:
    (recipe,) = [one for one in published() if one.name == "JAX-Toolbox, GPU performance"]
    verdict = judge_published(recipe, "0.10.2")

    assert remains_of(recipe, "0.10.2") is None
    interactions = {one.code for one in verdict.remarks if one.code.startswith("FLAG4")}
    assert interactions == {"FLAG405"}  # the compile fails with both, whatever the page means


def test_what_does_nothing_alone_is_not_said_to_work() -> None:
    (page,) = (one for one in published() if one.name == "JAX-Toolbox, GPU performance")
    verdict = judge_published(page, "0.10.2")
    assert verdict.effects["xla_gpu_collective_permute_decomposer_threshold"] is Effect.IDLE
    failing = [one.name for one in verdict.remarks if one.code == "FLAG405"]
    assert failing == ["xla_gpu_enable_pipelined_p2p"]


def test_where_nothing_remains_nothing_is_exported() -> None:
    text = PAGE.read_text("utf-8")  # test_make_docs.py holds it to its generator
    assert 'XLA_FLAGS=""' not in text
    assert ": nothing.\n" in text
    assert "`xla_gpu_cudnn_gemm_fusion`: unknown" in text
