"""Real profiles against what other tools and plain arithmetic say of them.

The figures of the Pax run (four hosts, one A100 each) are those of nsys-jax's own analysis of the
same files, over the same three steps. It takes rank 3, whose module has another fingerprint, for a
program of its own; bandwidths with all four ranks together are up to 5% higher than it prints.
"""

from __future__ import annotations

import re
from dataclasses import astuple
from pathlib import Path

import polars as pl
import pytest

from counterpoint.core.basis import Range
from counterpoint.diagnose.explanation import Explanation, explain
from counterpoint.diagnose.network.host_transposes import host_transposes
from counterpoint.diagnose.ops import finest
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import Context, StepData
from counterpoint.timeline.model import Timeline
from real_profiles import explained_of, opened


@pytest.fixture(scope="module")
def pax(shared: Path) -> Timeline:
    return opened(f"{shared}/data/traces/pax_fsdp4_4proc_proc*.zip")


@pytest.fixture(scope="module")
def explained(shared: Path) -> Explanation:
    return explained_of(f"{shared}/data/traces/pax_fsdp4_4proc_proc*.zip")


@pytest.mark.system
class TestPax:
    def test_four_hosts_with_a_device_each_and_one_program(self, pax: Timeline) -> None:
        assert len(pax.hosts) == len(pax.devices) == 4
        assert pax.step_program is not None
        step = pax.programs[pax.step_program]
        assert step.name == "pjit__wrapped_step_fn"
        assert sorted(step.variants) == [0, 1, 2, 3]

    def test_clocks_come_together_within_microseconds(self, pax: Timeline) -> None:
        assert all(host.clock_offset_ps is not None for host in pax.hosts)
        ends = pax.spans.join(
            pax.ops.with_row_index("row").filter(pl.col("pair") == "reduce-scatter-start"),
            left_on="op",
            right_on="row",
        ).with_columns(end=pl.col("start_ps") + pl.col("dur_ps"))
        per_run = ends.join(pax.runs.with_row_index("run"), on="run").group_by("index")
        apart = per_run.agg(pl.col("end").max() - pl.col("end").min())["end"].to_list()
        assert len(apart) == 5
        assert sorted(apart)[2] < 20e6

    def test_steady_steps(self, explained: Explanation) -> None:
        steps = explained.steps
        # Five runs: the first two are start-up and warm-up, the last one's end was not seen.
        assert steps.count == 2
        # nsys-jax: 126.51(66) ms from a module's first thunk to its last.
        assert steps.execution_ms == pytest.approx(126.51, rel=0.01)
        # From start to start hosts add some 4 ms between the steps.
        assert steps.median_ms == pytest.approx(131, rel=0.01)

    @pytest.mark.parametrize(
        ("kind", "message_bytes", "busbw"),
        [
            ("all-gather", 7_077_888, 116.1),  # nsys-jax prints 110.5(2.5)
            ("reduce-scatter", 20_103_936, 150.9),  # 148.7(1.3)
            ("all-reduce", 129_024, 9.82),  # 9.72(6)
        ],
    )
    def test_bandwidths(
        self, explained: Explanation, kind: str, message_bytes: int, busbw: float
    ) -> None:
        same = explained.collectives.filter(
            (pl.col("kind") == kind) & (pl.col("message_bytes") == message_bytes)
        )
        assert same["busbw_gbps"].mean() == pytest.approx(busbw, rel=0.02)

    @pytest.mark.parametrize(
        ("kind", "share"), [("all-gather", 0.66571), ("reduce-scatter", 0.45600)]
    )
    def test_hidden_shares(self, pax: Timeline, kind: str, share: float) -> None:
        """Over all three steady steps, as nsys-jax counts: exposed when nothing else computes."""
        parts = [explain(pax, step=step).collectives for step in (2, 3, 4)]
        same = pl.concat(parts).filter(pl.col("kind") == kind)
        hidden = 1 - float(same["exposed_ms"].sum()) / float(same["total_ms"].sum())
        assert hidden == pytest.approx(share, abs=0.02)

    def test_phases_and_sources_lead_into_the_users_code(self, explained: Explanation) -> None:
        phases = explained.phases
        assert phases is not None
        assert phases.backward_ms > phases.forward_ms > phases.optimizer_ms > 0
        matmuls = explained.ops.filter(pl.col("category") == "matmul").head(5)
        assert matmuls["source"].str.contains("praxis/layers/").all()

    def test_the_chip_is_known_and_its_utilisation_plausible(self, explained: Explanation) -> None:
        used = explained.utilization
        assert used.chip == "A100 40GB"
        assert used.mfu is not None
        assert 0.1 < used.mfu < 0.6


