"""A process that compiles for GPUs on request, and hands back what XLA logged meanwhile.

    python tests/pgle/xla_worker.py      reads one request per line (JSON), answers in one line

XLA reads its log levels once and logs to file descriptor 2 from C++, so this can't be done inside
the tests. A request names a model, compile options and a directory; there the worker leaves
`log`, and `program.hlo.pb` unless the compile fails.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"  # the plugin then serves as a compiler only
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")
os.environ.setdefault("TF_CPP_VMODULE", "profile_guided_latency_estimator=2,gpu_hlo_schedule=1")
sys.path.insert(0, str(Path(__file__).parent.parent / "hlo"))

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from make_fixtures import (  # pyright: ignore[reportMissingImports]
    GPU_OPTIONS,
    H100,
    Array,
    Program,
    Tree,
    abstract,
    train_step,
    zoo,
)

from counterpoint.compile.toolkit import write_toolkit


def small(mesh: Mesh) -> Program:
    """Two sharded layers and their gradients: the shortest log that has every kind of line."""

    def loss(weights: Tree, x: Array) -> Array:
        return jnp.sum(jnp.tanh(x @ weights[0]) @ weights[1])

    weights = (abstract((1024, 1024), "bfloat16", mesh, P("x", None)),) * 2
    x = abstract((2048, 1024), "bfloat16", mesh, P(("x", "y"), None))
    return jax.jit(jax.grad(loss)), (weights, x)


def recomputed(mesh: Mesh) -> Program:
    """More activations than a little memory holds, so that XLA recomputes some."""

    def loss(weights: Tree, x: Array) -> Array:
        for weight in weights:
            x = jnp.tanh(jnp.sin(x @ weight) * jnp.cos(x))
        return x.sum()

    weights = (abstract((1024, 1024), "float32", mesh, P(None, "y")),) * 6
    return jax.jit(jax.grad(loss)), (
        weights,
        abstract((1 << 18, 1024), "float32", mesh, P("x", "y")),
    )


def unrolled(mesh: Mesh) -> Program:
    """Layers one after the other, no two weights of one size: many ways to merge collectives."""

    def loss(weights: Tree, x: Array) -> Array:
        for up, down in weights:
            x = x + jnp.tanh(x @ up) @ down
        return jnp.mean(x.astype("float32") ** 2)

    def layer(width: int, dtype: str) -> Tree:
        up = abstract((1024, width), dtype, mesh, P("x", None))
        return up, abstract((width, 1024), dtype, mesh, P(None, "x"))

    weights = [layer(512 * (1 + at * 3 % 5), "bfloat16") for at in range(5)]
    x = abstract((2048, 1024), "bfloat16", mesh, P(("x", "y"), None))
    return jax.jit(jax.value_and_grad(loss)), (weights, x)


MODELS = {
    "unrolled": unrolled,
    "small": small,
    "step": lambda mesh: train_step(mesh, 1024),
    "zoo": zoo,
    "recomputed": recomputed,
}


def described(config: str) -> Any:  # noqa: ANN401 - a topology, which jax gives no public name
    """Eight GPUs of that kind; jaxlib before 0.10 knows fewer fields."""
    fields = "device_vendor|name|(driver|runtime|compile_time_toolkit|dnn)_version"
    newer = rf'\b(thread_dim_limit_[xyz]: \d+|(?<!platform_)({fields}): "[^"]*")'
    for text in (config, re.sub(newer, "", config)):
        try:
            return topologies.get_topology_desc(
                platform="cuda", target_config=text, topology="1x1x8"
            )
        except jax.errors.JaxRuntimeError as failure:
            refused = failure
    raise refused


class Compiler:
    """Lowers each model once, and compiles it as often as asked."""

    def __init__(self) -> None:
        topology = described(H100)
        self.mesh = Mesh(np.array(topology.devices).reshape(4, 2), ("x", "y"))
        self.lowered: dict[str, Any] = {}
        # Programs come out the same with a stand-in for ptxas, sooner and on every machine.
        self.toolkit = tempfile.mkdtemp(prefix="counterpoint-toolkit-")
        write_toolkit(Path(self.toolkit))

    def compile(self, model: str, options: dict[str, Any]) -> bytes:
        if model not in self.lowered:
            function, arguments = MODELS[model](self.mesh)
            self.lowered[model] = function.lower(*arguments)
        profile = options.pop("fdo_profile", None)
        given = {**GPU_OPTIONS, "xla_gpu_cuda_data_dir": self.toolkit, **options}
        if profile is not None:
            given["fdo_profile"] = profile.encode()
        compiled = self.lowered[model].compile(compiler_options=given)
        module = compiled.runtime_executable().hlo_modules()[0]
        data: bytes = module.as_serialized_hlo_module_proto()
        return data


def answer(compiler: Compiler, request: dict[str, Any]) -> dict[str, str]:
    """Compile with descriptor 2 led into a file, and tell what came of it."""
    out = Path(request["out"])
    sys.stderr.flush()
    kept = os.dup(2)
    with (out / "log").open("wb") as log:
        os.dup2(log.fileno(), 2)
        try:
            (out / "program.hlo.pb").write_bytes(
                compiler.compile(request["model"], request["options"])
            )
        except Exception as failure:  # noqa: BLE001 - whatever XLA refuses is an answer
            return {"error": str(failure)}
        finally:
            os.dup2(kept, 2)
            os.close(kept)
    return {}


def main() -> None:
    # Only answers go to stdout, whatever jax prints.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    compiler = Compiler()
    print(json.dumps({"jax": jax.__version__}), file=replies, flush=True)
    try:
        for line in sys.stdin:
            print(json.dumps(answer(compiler, json.loads(line))), file=replies, flush=True)
    finally:
        shutil.rmtree(compiler.toolkit)


if __name__ == "__main__":
    main()
