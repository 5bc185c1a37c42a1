"""STEP601: kernels in CUDA graphs that name no instruction."""

from __future__ import annotations

from compute_step import made, where

from counterpoint.core.basis import Unknown
from counterpoint.diagnose.rules.command_buffers_hide_ops import check
from counterpoint.diagnose.step_data import StepData
from golden_sections import Said

HLO = f"""
ENTRY main {{
  x = bf16[8192,8192]{{1,0}} parameter(0)
  ROOT known = bf16[8192,8192]{{1,0}} tanh(x), {where("jvp(mlp)/tanh", 7)}
}}
"""
NOTE = "12 spans ran inside CUDA graphs and name no instruction; XLA_FLAGS=... launches them"


def profiled(hidden: int, *notes: str) -> StepData:
    times = {"known": 10_000 - hidden, "sm90_kernel": hidden}
    return made(HLO, times, notes=notes, nameless=["sm90_kernel"])


def test_half_of_a_step_in_graphs(said: Said) -> None:
    (finding,) = check(profiled(5_000, NOTE))
    assert finding.code == "STEP601"
    assert "50% of the step" in finding.detail
    assert isinstance(finding.saves_ms, Unknown)
    assert ("xla_gpu_enable_command_buffer", "") in finding.remedy.flags
    assert [it.what for it in finding.evidence] == ["sm90_kernel"]
    said(finding)


def test_a_hundredth_of_a_step_leaves_the_rest_true() -> None:
    assert not list(check(profiled(100, NOTE)))


def test_kernels_without_a_name_outside_of_graphs_are_another_matter() -> None:
    assert not list(check(profiled(5_000)))
    assert not list(check(profiled(5_000, "7 of 8 devices were idle")))


def test_a_profile_in_which_all_have_names() -> None:
    assert not list(check(made(HLO, {"known": 10_000}, notes=[NOTE])))
