export NCCL_DEBUG=WARN
srun bash -c 'export NCCL_DEBUG_FILE=/tmp/$SLURM_PROCID; XLA_FLAGS="$XLA_FLAGS --xla_a=1" python x.py'
gcloud compute tpus tpu-vm ssh x --worker=all --command "cd x; JAX_TRACEBACK_FILTERING=off python x.py"
ssh host1 'TPU_VISIBLE_CHIPS=0 python x.py'
