"""Whether this machine shows any sign of a GPU: files only, nothing is started.

Meant for refusing what can't work, so every doubt counts as a sign: a driver's device files
(NVIDIA's, of WSL, of Jetson, of AMD), its tool, or its library wherever a loader may find it. A
container that was given no GPU has none of them.
"""

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


def shows_gpu(environ: Mapping[str, str], root: Path = Path("/")) -> bool:
    """Whether a program that is started here with these variables may find a GPU."""
    if not sys.platform.startswith("linux"):
        return True  # where nothing is known of what a GPU leaves
    if any(shutil.which(tool, path=environ.get("PATH")) for tool in _TOOLS):
        return True
    named = (Path(it) for it in environ.get("LD_LIBRARY_PATH", "").split(":") if it)
    found = chain(
        *((root / "dev").glob(it) for it in _DEVICES),
        root.glob("proc/driver/nvidia*"),
        *(root.glob(f"{it}/{_LIBRARY}") for it in _LIBRARIES),
        *(it.glob(_LIBRARY) for it in named),
    )
    return any(True for _ in found)