@pytest.mark.parametrize(
    "name",
    [
        "jax_conv_mi300x_8gpu.xplane.pb",
        "jax_gemm_mi300x.xplane.pb",
        "jax_inference_v6e_4tpu.xplane.pb",
        pytest.param("vllm_qwen3_2tpu.trace.json.gz", marks=pytest.mark.system),
        "pytorch_h100_2gpu.nsys.sqlite",
        pytest.param("pax_fsdp4_4proc_proc*.zip", marks=pytest.mark.system),
    ],
)
class TestEveryProfile:
    @pytest.fixture
    def timeline(self, shared: Path, name: str) -> Timeline:
        return opened(f"{shared}/data/traces/{name}")

    @pytest.fixture
    def explained(self, shared: Path, name: str) -> Explanation:
        return explained_of(f"{shared}/data/traces/{name}")

    def test_parts_add_up_to_the_step(self, explained: Explanation) -> None:
        parts, phases = explained.breakdown, explained.phases
        assert parts is not None
        busy = parts.compute_ms + parts.collective_exposed_ms + parts.copy_exposed_ms
        assert busy + parts.idle_ms == pytest.approx(explained.steps.window_ms)
        if phases is not None:
            assert sum(astuple(phases)) == pytest.approx(busy)

    def test_no_device_is_busier_than_its_span_of_time(
        self, timeline: Timeline, explained: Explanation
    ) -> None:
        per_step = explained.devices.group_by("device", "step").agg(pl.col("ms").sum())
        windows = select(timeline).windows
        steps = windows.with_columns(ms=(pl.col("end_ps") - pl.col("start_ps")) / 1e9)
        both = per_step.join(steps, on=["device", "step"])
        assert len(both) == len(per_step)
        off = (both["ms"] - both["ms_right"]).abs()
        assert (off < 1e-6).all()  # a picosecond in a second

    def test_collectives_are_hidden_by_no_more_than_they_take(self, explained: Explanation) -> None:
        collectives = explained.collectives
        assert collectives["hidden_share"].is_between(0, 1).all()
        assert (collectives["exposed_ms"] <= collectives["total_ms"] * (1 + 1e-9)).all()

    def test_shares_of_ops_are_shares(self, explained: Explanation) -> None:
        ops = explained.ops
        assert ops["share"].is_between(0, 1.0001).all()
        assert (ops["self_ms"] >= 0).all()
        assert ops["self_ms"].is_sorted(descending=True)


@pytest.mark.system
@pytest.mark.parametrize("name", ["pax_fsdp4_4proc_proc*.zip", "vllm_qwen3_2tpu.trace.json.gz"])
def test_ten_rows_are_most_of_a_large_model(shared: Path, name: str) -> None:
    explanation = explained_of(shared / "data/traces" / name)
    whole = float(explanation.ops["self_ms"].sum())
    by = finest(explanation.ops, 10)
    assert by == "scope"
    assert explanation.ops_by(by).head(10)["self_ms"].sum() > 0.7 * whole
    assert explanation.ops.head(10)["self_ms"].sum() < 0.2 * whole


def test_two_modules_fusion_3_stay_two_ops(shared: Path) -> None:
    timeline = opened(shared / "data/traces/jax_gemm_mi300x.xplane.pb")
    same = timeline.ops.filter(pl.col("op") == "custom-call.1")
    assert same["program"].n_unique() == 5


def test_the_tpu_waits_for_host_copies(shared: Path) -> None:
    explained = explained_of(shared / "data/traces/jax_inference_v6e_4tpu.xplane.pb")
    assert explained.findings[0].code == "STEP505"
    assert explained.utilization.chip == "TPU v6e"
    assert explained.breakdown is not None
    assert explained.breakdown.copy_exposed_ms > 0.9 * (explained.steps.median_ms or 0)


