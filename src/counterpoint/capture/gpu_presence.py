"""Whether a program may find a GPU here: devices, tools and libraries of drivers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Final

_DEVICES: Final = ("nvidia*", "dxg", "kfd", "nvhost*", "nvgpu*", "nvmap", "dri/renderD*")
_TOOLS: Final = ("nvidia-smi", "rocm-smi", "amd-smi")
_LIBRARY: Final = "libcuda.so*"
_LIBRARIES: Final = (
    *("usr/lib*", "lib*", "usr/lib*/*-linux-gnu", "lib*/*-linux-gnu", "usr/local/nvidia/lib*"),
    *("usr/local/cuda*/compat", "usr/lib/wsl/lib", "run/opengl-driver/lib", "usr/lib*/*/tegra"),
)


def may_have_gpu(environ: Mapping[str, str], root: Path = Path("/")) -> bool:
    """Return whether a program started here with these variables may find a GPU.

    Used to refuse what can't work, so every doubt counts as a sign of a GPU: device files of a
    driver (NVIDIA, WSL, Jetson, AMD), its tool, or its library wherever a loader may find it. Only
    files are looked at; nothing is started. A container without access to a GPU has none of them.
    """
    if not sys.platform.startswith("linux"):
        return True  # a GPU's traces are unknown here
    if any(shutil.which(tool, path=environ.get("PATH")) for tool in _TOOLS):
        return True
    named = (Path(word) for word in environ.get("LD_LIBRARY_PATH", "").split(":") if word)
    signs = chain(
        *((root / "dev").glob(pattern) for pattern in _DEVICES),
        root.glob("proc/driver/nvidia*"),
        *(root.glob(f"{pattern}/{_LIBRARY}") for pattern in _LIBRARIES),
        *(directory.glob(_LIBRARY) for directory in named),
    )
    return any(True for _ in signs)
