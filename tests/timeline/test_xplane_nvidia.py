"""From NVIDIA's planes to the parts of a step, on a run whose every microsecond is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from xspace_builder import (
    MS,
    US,
    Module,
    Plane,
    Ref,
    Unsigned,
    Value,
    hlo_proto,
    host,
    kernel,
    memcpy,
    metadata,
    nvidia,
    task_environment,
    xspace,
)

import counterpoint
from counterpoint import Explanation

STEP: Module = ("jit_step", 7)
EVAL: Module = ("jit_eval", 9)
STEPS = 8
NCCL = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
OPS = {
    "param": "parameter",
    "fusion.1": "fusion",
    "all-gather-start": "all-gather-start",
    "all-gather-done": "all-gather-done",
    "gemm_fusion_dot.2": "fusion",
}
SCOPES = {
    "fusion.1": "jit(step)/jvp(model)/layer/mul",
    "all-gather-start": "jit(step)/jvp(model)/layer/all_gather",
    "gemm_fusion_dot.2": "jit(step)/transpose(jvp(model))/layer/dot_general",
}


def gpu(ordinal: int, launched_as: str | None = None) -> Plane:
    """Steps of 120 us: 20 us fusion, 40 us all-gather of which 15 lie under it, 50 us matmul."""
    plane = nvidia(ordinal)
    stats: dict[str, Value] = {"prefix": Ref("jit(step)")}
    if launched_as:
        stats |= {"cuda_graph_id": Unsigned(3), "cuda_graph_node_id": Unsigned(11)}

    def run(stream: int, name: str, start: int, dur: int, op: str) -> None:
        line, launched = f"Stream #{stream}(Compute)", launched_as or op
        kernel(plane, line, name, start, dur, op=launched, module=STEP, stats=stats)

    for start in range(0, STEPS * 120 * US, 120 * US):
        run(20, "fusion_1", start, 20 * US, "fusion.1")
        run(24, NCCL, start + 5 * US, 40 * US, "all-gather-start")
        run(20, "nvjet_hsh_128x256", start + 46 * US, 50 * US, "gemm_fusion_dot.2")
        memcpy(plane, "Stream #13(MemcpyD2H)", "D2H", start + 100 * US, 5 * US, 4096)
    last = (STEPS - 1) * 120 * US + 110 * US
    kernel(plane, "Stream #20(Compute)", "fusion_1", last, US, op="fusion.1", module=EVAL)
    return plane


def explain(directory: Path, *planes: Plane) -> Explanation:
    file = directory / "gpu.xplane.pb"
    start = 1_795_174_735_448_212_126
    file.write_bytes(xspace(*planes, host(), task_environment(start, start + 10**9)))
    return counterpoint.explain(counterpoint.read(file))


def check_breakdown(found: Explanation) -> None:
    assert found.breakdown is not None
    assert (found.steps.count, found.steps.median_ms) == (STEPS - 2, pytest.approx(0.120))
    assert found.breakdown.compute_ms == pytest.approx(0.070)
    assert found.breakdown.collective_exposed_ms == pytest.approx(0.025)
    assert found.breakdown.collective_hidden_ms == pytest.approx(0.015)
    assert found.breakdown.copy_exposed_ms == pytest.approx(0.005)
    assert found.breakdown.idle_ms == pytest.approx(0.020)


def test_a_step_is_split_by_what_the_streams_did(tmp_path: Path) -> None:
    programs = {STEP: hlo_proto("jit_step", OPS, SCOPES), EVAL: hlo_proto("jit_eval", OPS)}
    found = explain(tmp_path, metadata(programs), gpu(0), gpu(1))
    check_breakdown(found)
    assert [(used.name, used.executions) for used in found.programs] == [
        ("jit_step", STEPS),
        ("jit_eval", 1),
    ]
    assert found.phases is not None
    assert found.phases.backward_ms == pytest.approx(0.050)
    (gather,) = found.collectives.iter_rows(named=True)
    assert (gather["op"], gather["kind"]) == ("all-gather-start", "all-gather")
    assert gather["exposed_ms"] == pytest.approx(0.025)
    assert found.utilization.chip == "H100 SXM"


def test_without_hlo_the_kernels_still_tell_compute_from_communication(tmp_path: Path) -> None:
    found = explain(tmp_path, gpu(0), gpu(1))
    check_breakdown(found)
    assert found.collectives["kind"].to_list() == ["all-gather"]


@pytest.mark.parametrize("launched_as", ["command_buffer", "command_buffer_3", "call.1"])
def test_cuda_graphs_hide_the_ops_but_not_the_parts(tmp_path: Path, launched_as: str) -> None:
    found = explain(tmp_path, gpu(0, launched_as), gpu(1, launched_as))
    check_breakdown(found)
    assert any("CUDA graphs" in note for note in found.notes)
    assert "fusion_1" in found.ops["op"].to_list()


def test_a_function_compiled_anew_for_each_call_is_one_step_per_call(tmp_path: Path) -> None:
    gpu = nvidia(0)
    modules = {("jit_step", number): hlo_proto("jit_step", {"f": "fusion"}) for number in range(6)}
    for at, module in enumerate(modules):
        kernel(gpu, "Stream #20", "f", at * MS, 300 * US, op="f", module=module)
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(xspace(gpu, metadata(modules)))
    made = counterpoint.read(path)
    assert made.steps["step"].n_unique() == 6
    assert any("6 programs named jit_step ran" in note for note in made.notes)
