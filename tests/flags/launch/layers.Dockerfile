FROM nvcr.io/nvidia/jax:25.04-py3
ARG LEVEL=4
ARG JAX_VERSION=0.6
ENV XLA_FLAGS="--xla_gpu_autotune_level=${LEVEL} \
    --xla_a=1" \
    NCCL_DEBUG=INFO
ENV JAX_PLATFORMS cuda
RUN export NCCL_ALGO=Ring && make
CMD ["bash", "-c", "NCCL_PROTO=LL python t.py"]
