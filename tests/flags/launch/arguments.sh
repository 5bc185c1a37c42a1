mpirun -np 8 -x NCCL_DEBUG=INFO -x NCCL_ALGO="Ring" -x PATH \
  -x NCCL_SOCKET_IFNAME=${IFNAME} ./all_reduce_perf
docker run --env JAX_PLATFORMS=cuda -e XLA_FLAGS="--xla_a=1 --xla_b=2" image
srun --export=ALL,NCCL_PROTO=LL python x.py
bazel test --test_env=JAX_ENABLE_X64=1 //tests
