import os

LEVEL = 2
FLAGS = ["--xla_a=1", f"--xla_gpu_autotune_level={LEVEL}"]
FLAGS.append("--xla_dump_to=" + out_dir())
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " " + " ".join(FLAGS)
os.environ.setdefault("NCCL_DEBUG", "INFO")
os.environ.update({"JAX_PLATFORMS": "cuda", "NCCL_ALGO": algorithm})
