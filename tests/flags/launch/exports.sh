#!/bin/bash
export XLA_FLAGS="--xla_gpu_autotune_level=2 \
  --xla_dump_to=/tmp/dump"
export NCCL_DEBUG=INFO NCCL_ALGO='Ring,Tree'
python train.py
