"""Profiles of PyTorch and TensorFlow: nothing is said of JAX, nor advised that only XLA has."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from host_side import Event, case, most, recorded

import real_profiles
from command_line import in_process
from counterpoint.core import Basis, Range
from counterpoint.diagnose.explanation import Explanation, explain
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.other_frameworks import in_neutral_words, is_foreign
from counterpoint.diagnose.rules import RULES, host_bound
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Timeline
from golden_sections import Said
from recordings import Span, recording

US = 1_000
OF_JAX = re.compile(
    r"\bjax|JAX|jnp|\bjit|XLA|xla_|HLO|PGLE|Flax|donat|device_put|block_until_ready|shard_map"
)

TORCH = (
    "traces/pytorch_h100_2gpu.nsys.sqlite",
    *(
        f"traces-new/torch_{name}.json.gz"
        for name in ("b200_eager", "h100_timesformer", "mi300_resnet_ckpt", "sglang_decode")
    ),
)
JAX = ("traces/jax_gemm_mi300x.xplane.pb", "traces/jax_conv_mi300x_8gpu.xplane.pb")


def words(finding: Finding) -> str:
    """All that a finding says."""
    remedy = finding.remedy
    settings = [name for name, _ in (*remedy.flags, *remedy.environment)]
    said = (finding.title, finding.detail, finding.doubt or "", remedy.text, *settings)
    return "\n".join(said)


def foreign(*events: Event, kernels: str = "gemm", launch: str = "aten::mm") -> Timeline:
    """Six kernels of 100 us, 60 us apart, which the host launches one by one; no program's name."""
    spans = [Span(kernels, 160 * US * k, 100 * US, module=None) for k in range(6)]
    calls = [
        event
        for k in range(6)
        for event in (
            Event(launch, 160 * k - 20, 15),
            Event("cudaLaunchKernel", 160 * k - 10, 4),
            *(replace(it, start=160 * k - 60 + it.start) for it in events),
        )
    ]
    host = recorded([], calls)
    made = recording(spans)
    return assemble(
        [replace(made, lines=host.lines, host_events=host.host_events, host_names=host.host_names)],
        ["made.json"],
    )


def data_of(timeline: Timeline) -> StepData:
    return case(timeline)


@pytest.mark.parametrize(
    ("launch", "kernels", "told"),
    [
        ("aten::mm", "gemm", True),
        ("launch", "void at::native::vectorized_elementwise_kernel<4>", True),
        ("ExecutorState::Process", "gemm", True),
        ("EagerLocalExecute: MatMul", "gemm", True),
        ("launch", "gemm", False),
    ],
)
def test_other_frameworks_are_told_by_the_names_that_they_give(
    launch: str, kernels: str, *, told: bool
) -> None:
    assert is_foreign(data_of(foreign(launch=launch, kernels=kernels))) is told


@pytest.mark.parametrize("code", [rule.CODE for rule in RULES])
@pytest.mark.parametrize(
    "remedy",
    [
        Remedy("donate it (jax.jit(step, donate_argnums=...))"),
        Remedy("cast with jnp.float32 (Flax: dtype=jnp.bfloat16)"),
        Remedy("enable it", flags=(("xla_gpu_enable_latency_hiding_scheduler", "true"),)),
        Remedy("give it more memory", environment=(("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.9"),)),
    ],
)
def test_no_rule_advises_what_only_jax_has(code: str, remedy: Remedy) -> None:
    finding = Finding(
        code=code,
        title="title",
        detail="detail",
        saves_ms=Range(0.0, 1.0),
        basis=Basis.MEASURED,
        evidence=(Evidence(what="gemm", ms=1.0),),
        remedy=remedy,
        doubt="without HLO in the profile, work that could overlap them is unknown",
    )
    said = in_neutral_words(data_of(foreign()), finding)
    assert not OF_JAX.search(words(said))
    assert said.doubt == "work that could overlap them is unknown"
    assert said.remedy.text


def test_what_other_frameworks_have_too_is_kept() -> None:
    finding = Finding(
        code="STEP309",
        title="title",
        detail="detail",
        saves_ms=Range(0.0, 1.0),
        basis=Basis.MEASURED,
        evidence=(),
        remedy=Remedy("do it less often", environment=(("NCCL_DEBUG", "INFO"),)),
    )
    assert in_neutral_words(data_of(foreign()), finding) == finding


def test_of_a_jax_program_everything_is_kept() -> None:
    timeline = foreign()
    spans = [Span("gemm", 160 * US * k, 100 * US, run=k) for k in range(6)]
    with_program = assemble([recording(spans)], ["made"])
    assert not is_foreign(data_of(with_program))
    assert is_foreign(data_of(timeline))


