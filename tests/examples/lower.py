"""Lower an example's step for CUDA without a GPU: FILE EXAMPLE DEVICES [SETTING=VALUE ...]."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

out, name, devices, *settings = sys.argv[1:]
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

example = import_module(name)
step, arguments = example.make_step(int(devices), **dict(it.split("=", 1) for it in settings))
lowered = step.trace(*arguments).lower(lowering_platforms=("cuda",))
Path(out).write_text(lowered.as_text(debug_info=True))
