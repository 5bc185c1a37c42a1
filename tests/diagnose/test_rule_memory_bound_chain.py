"""STEP503: kernels that hand large buffers to each other."""

from __future__ import annotations

import pytest
from compute_step import made, priced, where

from counterpoint.diagnose.rules.memory_bound_chain import check
from counterpoint.hardware.targets import parse_target
from golden_sections import Said

ROWS = 8192 * 4096  # of f32: 134 MB


def chain(phase: str = "jvp(norm)", elements: int = ROWS, more: str = "") -> str:
    """x -> centred -> scaled, elementwise: XLA would join these two, a test need not."""
    return f"""
centre {{
  a = f32[{elements}]{{0}} parameter(0)
  ROOT b = f32[{elements}]{{0}} negate(a)
}}

scale {{
  c = f32[{elements}]{{0}} parameter(0)
  ROOT d = f32[{elements}]{{0}} multiply(c, c)
}}

ENTRY main {{
  x = f32[{elements}]{{0}} parameter(0)
  centred = f32[{elements}]{{0}} fusion(x), kind=kLoop, calls=centre, {where("jvp(norm)/sub", 5)}
  viewed = f32[{elements}]{{0}} bitcast(centred)
  scaled = f32[{elements}]{{0}} fusion(viewed), kind=kLoop, calls=scale, {where(f"{phase}/mul", 6)}
  {more}
  ROOT out = f32[{elements}]{{0}} bitcast(scaled)
}}
"""


def test_a_buffer_that_one_writes_and_the_next_reads(said: Said) -> None:
    # Both move 268 MB in 100 us; half of each is the buffer between them.
    (finding,) = check(made(chain(), {"centred": 100, "scaled": 100}))
    assert finding.code == "STEP503"
    assert "0.20 ms per step" in finding.title
    assert "centred (/home/me/model/mlp.py:5) for scaled (134 MB)" in finding.detail
    saves = priced(finding)
    assert (saves.low, saves.high) == pytest.approx((0.0, 0.1), rel=0.01)
    said(finding)


def test_what_others_read_too_has_to_be_written() -> None:
    more = f'kept = f32[{ROWS}]{{0}} custom-call(centred), custom_call_target="keep"'
    (finding,) = check(made(chain(more=more), {"centred": 100, "scaled": 100, "kept": 100}))
    assert priced(finding).high == pytest.approx(0.05, rel=0.01)


def test_what_the_backward_pass_reads_is_kept_for_it() -> None:
    hlo = chain(phase="transpose(jvp(norm))")
    assert not list(check(made(hlo, {"centred": 100, "scaled": 100})))


def test_a_small_buffer_never_leaves_the_cache() -> None:
    small = {"centred": 10, "scaled": 10}
    assert not list(check(made(chain(elements=1 << 20), small)))


def test_a_single_kernel_at_the_memorys_rate_has_nothing_to_join() -> None:
    hlo = chain().replace("fusion(viewed)", "fusion(x)")
    assert not list(check(made(hlo, {"centred": 100, "scaled": 100})))


def test_a_chain_that_is_little_of_the_step_is_not_worth_a_kernel() -> None:
    assert not list(check(made(chain(), {"centred": 100, "scaled": 100}, step=10_000)))


def test_silent_where_the_chip_is_not_known() -> None:
    assert not list(check(made(chain(), {"centred": 100, "scaled": 100}, chip=None)))


