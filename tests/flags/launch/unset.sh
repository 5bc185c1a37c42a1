export NCCL_DEBUG=INFO
export NCCL_ALGO=Ring
unset NCCL_ALGO
if slow; then
  unset NCCL_DEBUG
fi
python t.py
