JAX_PORT=1234
XLA_FLAGS="--xla_gpu_autotune_level=0"
export NCCL_DEBUG=WARN
python train.py --port $JAX_PORT --flags '$XLA_FLAGS'
