"""What is said against whatever is found."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import timelines
from counterpoint.core import Basis, InputError, Range, Unknown
from counterpoint.diagnose.explanation import explain
from counterpoint.diagnose.finding import Finding, Remedy
from counterpoint.diagnose.rules import RULES
from counterpoint.diagnose.step_data import StepData
from counterpoint.flags.settings import Settings
from counterpoint.report.explain.explain_document import explain_document
from golden_sections import Said

FINDING = Finding(
    code="STEP999",
    title="made",
    detail="made",
    saves_ms=Unknown("not priced"),
    basis=Basis.MEASURED,
    evidence=(),
    remedy=Remedy("none"),
)


def test_a_profile_of_virtual_devices_says_so_once() -> None:
    timeline = timelines.two_devices()
    virtual = tuple(replace(device, kind="cpu") for device in timeline.devices)
    explanation = explain(replace(timeline, devices=virtual))
    assert explanation.findings
    text = " ".join(str(explain_document(explanation)).split())
    assert text.count("virtual CPU devices") == 1


@given(st.floats(0, 100), st.floats(0, 100), st.none() | st.floats(0, 100))
def test_no_finding_saves_more_than_the_step_or_than_what_it_names(
    low: float, more: float, takes_ms: float | None
) -> None:
    step_ms = explain(timelines.two_devices()).steps.median_ms or 0.0

    def check(data: StepData) -> list[Finding]:
        saves = Range(low, low + more)
        return [replace(FINDING, saves_ms=saves, takes_ms=takes_ms, basis=data.basis)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RULES[0], "check", check)
        found = explain(timelines.two_devices()).findings
    for finding in found:
        if isinstance(finding.saves_ms, Range):
            most = min(step_ms, step_ms if finding.takes_ms is None else finding.takes_ms)
            assert finding.saves_ms.low <= finding.saves_ms.high <= most


PIPELINED = "xla_gpu_enable_pipelined_reduce_scatter"


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        ({}, ()),  # `true` is the default
        ({PIPELINED: "false"}, ((PIPELINED, "true"),)),
        ({PIPELINED: "1"}, ()),
    ],
)
def test_a_remedy_changes_something(
    flags: dict[str, str], left: tuple[tuple[str, str], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(xla=tuple(flags.items()), env=(("JAX_DEFAULT_PRNG_IMPL", "rbg"),))
    remedy = Remedy(
        "both",
        ((PIPELINED, "true"), ("xla_gpu_no_such_flag", "true")),
        (("JAX_DEFAULT_PRNG_IMPL", "rbg"), ("NCCL_BUFFSIZE", "1")),
    )
    monkeypatch.setattr(RULES[0], "check", lambda _: [replace(FINDING, remedy=remedy)])
    (finding,) = (
        found
        for found in explain(timelines.two_devices(), settings=settings, jaxlib="0.10.2").findings
        if found.code == FINDING.code
    )
    assert finding.remedy.flags == left
    assert finding.remedy.environment == (("NCCL_BUFFSIZE", "1"),)


def test_findings_on_a_profile_without_steps_say_so_themselves(said: Said) -> None:
    timeline = replace(timelines.two_devices(), step_program=None)
    of_two = explain(timeline).findings
    assert not any("separated" in (finding.doubt or "") for finding in of_two)
    first = timeline.steps.filter(pl.col("step") == pl.col("step").min())
    first = first.with_columns(whole=pl.lit(False))
    found = explain(replace(timeline, steps=first)).findings
    assert found
    assert all("separated" in (finding.doubt or "") for finding in found)
    said(*found)


def test_a_rule_that_fails_does_not_take_the_report_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = explain(timelines.two_devices())
    codes = {finding.code for finding in whole.findings}
    broken = next(rule for rule in RULES if rule.CODE in codes)

    def check(data: StepData) -> list[object]:
        return [data.tables[()][3]]  # pyright: ignore[reportArgumentType, reportIndexIssue]

    monkeypatch.setattr(broken, "check", check)
    found = explain(timelines.two_devices())
    assert {finding.code for finding in found.findings} == codes - {broken.CODE}
    note = next(note for note in found.notes if note.startswith(broken.CODE))
    assert "KeyError" in note
    assert "test_judge.py:" in note
    assert not any(note.startswith("STEP") for note in whole.notes)


def test_an_error_that_the_user_can_mend_is_told_without_blaming_counterpoint(
    monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    def check(data: StepData) -> list[object]:
        raise InputError(f"no links: {data.step_ms}", next="give a target")

    monkeypatch.setattr(RULES[0], "check", check)
    note = next(each for each in explain(timelines.two_devices()).notes if "no links" in each)
    assert note.startswith(RULES[0].CODE)
    assert "give a target" in note
    assert "defect" not in note
    said(note)
