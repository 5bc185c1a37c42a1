"""What changed between two compiles of one step: by kind, adding up, and never by names alone."""

from __future__ import annotations

import math

from counterpoint.core import Unknown
from counterpoint.diagnose.compare.compared_op import STEP
from counterpoint.diagnose.compare.comparison import StepDifference, compare
from counterpoint.hlo.model.program import Program
from counterpoint.simulate.simulation import simulate
from counterpoint.workflow.upgrade.changes import ChangeKind, StepChangeOfKind, changes_of
from hand_made import Told
from made_upgrade import made, op, with_text


def differences(a: Program, b: Program, told: Told | None = None) -> StepDifference:
    prices = told or Told()
    work = compare(*(simulate(it, prices, hlo=it.written).timeline for it in (a, b))).work
    assert not isinstance(work, Unknown)
    return work


def changes(a: Program, b: Program, told: Told | None = None) -> dict[str, StepChangeOfKind]:
    work = differences(a, b, told)
    found = changes_of(work, {STEP: a}, {STEP: b})
    adds = math.fsum(it.difference_ms for it in found) + work.idle.difference_ms
    assert math.isclose(adds, work.step.difference_ms, abs_tol=1e-6)
    return {it.kind: it for it in found}


def test_names_alone_are_no_difference() -> None:
    a = made(op("wave", scope="wave") + "\n" + op("ROOT last", "cosine", "wave", scope="last"))
    b = made(
        op("fusion.7", scope="wave") + "\n" + op("ROOT x.2", "cosine", "fusion.7", scope="last")
    )
    assert changes(a, b) == {}


def test_the_order_in_memory_is_a_difference_and_that_of_a_single_element_is_none() -> None:
    shape = "f32[64,32]"
    usual = made(op("ROOT wave"))
    turned = made(op("ROOT wave").replace(shape, f"{shape}{{0,1}}"))
    assert set(changes(usual, turned)) == {ChangeKind.LAYOUTS}
    flat = op("ROOT wave").replace(shape, "f32[64,1]{1,0}")
    assert changes(made(flat), made(flat.replace("{1,0}", "{0,1}"))) == {}


GEMM = 'custom-call(p, p), custom_call_target="{}", metadata={{op_name="jit(step)/dot"}}'


def gemm(target: str) -> Program:
    call = GEMM.format(target)
    return made(f"  ROOT g = f32[64,32] {call}")


def test_a_gemm_by_another_library_is_one_of_the_same_shapes() -> None:
    found = changes(gemm("__cublas$gemm"), gemm("__cublas$lt$matmul"))
    assert set(found) == {ChangeKind.BACK_END}
    assert changes(gemm("__cublas$gemm"), gemm("__cublas$gemm")) == {}


DOT = 'metadata={op_name="jit(step)/attention/dot_general"}'


def named_gemm(name: str, shape: str) -> str:
    return f'  {name} = f32[{shape}] custom-call(p, p), custom_call_target="__cublas$gemm", {DOT}'


def test_gemms_that_are_merged_are_matched_with_their_slices_too() -> None:
    """XLA gives the slices of a merged GEMM the names of those that it replaces."""
    root = "  ROOT end = f32[64,32] copy(p)"
    apart = made("\n".join([named_gemm("q", "64,64"), named_gemm("k", "64,32"), root]))
    cut = "  {} = f32[64,{}] slice(qk), slice={{[0:64],[{}:{}]}}, {}"
    slices = [cut.format("q", 64, 0, 64, DOT), cut.format("k", 32, 64, 96, DOT)]
    merged = made("\n".join([named_gemm("qk", "64,96"), *slices, root]))
    seconds = {"q": 0.2, "k": 0.1, "qk": 0.25, "end": 0.0}
    (found,) = changes(apart, merged, Told(seconds)).values()
    assert found.kind is ChangeKind.GEMMS
    (row,) = found.rows
    assert [[it.op for it in side] for side in (row.match.a, row.match.b)] == [
        ["q", "k"],
        ["qk", "q", "k"],
    ]


BUFFERS = """
buffers {{
  q = f32[64,32] parameter(0)
  v = f32[64,32] negate(q), {inner}
  ROOT w = f32[64,32] sine(v), {outer}
}}

ENTRY main {{
  p = f32[64,32] parameter(0)
  f = f32[64,32] fusion(p), kind=kLoop, calls=buffers, {outer}
{gemm}
  ROOT end = f32[64,32] copy(p)
}}
"""


