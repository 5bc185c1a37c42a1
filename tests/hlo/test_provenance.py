"""Where instructions come from: scopes, phases, source lines, words."""

# ruff: noqa: ISC004 (names are long)

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from counterpoint.hlo.description import describe
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launched, launches
from counterpoint.hlo.model.stack import Frame
from counterpoint.hlo.phase import Phase
from counterpoint.hlo.provenance import Scope, provenance, scope, user_frame
from counterpoint.hlo.reader import read_program

STEP = "dump/module_0040.pjit__wrapped_step_fn.sm_8.0_gpu_after_optimizations.hlo.pb.xz"


@pytest.mark.parametrize(
    ("op_name", "path", "primitive"),
    [
        ("jit(step)/jit(main)/transpose(jvp(Model))/while/body/closed_call/checkpoint/"
         "rematted_computation/layer/mlp/dot_general", "Model/layer/mlp", "dot_general"),
        ("jit(step)/jvp()/while/body/jit(dynamic_index_in_dim)/dynamic_slice", "",
         "dynamic_slice"),
        ("pjit(f)/jit(main)/jvp(lm.apply)/lm/einsum/...y,yz->...z/dot_general[dimension_numbers="
         "(((3,), (0,)), ((), ())) precision=None]", "lm.apply/lm/einsum/...y,yz->...z",
         "dot_general"),
        ("jit(step)/transpose(jvp())/while", "", "while"),
        ("jit(f)/shard_map/block/psum", "block", "psum"),
        ("jit(f)/vmap(jvp(attend))/exp", "attend", "exp"),
        ("jit(f)/a/mul;jit(f)/b/add", "a", "mul"),
        ("jit(f)/checkpoint/(mlp/dot_general:rematted_computation/mlp/tanh)", "mlp",
         "dot_general"),
        ("(jit(f)/mlp/dot_general:jit(f)/mlp/tanh)/sub", "mlp/dot_general", "sub"),
        ("(mlp/dot_general:rematted_computation/mlp/tanh)", "mlp", "dot_general"),
        ("jit(step)/eval_jaxpr/mlp/add", "mlp", "add"),
        ("params['w']", "", "params['w']"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_scopes_are_what_the_user_named(op_name: str, path: str, primitive: str) -> None:
    assert scope(op_name) == Scope(path, primitive)


def phases(program: Program) -> dict[Phase, set[str]]:
    """Primitives by phase, of what is launched."""
    found: dict[Phase, set[str]] = {}
    for it in at_launch(program):
        where = provenance(program, it)
        found.setdefault(where.phase, set()).add(where.op_name)
    return found


def at_launch(program: Program) -> Iterable[Instruction]:
    return (it for c in launched(program) for it in c.instructions if launches(it))


@pytest.mark.parametrize("name", ["cpu_step.hlo.pb.xz", "gpu_step.txt.xz", "gpu_pipelined.txt.xz"])
def test_phases_of_a_training_step(load: Callable[[str], Program], name: str) -> None:
    found = phases(load(name))
    assert set(found) >= {Phase.FORWARD, Phase.BACKWARD, Phase.REMAT, Phase.OPTIMIZER}
    assert all("jvp(" in name and "transpose(" not in name for name in named(found, Phase.FORWARD))
    assert all("transpose(jvp(" in name for name in named(found, Phase.BACKWARD))
    assert all("rematted_computation" in name for name in named(found, Phase.REMAT))
    assert not any("jvp(" in name for name in named(found, Phase.OPTIMIZER))


def named(found: dict[Phase, set[str]], phase: Phase) -> list[str]:
    # XLA merges names of several phases into one; those are counted by majority.
    return [name for name in found[phase] if "/" in name and "(mlp" not in name]


def test_remat_is_the_recomputed_tanh_and_matmul(cpu_step: Program) -> None:
    recomputed = [
        provenance(cpu_step, it).primitive
        for it in at_launch(cpu_step)
        if provenance(cpu_step, it).phase is Phase.REMAT
    ]
    assert "dot_general" in recomputed


def test_the_phase_of_what_has_no_name_follows_the_data(module: Callable[..., Program]) -> None:
    program = module("""
  %p = f32[8] parameter(0)
  %before = f32[8] sine(%p), metadata={op_name="jit(s)/sin"}
  %forward = f32[8] negate(%before), metadata={op_name="jit(s)/jvp(m)/neg"}
  %between = f32[8] copy(%forward)
  %backward = f32[8] negate(%between), metadata={op_name="jit(s)/transpose(jvp(m))/neg"}
  %nameless = f32[8] copy(%backward)
  %update = f32[8] add(%p, %nameless), metadata={op_name="jit(s)/add"}
  %aside = f32[8] cosine(%p), metadata={op_name="jit(s)/cos"}
  ROOT %r = (f32[8], f32[8]) tuple(%update, %aside)
""")
    expected = {
        "before": Phase.FORWARD,
        "forward": Phase.FORWARD,
        "between": Phase.FORWARD,
        "backward": Phase.BACKWARD,
        "nameless": Phase.BACKWARD,
        "update": Phase.OPTIMIZER,
        "aside": Phase.OTHER,
    }
    for name, phase in expected.items():
        it = program.instruction(name)
        assert it
        assert provenance(program, it).phase is phase, name


@pytest.mark.parametrize("name", ["", ', metadata={op_name="jit(s)/jvp()/reduce_sum"}'])
def test_a_combined_reduction_has_the_phase_of_most_of_its_bytes(
    module: Callable[..., Program], name: str
) -> None:
    program = module(f"""
  %p = f32[8,8] parameter(0)
  %loss = f32[] constant(1)
  %mean = f32[] negate(%loss), metadata={{op_name="jit(s)/jvp()/reduce_sum"}}
  %gradient = f32[8,8] negate(%p), metadata={{op_name="jit(s)/transpose(jvp())/dot_general"}}
  %flat = f32[64] bitcast(%gradient)
  %scalar = f32[1] bitcast(%mean)
  %joined = f32[65] concatenate(%scalar, %flat), dimensions={{0}}
  %all = f32[65] all-reduce-start(%joined), replica_groups={{{{0,1}}}}{name}
  %whole = f32[65] all-reduce-done(%all){name}
  %both = (f32[], f32[8,8]) all-reduce(%mean, %gradient), replica_groups={{{{0,1}}}}{name}
  ROOT %r = (f32[65], (f32[], f32[8,8])) tuple(%whole, %both)
""")
    for one in ("joined", "all", "whole", "both"):
        it = program.instruction(one)
        assert it
        assert provenance(program, it).phase is Phase.BACKWARD, one


def test_xlas_own_recomputation_is_remat(module: Callable[..., Program]) -> None:
    program = module("""
  %p = f32[8] parameter(0)
  ROOT %fusion.3.remat2 = f32[8] negate(%p), metadata={op_name="jit(s)/jvp(m)/neg"}
""")
    it = program.instruction("fusion.3.remat2")
    assert it
    assert provenance(program, it).phase is Phase.REMAT


def test_a_module_without_op_names_tells_no_phase(module: Callable[..., Program]) -> None:
    program = module("""
  %p = f32[8] parameter(0)
  ROOT %n = f32[8] negate(%p)
""")
    assert {provenance(program, it).phase for it in program.instructions} == {Phase.OTHER}


def test_without_differentiated_work_nothing_tells_a_phase(load: Callable[[str], Program]) -> None:
    """It may be inference, an update compiled by itself, or what eager gradients call."""
    program = load("gpu_zoo.hlo.pb.xz")
    assert {provenance(program, it).phase for it in at_launch(program)} == {Phase.OTHER}


@pytest.mark.parametrize("scope", ["transpose(q)", "jit(transpose)", "transpose()"])
def test_what_is_called_transpose_makes_no_training_step(
    module: Callable[..., Program], scope: str
) -> None:
    """A sampler: a scope or a function of that name, or the transpose of a linear function."""
    program = module(f"""
  %p = f32[8] parameter(0)
  %logits = f32[8] negate(%p), metadata={{op_name="jit(sample)/attention/{scope}/neg"}}
  %next = f32[8] sine(%logits), metadata={{op_name="jit(sample)/while/body/argmax"}}
  ROOT %nameless = f32[8] copy(%next)
""")
    assert {provenance(program, it).phase for it in program.instructions} == {Phase.OTHER}


def test_a_function_called_transpose_is_forward_where_it_is_differentiated(
    module: Callable[..., Program],
) -> None:
    program = module("""
  %p = f32[8] parameter(0)
  %x = f32[8] negate(%p), metadata={op_name="jit(s)/jvp(jit(transpose))/sin"}
  %g = f32[8] negate(%x), metadata={op_name="jit(s)/vmap(transpose(jvp(jit(transpose))))/mul"}
  ROOT %update = f32[8] add(%p, %g), metadata={op_name="jit(s)/transpose(w)/add"}
""")
    found = [provenance(program, it).phase for it in program.instructions]
    assert found[1:] == [Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER]


def test_a_sum_of_gradients_over_devices_is_backward(module: Callable[..., Program]) -> None:
    program = module("""
  %p = f32[8,8] parameter(0)
  %gradient = f32[8,8] negate(%p), metadata={op_name="jit(s)/transpose(jvp(m))/dot_general"}
  %half = bf16[8,8] convert(%gradient), metadata={op_name="jit(s)/convert_element_type"}
  %summed = bf16[8,8] all-reduce(%half), replica_groups={{0,1}}, metadata={op_name="jit(s)/psum"}
  %norm = f32[] reduce(%gradient, %p), metadata={op_name="jit(s)/reduce_sum"}
  %all = f32[] all-reduce(%norm), replica_groups={{0,1}}, metadata={op_name="jit(s)/psum"}
  ROOT %r = (bf16[8,8], f32[]) tuple(%summed, %all)
""")
    for name, expected in (("summed", Phase.BACKWARD), ("all", Phase.OPTIMIZER)):
        it = program.instruction(name)
        assert it
        assert provenance(program, it).phase is expected, name


def test_a_nameless_fusion_is_what_it_contains(cpu_step: Program) -> None:
    fusions = [it for it in at_launch(cpu_step) if it.opcode == "fusion" and not it.op_name]
    assert fusions
    assert all(provenance(cpu_step, it).op_name for it in fusions)


LIBRARY_CALL = """HloModule m, is_scheduled=true
%fused (p0: f32[8,8], p1: f32[8,8]) -> f32[8,8] {
  %p0 = f32[8,8] parameter(0)
  %p1 = f32[8,8] parameter(1)
  %left = f32[8,8] bitcast(%p1), metadata={op_name="jit(s)/jvp(attention)/dot_general"}
  ROOT %d = f32[8,8] divide(%p0, %left), metadata={op_name="jit(s)/transpose(jvp(m))/div"}
}
ENTRY %e (x: f32[8,8]) -> f32[8,8] {
  %x = f32[8,8] parameter(0)
  %before = f32[8,8] negate(%x), metadata={op_name="jit(s)/transpose(jvp(m))/neg"}
  %call = (f32[8,8], s8[64]) custom-call(%before, %x), custom_call_target="__cublas$lt$matmul"
  %product = f32[8,8] get-tuple-element(%call), index=0
  ROOT %f = f32[8,8] fusion(%x, %product), kind=kLoop, calls=%fused
}
"""


def test_the_name_of_a_product_is_on_the_bitcast_of_its_result() -> None:
    program = read_program(LIBRARY_CALL.encode())
    call = program.instruction("call")
    assert call
    found = provenance(program, call)
    assert (found.phase, found.scope) == (Phase.FORWARD, "attention")


def test_a_bitcast_of_what_uses_a_product_has_another_name(module: Callable[..., Program]) -> None:
    program = module("""
  %p = f32[8] parameter(0)
  %before = f32[8] negate(%p), metadata={op_name="jit(s)/transpose(jvp(m))/neg"}
  %call = f32[8] custom-call(%before), custom_call_target="__cublas$gemm"
  %user = f32[8] negate(%call)
  ROOT %left = f32[8] bitcast(%user), metadata={op_name="jit(s)/jvp(attention)/reshape"}
""")
    call = program.instruction("call")
    assert call
    assert provenance(program, call).phase is Phase.BACKWARD


def test_loop_bodies_are_marked(gpu_step: Program) -> None:
    inside = {provenance(gpu_step, it).in_loop for it in at_launch(gpu_step)}
    assert inside == {True, False}
    gemm = gpu_step.instruction("custom-call.2")
    assert gemm
    assert provenance(gpu_step, gemm).in_loop


def test_source_lines_point_into_user_code(gpu_step: Program) -> None:
    gemm = gpu_step.instruction("custom-call.2")
    assert gemm
    where = provenance(gpu_step, gemm)
    assert where.source
    assert where.source.startswith("make_fixtures.py:")
    assert where.stack[0].function.endswith("layer")
    assert where.stack[-1].function == "<module>"


@pytest.mark.parametrize(
    ("files", "user"),
    [
        (["/v/lib/python3.11/site-packages/flax/linen/linear.py", "/home/me/model.py"], 1),
        (["/opt/jax/jax/_src/lax/lax.py", "/opt/praxis/praxis/layers/ffn.py", "/m.py"], 1),
        (["/v/lib/python3.11/site-packages/maxtext/layers.py", "/m.py"], 0),
        (["/usr/lib/python3.11/contextlib.py", "train.py"], 1),
        (["/v/lib/python3.11/site-packages/jax/_src/api.py"], 0),
        (
            [
                "/v/haliax/nn/linear.py",
                "/v/jaxtyping/_decorator.py",
                "/me/levanter/models/llama.py",
            ],
            2,
        ),
        (["/usr/lib/python3.11/abc.py", "/me/haliax/mine.py"], 1),
        (["/me/jax/nn/model.py", "/me/jax/train.py"], 0),
        (["/opt/jax/jax/experimental/pallas/ops/gpu/attention.py", "/me/jax/train.py"], 1),
        (["/opt/flax/flax/nnx/nn/linear.py", "/me/train.py"], 1),
        (["/v/lib/python3.11/site-packages/keras/src/layers/core/dense.py", "/me/model.py"], 1),
    ],
)
def test_frames_of_frameworks_are_skipped(files: list[str], user: int) -> None:
    stack = tuple(Frame(file, 1, "f") for file in files)
    assert user_frame(stack) == stack[user]


STACK = """
HloModule jit_step, is_scheduled=true

FileNames
1 "/v/lib/python3.12/site-packages/flax/nnx/nn/linear.py"
2 "/home/me/model.py"

FunctionNames
1 "Linear.__call__"
2 "Block.__call__"
3 "Model.__call__"
4 "step.<locals>.loss"

FileLocations
1 {file_name_id=1 function_name_id=1 line=10 end_line=10 column=1 end_column=2}
2 {file_name_id=2 function_name_id=2 line=20 end_line=20 column=1 end_column=2}
3 {file_name_id=2 function_name_id=3 line=30 end_line=30 column=1 end_column=2}
4 {file_name_id=2 function_name_id=4 line=40 end_line=40 column=1 end_column=2}

StackFrames
1 {file_location_id=4 parent_frame_id=0}
2 {file_location_id=3 parent_frame_id=1}
3 {file_location_id=2 parent_frame_id=2}
4 {file_location_id=1 parent_frame_id=3}

ENTRY %main (p: f32[8,8]) -> f32[8,8] {
  %p = f32[8,8]{1,0} parameter(0)
  ROOT %e = f32[8,8]{1,0} exponential(%p), metadata={op_name="jit(step)/NAMED" stack_frame_id=4}
}
"""


@pytest.mark.parametrize(
    ("op_name", "path"), [("jvp()/exp", "Model/Block"), ("jvp(layer)/exp", "layer")]
)
def test_without_named_scopes_the_classes_on_the_stack_are_the_scope(
    op_name: str, path: str, tmp_path: Path
) -> None:
    file = tmp_path / "module.txt"
    file.write_text(STACK.replace("NAMED", op_name))
    program = read_program(file)
    root = program.instruction("e")
    assert root
    where = provenance(program, root)
    assert (where.scope, where.source) == (path, "/home/me/model.py:20")


def test_what_calls_the_traced_function_is_no_part_of_the_model(tmp_path: Path) -> None:
    """A trainer, or the kernel of a notebook, is on the stack of each op."""
    file = tmp_path / "module.txt"
    for outer in ("Trainer.step", "Trainer.fit.<locals>.step", "<module>"):
        text = STACK.replace("NAMED", "exp").replace("step.<locals>.loss", outer)
        file.write_text(text)
        program = read_program(file)
        root = program.instruction("e")
        assert root
        assert provenance(program, root).scope == "Model/Block"


def test_no_stack_no_source() -> None:
    assert user_frame(()) is None


def test_words_of_the_step(gpu_step: Program) -> None:
    described = {it.name: describe(gpu_step, it) for it in at_launch(gpu_step)}
    assert described["custom-call.2"].startswith("dot_general in mlp (make_fixtures.py:")
    assert described["all-gather-start"].startswith("all-gather for dot_general in mlp (")
    assert described["all-gather-done"] == described["all-gather-start"]
    assert all(described.values())


@pytest.mark.system
def test_the_pax_step_leads_to_pax_code(shared: Path) -> None:
    with zipfile.ZipFile(shared / "data/traces/pax_fsdp4_4proc_proc0.zip") as bundle:
        step = read_program(bundle.read(STEP))
    found = [provenance(step, it) for it in step.computations[step.entry].instructions]
    lines = Counter(where.source.split("/")[2] for where in found if where.source)
    assert lines["praxis"] > 1000
    assert lines["paxml"] > 100
    assert set(lines) <= {"praxis", "paxml", "jax", "local", "flax"}
    by_phase = Counter(where.phase for where in found)
    assert min(by_phase[it] for it in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)) > 100
    gemms = [it for it in step.instructions if it.custom_call_target]
    phases = Counter(provenance(step, it).phase for it in gemms)
    # A transformer's backward pass has two matmuls for each of the forward pass.
    assert phases[Phase.BACKWARD] > phases[Phase.FORWARD] > 0
    assert phases[Phase.OPTIMIZER] == phases[Phase.OTHER] == 0
