import jax

jax.config.update("jax_enable_x64", True)
step = jax.jit(step, compiler_options={"xla_gpu_autotune_level": 0})
