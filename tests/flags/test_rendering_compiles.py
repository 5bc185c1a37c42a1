"""Compiler options as they are written are what the real compiler takes."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest

from counterpoint.flags.catalogue import release
from counterpoint.flags.forms import compiler_options
from counterpoint.flags.recipe import recipes
from counterpoint.flags.settings import Settings
from xla_compiler import Compiler, why_none

pytestmark = pytest.mark.skipif(why_none() is not None, reason=why_none() or "")

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


@pytest.mark.parametrize("name", ["hard", *sorted(recipes())])
def test_the_compiler_takes_the_options_of(name: str, compiler: Compiler) -> None:
    here = release(importlib.metadata.version("jaxlib"))
    settings = HARD if name == "hard" else recipes()[name].resolve(here.version)
    options = compiler_options(settings, here)
    taken: dict[str, Any] = options.taken
    compiled = compiler.compile("small", **taken)
    assert compiled.error is None, (options.taken, compiled.error)
