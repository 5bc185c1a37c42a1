"""Installed packages that have to do with JAX, from their metadata; nothing of them is imported."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from counterpoint.doctor.facts import Software
from counterpoint.doctor.gather.files import names_in
from counterpoint.doctor.gather.programs import Ask
from counterpoint.doctor.requirement import normal

_FAMILY: Final = re.compile(
    r"jax(lib)?$|jax-.*|libtpu.*|nvidia-.*|numpy|scipy|ml-dtypes|flax|optax|orbax-checkpoint|chex"
    r"|equinox|grain|maxtext|levanter|transformer-engine.*"
)
_ASKING: Final = re.compile(
    r"jax(lib)?$|jax-cuda\d+-(plugin|pjrt)|flax|optax|orbax-checkpoint|chex|equinox|levanter"
)
"""Whose metadata is held to: those that are built against a release of JAX."""

_WHERE: Final = (
    "import sys; sys.path[:] = filter(None, sys.path)\n"  # nothing of the current directory
    "import platform; print(platform.python_version(), *sys.path, sep='\\n')"
)
_CUDA: Final = re.compile(
    r"lib(cudnn|nccl|cublas|cublasLt|cudart|cupti|cufft|cusolver|cusparse|nvrtc|nvJitLink)\.so"
)


def gather_software(environment: Mapping[str, str], python: Path | None, ask: Ask) -> Software:
    """What a Python would import: our own, or another one, which is asked where it looks."""
    version, search = _own() if python is None or _is_own(python) else _of(python, ask)
    packages: dict[str, str] = {}
    requires: dict[str, tuple[str, ...]] = {}
    for one in importlib.metadata.distributions(path=search):
        name = normal(str(one.metadata["Name"] or "")) if one.metadata else ""
        if not _FAMILY.fullmatch(name) or name in packages:
            continue
        packages[name] = one.version
        if _ASKING.fullmatch(name):
            requires[name] = tuple(one.requires or ())
    return Software(
        python=version,
        packages=dict(sorted(packages.items())),
        requires=dict(sorted(requires.items())),
        shadowing=tuple(_shadowing(environment.get("LD_LIBRARY_PATH", ""))),
    )


def _own() -> tuple[str, list[str]]:
    return platform.python_version(), list(sys.path)


def _is_own(python: Path) -> bool:
    return python.absolute() == Path(sys.executable).absolute()


def _of(python: Path, ask: Ask) -> tuple[str, list[str]]:
    told = (ask((str(python), "-c", _WHERE)) or "").splitlines()
    return (told[0], told[1:]) if told else ("", [])


def _shadowing(paths: str) -> list[str]:
    """CUDA libraries in the directories that come before those of the wheels."""
    found: dict[str, None] = {}
    for directory in filter(None, paths.split(":")):
        if "site-packages/nvidia" in directory:
            continue  # the wheels themselves
        for name in names_in(Path(directory)):
            if _CUDA.match(name):
                found[f"{directory}/{name}"] = None
    return list(found)
