import os

from dotenv import load_dotenv

load_dotenv()
for key, value in more.items():
    os.environ[key] = value
HELP = "try XLA_FLAGS=--xla_gpu_autotune_level=0"
