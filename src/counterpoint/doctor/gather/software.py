"""Distributions that a Python can import, and libraries that shadow those of the wheels."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from counterpoint.doctor.facts import InstalledPackages
from counterpoint.doctor.gather.kernel_files import names_in
from counterpoint.doctor.gather.tools import RunTool
from counterpoint.doctor.requirement import normalized_name

_FAMILY: Final = re.compile(
    r"jax(lib)?$|jax-.*|libtpu.*|nvidia-.*|numpy|scipy|ml-dtypes|flax|optax|orbax-checkpoint|chex"
    r"|equinox|grain|maxtext|levanter|transformer-engine.*"
)
_ASKING: Final = re.compile(
    r"jax(lib)?$|jax-cuda\d+-(plugin|pjrt)|flax|optax|orbax-checkpoint|chex|equinox|levanter"
)
"""Distributions whose requirements are checked: those built against a release of JAX."""

_WHERE: Final = (
    "import sys; sys.path[:] = filter(None, sys.path)\n"  # nothing of the current directory
    "import platform; print(platform.python_version(), *sys.path, sep='\\n')"
)
_CUDA: Final = re.compile(
    r"lib(cudnn|nccl|cublas|cublasLt|cudart|cupti|cufft|cusolver|cusparse|nvrtc|nvJitLink)\.so"
)


def gather_software(
    environment: Mapping[str, str], python: Path | None, ask: RunTool
) -> InstalledPackages:
    """List what a Python can import: this one, or another, which is run for its search path."""
    version, search = _own() if python is None or _is_own(python) else _of(python, ask)
    packages: dict[str, str] = {}
    requires: dict[str, tuple[str, ...]] = {}
    for distribution in importlib.metadata.distributions(path=search):
        name = (
            normalized_name(str(distribution.metadata["Name"] or ""))
            if distribution.metadata
            else ""
        )
        if not _FAMILY.fullmatch(name) or name in packages:
            continue
        packages[name] = distribution.version
        if _ASKING.fullmatch(name):
            requires[name] = tuple(distribution.requires or ())
    return InstalledPackages(
        python=version,
        packages=dict(sorted(packages.items())),
        requires=dict(sorted(requires.items())),
        shadowing=tuple(_shadowing(environment.get("LD_LIBRARY_PATH", ""))),
    )


def _own() -> tuple[str, list[str]]:
    return platform.python_version(), list(sys.path)


def _is_own(python: Path) -> bool:
    return python.absolute() == Path(sys.executable).absolute()


def _of(python: Path, ask: RunTool) -> tuple[str, list[str]]:
    printed_lines = (ask((str(python), "-c", _WHERE)) or "").splitlines()
    return (printed_lines[0], printed_lines[1:]) if printed_lines else ("", [])


def _shadowing(paths: str) -> list[str]:
    """Return CUDA libraries in the directories that come before those of the wheels."""
    libraries: dict[str, None] = {}
    for directory in filter(None, paths.split(":")):
        if "site-packages/nvidia" in directory:
            continue  # the wheels themselves
        for name in names_in(Path(directory)):
            if _CUDA.match(name):
                libraries[f"{directory}/{name}"] = None
    return list(libraries)
