export XLA_PYTHON_CLIENT_MEM_FRACTION=${FRACTION:-0.9}
export NCCL_BUFFSIZE=${NCCL_BUFFSIZE:-8388608}
LEVEL=4
export XLA_FLAGS="--xla_gpu_autotune_level=${LEVEL:-2} --xla_gpu_graph_level=${GRAPHS:-0}"
python train.py
