"""A function and shapes become a Workload, for as many devices as asked for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.version import Version

from counterpoint.compile.compiler import compile_workload
from counterpoint.compile.inputs.function_process import (
    _environment,
    _failure,
    lower_function,
    names_function,
)
from counterpoint.core.errors import InputError, UsageError
from counterpoint.hardware.targets import parse_target
from golden_files import Golden, cases
from xla_compiler import why_none

STEPS = """
import jax, jax.numpy as jnp, numpy as np
from contextlib import contextmanager
import counterpoint
import jax.experimental
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec as P

def step(w, x, scale=1.0):
    return w - scale * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)

def shapes(mesh):
    rows = NamedSharding(mesh, P("data"))
    return (jax.ShapeDtypeStruct((1 << 20, 1 << 20), jnp.bfloat16, sharding=rows),
            jax.ShapeDtypeStruct((8 * mesh.size, 1 << 20), jnp.bfloat16, sharding=rows))

def make_step(devices):
    return jax.jit(step, donate_argnums=0), shapes(Mesh(np.array(jax.devices()), ("data",)))

def reordered(devices):
    mesh = Mesh(np.array(jax.devices()).reshape(2, -1).T.reshape(-1), ("data",))
    return jax.jit(step, donate_argnums=0), shapes(mesh)

def with_names(*, devices, platform):
    assert platform == "gpu", platform
    return step, shapes(Mesh(np.array(jax.devices()), ("data",))), {"scale": 0.5}

def whole(devices):
    mesh = AbstractMesh((devices,), ("data",), axis_types=(AxisType.Auto,))
    return counterpoint.program(step, *shapes(mesh))

def kernel(devices):
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    def add(left, right, out):
        out[...] = left[...] + right[...]

    rows = pl.BlockSpec((1, 1024), lambda row: (row, 0))
    shape = jax.ShapeDtypeStruct((64, 1024), jnp.float32)
    called = pl.pallas_call(add, grid=(64,), in_specs=[rows] * 2, out_specs=rows, out_shape=shape,
                            compiler_params=triton.CompilerParams())
    return called, (shape, shape)

def calling_python(devices):
    def called(w, x):
        y = jax.pure_callback(np.tanh, jax.ShapeDtypeStruct(x.shape, x.dtype), x @ w)
        jax.experimental.io_callback(print, None, y)
        jax.debug.print("mean {}", y.mean())
        return y
    return called, (jax.ShapeDtypeStruct((64, 64), jnp.float32),) * 2

def attention(devices):
    def attend(q):
        out = jax.nn.dot_product_attention(q, q, q, is_causal=True, implementation="cudnn")
        return out.astype(jnp.float32).sum()
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
    shape = jax.ShapeDtypeStruct((8, 128, 2, 64), jnp.bfloat16, sharding=rows)
    return jax.grad(attend), (shape,)

def mosaic(devices):
    from jax.experimental import pallas as pl

    def double(x, out):
        out[...] = x[...] * 2

    shape = jax.ShapeDtypeStruct((128, 128), jnp.float32)
    cost = pl.CostEstimate(flops=16384, bytes_accessed=131072, transcendentals=0)
    return pl.pallas_call(double, out_shape=shape, cost_estimate=cost), (shape,)

def training():
    train = jax.jit(step)
    while True:
        train(jnp.ones((8, 8)), jnp.ones((4, 8)))

def computing(devices):
    return jax.jit(jnp.dot)(jnp.ones((4096, 4096)), jnp.ones((4096, 4096)))

@jax.jit
def jitted(w):
    return 0.1 * (w @ w)

def repeating():
    w = jnp.ones((8, 8))
    while True:
        w = jitted(w)

def on_cpus_only(devices):
    return jax.scipy.linalg.schur, (jax.ShapeDtypeStruct((8, 8), jnp.float32),)

def without_a_number():
    return step, (np.ones((8, 8)), np.ones((4, 8)))

def broken(devices):
    return jnp.ones(3) @ jnp.ones(devices)

def refusing(devices):
    raise ValueError(f"{devices} devices are too few")

def odd(devices):
    return step

def no_tuple(devices):
    return step, 3

def unbound(devices):
    return counterpoint.program(step, jnp.ones((8, 8)))

def of_words(devices):
    return step, ("w", "x")

