import os
import jax

os.environ["XLA_FLAGS"] = "--xla_a=1"
os.environ["JAX_ENABLE_X64"] = "1"
jax.devices()
os.environ["XLA_FLAGS"] += " --xla_b=2"
