BASE="--xla_gpu_enable_latency_hiding_scheduler=true"
export XLA_FLAGS="$BASE"
XLA_FLAGS+=" --xla_gpu_autotune_level=0"
export XLA_FLAGS="${XLA_FLAGS} --xla_gpu_graph_level=0"
python train.py
