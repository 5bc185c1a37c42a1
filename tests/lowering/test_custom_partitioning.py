"""What replaces a custom_partitioning is what XLA's partitioner makes of it in its own process."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import counterpoint.lowering
from counterpoint.hardware.targets import parse_target
from jax_process import ask_jax
from xla_compiler import why_none

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(why_none() is not None, reason=why_none() or ""),
]
EMULATOR: Final = Path(counterpoint.lowering.__file__).parent

COMPARED: Final = """
import collections, json, os, re, sys
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
sys.path.insert(0, sys.argv[1])
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
from jax.experimental import topologies
from jax.experimental.custom_partitioning import custom_partitioning
import jax._src.cudnn.fused_attention_stablehlo as cudnn
from jax._src import compiler
from jaxlib import _jax
from emulator.custom_partitioning import replace_custom_partitioning

cudnn.check_cudnn_version = lambda: 91200
cudnn.check_compute_capability = lambda needed: True
cudnn.is_cuda_compute_capability_equal = lambda wanted: wanted == "9.0"
topology = topologies.get_topology_desc(
    platform="cuda", target_config=sys.argv[2], topology="1x1x8")
mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))

@custom_partitioning
def centered(x):
    return x - jnp.mean(x, axis=-1, keepdims=True)

def partition(mesh, arguments, result):
    (x,) = arguments
    axes = x.sharding.spec[-1]
    def on_device(x):
        mean = jnp.mean(x, axis=-1, keepdims=True)
        return x - (jax.lax.pmean(mean, axes) if axes else mean)
    return mesh, on_device, x.sharding, (x.sharding,)

centered.def_partition(partition, sharding_rule="... i -> ... i")

def attention(h, w):
    q = (h @ w).reshape(*h.shape[:2], 8, 64)
    return jax.nn.dot_product_attention(
        q, q, q, is_causal=True, implementation="cudnn").reshape(h.shape)

def own(h, w):
    return centered(jax.lax.stop_gradient(h)) @ w + h

def compiled(module):
    options = compiler.get_compile_options(
        num_replicas=1, num_partitions=8, device_assignment=np.arange(8).reshape(1, 8),
        env_options_overrides={"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False})
    options.executable_build_options.use_spmd_partitioning = True
    options.executable_build_options.use_shardy_partitioner = True
    devices = topology.devices
    done = devices[0].client.compile(module, _jax.DeviceList(tuple(devices)), options)
    text = done.hlo_modules()[0].to_string()
    found = re.findall(r"= (\\S+) ([a-z-]+)\\(", text)
    return {"ops": collections.Counter(f"{kind} {op}" for kind, op in found if op != "parameter"
                                       and "get-tuple" not in op and "bitcast" != op),
            "scopes": sorted(set(re.findall(r'__cudnn.*?op_name="([^"]*)"', text)))}

def answer(layer, spec):
    def loss(w, x):
        h, _ = jax.lax.scan(lambda h, w: (layer(h, w), None), x, w)
        return jnp.mean(h.astype(jnp.float32) ** 2)
    w = jax.ShapeDtypeStruct((3, 512, 512), jnp.bfloat16,
                             sharding=NamedSharding(mesh, P(None, "data", "model")))
    x = jax.ShapeDtypeStruct((8, 256, 512), jnp.bfloat16, sharding=NamedSharding(mesh, spec))
    step = jax.jit(lambda w, x: w - jax.grad(loss)(w, x), donate_argnums=0)
    with jax.set_mesh(mesh):
        module = step.trace(w, x).lower(lowering_platforms=("cuda",))._lowering.stablehlo()
    before = compiled(module)
    replace_custom_partitioning(module)
    assert "CustomSPMD" not in str(module)
    return [before, compiled(module)]

print(json.dumps([answer(attention, P("data")), answer(own, P("data", None, "model"))]))
"""


def test_a_replaced_custom_partitioning_is_compiled_as_xla_partitions_it() -> None:
    of_cudnn, of_own = ask_jax(COMPARED, EMULATOR, parse_target("8xH100").config)

    for before, after in (of_cudnn, of_own):
        assert before["ops"] == after["ops"]
        assert any("all-gather" in op for op in before["ops"])
    assert len(of_cudnn[1]["scopes"]) == 2
    assert any("transpose(jvp" in scope for scope in of_cudnn[1]["scopes"])
    assert any("all-reduce" in op for op in of_own[1]["ops"])
