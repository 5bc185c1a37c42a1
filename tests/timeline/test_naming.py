"""Names of instructions and kernels as they occur in real profiles."""

from __future__ import annotations

import pytest

from counterpoint.timeline import kernel_names, ops


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("all-gather-start.12", "all-gather"),
        ("all-gather-done", "all-gather"),
        ("reduce-scatter.3.clone.1", "reduce-scatter"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all-gather"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "all-reduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_float", "reduce-scatter"),
        ("ncclDevKernel_SendRecv", "send/recv"),
        (
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16>(int)",
            "all-reduce",
        ),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", "all-reduce"),
        ("void scan<ncclDevKernelArgs>(ncclDevKernelArgs)", None),
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
        ("Memcpy HtoD (Pageable -> Device)", "copy"),
        ("_combined_routing_memset", "other"),
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2", "matmul"),
        ("void moe::dev::finalize::finalizeKernel<cutlass::bfloat16_t, 4>(Params)", "other"),
        ("void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_nn_align1>(P)", "matmul"),
        ("void cutlass::device_kernel<flash::FlashAttnFwdSm90<float>>(flash::Params)", "attention"),
        (
            "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_align8>(P)",
            "convolution",
        ),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bLi256EEEvPT0_PT_", "reduction"),
        ("std::enable_if<(((8)>(0))), void>::type vllm::rms_norm_kernel<8>(float*)", "reduction"),
    ],
)
def test_kernels_are_told_by_theirs(name: str, category: str) -> None:
    assert ops.category_by_name(name, name, None) == category


@pytest.mark.parametrize(
    ("name", "label"),
    [
        (
            "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float>(float*, long)",
            "cunn_SoftMaxForward<4, float>",
        ),
        (
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclDevKernel_AllGather_RING_LL",
        ),
        (
            "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(P)",
            "cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1",
        ),
        ("input_scatter_fusion.3", "input_scatter_fusion.3"),
    ],
)
def test_a_long_name_keeps_the_function(name: str, label: str) -> None:
    assert kernel_names.kernel_label(name) == label


def test_a_fusion_that_transposes_is_a_kernel() -> None:
    assert ops.lane("copy", "fusion") == "compute"
    assert ops.lane("copy", "copy-start") == "copy"
