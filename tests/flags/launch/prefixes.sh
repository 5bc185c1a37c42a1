JAX_PLATFORMS=cpu uv run pytest tests
XLA_FLAGS="--xla_a=1" JAX_ENABLE_X64=true python -m train &
timeout 60 env -u HOME NCCL_DEBUG=INFO ./run
