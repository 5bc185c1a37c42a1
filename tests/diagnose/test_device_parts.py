"""Per device: parts add up, exposed and hidden are all of collectives, slack is its turn's."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import polars as pl
import pytest

import timelines
from command_line import in_process
from counterpoint.core.columns import union
from counterpoint.diagnose.explanation import explain
from counterpoint.timeline.model import Lane, Timeline
from real_profiles import opened


def collective_union_ms(timeline: Timeline, device: int, step: int) -> float:
    """How long any collective runs on a device within a step, from the spans themselves."""
    rows = timeline.ops.with_row_index("row").filter(pl.col("lane") == Lane.COLLECTIVE)["row"]
    mine = timeline.spans.filter(
        (pl.col("device") == device) & pl.col("op").is_in(rows.to_list()) & (pl.col("dur_ps") > 0)
    )
    (window,) = timeline.steps.filter(
        (pl.col("device") == device) & (pl.col("step") == step)
    ).iter_rows(named=True)
    clipped = mine.select(
        start=pl.col("start_ps").clip(window["start_ps"], window["end_ps"]),
        end=(pl.col("start_ps") + pl.col("dur_ps")).clip(window["start_ps"], window["end_ps"]),
    ).filter(pl.col("end") > pl.col("start"))
    return union(clipped["start"].to_numpy(), clipped["end"].to_numpy()).total / 1e9


def check_every_device(timeline: Timeline, steps: int) -> None:
    for step in timeline.steps.filter("steady")["step"].unique().sort().head(steps).to_list():
        for device in range(len(timeline.devices)):
            explained = explain(timeline, step=step, devices=[device])
            parts = explained.device_breakdowns[device]
            whole = parts.compute_ms + parts.collective_exposed_ms + parts.copy_exposed_ms
            assert whole + parts.idle_ms == pytest.approx(explained.steps.median_ms)
            both = parts.collective_exposed_ms + parts.collective_hidden_ms
            assert both == pytest.approx(collective_union_ms(timeline, device, step), abs=1e-9)
            assert parts.collective_hidden_ms <= parts.compute_ms


def test_the_hand_made_devices() -> None:
    check_every_device(timelines.two_devices(), steps=3)


@pytest.mark.system
@pytest.mark.parametrize(
    "name", ["vllm_qwen3_2tpu.trace.json.gz", "jax_conv_mi300x_8gpu.xplane.pb"]
)
def test_devices_of_real_profiles(shared: Path, name: str) -> None:
    check_every_device(opened(shared / "data" / "traces" / name), steps=1)


def test_the_mean_of_the_devices_is_the_breakdown() -> None:
    explained = explain(timelines.two_devices())
    assert explained.breakdown is not None
    for part in (field.name for field in fields(explained.breakdown)):
        mean = sum(getattr(one, part) for one in explained.device_breakdowns.values()) / 2
        assert mean == pytest.approx(getattr(explained.breakdown, part))


def test_slack_ends_with_the_work_of_its_own_step_even_if_that_began_before() -> None:
    """On device 1 fusion.1 runs from 0 to 4, the gather starts at 1: 3 ms, not the next step's."""
    (slack,) = explain(timelines.two_devices(), devices=[1]).collectives["slack_ms"].to_list()
    assert slack == pytest.approx(3)


def test_a_device_that_idles_longer_than_the_mean_step_has_a_longer_step_of_its_own(
    shared: Path,
) -> None:
    path = shared / "data" / "traces" / "jax_conv_mi300x_8gpu.xplane.pb"
    steps = opened(path).steps.filter(pl.col("step") == 0)
    own = ((steps["end_ps"] - steps["start_ps"]) / 1e9).sort().to_list()
    text = in_process("explain", path, "--step", "0").stdout
    assert f"Step time   {sum(own) / len(own):.2f} ms " in text
    assert f" {own[0]:.2f} to {own[-1]:.2f} ms" in text
    idle = re.search(r"idle .*\((.*) to (.*)\)", text)
    assert idle
    assert own[-2] < float(idle[2]) < own[-1]
