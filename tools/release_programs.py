"""Minimal programs, compiled with the JAX of the interpreter that runs this, for absent GPUs.

    PYTHON tools/release_programs.py DIRECTORY        (observe_releases.py calls it)

DIRECTORY/probe.json says what to compile. XLA's dump goes to DIRECTORY/dump, its log to stderr. One
compile per process, because XLA reads its variables once; nothing but JAX is imported, in the
releases from 0.5 on, so only names that all of them have are used.
"""

# pyright: basic

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import compiler
from jax.experimental import topologies
from jax.experimental.compute_on import compute_on as compute_on_of_this_release
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

try:
    from jax import shard_map as shard_map_of_this_release
except ImportError:
    from jax.experimental.shard_map import shard_map as shard_map_of_this_release

# Their parameters differ between releases.
compute_on: Any = compute_on_of_this_release
shard_map: Any = shard_map_of_this_release

Devices = list[Any]
Jitted = Callable[..., Any]
Lowerable = tuple[Jitted, tuple[jax.ShapeDtypeStruct, ...]]
"""A jitted function, and its abstract arguments."""

SIZE = 4096
WIDE = 8192


class Arrays:
    """A mesh of one axis over all devices, and abstract arrays on it."""

    def __init__(self, devices: Devices) -> None:
        self.count = len(devices)
        self.mesh = Mesh(np.array(devices), ("d",))

    def of(self, shape: tuple[int, ...], *spec: str | None) -> jax.ShapeDtypeStruct:
        sharding = NamedSharding(self.mesh, P(*spec))
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=sharding)

    def mapped(self, function: Callable[..., Any], inputs: tuple[P, ...], outputs: P) -> Jitted:
        known = inspect.signature(shard_map).parameters
        unchecked = {"check_vma" if "check_vma" in known else "check_rep": False}
        return jax.jit(
            shard_map(function, mesh=self.mesh, in_specs=inputs, out_specs=outputs, **unchecked)
        )


def overlap(devices: Devices, beside: str = "") -> Lowerable:
    """An all-reduce that a matrix product could hide, and another operation beside them."""
    here = Arrays(devices)

    def step(x: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
        summed = jax.lax.psum(x, "d")
        out = summed @ (a @ b)
        ring = [(i, (i + 1) % here.count) for i in range(here.count)]
        if beside == "permute":
            out = jax.lax.ppermute(out, "d", ring)
        elif beside == "broadcast":
            out = jax.lax.pbroadcast(out, "d", 0)
        elif beside == "ragged":
            part = SIZE // here.count
            starts = jnp.arange(here.count, dtype=jnp.int32) * part
            sizes = jnp.full((here.count,), part, jnp.int32)
            out = jax.lax.ragged_all_to_all(
                out, jnp.zeros_like(out), starts, sizes, starts, sizes, axis_name="d"
            )
        return out

    square = here.of((SIZE, SIZE))
    rows = here.of((SIZE * here.count, SIZE), "d")
    return here.mapped(step, (P("d"), P(), P()), P("d")), (rows, square, square)


def on_host(devices: Devices) -> Lowerable:
    """The same all-reduce, beside a computation that runs on the host."""
    here = Arrays(devices)
    summed, (rows, square, _) = overlap(devices)
    try:
        doubled = compute_on("device_host")(jax.jit(lambda a: a * 2))
    except TypeError:  # 0.12
        doubled = compute_on(
            lambda a: a * 2,
            compute_type="device_host",
            out_memory_spaces=jax.memory.Space.Device,
        )
    step = jax.jit(lambda x, a, b, c: (summed(x, a, b), doubled(c)))
    return step, (rows, square, square, here.of((SIZE, SIZE)))


def alone(devices: Devices) -> Lowerable:
    """An all-reduce with nothing to hide it."""
    here = Arrays(devices)
    step = here.mapped(lambda x: jax.lax.psum(x, "d"), (P("d"),), P())
    return step, (here.of((SIZE * here.count, SIZE), "d"),)


def ring(devices: Devices) -> Lowerable:
    """A pipeline's loop: a product, and a permute to the next device."""
    here = Arrays(devices)

    def step(x: jax.Array, w: jax.Array) -> jax.Array:
        def stage(x: jax.Array, _: None) -> tuple[jax.Array, None]:
            after = jnp.tanh(x @ w)
            return jax.lax.ppermute(after, "d", [(i, i + 1) for i in range(here.count - 1)]), None

        return jax.lax.scan(stage, x, None, length=8)[0]

    rows = here.of((SIZE * here.count, SIZE), "d")
    return here.mapped(step, (P("d"), P()), P("d")), (rows, here.of((SIZE, SIZE)))


def tensor_parallel(devices: Devices) -> Lowerable:
    """An MLP with sequence parallelism: all-gather, two products, reduce-scatter."""
    here = Arrays(devices)
    step = jax.jit(
        lambda x, a, b: jax.nn.relu(x @ a) @ b,
        out_shardings=NamedSharding(here.mesh, P("d", None)),
    )
    columns, rows = here.of((WIDE, WIDE), None, "d"), here.of((WIDE, WIDE), "d", None)
    return step, (here.of((WIDE, WIDE), "d", None), columns, rows)


PROGRAMS = {
    "overlap": overlap,
    "on host": on_host,
    "alone": alone,
    "ring": ring,
    "tensor parallel": tensor_parallel,
}


def main(directory: Path) -> None:
    """Compile what probe.json says, and write what Python sees of the result."""
    probe = json.loads((directory / "probe.json").read_text())
    for name, value in probe["config"].items():
        jax.config.update(name, value)
    topology = topologies.get_topology_desc(
        platform="cuda", target_config=probe["target"], topology=probe["topology"]
    )
    step, arguments = PROGRAMS[probe["program"]](list(topology.devices), **probe["arguments"])
    compiled = step.lower(*arguments).compile(compiler_options=probe["options"])
    memory = compiled.memory_analysis()
    names = ("temp_size", "argument_size", "output_size", "peak_memory")
    sizes = {name: getattr(memory, f"{name}_in_bytes", 0) for name in names}
    (directory / "memory.json").write_text(json.dumps(sizes))


def source(directory: Path) -> None:
    """Write the source of the part of JAX that passes options to XLA."""
    (directory / "compiler.py").write_text(inspect.getsource(compiler))


if __name__ == "__main__":
    source(Path(sys.argv[1]))
    main(Path(sys.argv[1]))
