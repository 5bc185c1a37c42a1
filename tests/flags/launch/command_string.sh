XLA_FLAGS=" \
  --xla_tpu_enable_async_collective_fusion=true \
  --xla_tpu_scoped_vmem_limit_kib=98304"
xpk workload create --workload $USER-x --command="set -e && \
export LIBTPU_INIT_ARGS='${XLA_FLAGS}' && \
export JAX_PLATFORMS='tpu,cpu' && python3 -m train"
