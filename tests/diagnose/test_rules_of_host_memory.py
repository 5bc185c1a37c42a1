"""STEP202 and STEP203: buffers registered, and data copied, for transfers in every step."""

from __future__ import annotations

from pathlib import Path

import pytest
from megascale_fixture import Scene
from slices import case_of
from xspace_builder import MS, host, tpu, tpu_op, xspace

from counterpoint.core.basis import Range, Unknown
from counterpoint.diagnose.explanation import judge
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.host.startup import startup
from counterpoint.diagnose.network.host_work import host_work
from counterpoint.diagnose.rules import copies_in_transfers, dma_registration
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import Context, StepData
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Action
from counterpoint.timeline.xplane.reader import read_xplane
from golden_sections import Said
from real_profiles import opened

SLACK = 4.0
"""Of which 1 ms is lacking: so whatever delays a transfer is waited for."""


def most(finding: Finding) -> float:
    """What a step can gain at most; nothing is certain."""
    assert isinstance(finding.saves_ms, Range)
    assert finding.saves_ms.low == 0
    return finding.saves_ms.high


def codes(case: StepData) -> set[str]:
    return {finding.code for finding in judge(case)[0]}


def test_registrations_at_start_up_are_as_they_should_be() -> None:
    case = case_of(Scene(slack_ms=SLACK))
    work = host_work(case, Action.MAP_BUFFER)
    assert work is not None
    assert (work.before.count, work.before.bytes, work.before.ms) == (4, 4 * 4.29e9, 4 * 50)
    assert (work.steps, work.per_step.count) == (0, 0)
    assert not list(dma_registration.check(case))


def test_registrations_in_every_step_are_found_with_what_they_cost(said: Said) -> None:
    case = case_of(Scene(slack_ms=SLACK, registered=lambda _: 4))
    (finding,) = dma_registration.check(case)
    # Four on each of four threads, one after the other and all threads at once: 4 x 0.4.
    assert most(finding) == pytest.approx(1.6)
    assert "16.0 per step (134.2 MB)" in finding.detail
    # Of the same host: 4, and those of step 0.
    assert "20 calls (17,294.2 MB), 206 ms" in finding.detail
    assert "16.0" in finding.title
    said(finding)


def test_the_region_to_register_ahead_is_computed() -> None:
    (finding,) = dma_registration.check(case_of(Scene(slack_ms=SLACK, registered=lambda _: 4)))
    # 4 GiB, four times (for each chip), and 16 x 8.39 MB: the next power of two is 8 GiB.
    assert finding.remedy.environment == (
        ("LIBTPU_INIT_ARGS", "--megascale_grpc_premap_memory_bytes=8589934592"),
    )
    assert "4 GiB (registered at startup)" in finding.remedy.text


def test_no_region_is_asked_for_that_no_host_can_spare(said: Said) -> None:
    given = "--megascale_grpc_premap_memory_bytes=68719476736"
    scene = Scene(slack_ms=SLACK, registered=lambda _: 4)
    (finding,) = dma_registration.check(case_of(scene, {"LIBTPU_INIT_ARGS": given}))
    assert not finding.remedy.environment
    assert "reuse buffers" in finding.remedy.text
    assert "128 GiB" in finding.remedy.text
    said(finding)


def test_what_libtpu_was_given_is_kept_and_built_upon() -> None:
    given = "--xla_tpu_x=1 --megascale_grpc_premap_memory_bytes=17179869184"
    scene = Scene(slack_ms=SLACK, registered=lambda _: 4)
    (finding,) = dma_registration.check(case_of(scene, {"LIBTPU_INIT_ARGS": given}))
    assert finding.remedy.environment == (
        ("LIBTPU_INIT_ARGS", "--xla_tpu_x=1 --megascale_grpc_premap_memory_bytes=34359738368"),
    )


@pytest.mark.parametrize("every", [3, 4])
def test_registrations_in_a_few_steps_are_no_steady_state(every: int) -> None:
    scene = Scene(slack_ms=SLACK, steps=14, registered=lambda step: step % every == 0)
    assert "STEP202" not in codes(case_of(scene))


def test_registrations_that_slack_hides_are_a_symptom_without_a_cost(said: Said) -> None:
    case = case_of(Scene(slack_ms=12, registered=lambda _: 4))
    (finding,) = (it for it in judge(case)[0] if it.code == "STEP202")
    assert isinstance(finding.saves_ms, Unknown)
    assert "MapDmaBuffer" in finding.title
    assert finding.remedy.environment[0][1].startswith("--megascale_grpc_premap_memory_bytes=")
    said(finding)


