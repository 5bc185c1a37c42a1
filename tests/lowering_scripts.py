"""Training scripts as users write them, for `lower_command`."""

from __future__ import annotations

from typing import Final

TRAINING: Final = """
import argparse, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=128)
    width = parser.parse_args().width
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    rows = NamedSharding(mesh, P("data"))

    def init(key):
        weights = jax.random.normal(key, (8, width, width))
        weights = jax.lax.with_sharding_constraint(weights, NamedSharding(mesh, P(None, "data")))
        return {"w": weights, "m": jnp.zeros_like(weights), "count": jnp.zeros((), jnp.int32)}, key

    def loss(w, x):
        h, _ = jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, w)
        return jnp.mean(h ** 2)

    @jax.jit
    def evaluate(state, x):
        return loss(state["w"], x)

    def train_step(state, x, key):
        value, g = jax.value_and_grad(loss)(state["w"], x)
        m = 0.9 * state["m"] + g
        return {"w": state["w"] - m, "m": m, "count": state["count"] + 1}, value

    state, key = jax.jit(init)(jax.random.key(0))
    step = jax.jit(train_step, donate_argnums=0)
    print("spec", state["w"].sharding.spec, "count", int(state["count"]), flush=True)
    x = jax.device_put(np.ones((2 * len(jax.devices()), width), np.float32), rows)
    print("evaluated", float(evaluate(state, x)) >= 0, flush=True)
    for index in range(3):
        state, value = step(state, x, key)
        print("trained", index, flush=True)

if __name__ == "__main__":
    sys.exit(main())
"""

FOR_GPUS: Final = """
import os
os.environ["JAX_PLATFORMS"] = "cuda"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_enable_pipelined_p2p=true"
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.92"
import jax
jax.config.update("jax_platforms", "cuda")
jax.distributed.initialize("node0:1234", num_processes=64, process_id=0)
import jax.numpy as jnp
assert len(jax.devices("gpu")) == jax.device_count() == 8
axis = "on_gpu" if jax.default_backend() == "gpu" else "on_cpu"
mesh = jax.sharding.Mesh(jax.devices(), (axis,))

def local(w, x):
    def loss(w):
        return jnp.mean((x @ jax.lax.all_gather(w, axis, tiled=True)) ** 2)
    value, g = jax.value_and_grad(loss)(w)
    return w - g, jax.lax.pmean(value, axis)

spec = jax.sharding.PartitionSpec(axis)
step = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=(spec, spec),
                             out_specs=(spec, jax.sharding.PartitionSpec())))
w, x = jnp.ones((256, 256)), jnp.ones((64, 256))
while True:
    w, value = step(w, x)
    print(value)
"""

ATTENTION: Final = """
import jax, jax.numpy as jnp
from jax.sharding import PartitionSpec as P
kind = "cudnn" if jax.default_backend() == "gpu" else "xla"
mesh = jax.sharding.Mesh(jax.devices(), ("data",))

def local(q):
    def loss(q):
        out = jax.nn.dot_product_attention(q, q, q, is_causal=True, implementation=kind)
        return jnp.sum(out.astype(jnp.float32))
    return jax.grad(loss)(q)

def step(q, w):
    manual = jax.shard_map(local, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
    return (manual if MANUAL else local)(q) @ w

rows = jax.sharding.NamedSharding(mesh, P("data"))
q = jax.device_put(jnp.ones((8, 128, 2, 64), jnp.bfloat16), rows)
jax.jit(step)(q, jnp.ones((64, 64), jnp.bfloat16))
"""

INFERENCE: Final = """
import jax, jax.numpy as jnp
@jax.jit
def prefill(w, x):
    for _ in range(4):
        x = jnp.tanh(x @ w)
    return x
decode = jax.jit(lambda w, x: jnp.tanh(x @ w))
w, x = jnp.ones((8192, 8192), jnp.bfloat16), jnp.ones((4096, 8192), jnp.bfloat16)
while True:
    x = prefill(w, x)
    decode(w, x[:1])
"""

EAGER: Final = """
import jax, jax.numpy as jnp
w = jnp.ones((16, 16))
print(w - jax.grad(lambda w: jnp.sum(w @ w))(w))
"""

