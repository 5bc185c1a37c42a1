env:
  - name: JAX_PLATFORMS
    value: "tpu"
{{ if x }}
  - [
{{ end }}
  - name: NCCL_DEBUG
    value: WARN
