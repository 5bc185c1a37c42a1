"""A step whose weights are gathered layer by layer, as StableHLO: small, and worth scheduling."""

from __future__ import annotations

COSTS = {
    "all-gather.42": 80.0,
    "async-collective-start": 80.0,
    "async-collective-start.1": 80.0,
    "async-collective-start.2": 80.0,
    "convolution_tanh_fusion": 7.0,
}
"""Of the step on a v5e-4, in microseconds, by the names that libtpu 0.0.50.1 gives it."""


def made_of_layers(layers: int = 4, devices: int = 4, width: int = 1024, rows: int = 4096) -> str:
    """Return the product of an array with each layer's weights, all sharded over the devices."""
    array, weights = f"tensor<{rows}x{width}xbf16>", f"tensor<{width}x{width}xbf16>"
    sharded = '{sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {}]>}'
    taken = [f"%x0: {array} {sharded}"]
    taken += [f"%w{layer}: {weights} {sharded}" for layer in range(layers)]
    body = [
        f"    %y{layer} = stablehlo.dot_general %x{layer}, %w{layer}, contracting_dims = [1] x [0]"
        f" : ({array}, {weights}) -> {array}\n"
        f"    %x{layer + 1} = stablehlo.tanh %y{layer} : {array}"
        for layer in range(layers)
    ]
    return (
        f"module @jit_step attributes {{mhlo.num_partitions = {devices} : i32,"
        " mhlo.num_replicas = 1 : i32} {\n"
        f'  sdy.mesh @mesh = <["d"={devices}]>\n'
        f"  func.func public @main({', '.join(taken)}) -> ({array} {sharded}) {{\n"
        + "\n".join(body)
        + f"\n    return %x{layers} : {array}\n  }}\n}}\n"
    )
