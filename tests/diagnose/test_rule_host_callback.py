"""STEP308: devices wait for Python that a program calls."""

from __future__ import annotations

import pytest
from compute_step import made, priced, where

from counterpoint.diagnose.rules import host_callback
from counterpoint.diagnose.step_data import StepData
from golden_sections import Said


def program(target: str, name: str = "pure_callback.1") -> str:
    """A product, a custom call with this target, and a product of its result."""
    return f"""
ENTRY main {{
  p = f32[512,512] parameter(0)
  dot.1 = f32[512,512] dot(p, p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {name} = f32[512,512] custom-call(dot.1), custom_call_target="{target}",
    api_version=API_VERSION_TYPED_FFI, {where("pure_callback", 29)}
  ROOT dot.2 = f32[512,512] dot({name}, p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
""".replace(",\n   ", ",")


CPU = "xla_ffi_python_cpu_callback"
OPS = [("dot.1", 0, 300, 0), ("pure_callback.1", 300, 600, 0), ("dot.2", 900, 100, 0)]
PYTHON = [
    (name, start + 1000 * step, length)
    for step in range(3)
    for name, start, length in (
        ("$callback.py:815 _wrapped_callback", 310, 580),
        ("$callback.py:69 __call__", 350, 500),
        ("$tree_util.py:10 tree_unflatten", 352, 5),
        ("$metrics.py:42 edit_distance", 360, 450),
        ("$time sleep", 365, 440),
    )
]


def test_a_callback_is_named_with_its_line_and_its_function(said: Said) -> None:
    (finding,) = host_callback.check(made(program(CPU), OPS, kind="cpu", host=PYTHON))
    assert priced(finding).high == pytest.approx(0.6)
    assert "mlp.py:29" in finding.detail
    assert "edit_distance" in finding.detail
    said(finding)


def test_a_sampled_function_is_named_without_a_time(said: Said) -> None:
    longer = [  # than the callback: samples are apart
        (name, 290 + 1000 * step, 620)
        for step in range(3)
        for name in ("$callback.py:69 __call__", "$metrics.py:42 edit_distance", "$metrics.py:7 of")
    ]
    ((finding,), (beyond,)) = (
        host_callback.check(made(program(CPU), OPS, kind="cpu", host=host, sampled=True))
        for host in ([("$train.py:3 main", 0, 3000), *longer], PYTHON)
    )
    times = {each.what: each.ms for each in finding.evidence}
    assert times["$metrics.py:42 edit_distance"] is None
    assert "edit_distance takes" not in finding.detail
    assert beyond.evidence[1].ms is None
    said(finding)


def test_calls_that_only_begin_or_end_within_a_callback_name_nothing() -> None:
    longer = [
        (name, start + 1000 * step, length)
        for step in range(3)
        for name, start, length in (
            ("$callback.py:69 __call__", 290, 620),
            ("$metrics.py:42 edit_distance", 310, 500),
        )
    ]
    (finding,) = host_callback.check(made(program(CPU), OPS, kind="cpu", host=longer))
    assert len(finding.evidence) == 1


def test_calls_on_threads_that_are_not_recorded_last_as_long_as_the_others() -> None:
    twice = [*OPS, ("pure_callback.1", 1000, 600, 0)]
    calls = [(name, start + start // 1000 * 600, length) for name, start, length in PYTHON]
    (finding,) = host_callback.check(made(program(CPU), twice, kind="cpu", host=calls))
    assert finding.evidence[1].ms == pytest.approx(0.9)


def test_a_device_that_waits_for_python_is_idle() -> None:
    parts = made(program(CPU), OPS, kind="cpu").breakdown
    assert parts.compute_ms == pytest.approx(0.4)
    assert parts.idle_ms == pytest.approx(0.6)


def test_without_python_the_line_is_named_and_how_to_see_more(said: Said) -> None:
    (finding,) = host_callback.check(made(program(CPU), OPS, kind="cpu"))
    assert "python_tracer_level" in finding.detail
    said(finding)


def test_what_another_op_does_meanwhile_is_no_wait() -> None:
    beside = [*OPS[:2], ("dot.2", 400, 600, 1)]
    (finding,) = host_callback.check(made(program(CPU), beside, kind="cpu"))
    assert priced(finding).high == pytest.approx(0.1)


def test_calls_in_a_loop_are_counted(said: Said) -> None:
    calls = [(op, n * 10, 8, 0) for n in range(50) for op in ("pure_callback.1",)]
    (finding,) = host_callback.check(made(program(CPU), calls, kind="cpu"))
    assert "50 calls" in finding.detail
    said(finding)


@pytest.mark.parametrize("target", ["__cublas$gemm", "my_kernel", "annotate_device_placement"])
def test_other_custom_calls_are_no_callbacks(target: str) -> None:
    name = "custom-call.1"
    ops = [(op.replace("pure_callback.1", name), *times) for op, *times in OPS]
    data: StepData = made(program(target, name), ops, kind="cpu")  # type: ignore[arg-type]
    assert not list(host_callback.check(data))


def test_without_hlo_the_name_that_jax_gives_tells() -> None:
    (finding,) = host_callback.check(made(None, OPS, kind="cpu"))
    assert priced(finding).high == pytest.approx(0.6)
    others = [("callback_free_fusion.1", 0, 300, 0), ("dot.2", 300, 100, 0)]
    assert not list(host_callback.check(made(None, others, kind="cpu")))


def test_a_short_callback_is_none() -> None:
    short = [("dot.1", 0, 3000, 0), ("pure_callback.1", 3000, 10, 0), ("dot.2", 3010, 100, 0)]
    assert not list(host_callback.check(made(program(CPU), short, kind="cpu")))
