"""Collectives of many operands that are slower than their like: 2 MiB in 4 ms against 1 ms."""

from __future__ import annotations

import pytest
from made_step import GROUPS, Work, hlo, made, negate, told

from counterpoint.diagnose.collectives.requirement import Bound, classify
from counterpoint.diagnose.rules import exposed_collective
from counterpoint.diagnose.step_data import StepData
from golden_sections import Said

SIZE = 1 << 16


def gather(name: str, channel: int, operands: int) -> str:
    """Of eight values' bytes in all, whatever it is made of."""
    size = 8 * SIZE // operands
    value = f"f32[{size}]{{0}}"
    made_of = ", ".join([value] * operands)
    kind = f"({made_of})" if operands > 1 else value
    given = ", ".join(f"%v{operands}.{at}" for at in range(operands))
    values = "\n".join(
        f"  %v{operands}.{at} = {value} broadcast(%zero), dimensions={{}}"
        for at in range(operands)
        if name in ("many", "one.1")
    ).strip()
    start = (
        f"%{name} = {kind} all-reduce-start({given}), channel_id={channel}, {GROUPS}, to_apply=%add"
    )
    done = f"%{name}.done = {kind} all-reduce-done(%{name})"
    return "\n  ".join(line for line in (values, start, done) if line)


def case(many_ms: float, others: int = 2) -> StepData:
    names = [f"one.{at + 1}" for at in range(others)]
    text = hlo(
        "%zero = f32[] constant(0)",
        gather("many", 1, 8),
        *(gather(name, at + 2, 1) for at, name in enumerate(names)),
        negate("first", "p"),
        root=negate("work", "first"),
    )
    ones: list[Work] = [(name, 10 + 3 * at, 1.0) for at, name in enumerate(names)]
    step = [("first", 0, 5.0), ("many", 5, many_ms), *ones, ("work", 22, 5.0)]
    return made(text, step, 30, flags={})


@pytest.mark.parametrize(
    ("given", "slow"), [(case(4.0), True), (case(1.5), False), (case(4.0, others=1), False)]
)
def test_it_must_be_far_slower_than_two_others(given: StepData, slow: bool) -> None:
    rows = {row["op"]: row for row in given.cached(classify).to_dicts()}
    assert (rows["many"]["bound"] == Bound.OPERANDS) == slow
    assert rows["one.1"]["bound"] != Bound.OPERANDS
    if slow:
        assert "8 operands of 0.25 MiB" in rows["many"]["why"]
        assert "0.524 GB/s; 2 others" in rows["many"]["why"]


def test_the_rule_says_so_and_proposes_fewer_operands() -> None:
    (found,) = [it for it in exposed_collective.check(case(4.0)) if "8 operands" in it.detail]
    assert "a smaller --xla_gpu_all_reduce_combine_threshold_bytes" in found.remedy.text


def test_the_rule_says_when_no_schedule_hides_it(said: Said) -> None:
    row = {"movable_ms": 1.5, "bound": Bound.UNKNOWN, "why": "slow"}
    (found,) = exposed_collective.check(told(case(4.0), many=row))
    assert "longer than all" in found.detail
    said(found)
    row = {"movable_ms": 8.0, "bound": Bound.UNKNOWN, "why": "slow"}
    (found,) = exposed_collective.check(told(case(4.0), many=row))
    assert "longer than all" not in found.detail
