tcpx() {
  export NCCL_CROSS_NIC=0
  local plugin=libnccl-tuner.so
  export NCCL_TUNER_PLUGIN=$plugin
}
function rdma {
  export NCCL_IB_HCA=$(ibdev2netdev | head -1)
}
case "$1" in
  tcpx) tcpx ;;
  rdma) rdma ;;
esac
python train.py
