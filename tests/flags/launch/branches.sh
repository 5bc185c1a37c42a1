if [[ $GPUS -gt 8 ]]; then
  export NCCL_NVLS_ENABLE=1
elif [[ $GPUS == 8 ]]; then
  export NCCL_P2P_LEVEL=NVL
else
  export NCCL_SHM_DISABLE=1
fi
for level in 0 4; do
  XLA_FLAGS="--xla_gpu_autotune_level=$level" python train.py
done
