"""STEP104: one large collective at an end of the step. Milliseconds:

          0       40      46      48
main      work.1  reduce  update
"""

from __future__ import annotations

from made_step import GROUPS, Work, hlo, made, negate, reduce, told

from counterpoint.core.basis import Range
from counterpoint.diagnose.collectives.requirement import Bound
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import nothing_hides_the_last
from counterpoint.diagnose.step_data import StepData
from counterpoint.flags.thresholds import flag_of
from golden_sections import Said

SIZE = 1 << 20
VALUE = f"f32[{SIZE}]{{0}}"
AT_END = hlo(
    negate("work.1", "p", SIZE),
    reduce("reduce", "work.1", SIZE),
    root=negate("update", "reduce", SIZE),
    size=SIZE,
)


def case(text: str, step: list[Work]) -> StepData:
    found = made(text, step, step[-1][1] + step[-1][2], flags={}, jaxlib="0.10.2")
    return told(found, reduce={"movable_ms": 0.0, "bound": Bound.BANDWIDTH})


def at_end(update: float = 2.0, reduce_ms: float = 6.0) -> list[Work]:
    ready = 40 + reduce_ms
    return [("work.1", 0, 40), ("reduce", 40, reduce_ms), ("update", ready, update)]


def ask(case: StepData) -> list[Finding]:
    return list(nothing_hides_the_last.check(case))


def test_one_at_the_end_is_found_with_what_it_costs(said: Said) -> None:
    (found,) = ask(case(AT_END, at_end()))
    assert isinstance(found.saves_ms, Range)
    assert found.saves_ms == Range(0.0, found.saves_ms.high)
    assert 5.9 < found.saves_ms.high <= 6.0
    assert "layer by layer" in found.remedy.text
    assert found.remedy.flags == ()
    said(found)


def test_one_at_the_start_is_found_too(said: Said) -> None:
    text = hlo(
        reduce("reduce", "p", SIZE),
        negate("work.1", "reduce", SIZE),
        root=negate("update", "work.1", SIZE),
        size=SIZE,
    )
    (found,) = ask(case(text, [("reduce", 0, 6), ("work.1", 6, 40), ("update", 46, 2)]))
    assert "at the start" in found.title
    said(found)


def test_tokens_that_are_exchanged_are_no_gradients_of_layers() -> None:
    text = AT_END.replace("all-reduce(", "all-to-all(").replace(
        ", to_apply=%add", ", dimensions={0}"
    )
    (found,) = ask(case(text, at_end()))
    assert "layer by layer" not in found.remedy.text
    assert "micro-batches" in found.remedy.text


def merged(size: int) -> str:
    """Eight values of a step, sent as one."""
    value = f"f32[{size}]{{0}}"
    names = [f"part.{at}" for at in range(8)]
    one = (
        f"%reduce = ({', '.join([value] * 8)}) all-reduce({', '.join(f'%{it}' for it in names)}),"
        f" channel_id=1, {GROUPS}, to_apply=%add"
    )
    return hlo(
        negate("work.1", "p", size),
        *(negate(name, "work.1", size) for name in names),
        one,
        f"%sum.0 = {value} get-tuple-element(%reduce), index=0",
        root=negate("update", "sum.0", size),
        size=size,
    )


def test_what_was_merged_into_it_is_taken_apart_by_a_threshold() -> None:
    (found,) = ask(case(merged(SIZE), at_end()))
    assert "merged from 8 values" in found.detail
    assert found.remedy.flags == ((flag_of("all-reduce"), str(2 * SIZE * 4)),)


def test_one_whose_start_takes_most_of_its_time_is_not_taken_apart(said: Said) -> None:
    step: list[Work] = [("work.1", 0, 0.4), ("reduce", 0.4, 0.012), ("update", 0.412, 0.002)]
    (found,) = ask(made(merged(4096), step, 0.414, flags={}, jaxlib="0.10.2"))
    assert "merged from 8 values" in found.detail
    assert found.remedy.flags == ()
    said(found)


def test_with_much_to_compute_behind_it_another_rule_speaks() -> None:
    assert not ask(case(AT_END, at_end(update=10)))


def test_a_small_one_at_the_end_is_left_alone() -> None:
    assert not ask(case(AT_END, at_end(reduce_ms=0.5)))


def test_one_that_is_hidden_is_left_alone() -> None:
    text = hlo(
        negate("half", "p", SIZE),
        f"%reduce = {VALUE} all-reduce-start(%half), channel_id=1, {GROUPS}, to_apply=%add",
        negate("work.1", "half", SIZE),
        f"%done = {VALUE} all-reduce-done(%reduce)",
        root=negate("update", "done", SIZE),
        size=SIZE,
    )
    step: list[Work] = [("half", 0, 30), ("reduce", 30, 6), ("work.1", 30, 7), ("update", 37, 2)]
    found = made(text, step, 39, beside=["reduce"], flags={}, jaxlib="0.10.2")
    assert not ask(told(found, reduce={"bound": Bound.SCHEDULE}))


def test_the_compute_behind_it_is_that_of_one_run(said: Said) -> None:
    step: list[Work] = [("fusion.1", 0, 40), ("all-reduce.1", 40, 6), ("fusion.2", 46, 2)]
    (finding,) = ask(made(None, step, 48, flags={}, steps=4))
    assert finding.doubt is not None
    assert "2.00 ms" in finding.detail
    said(finding)


def test_one_that_carries_next_to_nothing_is_another_rules() -> None:
    found = made(AT_END, at_end(), 48, flags={}, jaxlib="0.10.2")
    row = {"movable_ms": 0.0, "bound": Bound.LATENCY, "wire_bytes": 512.0}
    assert not ask(told(found, reduce=row))
