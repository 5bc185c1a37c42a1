"""What an example's `make_step` says of settings, each alone: EXAMPLE DEVICES SETTING=VALUE ...

In one process, since importing JAX is what takes time. JSON: the error by the setting.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path

name, devices, *settings = sys.argv[1:]
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

example = import_module(name)
told: dict[str, str] = {}
for setting in settings:
    key, _, value = setting.partition("=")
    try:
        example.make_step(int(devices), **{key: value})
    except ValueError as error:
        told[setting] = str(error)
print(json.dumps(told))
