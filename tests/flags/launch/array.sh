FLAGS=(
  --xla_gpu_enable_triton_gemm=false  # slower here
  # --xla_gpu_autotune_level=0
  "--xla_dump_to=$OUT"
)
FLAGS+=(--xla_gpu_graph_level=0)
export XLA_FLAGS="${FLAGS[*]}"
python train.py
