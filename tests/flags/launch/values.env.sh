NCCL_DEBUG=INFO
XLA_FLAGS="--xla_gpu_autotune_level=0"
COLOR=red
