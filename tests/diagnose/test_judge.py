"""What is said against whatever is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

import timelines
from counterpoint.core import InputError
from counterpoint.diagnose.explanation import explain
from counterpoint.diagnose.rules import RULES
from counterpoint.diagnose.step_data import StepData
from golden_sections import Said


def test_findings_on_virtual_devices_say_so_themselves() -> None:
    timeline = timelines.two_devices()
    virtual = tuple(replace(device, kind="cpu") for device in timeline.devices)
    found = explain(replace(timeline, devices=virtual)).findings
    assert found
    assert all("virtual CPU devices" in (finding.doubt or "") for finding in found)


def test_findings_on_a_profile_without_steps_say_so_themselves(said: Said) -> None:
    timeline = replace(timelines.two_devices(), step_program=None)
    of_two = explain(timeline).findings
    assert not any("separated" in (finding.doubt or "") for finding in of_two)
    first = timeline.steps.filter(timeline.steps["step"] == timeline.steps["step"].min())
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
