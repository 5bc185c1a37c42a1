"""STEP102: synchronous collectives, and why each is one. Milliseconds; the reduce runs alone:

          0      5      8      13     15
main      work.1 reduce work.2 work.3
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from made_step import A100, GROUPS, H100, Work, hlo, made, negate, reduce, told

from counterpoint.core.basis import Range
from counterpoint.diagnose.collectives.requirement import Bound
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import synchronous_collective
from counterpoint.diagnose.step_data import StepData
from golden_sections import Said

LHS = "xla_gpu_enable_latency_hiding_scheduler"
DISABLED = "xla_gpu_disable_async_collectives"
STEP: list[Work] = [("work.1", 0, 5), ("reduce", 5, 3), ("work.2", 8, 5), ("work.3", 13, 2)]


def program(*more: str, sum_: str | None = None) -> str:
    return hlo(
        negate("work.1", "p"),
        sum_ or reduce("reduce", "work.1"),
        *more,
        negate("work.2", "reduce"),
        root=negate("work.3", "work.2"),
    )


def case(
    text: str | None = None,
    *,
    flags: Mapping[str, str] | None = None,
    jaxlib: str | None = "0.10.2",
    chip: str = H100,
    movable_ms: float | None = 0.0,
    bound: Bound = Bound.SCHEDULE,
) -> StepData:
    found = made(text or program(), STEP, 16, chip=chip, flags=flags, jaxlib=jaxlib)
    return told(found, reduce={"movable_ms": movable_ms, "bound": bound})


def ask(case: StepData) -> list[Finding]:
    return list(synchronous_collective.check(case))


def test_a_flag_that_asks_for_it_is_named_and_taken_back(said: Said) -> None:
    (found,) = ask(case(flags={DISABLED: "ALLREDUCE,ALLGATHER"}))
    assert f"because --{DISABLED}=ALLREDUCE,ALLGATHER requests it" in found.detail
    assert found.remedy.flags == ((DISABLED, "ALLGATHER"),)
    assert found.saves_ms == Range(0.0, 3.0)
    assert [it.what for it in found.evidence] == ["reduce"]
    said(found)


def test_on_chips_where_nobody_asked_for_the_scheduler_it_is_asked_for(said: Said) -> None:
    (found,) = ask(case(flags={}, chip=A100))
    assert found.remedy.flags == ((LHS, "true"),)
    assert "did not run" in found.detail
    said(found)


def test_where_nobody_knows_whether_it_runs_unasked_the_scheduler_is_not_blamed() -> None:
    for unknown in (
        case(flags=None),
        case(flags={}, jaxlib=None),
        case(flags={}, chip="AMD Instinct MI300X"),
    ):
        (found,) = ask(unknown)
        assert "did not run" not in found.detail


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"xla_disable_hlo_passes": "latency-hiding-scheduler"}, "--xla_disable_hlo_passes"),
        ({LHS: "false"}, f"--{LHS}=false"),
    ],
)
def test_what_switched_the_scheduler_off_is_named(flags: dict[str, str], why: str) -> None:
    (found,) = ask(case(flags=flags, jaxlib="0.12.0"))
    assert f"did not run: {why} disables it" in found.detail


def test_a_kind_that_xla_has_no_model_of_leaves_the_scheduler_off(said: Said) -> None:
    broadcast = f"%cast = f32[1024]{{0}} collective-broadcast(%p), channel_id=9, {GROUPS[:24]}"
    (found,) = ask(case(program(broadcast), flags={}))
    assert found.remedy.flags == ((LHS, "true"),)
    assert "collective-broadcast (cast)" in found.detail
    said(found)


def test_sends_and_receives_leave_the_scheduler_on() -> None:
    token, sent = "%token = token[] after-all()", "%sent = (f32[1024]{0}, u32[], token[]) send"
    text = program(token, f"{sent}(%p, %token), channel_id=7")
    (found,) = ask(case(text, flags={}))
    assert "did not run" not in found.detail


def test_work_that_the_scheduler_left_unused_is_told(said: Said) -> None:
    text = program().replace("negate(%work.2)", "negate(%work.1)")  # work.3, of 2 ms
    (found,) = ask(case(text, flags={}, movable_ms=2.0))
    assert isinstance(found.saves_ms, Range)
    assert (found.saves_ms.low, found.saves_ms.high) == (0.0, pytest.approx(2))
    assert "PGLE" in found.remedy.text
    assert "2 ms" in found.detail
    said(found)


def test_where_nothing_can_run_beside_it_fewer_bytes_are_advised(said: Said) -> None:
    (found,) = ask(case(flags={}))
    assert "fewer bytes" in found.remedy.text
    assert found.saves_ms == Range(0.0, 3.0)
    said(found)


def test_in_a_loop_it_is_pipelined(said: Said) -> None:
    state = "(s32[], f32[1024])"
    body = (
        f"%body (state: {state}) -> {state} {{\n  %state = {state} parameter(0)\n"
        "  %i = s32[] get-tuple-element(%state), index=0\n"
        "  %q = f32[1024]{0} get-tuple-element(%state), index=1\n"
        f"  {negate('work.1', 'q')}\n  {reduce('reduce', 'work.1')}\n"
        f"  {negate('work.2', 'reduce')}\n"
        f"  ROOT %next = {state} tuple(%i, %work.2)\n}}\n\n"
        f"%goes_on (asked: {state}) -> pred[] {{\n  %asked = {state} parameter(0)\n"
        '  ROOT %more = pred[] custom-call(%asked), custom_call_target="ask"\n}\n\n'
    )
    text = hlo(
        "%zero = s32[] constant(0)",
        f"%first = {state} tuple(%zero, %p)",
        f"%loop = {state} while(%first), condition=%goes_on, body=%body,"
        ' backend_config={"known_trip_count":{"n":"2"}}',
        "%last = f32[1024]{0} get-tuple-element(%loop), index=1",
        root=negate("work.3", "last"),
        before=body,
    )
    turn = [("work.1", 0, 3), ("reduce", 3, 2), ("work.2", 5, 2)]
    step = [(op, at + shift, length) for shift in (0, 7) for op, at, length in turn]
    found = told(
        made(text, [*step, ("work.3", 14, 1)], 16, flags={}, jaxlib="0.10.2"),
        reduce={"movable_ms": 0.0, "bound": Bound.SCHEDULE},
    )
    (one,) = ask(found)
    assert one.remedy.flags == (("xla_gpu_enable_pipelined_all_reduce", "true"),)
    said(one)


def test_an_asynchronous_one_is_none() -> None:
    text = hlo(
        negate("work.1", "p"),
        f"%reduce = f32[1024]{{0}} all-reduce-start(%work.1), {GROUPS}, to_apply=%add",
        "%done = f32[1024]{0} all-reduce-done(%reduce)",
        negate("work.2", "done"),
        root=negate("work.3", "work.2"),
    )
    assert not ask(case(text, flags={}))


def test_one_in_two_halves_that_xla_marked_synchronous_is_one() -> None:
    text = hlo(
        negate("work.1", "p"),
        f"%reduce = f32[1024]{{0}} all-reduce-start(%work.1), {GROUPS}, to_apply=%add,"
        ' backend_config={"collective_backend_config":{"is_sync":true}}',
        "%done = f32[1024]{0} all-reduce-done(%reduce)",
        negate("work.2", "done"),
        root=negate("work.3", "work.2"),
    )
    assert len(ask(case(text, flags={}))) == 1


def test_of_what_the_links_rule_out_another_rule_speaks() -> None:
    assert not ask(case(flags={}, bound=Bound.BANDWIDTH))


def test_a_synchronous_one_that_only_waits_for_a_late_device_is_left_out() -> None:
    def late(device: int, number: int) -> list[Work]:
        del number
        if device:
            return [("work.1", 3, 5), ("reduce", 8, 0.001), ("work.2", 8.001, 5)]
        return [("work.1", 0, 5), ("reduce", 5, 3.001), ("work.2", 8.001, 5)]

    found = ask(made(program(), late, 16, flags={}, jaxlib="0.10.2"))
    assert sum(it.saves_ms.high for it in found if isinstance(it.saves_ms, Range)) < 0.01


def test_without_the_program_the_instruction_itself_tells_that_it_has_no_done(said: Said) -> None:
    kept = {"reduce": reduce("reduce", "work.1")}
    found = made(None, STEP, 16, said=kept, flags={}, jaxlib="0.10.2")
    (one,) = ask(told(found, reduce={"bound": Bound.UNKNOWN}))
    assert one.saves_ms == Range(0.0, 3.0)
    said(one)


def test_a_name_alone_tells_nothing() -> None:
    found = made(None, STEP, 16, flags={}, jaxlib="0.10.2")
    assert not ask(told(found, reduce={"bound": Bound.UNKNOWN}))


def test_on_a_tpu_what_stands_around_it_is_told_and_no_flag_of_gpus(said: Said) -> None:
    def asked(movable_ms: float) -> Finding:
        found = made(program(), STEP, 16, kind="tpu", chip="TPU v5e", flags={DISABLED: "ALLREDUCE"})
        (one,) = ask(told(found, reduce={"movable_ms": movable_ms, "bound": Bound.SCHEDULE}))
        return one

    nothing, much = asked(0.0), asked(9.0)
    assert nothing.remedy.flags == much.remedy.flags == ()
    assert "PGLE" not in much.remedy.text  # it does not reach a TPU's synchronous collectives
    said(nothing, much)


def test_on_virtual_cpus_there_are_no_others() -> None:
    found = made(program(), STEP, 16, kind="cpu", flags={}, jaxlib="0.10.2")
    assert not ask(told(found, reduce={"movable_ms": 0.0, "bound": Bound.SCHEDULE}))