def test_registrations_of_microseconds_are_no_symptom() -> None:
    # 0.4 ms in each step of 400 ms.
    assert "STEP202" not in codes(case_of(Scene(slack_ms=400, registered=lambda _: 1)))


def test_start_up_and_steps_are_of_one_host() -> None:
    case = case_of(Scene(registered=lambda _: 4))
    (note,) = (it for it in startup(case) if "MapDmaBuffer" in it)
    # At start-up a region for each of its four chips, and 4 on each of four threads in every step;
    # those of step 0, the profile's first, count as start-up.
    assert "on slice-1: 20 DMA registrations (MapDmaBuffer) of 17.3 GB" in note
    assert note.endswith(
        "6 of its 6 steady steps have such calls: 16.0 per step (134.2 MB), 6.40 ms"
    )


def test_a_note_says_why_calls_in_steps_are_no_finding() -> None:
    case = case_of(Scene(slack_ms=400, registered=lambda _: 1))
    (note,) = (it for it in startup(case) if "MapDmaBuffer" in it)
    assert note.endswith(", below 1% of the step, so no finding")


def test_copies_that_slack_hides_are_a_symptom_without_a_cost(said: Said) -> None:
    case = case_of(Scene(slack_ms=12, copied=lambda _: 4))
    (finding,) = (it for it in judge(case)[0] if it.code == "STEP203")
    assert isinstance(finding.saves_ms, Unknown)
    said(finding)


def test_copies_in_every_step_are_found_with_what_they_cost() -> None:
    (finding,) = copies_in_transfers.check(case_of(Scene(slack_ms=SLACK, copied=lambda _: 4)))
    assert most(finding) == pytest.approx(1.2)
    assert "16.0 per step of 134.2 MB together" in finding.detail
    assert "Devices wait 2.20 ms per step" in finding.detail
    assert finding.remedy.environment[0][1].endswith("=8589934592")


@pytest.mark.parametrize(
    "scene",
    [
        Scene(slack_ms=SLACK),
        Scene(slack_ms=SLACK, copied=lambda step: 4 if step == 3 else 0),
    ],
)
def test_no_copies_and_copies_in_one_step_are_left_alone(scene: Scene) -> None:
    assert "STEP203" not in codes(case_of(scene))


def one_slice(registered_ms: float, size: str | None = "1.07GB") -> StepData:
    """Steps of 20 ms on one chip, with 10 ms of compute, that register a buffer each."""
    core, threads = tpu(0), host()
    for step in range(6):
        start = 20 * step * MS
        core.add("XLA Modules", "jit_f(1)", start, 19 * MS, {"run_id": step})
        text = "%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p), kind=kLoop, calls=%c"
        tpu_op(core, text, start, 10 * MS, hlo_category="loop fusion")
        told = {} if size is None else {"size": size}
        length = round(registered_ms * MS)
        threads.add("pjrt", "MapDmaBuffer", start + 11 * MS, length, told)
    recording = read_xplane(memoryview(xspace(core, threads)), "one.xplane.pb")
    return StepData(selection=select(assemble([recording], ["one"])), context=Context())


def test_without_slices_registrations_are_not_laid_to_megascale(said: Said) -> None:
    (finding,) = dma_registration.check(one_slice(8))
    assert most(finding) == pytest.approx(8.0)
    assert not finding.remedy.environment
    assert "megascale" not in finding.remedy.text
    assert finding.doubt is not None
    said(finding)


def test_without_sizes_no_value_is_made_up() -> None:
    scene = Scene(slack_ms=SLACK, registered=lambda _: 4, sized=False)
    (finding,) = dma_registration.check(case_of(scene))
    assert not finding.remedy.environment
    assert "has no sizes" in finding.remedy.text


def test_the_real_tpu_registers_at_start_up_and_next_to_nothing_in_steps(shared: Path) -> None:
    timeline = opened(shared / "data/traces/jax_inference_v6e_4tpu.xplane.pb")
    case = StepData(selection=select(timeline), context=Context())
    work = host_work(case, Action.MAP_BUFFER)
    assert work is not None
    assert len(timeline.transfers) == 525
    assert work.before.ms == pytest.approx(35_721, abs=1)
    assert work.before.bytes == pytest.approx(198.4e9, rel=0.001)
    # In steps: buffers of 32 bytes, some 30 us each, on threads that run ahead.
    assert work.host_ms < 0.1
    assert "STEP202" not in codes(case)
