"""Kernels for which better ones are known, by their names."""

from __future__ import annotations

import pytest
from compute_step import made, priced
from made_step import A100, H100

from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import kernel_choice

SOFTMAX = (
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float>"
    "(c10::BFloat16*, c10::BFloat16 const*, int)"
)
UNALIGNED = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(P)"
ALIGNED = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_nn_align8>(P)"
FLASH_2 = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64>>(flash::Params)"
FLASH_3 = "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90>>(P)"
NVJET = "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
HOPPERS = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"


def found(kernels: dict[str, int], chip: str | None = H100) -> list[Finding]:
    return list(kernel_choice.check(made(None, kernels, chip=chip, nameless=tuple(kernels))))


@pytest.mark.parametrize(
    ("kernel", "chip", "title", "share"),
    [
        (SOFTMAX, A100, "separate softmax kernels", 1.0),
        (UNALIGNED, A100, "products of unaligned arrays", 0.75),
        (FLASH_2, H100, "older flash attention kernels", 0.5),
    ],
)
def test_it_names_the_kernel_and_what_it_takes(
    kernel: str, chip: str, title: str, share: float
) -> None:
    (finding,) = found({kernel: 40, NVJET: 60}, chip)
    assert finding.title == f"{title} take 0.04 ms per step"
    assert priced(finding).high == pytest.approx(0.04 * share)


@pytest.mark.parametrize(
    ("kernel", "chip"),
    [
        (ALIGNED, H100),
        (FLASH_3, H100),
        (FLASH_2, A100),
        (FLASH_2, None),  # on which chip is not known
        ("loop_softmax_fusion", H100),
        ("void f<cunn_SoftMaxForward>(int)", H100),
    ],
)
def test_others_are_no_finding(kernel: str, chip: str | None) -> None:
    assert not found({kernel: 40, NVJET: 60}, chip)


def test_kernels_of_hopper_tell_the_chip() -> None:
    assert found({FLASH_2: 40, HOPPERS: 60}, None)


def test_a_hundredth_of_the_step_is_not_worth_a_word() -> None:
    assert not found({SOFTMAX: 2, NVJET: 98})
