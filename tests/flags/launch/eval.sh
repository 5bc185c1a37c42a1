PREFIX="export JAX_COMPILATION_CACHE_DIR=/cache && export XLA_PYTHON_CLIENT_PREALLOCATE=false"
cmd="xpk run --command='$PREFIX && python t.py'"
eval ${cmd}
