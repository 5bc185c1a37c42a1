export NCCL_SOCKET_IFNAME=$(ip route | awk '/default/ {print $5}')
export XLA_FLAGS="--xla_force_host_platform_device_count=$(nproc) --xla_dump_to=/d"
export TPU_WORKER_ID=$((RANK % 4))
export NCCL_TOPO_FILE=${DIR}/topo.xml
python train.py
