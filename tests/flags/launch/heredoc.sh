cat > each.sh <<'EOF'
export NCCL_DEBUG=INFO
python t.py
EOF
cat <<EOF | kubectl apply -f -
env:
- name: JAX_PLATFORMS
  value: "$PLATFORM"
- {name: NCCL_NVLS_ENABLE, value: "0"}
EOF
: <<'OLD'
export NCCL_ALGO=Ring
OLD
cat <<HELP
usage: NCCL_PROTO=LL run.sh
HELP
python - <<'PY'
import os
os.environ["XLA_FLAGS"] = "--xla_a=1"
PY
