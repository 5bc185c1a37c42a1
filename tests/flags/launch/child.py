import os
import subprocess

env = dict(os.environ)
env["XLA_FLAGS"] = "--xla_a=1"
env["NCCL_DEBUG"] = "INFO"
subprocess.run(["python", "t.py"], env=env)
