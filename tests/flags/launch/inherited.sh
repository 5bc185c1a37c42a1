export XLA_FLAGS="${XLA_FLAGS:+$XLA_FLAGS }--xla_a=1"
export LIBTPU_INIT_ARGS="$LIBTPU_INIT_ARGS --xla_tpu_a=1"
python t.py