PLAIN: Final = """
import jax, jax.numpy as jnp
@jax.jit
def train_step(w, x):
    return w - jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
train_step(jnp.ones((8, 8)), jnp.ones((4, 8)))
"""

CALLING: Final = """
import jax, jax.numpy as jnp, numpy as np
def loss(w, x):
    jax.debug.print("mean {}", w.mean())
    return jnp.mean((x @ w) ** 2)
@jax.jit
def train_step(w, x):
    x = jax.pure_callback(np.tanh, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return w - jax.grad(loss)(w, x)
train_step(jnp.ones((8, 8)), jnp.ones((4, 8)))
"""

SCANNED: Final = """
import jax, jax.numpy as jnp
def body(w, x):
    value, g = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)
    return w - g, value
w, values = jax.lax.scan(body, jnp.ones((16, 16)), jnp.ones((100, 4, 16)))
print(values[-1])
"""

SOLVED: Final = """
import jax, jax.numpy as jnp
w = jnp.ones((16, 16))
size, x = jax.lax.while_loop(lambda it: it[0] > 1, lambda it: (it[0] / 2, it[1] @ w), (9.0, w))
print(jax.random.normal(jax.random.key(0), (256, 256)) @ jnp.ones((256, 256)), size, x)
"""

CREATING: Final = """
import resource
import jax, jax.numpy as jnp, numpy as np
filled = [jnp.full((4096, 4096), 0.5) for _ in range(48)]
keys = jax.random.split(jax.random.key(0), 48)
drawn = [jax.random.normal(key, (2048, 4096)) * 0.02 for key in keys]
host = np.ones((4096, 4096), np.float32)
put = [jax.device_put(host) for _ in range(48)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
@jax.jit
def train_step(w, x):
    return w - jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
train_step(filled[0], put[0])
"""

FAILING: Final = """
import jax
jax.jit(lambda x: x + 1)(1.0)
raise ValueError("no data at gs://here")
"""

IN_TWO: Final = """
import jax, jax.numpy as jnp
grads = jax.jit(jax.grad(lambda w, x: jnp.mean((x @ w) ** 2)))
@jax.jit
def apply(w, m, g):
    return w - m, 0.9 * m + g
w = jnp.ones((64, 64))
m = w
while True:
    w, m = apply(w, m, grads(w, jnp.ones((16, 64))))
    print("turn", flush=True)
"""

ADDED_UP: Final = """
import functools, jax, jax.numpy as jnp
@functools.partial(jax.jit, donate_argnums=1)
def add_up(w, sum, x):
    return sum + jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
@functools.partial(jax.jit, donate_argnums=(0, 1))
def apply(w, m, g):
    return w - m, 0.9 * m + g
w, m = jnp.ones((64, 64)), jnp.ones((64, 64))
for turn in range(2):
    g = jnp.zeros_like(w)
    for part in range(4):
        g = add_up(w, g, jnp.ones((16, 64)))
    w, m = apply(w, m, g)
    print("turn", flush=True)
"""

SAVING: Final = """
import os, pathlib, shutil
import jax, jax.numpy as jnp, numpy as np
init = jax.jit(lambda key: jax.random.normal(key, (16384, 8192)))
w = init(jax.random.key(0))
np.save("last.npy", np.zeros(3))
assert np.load("last.npy").shape == (3,)
np.save("new.npy", np.zeros(3))
pathlib.Path("new.npy").rename("best.npy")
pathlib.Path("oldest.npy").unlink()
shutil.rmtree("rotated")
with open("log.txt", "a") as log:
    log.write("saved\\n")
raise SystemExit("enough")
"""

MAPPED: Final = """
import functools, jax, jax.numpy as jnp
@functools.partial(jax.pmap, donate_argnums=0)
def update(w, x):
    return w - jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
n = jax.device_count()
update(jnp.ones((n, 8, 8)), jnp.ones((n, 4, 8)))
"""

COUNTING: Final = """
import jax
assert len(jax.devices("gpu")) == 16, f"this needs 16 GPUs, have {jax.device_count()}"
"""