class TestCompute:
    """Figures of docs/cases, each seen in the profile itself as well."""

    @pytest.mark.system
    def test_attention_written_out_is_the_dearest_on_pax(self, explained: Explanation) -> None:
        first = explained.findings[0]
        assert first.code == "STEP503"
        assert "attention" in first.title
        # 12 layers, forward and backward; buffers of 4 x 12 x 2048 x 2048 in bf16.
        assert "in 24 chains" in first.detail
        assert "(403 MB)" in first.detail
        assert "praxis/layers/attentions.py" in first.evidence[0].what
        assert isinstance(first.saves_ms, Range)
        assert first.saves_ms.high == pytest.approx(49, rel=0.05)

    @pytest.mark.system
    def test_products_are_no_finding_on_pax(self, explained: Explanation) -> None:
        codes = {finding.code for finding in explained.findings}
        assert not codes & {"STEP401", "STEP402", "STEP501", "STEP502", "STEP505"}

    def test_three_arrays_go_to_the_host_and_back_on_tpu(self, shared: Path) -> None:
        first = explained_of(f"{shared}/data/traces/jax_inference_v6e_4tpu.xplane.pb").findings[0]
        assert first.code == "STEP505"
        # 3 x 5 x 1024 x 1024 x 256 of f32, each way.
        assert "(16.1 GB) from the host" in first.detail
        assert "(for 5.37 GB of 16.1 GB) from the device" in first.detail
        assert "Kernels run for 23.84 ms" in first.detail
        # By the windows of device 0, the only one for which they were recorded: 184 ms in the mean.
        both_ways = re.search(r"for ([\d.]+) ms copies to the host and", first.detail)
        assert both_ways is not None
        assert float(both_ways[1]) == pytest.approx(184, rel=0.02)

    def test_what_the_host_did_before_the_steps_is_told_as_start_up(self, shared: Path) -> None:
        registered, idle, transposed = (
            it
            for it in explained_of(f"{shared}/data/traces/jax_inference_v6e_4tpu.xplane.pb").notes
            if "startup" in it
        )
        assert "249 DMA registrations (MapDmaBuffer) of 198 GB took 35.72 s" in registered
        assert registered.endswith(
            "53 of its 98 steady steps have such calls: 2.7 per step (88 bytes), 0.08 ms, below 1%"
            " of the step, so no finding"
        )
        assert "idle for 13.7 of 92.5 s in 4 gaps" in idle
        assert transposed

    def test_the_tpus_host_transposes_at_start_up_only(self, shared: Path) -> None:
        timeline = opened(f"{shared}/data/traces/jax_inference_v6e_4tpu.xplane.pb")
        found = host_transposes(StepData(selection=select(timeline), context=Context()))
        assert found.busy_ms > 33_000  # of threads side by side
        assert found.before_ms == pytest.approx(897, rel=0.01)  # of the clock
        assert found.in_steps_ms == 0

    def test_ends_that_are_reported_late_come_first(self, shared: Path) -> None:
        """Kernels end 23.5 ms before the wait for them does."""
        first = explained_of(f"{shared}/data/traces/jax_conv_mi300x_8gpu.xplane.pb").findings[0]
        assert first.code == "STEP304"
        assert first.title.endswith("because the end of their work is reported late")

    def test_layout_changes_are_what_a_served_model_could_save_most(self, shared: Path) -> None:
        """Fusions of only a transpose, and reshapes, in the raw events: 3.04 and 1.62 ms."""
        name = "traces-new/vllm_2026_01_12_01_08_50.trace.json.gz"
        first = explained_of(f"{shared}/data/{name}").findings[0]
        assert first.code == "STEP504"
        assert first.takes_ms == pytest.approx(3.04 + 1.62, rel=0.01)
        assert "1.07 GB read and written, 353.1 GB/s" in first.detail

    def test_the_convolutions_result_is_turned_around(self, shared: Path) -> None:
        (turned,) = (
            it
            for it in explained_of(f"{shared}/data/traces/jax_conv_mi300x_8gpu.xplane.pb").findings
            if it.code == "STEP504"
        )
        assert "cudnn-conv.1 (__cudnn$convForward) writes a result" in turned.detail
        assert "generate_conv_trace.py:23" in turned.evidence[0].what
        assert turned.evidence[0].ms == pytest.approx(0.350, rel=0.01)


class TestSteps:
    def test_of_three_runs_one_step_counts_and_no_part_of_its_gap_is_lost(
        self, shared: Path
    ) -> None:
        explained = explained_of(shared / "data/traces/jax_gemm_mi300x.xplane.pb")
        assert explained.steps.count == 1
        assert explained.steps.median_ms == pytest.approx(0.701, abs=5e-4)
        assert explained.breakdown is not None
        assert explained.breakdown.idle_ms / 0.701 == pytest.approx(0.16, abs=0.02)

    @pytest.mark.system
    def test_one_run_is_no_step(self, shared: Path) -> None:
        steps = explained_of(shared / "data/traces/vllm_qwen3_2tpu.trace.json.gz").steps
        assert (steps.count, steps.median_ms, steps.window) == (0, None, "run")
        assert steps.execution_ms == steps.window_ms == pytest.approx(66.95, abs=0.01)
