source ./nccl.env
export "$KEY"="$VALUE"
export NCCL_DEBUG=INFO
python t.py
