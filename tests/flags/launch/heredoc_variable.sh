read -r -d '' WORK <<'EOF'
export NCCL_SOCKET_IFNAME=eth0
python t.py
EOF
SETUP=$(cat <<EOF
export JAX_PLATFORMS=cuda
EOF
)
srun bash -c "$SETUP
$WORK"
