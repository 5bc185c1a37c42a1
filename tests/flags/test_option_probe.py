"""Compiler options, asked of the real JAX: what is refused, and what to do instead."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from counterpoint.flags.option_probe import Value, probe_options

PAIRS: list[tuple[str, Value, str | None]] = [
    ("xla_gpu_autotune_level", 4, None),
    ("xla_gpu_autotune_level", "4", None),
    ("xla_gpu_autotune_level", "x", "integer"),
    ("xla_gpu_enable_triton_gemm", "True", None),
    ("xla_gpu_enable_triton_gemm", "true", "True or False"),
    ("xla_gpu_enable_triton_gem", True, "Did you mean xla_gpu_enable_triton_gemm"),
    ("xla_gpu_disable_async_collectives", "ALLREDUCE,ALLGATHER", None),
    ("xla_gpu_disable_async_collectives", "allreduce", "ALLREDUCE"),
    ("xla_fuel", "1", "XLA_FLAGS only"),
    ("xla_gpu_executable_warn_stuck_timeout", 5, "or set xla_gpu_executable_warn_stuck_timeout_s"),
    ("xla_backend_extra_options", "a=b", "its value is a message"),
    ("xla_gpu_graph_level", 1, "0.7.1 had it, 0.7.2 does not"),
    ("optimization_level", "O1", "a number"),
    ("xla_dump_to", "/nobody/looks/here", None),
]


@pytest.mark.smoke
def test_the_installed_jax_says_what_it_takes() -> None:
    """All in one process; nothing is compiled, so nothing is dumped."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not here")
    environment = {**os.environ, "XLA_FLAGS": "--xla_nobody_knows=1"}  # another channel
    answer = probe_options(sys.executable, [(name, v) for name, v, _ in PAIRS], environment)
    assert answer.note is None
    assert answer.version
    told = {(one.name, one.value): one.hint for one in answer.rejected}
    refused = {(name, str(value)): hint for name, value, hint in PAIRS if hint is not None}
    assert told.keys() == refused.keys()
    for pair, hint in refused.items():
        assert hint in told[pair], pair


def test_who_cant_be_asked_says_why(tmp_path: Path) -> None:
    pairs = [("xla_gpu_autotune_level", 4)]
    assert "no such program" in (probe_options("/nothere/python", pairs).note or "")
    assert "not be checked" in (probe_options("/bin/cat", pairs).note or "")
    (tmp_path / "jax.py").write_text("raise ImportError('broken install')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert "broken install" in (probe_options(sys.executable, pairs, environment).note or "")


def test_where_one_ends_the_process_the_others_are_asked_all_the_same(tmp_path: Path) -> None:
    """With a jax of our own making: XLA's crashes come and go with its releases."""
    (tmp_path / "jaxlib").mkdir()
    (tmp_path / "jaxlib" / "__init__.py").touch()
    (tmp_path / "jaxlib" / "version.py").write_text("__version__ = '0.10.2'")
    (tmp_path / "jax.py").write_text(
        "import os\n"
        "class Lowered:\n"
        "    def lower(self, x): return self\n"
        "    def compile(self, compiler_options):\n"
        "        name = list(compiler_options)[0]\n"
        "        if name == 'crash': os._exit(139)\n"
        "        raise ValueError(f'No such compile option: {name!r}')\n"
        "def jit(f): return Lowered()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    pairs: list[tuple[str, Value]] = [("one", 1), ("crash", 1), ("other", 1)]
    answer = probe_options(sys.executable, pairs, environment)
    assert [one.name for one in answer.rejected] == ["one", "crash", "other"]
    unknown, crash, other = (one.reason for one in answer.rejected)
    assert unknown == other
    assert "crash" in crash
