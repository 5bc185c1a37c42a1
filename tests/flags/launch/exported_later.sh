NCCL_PROTO=Simple
XLA_FLAGS=--xla_gpu_autotune_level=0
export NCCL_PROTO XLA_FLAGS
set -a
JAX_PLATFORMS=cuda
set +a
NCCL_ALGO=Tree
python train.py
