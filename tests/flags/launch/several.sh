XLA_FLAGS=--xla_a=1 python a.py
XLA_FLAGS=--xla_b=1 NCCL_DEBUG=INFO python b.py
export XLA_FLAGS=--xla_c=1
python c.py
export XLA_FLAGS=--xla_d=1
python d.py