STUCK: Final = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
import jax
time.sleep(60)
"""

DESCRIBED: Final = """
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import mesh_utils
last = jax.devices()[-1]
print(last.platform, last.client.platform, last.device_kind)
print(last.compute_capability, last.core_count)
print("slices", sorted({device.slice_index for device in jax.devices()}), last.partition_index)
print("local", last.local_hardware_id, last.coords)
print("process", last.process_index, jax.process_count())
print("limit", round(last.memory_stats()["bytes_limit"] / 2**30))
for by_process in (False, True):
    grid = mesh_utils.create_hybrid_device_mesh((1, 8), (2, 1), process_is_granule=by_process)
    print("hybrid", grid.shape, sorted(device.id for device in grid[1]))
print("make_mesh", jax.make_mesh((16,), ("x",)).shape["x"])
mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(1, jax.local_device_count()), ("a", "b"))
rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("b"))
def step(w, x):
    return w - jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
jax.jit(step, donate_argnums=0)(jax.device_put(jnp.ones((64, 64)), rows), jnp.ones((16, 64)))
"""

ON_TPUS: Final = """
import jax, jax.numpy as jnp
devices = jax.devices()
last = devices[-1]
print(jax.default_backend(), last.platform, last.device_kind)
print("coords", devices[2].coords, last.coords, last.core_on_chip)
limit = last.memory_stats()["bytes_limit"] / 2**30
print("slices", sorted({device.slice_index for device in devices}), "limit", limit)
print("gpu attributes", hasattr(last, "compute_capability"))
from jax.experimental import pallas as pl
def double(x, y): y[...] = x[...] * 2
kernel = pl.pallas_call(double, out_shape=jax.ShapeDtypeStruct((64, 128), jnp.float32))
print("kernel", jax.jit(kernel)(jnp.ones((64, 128))).shape)
def on_gpus(w): return w + 1
def on_tpus(w): return w @ w
def loss(w):
    return jax.lax.platform_dependent(w, tpu=jax.jit(on_tpus), default=jax.jit(on_gpus)).sum()
jax.jit(jax.grad(loss))(jnp.ones((64, 64)))
"""

SLICES: Final = """
import jax
print(jax.devices()[0].device_kind, jax.devices()[0].compute_capability)
print("slices", len({device.slice_index for device in jax.devices()}))
jax.jit(jax.grad(lambda w: (w @ w).sum()))(jax.numpy.ones((64, 64)))
"""

REFUSING: Final = """
import sys
open(sys.argv[1], "a").write("started\\n")
import jax
from transformer_engine.jax.attention import fused_attn
kind = jax.default_backend()
raise ValueError("7 sequences do not divide over 2 hosts")
"""

CHOOSING: Final = """
import sys
open(sys.argv[1], "a").write("started\\n")
import jax
raise RuntimeError(f"as on {jax.default_backend()}")
"""

FUSED: Final = """
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
from transformer_engine.jax.attention import AttnBiasType, AttnMaskType, QKVLayout
from transformer_engine.jax.attention import SequenceDescriptor, fused_attn

mesh = jax.sharding.Mesh(jax.devices(), ("data",))

def loss(w, x):
    q = (x @ w).reshape(8, 128, 2, 64)
    lengths = jnp.full((8,), 128, jnp.int32)
    out = fused_attn((q, q, q), None, SequenceDescriptor.from_seqlens((lengths, lengths)), None,
                     attn_bias_type=AttnBiasType.NO_BIAS, attn_mask_type=AttnMaskType.CAUSAL_MASK,
                     qkv_layout=QKVLayout.BSHD_BSHD_BSHD, scaling_factor=0.125,
                     dropout_probability=DROPOUT, is_training=True)
    return jnp.mean(out.astype(jnp.float32) ** 2)

@jax.jit
def step(w, x):
    return w - jax.grad(loss)(w, x)

with jax.set_mesh(mesh):
    x = jax.device_put(jnp.ones((8, 128, 128), jnp.bfloat16), NamedSharding(mesh, P("data")))
    step(jnp.ones((128, 128), jnp.bfloat16), x)
"""
