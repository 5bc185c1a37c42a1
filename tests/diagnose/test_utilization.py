"""Utilization: what counts as the model's work, and which chip it is compared with."""

from __future__ import annotations

import pytest
from compute_step import H100, made, where

from counterpoint.diagnose.explanation import explain
from counterpoint.diagnose.ops import Utilization
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target

SIZE = 4096
FLOPS = 2 * SIZE**3
PEAK = 989.4e12  # of H100, dense bfloat16
FORWARD = "jvp(Model)/mlp/dot_general"
AGAIN = "transpose(jvp(Model))/rematted_computation/mlp/dot_general"
BACKWARD = "transpose(jvp(Model))/mlp/dot_general"


def step(*scopes: str | None) -> str:
    """A product for each scope, of the one before."""
    dots = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    shape = f"bf16[{SIZE},{SIZE}]{{1,0}}"
    lines = [f"  p0 = {shape} parameter(0)"]
    for number, scope in enumerate(scopes, 1):
        before = f"p{number - 1}"
        named = f", {where(scope, number)}" if scope else ""
        root = "ROOT " if number == len(scopes) else ""
        lines.append(f"  {root}p{number} = {shape} dot({before}, p0), {dots}{named}")
    return "ENTRY main {\n" + "\n".join(lines) + "\n}\n"


def used(*scopes: str | None, chip: str | None = H100, target: Target | None = None) -> Utilization:
    data = made(step(*scopes), {f"p{n}": 1000 for n in range(1, len(scopes) + 1)}, chip=chip)
    return explain(data.timeline, target=target).utilization


def shares(use: Utilization) -> tuple[float | None, float | None]:
    return use.mfu, use.hfu


def test_recomputed_products_are_no_work_of_the_model() -> None:
    use = used(FORWARD, AGAIN, BACKWARD, BACKWARD)
    rate = FLOPS / 1e-3
    assert use.hfu == pytest.approx(rate / PEAK, rel=1e-3)
    assert use.mfu == pytest.approx(0.75 * rate / PEAK, rel=1e-3)
    assert use.recomputed_flops_per_s == pytest.approx(0.25 * rate)


def test_without_recomputation_both_are_the_same() -> None:
    use = used(FORWARD, BACKWARD)
    assert use.mfu == use.hfu
    assert use.recomputed_flops_per_s == 0


def test_without_phases_recomputation_is_unknown() -> None:
    use = used(None, None)
    assert use.mfu == use.hfu
    assert use.recomputed_flops_per_s is None


def test_a_target_names_the_chip_that_a_profile_does_not() -> None:
    assert shares(used(FORWARD, chip=None)) == (None, None)
    named = used(FORWARD, chip=None, target=parse_target("1xH100"))
    assert named.chip == "H100 SXM"
    assert named.hfu == pytest.approx(FLOPS / 1e-3 / PEAK, rel=1e-3)
