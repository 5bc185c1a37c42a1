"""STEP103: small collectives that the combiner could merge. Milliseconds:

          0      5    5.1  5.3  5.4    10
main      work.1 one  two  three work.2
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from made_step import GROUPS, Work, hlo, made, negate, reduce

from counterpoint.core.basis import Basis, Range
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import small_collectives
from counterpoint.diagnose.step_data import StepData
from counterpoint.flags.combiner import DEFAULT
from golden_sections import Said

FLAG = "xla_gpu_all_reduce_combine_threshold_bytes"
STEP: list[Work] = [
    ("work.1", 0, 5),
    ("one", 5, 0.1),
    ("two", 5.1, 0.2),
    ("three", 5.3, 0.1),
    ("work.2", 5.4, 5),
]
NAMES = ("one", "two", "three")


def program(*sums: str, size: int = 1024) -> str:
    chosen = sums or tuple(
        reduce(name, "work.1", size, channel=at) for at, name in enumerate(NAMES, 1)
    )
    return hlo(
        negate("work.1", "p", size),
        *chosen,
        f"%total = f32[{size}]{{0}} add(%one, %two)",
        root=f"%work.2 = f32[{size}]{{0}} add(%total, %three)",
        size=size,
    )


def case(text: str | None = None, *, flags: Mapping[str, str] | None = None) -> StepData:
    return made(text or program(), STEP, 10.4, flags=flags, jaxlib="0.10.2")


def ask(case: StepData) -> list[Finding]:
    return list(small_collectives.check(case))


def test_those_that_would_be_one_are_told_with_the_threshold_that_does_it(said: Said) -> None:
    (found,) = ask(case(flags={FLAG: "0"}))
    assert found.remedy.flags == ((FLAG, str(DEFAULT)),)
    assert [it.what for it in found.evidence] == ["two", "one", "three"]
    said(found)


def test_what_is_saved_is_bounded_by_the_start_of_each_that_falls_away() -> None:
    (found,) = ask(case(flags={FLAG: "0"}))
    assert isinstance(found.saves_ms, Range)
    assert (found.saves_ms.low, found.saves_ms.high) == (0.0, pytest.approx(0.2))
    assert found.basis is Basis.RULE_OF_THUMB


def test_where_nobody_knows_the_flags_it_is_found_too() -> None:
    assert len(ask(case())) == 1


def test_what_the_threshold_in_force_did_not_merge_is_left_alone() -> None:
    assert not ask(case(flags={}))
    assert not ask(case(flags={FLAG: str(1 << 30)}))


def test_one_that_waits_for_another_is_not_merged_with_it() -> None:
    chain = (reduce("one", "work.1"), reduce("two", "one"), reduce("three", "two"))
    assert not ask(case(program(*chain), flags={FLAG: "0"}))


def test_those_of_other_groups_are_not_merged(said: Said) -> None:
    alone = GROUPS.replace("{0,1}", "{0},{1}")
    other = reduce("two", "work.1").replace(GROUPS, alone)
    (found,) = ask(
        case(program(reduce("one", "work.1"), other, reduce("three", "work.1")), flags={FLAG: "0"})
    )
    assert "one, three" in found.detail
    said(found)


def test_large_ones_are_left_to_other_rules() -> None:
    assert not ask(case(program(size=1 << 19), flags={FLAG: "0"}))
