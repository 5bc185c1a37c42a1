"""Compiles for TPUs: with libtpu where it is installed, and what is said where it is not."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from counterpoint.compile.cache import fingerprint
from counterpoint.compile.capacity import usual_jobs
from counterpoint.compile.compiler import CompiledProgram, compile_workload
from counterpoint.compile.inputs.function_process import lower_function
from counterpoint.compile.inputs.workload import Workload, load_workload
from counterpoint.compile.interpreter import require_compiler
from counterpoint.compile.pool import compile_all
from counterpoint.compile.task import CompileTask
from counterpoint.core import UsageError
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.category import made_for_tpus
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.schedule import is_done
from counterpoint.pgle.applying.apply import apply_profile
from counterpoint.pgle.profiles.files import write_profile
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from layers_of_products import made_of_layers

STEP = """
module @jit_step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["d"=4]>
  func.func public @main(
      %x: tensor<1024x512xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {}]>},
      %w: tensor<512x512xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {}]>}
  ) -> (tensor<1024x512xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {}]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<1024x512xbf16>, tensor<512x512xbf16>) -> tensor<1024x512xbf16>
    return %0 : tensor<1024x512xbf16>
  }
}
"""
FUNCTION = """
import jax
import jax.numpy as jnp


def make_step(devices):
    return jax.jit(lambda x: jnp.sin(x) @ x), (jax.ShapeDtypeStruct((256, 256), jnp.bfloat16),)