def uneven(devices):
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
    return step, (jax.ShapeDtypeStruct((6, 8), jnp.float32, sharding=rows), np.ones((8, 6)))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    reason = why_none()
    if reason:
        pytest.skip(reason)
    path = tmp_path / "steps.py"
    path.write_text(STEPS)
    return path


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "asked", "devices"),
    [
        pytest.param("make_step", 512, 512, marks=pytest.mark.smoke),
        ("with_names", 64, 64),
        ("whole", 1024, 1024),
        ("without_a_number", 8, 1),
    ],
)
def test_a_function_is_lowered_for_any_number_of_devices(
    tmp_path: Path, file: Path, name: str, asked: int, devices: int
) -> None:
    workload = lower_function(f"{file}:{name}", devices=asked, directory=tmp_path / "lowered")

    assert (workload.name, workload.devices) == ("jit_step", devices)
    assert b"transpose(jvp" in workload.program
    assert b"steps.py" in workload.program


@pytest.mark.system
def test_a_kernel_of_pallas_is_lowered_without_a_gpu(tmp_path: Path, file: Path) -> None:
    workload = lower_function(f"{file}:kernel", devices=1, directory=tmp_path / "lowered")
    assert b"triton" in workload.program


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "devices", "targets"),
    [
        ("calling_python", 1, ["xla_ffi_python_gpu_callback"]),
        ("attention", 8, ["__cudnn$fmhaSoftmax", "__cudnn$fmhaSoftmaxBackward"]),
        pytest.param(
            "mosaic",
            1,
            ["mosaic_gpu_v2"],
            marks=[
                pytest.mark.skipif(find_spec("absl") is None, reason="absl-py is not installed"),
                pytest.mark.skipif(
                    Version(metadata.version("jax")) >= Version("0.12"),
                    reason="from 0.12 on, JAX takes Triton where its Mosaic compiler is missing",
                ),
            ],
        ),
    ],
)
def test_what_asks_for_a_gpu_or_its_libraries_is_compiled_without_them(
    tmp_path: Path, file: Path, name: str, devices: int, targets: list[str]
) -> None:
    workload = lower_function(f"{file}:{name}", devices=devices, directory=tmp_path / "lowered")
    program = compile_workload(workload, parse_target(f"{devices}xH100")).program

    calls = [it for it in program.instructions if it.custom_call_target]
    assert sorted({it.custom_call_target for it in calls}) == targets
    if name == "mosaic":
        assert "bytes_accessed = 131072" in calls[0].backend_config


