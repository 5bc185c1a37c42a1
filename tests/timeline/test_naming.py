"""Names of instructions and kernels as they occur in real profiles."""

from __future__ import annotations

import pytest

from counterpoint.timeline import ops


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("all-gather-start.12", "all-gather"),
        ("all-gather-done", "all-gather"),
        ("reduce-scatter.3.clone.1", "reduce-scatter"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all-gather"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "all-reduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_float", "reduce-scatter"),
        ("ncclDevKernel_SendRecv", "collective-permute"),
        ("rcclGenericKernel", "unknown"),
        ("loop_all_gather_fusion", None),
        ("fusion.7", None),
    ],
)
def test_collectives_are_told_by_their_names(name: str, kind: str | None) -> None:
    assert ops.collective_kind(name) == kind


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("MemcpyD2H", "copy"),
        ("__amd_rocclr_copyBuffer.kd", "copy"),
        ("copy-start.2", "copy"),
        ("Cijk_Ailk_Bljk_BBS_BH_MT256x128x64", "matmul"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "matmul"),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", "matmul"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "attention"),
        ("void Eigen::MetaKernel<Eigen::TensorConversionOp<float>>(long)", "other"),
        ("sm80_xmma_fprop_implicit_gemm_conv2d", "convolution"),
        ("while.3", "control"),
        ("loop_add_fusion", "fusion"),
        ("xyzzy", "other"),
    ],
)
def test_kernels_are_told_by_theirs(name: str, category: str) -> None:
    assert ops.category_by_name(name, name, None) == category


def test_a_fusion_that_transposes_is_a_kernel() -> None:
    assert ops.lane("copy", "fusion") == "compute"
    assert ops.lane("copy", "copy-start") == "copy"