def test_a_gemm_that_is_computed_again_is_one_whatever_else_is_in_its_group() -> None:
    """The fusion that makes its buffers had its name, too, and takes longer."""
    fill, update = (f'metadata={{op_name="jit(step)/layers/{it}"}}' for it in ("fill", "update"))
    gemm = named_gemm("x", "32,64")
    once = with_text(BUFFERS.format(inner=DOT, outer=fill, gemm=""))
    again = with_text(BUFFERS.format(inner=update, outer=fill, gemm=gemm))
    (found,) = changes(once, again, Told({"f": 0.2, "x": 0.1, "end": 0.0})).values()
    assert found.kind is ChangeKind.GEMMS
    assert (found.a_ops, found.b_ops) == (1, 2)


GATHER = "replica_groups={{{{0,1}}}}, dimensions={{0}}, channel_id={}"


def gathers(*rows: int, sync: bool = False, name: str = "g") -> str:
    config = ', backend_config={"collective_backend_config":{"is_sync":true}}' if sync else ""
    about = ', metadata={op_name="jit(step)/gather"}'
    lines = ["  p2 = f32[64,32] copy(p)"]
    for number, size in enumerate(rows):
        kind = f"(f32[{size}], f32[{2 * size}])"
        attributes = GATHER.format(number + 1) + about + config
        lines += [
            f"  in{number} = f32[{size}] bitcast(p2)",
            f"  {name}{number} = {kind} all-gather-start(in{number}), {attributes}",
            f"  {name}{number}.done = f32[{2 * size}] all-gather-done({name}{number}){about}",
        ]
    return "\n".join([*lines, "  ROOT result = f32[64,32] copy(p2)"])


def test_collectives_are_combined_or_split() -> None:
    two, one = made(gathers(1024, 1024)), made(gathers(2048))
    joined = changes(two, one)
    assert joined[ChangeKind.COMBINED].a_ops == 2
    assert joined[ChangeKind.COMBINED].b_ops == 1
    assert ChangeKind.SPLIT in changes(one, two)


def test_a_collective_that_is_made_synchronous_is_told_from_one_that_is_made_asynchronous() -> None:
    apart, waiting = made(gathers(2048)), made(gathers(2048, sync=True, name="h"))
    assert ChangeKind.SYNCHRONOUS in changes(apart, waiting)
    assert ChangeKind.ASYNCHRONOUS in changes(waiting, apart)


def test_a_collective_that_compute_no_longer_hides_has_the_time_that_the_step_waits() -> None:
    start = f"  g = (f32[64,32], f32[128,32]) all-gather-start(p), {GATHER.format(1)}"
    end = "  d = f32[128,32] all-gather-done(g)"
    work = op("wave")
    root = "  ROOT result = f32[64,32] copy(wave)"
    hidden = made(f"{start}\n{work}\n{end}\n{root}")
    exposed = made(f"{start}\n{end}\n{work}\n{root}")
    found = changes(hidden, exposed, Told({"g": 1.0, "wave": 1.0}))
    assert set(found) == {ChangeKind.EXPOSED}
    assert math.isclose(found[ChangeKind.EXPOSED].difference_ms, 1000, rel_tol=1e-6)
    assert set(changes(exposed, hidden, Told({"g": 1.0}))) == {ChangeKind.HIDDEN}


FUSED = """
both {{
  q = f32[64,32] parameter(0)
  s = f32[64,32] sine(q), metadata={{op_name="jit(step)/one/sin"}}
  ROOT c = f32[64,32] cosine(s), metadata={{op_name="jit(step)/two/cos"}}
}}

ENTRY main {{
  p = f32[64,32] parameter(0)
  ROOT f = f32[64,32] fusion(p), kind=kLoop, calls=both, metadata={{op_name="jit(step)/two/cos"}}
}}
"""


def test_a_fusion_that_is_split_counts_as_one_and_two() -> None:
    fused = with_text(FUSED.format())
    apart = made(
        '  s = f32[64,32] sine(p), metadata={op_name="jit(step)/one/sin"}\n'
        '  ROOT c = f32[64,32] cosine(s), metadata={op_name="jit(step)/two/cos"}'
    )
    found = changes(fused, apart)
    assert set(found) == {ChangeKind.FUSIONS}
    assert (found[ChangeKind.FUSIONS].a_ops, found[ChangeKind.FUSIONS].b_ops) == (1, 2)