@pytest.mark.parametrize(("takes", "is_first"), [(40_000, True), (4, False)])
def test_a_launch_of_many_milliseconds_is_the_first_one_of_its_kernel(
    takes: int, is_first: bool
) -> None:
    spans = [Span("gemm", (k * 100 + (k > 2) * takes) * US, 50 * US, module=None) for k in range(6)]
    calls = [
        Event("hipLaunchKernel", k * 100 + (k > 3) * takes - 10, takes if k == 3 else 4)
        for k in range(6)
    ]
    host = recorded([], calls)
    made = replace(
        recording(spans), lines=host.lines, host_events=host.host_events, host_names=host.host_names
    )
    (finding,) = host_bound.check(data_of(assemble([made], ["made.json"])))
    assert ("loads its code" in finding.detail) is is_first
    assert ("run what you profile once before" in finding.remedy.text) is is_first


def test_python_that_launches_kernels_is_not_to_be_moved_to_a_thread(said: Said) -> None:
    (finding,) = host_bound.check(data_of(foreign(Event("$model.py:7 forward", 0, 55))))
    assert "launches kernels for" in finding.detail
    assert "CUDA or HIP graph" in finding.remedy.text
    assert "jitted" not in words(finding)
    assert most(finding) > 0.2
    said(finding)


def explained_of(shared: Path, name: str) -> Explanation:
    path = shared / "data" / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return explain(path)


@pytest.mark.parametrize("name", TORCH)
def test_real_profiles_are_not_told_of_jax(shared: Path, name: str) -> None:
    explained = explained_of(shared, name)
    assert explained.findings
    for finding in explained.findings:
        assert not OF_JAX.search(words(finding)), finding.code
    assert not OF_JAX.search(explained.verdict or "")


def test_a_copy_call_that_waits_for_a_decoder_is_no_copy(shared: Path) -> None:
    """SGLang: the graph that decodes was launched before the profile began."""
    explained = explained_of(shared, "traces-new/torch_sglang_decode.json.gz")
    (finding,) = explained.findings
    assert finding.title.endswith("while a call that copies waits")
    assert "earlier work, which is not in the profile" in finding.detail


def test_layout_changes_around_convolutions_are_told_as_calls_of_pytorch(shared: Path) -> None:
    """ResNet: transposes before and after convolutions, and copies within the device."""
    explained = explained_of(shared, "traces-new/torch_mi300_resnet_ckpt.json.gz")
    copies = next(it for it in explained.findings if it.code == "STEP505")
    assert ".contiguous()" in copies.remedy.text
    fused = next(it for it in explained.findings if it.code == "STEP511")
    assert "torch.compile" in fused.remedy.text


def test_collectives_of_one_rank_may_wait_for_those_that_were_not_read(shared: Path) -> None:
    """NanoGPT: seven of eight ranks wait for the host of one."""
    ranks = [f"traces-new/nanogpt8/rank{number}.trace.json.gz" for number in range(8)]
    (alone,) = (it for it in explained_of(shared, ranks[0]).findings if it.code == "STEP101")
    assert "waiting for one that comes late" in alone.detail
    together = real_profiles.explained_of(*(shared / "data" / rank for rank in ranks))
    assert together.findings[0].code == "STEP105"
    assert "host of device 1" in together.findings[0].remedy.text
    (own,) = (it for it in together.findings if it.code == "STEP101")
    assert "Not all devices" not in own.detail


def test_copies_from_pinned_memory_are_not_advised_to_be_that(shared: Path) -> None:
    pinned = explained_of(shared, TORCH[0]).findings[0]
    assert "the memory is pinned" in pinned.detail
    assert pinned.remedy.text.startswith("move less")
    assert "pinned" not in pinned.remedy.text
    pageable = next(it for it in explained_of(shared, TORCH[2]).findings if it.code == "STEP505")
    assert "from pinned memory" in pageable.remedy.text


@pytest.mark.parametrize(("name", "what"), [(TORCH[2], "preprocess"), (TORCH[1], None)])
def test_what_the_host_does_before_the_first_kernel_is_in_no_figure(
    shared: Path, name: str, what: str | None
) -> None:
    """TimeSformer: images are prepared for 217 ms, then devices work for 160 ms."""
    notes = [it for it in explained_of(shared, name).notes if it.startswith("startup")]
    assert len(notes) == (what is not None)
    for note in notes:
        assert "218.40 ms before the first work of a device on, 217.47 ms of it in" in note
        assert note.endswith(f"{what}: that is in no figure")


def test_a_step_that_was_asked_for_was_separated(shared: Path) -> None:
    path = shared / "data" / "traces-new" / "nanogpt8" / "rank0.trace.json.gz"
    for asked in ("--last", "1"), ("--step", "12"):
        text = in_process("explain", path, *asked).stdout
        assert "Step time   42.71 ms" in text
        assert "could not be separated" not in text
    unmarked = in_process("explain", shared / "data" / TORCH[-1]).stdout
    assert "steps could not be separated" in " ".join(unmarked.split())


@pytest.mark.parametrize("name", JAX)
def test_profiles_of_jax_are_not_told_of_pytorch(shared: Path, name: str) -> None:
    for finding in explained_of(shared, name).findings:
        assert "torch" not in words(finding)
        assert "HIP graph" not in words(finding)
