"""What fused attention costs, by its shape, its mask and whose kernel it is."""

from __future__ import annotations

import pytest

from counterpoint.cost.compute.attention import attention_of
from counterpoint.cost.compute.machine import ComputeDevice, machine_of
from counterpoint.cost.model import PriceFamily, PriceSource
from counterpoint.hardware.targets import parse_target
from prices import Build, PriceLine, known_scalars

CONFIG = (
    '"cudnn_fmha_backend_config":{{"intermediate_tensor_shape":{{"dimensions":["2","16","4096","4096"]}},'
    '"is_flash_attention":true,"mask_type":"{mask}","sliding_window_length":{window}}}'
)
FORWARD_FLOPS = 4 * 2 * 16 * 4096**2 * 128


def cudnn(mask: str = "CAUSAL", target: str = "__cudnn$fmhaSoftmax", window: int = 0) -> str:
    config = CONFIG.format(mask=mask, window=window)
    return (
        f"(bf16[2,16,4096,128]{{3,2,1,0}}, u8[0]{{0}}) custom-call(%q, %q, %q), "
        f'custom_call_target="{target}", backend_config={{{config}}}'
    )


def test_kernels_take_what_they_took_in_a_training_step(price: PriceLine) -> None:
    # MaxText's PGLE profile of Llama-2 70B, 16 hosts of 8 H100: 64 heads, so four times these.
    machine = machine_of(parse_target("8xH100"), known_scalars(matmul=0.92))
    forward, backward = (
        price(cudnn(target=f"__cudnn$fmhaSoftmax{direction}"), machine)
        for direction in ("", "Backward")
    )
    assert (forward.family, forward.source) == (PriceFamily.ATTENTION, PriceSource.ANALYTIC)
    assert 4 * forward.seconds == pytest.approx(952e-6, rel=0.05)
    assert 4 * backward.seconds == pytest.approx(2831e-6, rel=0.05)


def test_the_mask_costs_as_in_the_paper(price: PriceLine, h100: ComputeDevice) -> None:
    # arXiv:2407.08608: cuDNN on H100, 4 k, heads of 128: 609 TFLOP/s, with causal mask 518.
    plain, causal = price(cudnn("NO_MASK"), h100), price(cudnn(), h100)
    assert plain.seconds / causal.seconds == pytest.approx(2 * 518 / 609, rel=0.03)


def test_a_window_spares_what_is_outside(price: PriceLine, h100: ComputeDevice) -> None:
    assert price(cudnn(window=512), h100).seconds < 0.4 * price(cudnn(), h100).seconds


@pytest.mark.parametrize(("chip", "low", "high"), [("A100", 130, 220), ("B200", 900, 1500)])
def test_other_chips(chip: str, low: float, high: float, price: PriceLine) -> None:
    machine = machine_of(parse_target(f"8x{chip}"), known_scalars())
    rate = FORWARD_FLOPS / 2 / price(cudnn(), machine).seconds / 1e12
    assert low < rate < high


def test_transformer_engines_call_says_its_sizes(build: Build) -> None:
    program = build(
        "ROOT %it = bf16[2,4096,16,128]{3,2,1,0} custom-call(%q, %q, %q), "
        'custom_call_target="te_fused_attn_backward_ffi", api_version=API_VERSION_TYPED_FFI, '
        "backend_config={attn_heads = 16 : i64, head_dim = 128 : i64, input_batch = 2 : i64, "
        "kv_max_seqlen = 4096 : i64, mask_type = 2 : i64, q_max_seqlen = 4096 : i64}"
    )
    found = program.instruction("it")
    assert found
    attention = attention_of(program, found)
    assert attention is not None
    assert (attention.backward, attention.mask) == (True, "causal")
    assert attention.flops == pytest.approx(2.5 * FORWARD_FLOPS / 2)


def test_a_users_kernel_without_settings_is_taken_by_its_operands(
    price: PriceLine, h100: ComputeDevice
) -> None:
    line = (
        'bf16[2,4096,16,128]{3,2,1,0} custom-call(%q, %q, %q), custom_call_target="triton", '
        'metadata={op_name="jit(f)/flash_attention/pallas_call"}'
    )
    found = price(line, h100)
    known = price(cudnn(), h100)
    assert found.seconds == pytest.approx(known.seconds, rel=0.05)
    # Nobody says that it is causal: without a mask it takes twice as long.
    assert found.high > 1.8 * found.seconds