def test_a_kernel_that_reads_parts_of_several_buffers_saves_no_more_than_it_takes() -> None:
    part = ROWS // 8
    written = "\n".join(
        f"  w{n} = f32[{ROWS}]{{0}} fusion(x), kind=kLoop, calls=write, {where('jvp(f)/neg', 5)}"
        for n in range(4)
    )
    taken = "\n".join(
        f"  p{n} = f32[{ROWS}]{{0}} parameter({n})\n"
        f"  s{n} = f32[{part}]{{0}} slice(p{n}), slice={{[0:{part}]}}"
        for n in range(4)
    )
    hlo = f"""
write {{
  a = f32[{ROWS}]{{0}} parameter(0)
  ROOT b = f32[{ROWS}]{{0}} negate(a)
}}

join {{
{taken}
  t0 = f32[{part}]{{0}} add(s0, s1)
  t1 = f32[{part}]{{0}} add(s2, s3)
  ROOT t = f32[{part}]{{0}} add(t0, t1)
}}

ENTRY main {{
  x = f32[{ROWS}]{{0}} parameter(0)
{written}
  ROOT r = f32[{part}]{{0}} fusion(w0, w1, w2, w3), kind=kLoop, calls=join, {where("jvp(f)/add", 6)}
}}
"""
    case = made(hlo, {"w0": 100, "w1": 100, "w2": 100, "w3": 100, "r": 900})
    (finding,) = check(case)
    assert finding.takes_ms == pytest.approx(1.3)
    assert priced(finding).high <= 0.4 + 0.9


ATTENTION = f"""
adding {{
  l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT s = f32[] add(l, r)
}}

softmax {{
  scores.in = bf16[48,2048,2048]{{2,1,0}} parameter(0)
  wide = f32[48,2048,2048]{{2,1,0}} convert(scores.in)
  zero = f32[] constant(0)
  sums = f32[48,2048]{{1,0}} reduce(wide, zero), dimensions={{2}}, to_apply=adding
  each = f32[48,2048,2048]{{2,1,0}} broadcast(sums), dimensions={{0,1}}
  parts = f32[48,2048,2048]{{2,1,0}} divide(wide, each)
  ROOT narrow = bf16[48,2048,2048]{{2,1,0}} convert(parts)
}}

ENTRY main {{
  q = bf16[48,2048,64]{{2,1,0}} parameter(0)
  v = bf16[48,2048,64]{{2,1,0}} parameter(1)
  scores = bf16[48,2048,2048]{{2,1,0}} dot(q, q), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, \
lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}, {where("jvp(attention)/dot_general", 40)}
  weights = bf16[48,2048,2048]{{2,1,0}} fusion(scores), kind=kInput, calls=softmax, \
{where("jvp(attention)/softmax", 41)}
  ROOT mixed = bf16[48,2048,64]{{2,1,0}} dot(weights, v), lhs_batch_dims={{0}}, \
rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}, \
{where("jvp(attention)/dot_general", 42)}
}}
"""


def test_attention_that_is_written_out_wants_a_flash_kernel() -> None:
    (finding,) = check(made(ATTENTION, {"scores": 180, "weights": 300, "mixed": 180}))
    assert "attention" in finding.title
    assert "dot_product_attention" in str(finding.remedy)
    # 2 x 25.8 GFLOP at flash attention's rate are 0.08 ms of the 0.66.
    assert priced(finding).high == pytest.approx(0.66 - 0.08, abs=0.02)
    assert finding.evidence[0].what == "weights (/home/me/model/mlp.py:41)"


@pytest.mark.parametrize(
    ("kind", "chip", "kernel"),
    [
        ("gpu", "AMD MI300X", "Transformer Engine"),
        ("gpu", "AMD Instinct MI325X", "Transformer Engine"),
        ("tpu", "TPU v6 lite", "splash_attention"),
    ],
)
def test_each_chip_has_its_own_kernels(kind: str, chip: str, kernel: str) -> None:
    times = {"scores": 180, "weights": 300, "mixed": 180}
    (finding,) = check(made(ATTENTION, times, kind=kind, chip=chip))
    assert kernel in str(finding.remedy)
    assert "cudnn" not in str(finding.remedy)


def test_the_users_target_names_the_chip_where_the_profile_does_not() -> None:
    times = {"centred": 100, "scaled": 100}
    (finding,) = check(made(chain(), times, chip=None, target=parse_target("8xH100")))
    assert "H100" in finding.detail


def test_a_norm_has_a_kernel_of_cudnns() -> None:
    (finding,) = check(made(chain(), {"centred": 100, "scaled": 100}))
    assert ("xla_gpu_enable_cudnn_layer_norm", "true") in finding.remedy.flags