"""

needs_libtpu = pytest.mark.skipif(
    find_spec("libtpu") is None, reason="needs the extra tpu: pip install 'counterpoint[tpu]'"
)
without_libtpu = pytest.mark.skipif(find_spec("libtpu") is not None, reason="libtpu is installed")


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    (tmp_path / "step.mlir").write_text(STEP)
    return load_workload(tmp_path / "step.mlir")


@needs_libtpu
@pytest.mark.system
@pytest.mark.parametrize("name", ["v4-8", "v5e-4", "v5p-8", "v6e-4", "tpu7x-8"])
def test_libtpu_compiles_a_step_for_chips_that_are_not_here(workload: Workload, name: str) -> None:
    target = parse_target(name, tpus=True)
    count = target.devices  # a chip of TPU7x is two
    made = compile_workload(
        replace(
            workload,
            program=workload.program.replace(b"= 4", b"= %d" % count).replace(
                b"=4", b"=%d" % count
            ),
        ),
        target,
    )
    assert made.program.is_scheduled
    assert made_for_tpus(made.program)
    kinds = {
        found.kind for it in made.program.instructions if (found := collective(made.program, it))
    }
    assert kinds  # the weights are gathered, or passed around
    assert set(made.versions) == {"jax", "jaxlib", "libtpu"}
    argument = (1024 * 512 + 512 * 512) * 2 // count
    assert made.memory.argument == argument
    assert made.memory.peak is not None
    assert made.memory.peak >= argument


@needs_libtpu
@pytest.mark.system
def test_an_option_that_libtpu_lacks_is_named(workload: Workload) -> None:
    target = parse_target("v5e-4", tpus=True)
    with pytest.raises(UsageError) as told:
        compile_workload(workload, target, {"xla_tpu_no_such_flag": "true"})
    assert "xla_tpu_no_such_flag" in told.value.what


@needs_libtpu
@pytest.mark.system
def test_the_schedule_alone_is_that_of_the_whole_compile(workload: Workload) -> None:
    target = parse_target("v5e-4", tpus=True)
    whole = compile_workload(workload, target)
    ((_, early),) = compile_all([_only_scheduled(workload, target)])
    assert isinstance(early, CompiledProgram)
    assert early.schedule_only
    assert not whole.schedule_only
    assert b"estimated_cycles" in whole.hlo
    assert b"estimated_cycles" not in early.hlo
    assert _order(early.program) == _order(whole.program)
    assert (early.memory.peak, whole.memory.buffers) == (None, None)
    if early.versions["jaxlib"].startswith(("0.8.", "0.9.")):
        return  # the libtpu of 0.8 reports no sizes before there is machine code
    assert early.memory.buffers is not None
    assert whole.memory.argument is not None
    assert whole.memory.peak is not None
    assert whole.memory.argument <= early.memory.buffers <= whole.memory.peak


@needs_libtpu
@pytest.mark.system
def test_an_option_that_libtpu_lacks_is_named_before_it_schedules(workload: Workload) -> None:
    task = _only_scheduled(workload, parse_target("v5e-4", tpus=True))
    ((_, told),) = compile_all([replace(task, options={"xla_tpu_no_such_flag": "true"})])
    assert isinstance(told, UsageError)
    assert "xla_tpu_no_such_flag" in told.what


@needs_libtpu
@pytest.mark.system
def test_the_scheduler_shows_its_own_names_and_times(tmp_path: Path) -> None:
    (tmp_path / "step.mlir").write_text(made_of_layers())
    workload = load_workload(tmp_path / "step.mlir")
    target = parse_target("v5e-4", tpus=True)
    compiled, seen = (
        compile_workload(workload, target, schedule_only=True, scheduler_view=view)
        for view in (False, True)
    )
    names = {one.name for one in compiled.program.instructions}
    clock = seen.clock
    assert seen.program.is_scheduled
    assert clock.mhz == 1500
    assert set(clock.us) <= {one.name for one in seen.program.instructions}
    assert "all-gather-start.1" in set(clock.us) - names  # libtpu gave it another name later


@needs_libtpu
@pytest.mark.system
def test_a_profile_moves_gathers_and_the_scheduler_proves_it(tmp_path: Path) -> None:
    (tmp_path / "step.mlir").write_text(made_of_layers())
    workload = load_workload(tmp_path / "step.mlir")
    v5e, v6e = (parse_target(name, tpus=True) for name in ("v5e-4", "v6e-4"))
    compiled = compile_workload(workload, v5e, schedule_only=True).program
    gathers = [
        one.name
        for body in launched(compiled)
        for one in body.instructions
        if collective(compiled, one) is not None and not is_done(one)
    ]
    costs = [InstructionCost(name, 80.0) for name in gathers]
    costs += [InstructionCost("convolution_tanh_fusion", 7.0)]
    path = write_profile(Profile(tuple(costs)), tmp_path / "measured.pbtxt")
    made = apply_profile(workload, v5e, path)
    assert (made.used, made.changed, made.fits) == (True, True, True)
    assert made.found == len(gathers) + 1
    assert any(line.startswith("all-gather-start") for line in made.proof)
    assert made.for_libtpu is not None
    assert {cost.us for cost in made.for_libtpu.costs} == {80.0 / 1500, 7.0}
    synchronous = apply_profile(workload, v6e, path)
    assert not synchronous.used
    assert "none of its" in synchronous.reason


def _only_scheduled(workload: Workload, target: Target) -> CompileTask:
    return CompileTask(workload=workload, target=target, schedule_only=True)


def _order(program: Program) -> list[tuple[str, list[str]]]:
    return [
        (name, [one.name for one in body.instructions])
        for name, body in program.computations.items()
    ]


@needs_libtpu
@pytest.mark.system
def test_libtpu_closes_the_rings_of_a_whole_pod(workload: Workload, tmp_path: Path) -> None:
    whole = replace(
        workload, program=workload.program.replace(b"= 4", b"= 256").replace(b"=4", b"=256")
    )
    target = parse_target("v5e-256", tpus=True)
    compile_workload(whole, target, environment={"XLA_FLAGS": f"--xla_dump_to={tmp_path}"})
    (told,) = tmp_path.glob("*target_arguments.txt")
    assert "{ x: true y: true }" in " ".join(told.read_text().split())


@needs_libtpu
@pytest.mark.system
def test_a_function_is_lowered_for_tpus(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text(FUNCTION)
    made = lower_function(f"{tmp_path}/step.py:make_step", devices=1, directory=tmp_path, tpus=True)
    compiled = compile_workload(made, parse_target("v6e-1", tpus=True))
    assert made_for_tpus(compiled.program)


@pytest.mark.system
@without_libtpu
def test_without_libtpu_the_error_says_how_to_install_it(workload: Workload) -> None:
    target = parse_target("v5e-4", tpus=True)
    for attempt in (
        lambda: require_compiler(tpus=True),
        lambda: compile_workload(workload, target),
    ):
        with pytest.raises(UsageError) as told:
            attempt()
        assert "libtpu" in told.value.what
        assert "no TPU" in str(told.value.why)
        assert str(told.value.next).startswith(f"{sys.executable} -m pip")
        assert "'jax[tpu]" in str(told.value.next)


def test_compiles_for_other_slices_are_other_compiles(workload: Workload) -> None:
    def of(name: str) -> str | None:
        return fingerprint(CompileTask(workload=workload, target=parse_target(name, tpus=True)))

    names = ["v5e-4", "v5e-8", "v6e-4", "2xv5e-4", "v4-8"]
    assert len({of(name) for name in names}) == len(names)
    assert of("2xv5e-4") == of("2xv5e-4:200G")  # the network changes no schedule
    early = fingerprint(_only_scheduled(workload, parse_target("v5e-4", tpus=True)))
    assert early not in (None, of("v5e-4"))


def test_fewer_compiles_for_tpus_fit_in_memory() -> None:
    assert 1 <= usual_jobs(tpus=True) <= usual_jobs()
