"""What is said against whatever is found."""

from __future__ import annotations

from dataclasses import replace

import timelines
from counterpoint.diagnose.explanation import explain


def test_findings_on_virtual_devices_say_so_themselves() -> None:
    timeline = timelines.two_devices()
    virtual = tuple(replace(device, kind="cpu") for device in timeline.devices)
    found = explain(replace(timeline, devices=virtual)).findings
    assert found
    assert all("virtual CPU devices" in (finding.doubt or "") for finding in found)


def test_findings_on_a_profile_without_steps_say_so_themselves() -> None:
    timeline = replace(timelines.two_devices(), step_program=None)
    of_two = explain(timeline).findings
    assert not any("told apart" in (finding.doubt or "") for finding in of_two)
    first = timeline.steps.filter(timeline.steps["step"] == timeline.steps["step"].min())
    found = explain(replace(timeline, steps=first)).findings
    assert found
    assert all("steps could not be separated" in (finding.doubt or "") for finding in found)
