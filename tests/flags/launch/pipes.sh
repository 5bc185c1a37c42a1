command -v nvidia-smi && export JAX_PLATFORMS=cuda
[ -n "$CPU" ] || export NCCL_DEBUG=INFO
cd /app && export NCCL_ALGO=Ring
JAX_ENABLE_X64=1 python t.py 2>&1 | tee log
(export NCCL_PROTO=LL; ./x)