@pytest.mark.system
@pytest.mark.skipif(why_none() is not None, reason=str(why_none()))
def test_the_compiled_program_has_the_order_of_the_mesh(tmp_path: Path, file: Path) -> None:
    in_order = lower_function(f"{file}:make_step", devices=8, directory=tmp_path / "a")
    reordered = lower_function(f"{file}:reordered", devices=8, directory=tmp_path / "b")
    assert b"device_order" not in in_order.program
    assert b"// counterpoint.device_order = 0,4,1,5,2,6,3,7\n" in reordered.program
    target = parse_target("2x4xH100")
    assert compile_workload(in_order, target).program.device_order == ()
    compiled = compile_workload(reordered, target).program
    assert compiled.device_order == (0, 4, 1, 5, 2, 6, 3, 7)


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("broken", InputError, r"steps.py.* in broken[\s\S]*TypeError"),
        ("brokn", UsageError, r"next: .*steps.py:broken"),
    ],
)
def test_a_function_that_can_not_be_lowered_says_why(
    tmp_path: Path, file: Path, name: str, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        lower_function(f"{file}:{name}", devices=4, directory=tmp_path / "lowered")


ALL_OF_THEM = """
import contextlib, io, json, sys
from pathlib import Path
from counterpoint.compile.inputs.function_worker import main
directory, file, *names = sys.argv[1:]
told = {}
for name in names:
    place = Path(directory, name)
    place.mkdir()
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        code = main(place, file, name, 4)
    told[name] = [code, errors.getvalue()]
print(json.dumps(told))
"""
REFUSED = {
    "refusing": (InputError, r"4 devices [\s\S]*steps.py:\d+ "),
    "odd": (UsageError, "returns function"),
    "no_tuple": (UsageError, "are int"),
    "missing": (UsageError, r"function missing[\s\S]*next: .*def make_step\(devices\)"),
    "contextmanagr": (UsageError, r"next: (?!.*contextmanager)"),  # imported
    "step": (UsageError, r"argument: 'x'[\s\S]*step\(w, x, scale=1.0\)[\s\S]*make_step\(devices\)"),
    "training": (UsageError, r"runs jit_step here[\s\S]*-- python .*steps.py"),
    "computing": (UsageError, r"runs jit_dot here"),
    "repeating": (UsageError, r"runs jit_jitted here"),
    "jitted": (UsageError, r"a jitted function jitted\(w\)[\s\S]*return jitted, \(state, batch\)"),
    "unbound": (UsageError, r"unbound\(w\)|argument: 'x'"),
    "of_words": (UsageError, "neither an array"),
    "uneven": (InputError, r"uneven\(4\): 6 .* 4\n"),
    "on_cpus_only": (InputError, r"no schur for cuda\n"),
}


@pytest.mark.system
def test_functions_that_can_not_be_lowered_are_told_apart(
    golden: Golden, tmp_path: Path, file: Path
) -> None:
    """All by one child, which starts JAX once; what is made of its answers is made here."""
    done = subprocess.run(
        [sys.executable, "-c", ALL_OF_THEM, str(tmp_path), str(file), *REFUSED],
        env=_environment(4, None),
        capture_output=True,
        text=True,
        check=True,
    )
    texts: dict[str, str] = {}
    for name, (code, errors) in json.loads(done.stdout).items():
        error = _failure(f"{file}:{name}", 4, tmp_path / name, errors)
        kind, said = REFUSED[name]
        assert code, name
        assert type(error) is kind, name
        assert re.search(said, str(error)), name
        texts[name] = str(error).replace(str(tmp_path), "DIR")
    del texts["of_words"]  # in words of JAX's
    golden("functions.txt", cases(texts))


@pytest.mark.system
def test_a_file_that_trains_when_it_is_imported_says_so(tmp_path: Path, file: Path) -> None:
    file.write_text(f"{STEPS}\ntraining()\n")
    with pytest.raises(UsageError, match="runs jit_step when it is imported, before make_step"):
        lower_function(f"{file}:make_step", devices=4, directory=tmp_path / "lowered", timeout_s=60)


@pytest.mark.system
def test_a_jitted_function_is_one_that_a_file_has(tmp_path: Path, file: Path) -> None:
    file.write_text("import jax\n@jax.jit\ndef step(w):\n    return w @ w\n")
    with pytest.raises(UsageError, match="it has step"):
        lower_function(f"{file}:train", devices=4, directory=tmp_path / "lowered")


@pytest.mark.system
def test_the_command_line_that_a_file_reads_holds_none_of_our_words(
    tmp_path: Path, file: Path
) -> None:
    told = tmp_path / "argv"
    file.write_text(f"import sys\nopen({str(told)!r}, 'w').write(repr(sys.argv))\n")
    with pytest.raises(UsageError, match="function make_step"):
        lower_function(f"{file}:make_step", devices=4, directory=tmp_path / "lowered")
    assert told.read_text() == repr([str(file)])


@pytest.mark.parametrize("missing", ["jax_plugins", "jax_plugins.xla_cuda13"])
def test_that_there_is_no_compiler_is_told_before_anything_is_lowered(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match="compiler for CUDA") as told:
        lower_function(f"{file}:make_step", devices=4, directory=tmp_path / "lowered")
    assert "'counterpoint[compiler]'" in str(told.value.next)
    assert not (tmp_path / "lowered").exists()


def test_that_there_is_no_jax_is_told_before_anything_is_lowered(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setattr(metadata, "version", none)
    with pytest.raises(UsageError, match="needs JAX and") as told:
        lower_function(f"{file}:make_step", devices=4, directory=tmp_path / "lowered")
    assert "'counterpoint[compiler]'" in str(told.value.next)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        lower_function(f"{tmp_path}/none.py:make", devices=4, directory=tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("train.py:make_step", True),
        ("models/llama.py:make_step", True),
        ("package.module:make", True),
        ("train.py", False),
        ("step.mlir", False),
        ("64x8xH100:8x400G", False),
        ("a b:c", False),
    ],
)
def test_a_function_of_a_file_is_told_from_a_path(text: str, told: bool) -> None:
    assert names_function(text) is told


@pytest.mark.system
def test_a_module_that_is_not_there_is_refused_without_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="module nomod") as caught:
        lower_function("nomod.steps:make", devices=4, directory=tmp_path)

    assert "Traceback" not in str(caught.value)
