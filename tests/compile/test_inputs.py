"""Every form in which a program may come is read, and says how many devices it is for."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from counterpoint.compile.inputs.scheduled import load_scheduled
from counterpoint.compile.inputs.workload import load_workload
from counterpoint.core.errors import InputError, UsageError
from lowered import Lowered

pytestmark = pytest.mark.system

WRITE = """
import sys
from jax._src.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
source, plain, portable = sys.argv[1:]
with mlir.make_ir_context():
    module = ir.Module.parse(open(source).read())
    with open(plain, "wb") as file:
        module.operation.write_bytecode(file)
    small = ir.Module.parse("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32>"
                            "{ return %a : tensor<4xf32> }")
    small.operation.attributes["sym_name"] = ir.StringAttr.get("jit_small")
    with open(portable, "wb") as file:
        version = stablehlo.get_current_version()
        file.write(stablehlo.serialize_portable_artifact(small, version))
"""


@pytest.fixture(scope="module")
def bytecode(lowered: Lowered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bytecode")
    names = [str(directory / name) for name in ("step.mlirbc", "small.mlirbc")]
    subprocess.run([sys.executable, "-c", WRITE, str(lowered.mlir), *names], check=True)
    return directory


def test_bytecode_tells_its_name_and_its_devices(bytecode: Path) -> None:
    workload = load_workload(bytecode / "step.mlirbc")

    assert (workload.name, workload.devices) == ("jit_step", 8)
    assert load_workload(bytecode / "small.mlirbc").name == "jit_small"


def test_of_bytecode_the_step_is_found_by_its_flops(bytecode: Path, tmp_path: Path) -> None:
    shutil.copy(bytecode / "step.mlirbc", tmp_path)
    padded = (bytecode / "small.mlirbc").read_bytes()
    (tmp_path / "larger.mlirbc").write_bytes(padded)

    assert load_workload(tmp_path).name == "step"
    assert load_workload(tmp_path, "larger").name == "larger"


def test_damaged_bytecode_is_refused(bytecode: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "step.mlirbc"
    damaged.write_bytes((bytecode / "step.mlirbc").read_bytes()[:500])

    with pytest.raises(InputError, match="can't read"):
        load_workload(damaged)


def test_text_may_be_packed(lowered: Lowered, tmp_path: Path) -> None:
    packed = tmp_path / "step.mlir.gz"
    packed.write_bytes(gzip.compress(lowered.mlir.read_bytes()))

    assert load_workload(packed).devices == 8


def test_a_scheduled_module_is_a_program_as_it_is(lowered: Lowered, tmp_path: Path) -> None:
    compiled = lowered.compile()
    (tmp_path / "module_0001.jit_step.gpu_after_optimizations.hlo.pb").write_bytes(compiled.hlo)
    (tmp_path / "module_0002.jit_other.gpu_after_optimizations.hlo.pb").write_bytes(compiled.hlo)

    alone = load_scheduled(tmp_path / "module_0001.jit_step.gpu_after_optimizations.hlo.pb")
    among = load_scheduled(tmp_path, "jit_step")

    assert alone is not None
    assert among is not None
    assert (alone.name, alone.is_scheduled, alone.num_partitions) == ("jit_step", True, 8)
    assert among.name == "jit_step"
    with pytest.raises(UsageError, match="nothing: "):
        load_scheduled(tmp_path, "nothing")


def test_what_can_be_compiled_again_is_not_taken_as_scheduled(lowered: Lowered) -> None:
    assert load_scheduled(lowered.xla) is None
    assert load_scheduled(lowered.ir) is None
    assert load_scheduled(lowered.mlir) is None
    (before,) = lowered.xla.glob("*jit_step*before_optimizations.hlo.pb")
    assert load_scheduled(before) is None
