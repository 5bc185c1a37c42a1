"""STEP402: XLA's own rematerialisation."""

from __future__ import annotations

from pathlib import Path

import pytest
from compute_step import made, priced, where
from runs_with_memory import run_with

from counterpoint.core.basis import Unknown
from counterpoint.diagnose.rules.compiler_remat import check
from golden_sections import Said

WARNING = (
    "W1121 09:25:01.123456   4711 hlo_rematerialization.cc:3022] Can't reduce memory use below"
    " 51.28GiB (55061412249 bytes) by rematerialization; only reduced to 61.92GiB (66486093742"
    " bytes), down from 65.83GiB (70684424765 bytes) originally\n"
)


def cloned(name: str) -> str:
    return f"""
ENTRY main {{
  x = bf16[8192,8192]{{1,0}} parameter(0)
  kept = bf16[8192,8192]{{1,0}} tanh(x), {where("jvp(mlp)/tanh", 7)}
  {name} = bf16[8192,8192]{{1,0}} tanh(x), {where("jvp(mlp)/tanh", 7)}
  ROOT out = bf16[8192,8192]{{1,0}} add(kept, {name})
}}
"""


@pytest.mark.parametrize("name", ["kept.remat", "kept.remat2", "kept.remat.4", "kept.remat3.1"])
def test_clones_that_ran(name: str, said: Said) -> None:
    (finding,) = check(made(cloned(name), {"kept": 100, name: 100, "out": 800}))
    assert finding.code == "STEP402"
    assert f"{name} (/home/me/model/mlp.py:7) of kept" in finding.detail
    assert priced(finding).high == pytest.approx(0.1, rel=0.06)
    assert ("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92") in finding.remedy.environment
    said(finding)


def test_a_share_that_was_chosen_is_not_named_again(tmp_path: Path) -> None:
    run = run_with(tmp_path, share="0.9")
    times = {"kept": 100, "kept.remat": 100}
    (finding,) = check(made(cloned("kept.remat"), times, run=run))
    assert not finding.remedy.environment


def test_the_compilers_warning_says_by_how_much(tmp_path: Path, said: Said) -> None:
    run = run_with(tmp_path, log=WARNING)
    times = {"kept": 100, "kept.remat": 100}
    (finding,) = check(made(cloned("kept.remat"), times, run=run))
    (alone,) = check(made(cloned("other"), {"kept": 100, "other": 100}, run=run))
    assert isinstance(alone.saves_ms, Unknown)
    said(finding)


def test_a_name_that_only_looks_like_it() -> None:
    times = {"kept": 100, "remat_of_mine": 100}
    assert not list(check(made(cloned("remat_of_mine"), times)))


def test_a_quiet_compiler_is_fine(tmp_path: Path) -> None:
    run = run_with(tmp_path, log="I1121 09:25:01.1 4711 gpu_compiler.cc:12] all is well\n")
    assert not list(check(made(cloned("other"), {"kept": 100, "other": 100}, run=run)))
