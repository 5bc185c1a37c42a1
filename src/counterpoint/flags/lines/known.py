"""Known names: flags, JAX's options and variables; and those similar to an unknown name.

Nothing rejects an unknown environment variable. A flag written without its prefix would become one
and do nothing, so a name that nothing reads is refused where users type settings. `env:NAME=value`
sets a variable of the user's own program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from counterpoint.core import UsageError
from counterpoint.flags.catalogue.lookup import names_ever
from counterpoint.flags.catalogue.variable import JAX_ELSEWHERE, nccl_names, variables
from counterpoint.flags.settings import FLAG_VARIABLES, is_setting
from counterpoint.flags.text import LIBTPU, names

OWN_PREFIX: Final = "env:"
"""Prefix of a variable that only the user's program reads."""

_LISTED: Final = ("JAX_", "NCCL_", "TF_CPP_")
"""Families whose names are all known."""

_SYSTEM: Final = (
    *("OMP_", "KMP_", "MKL_", "OPENBLAS_", "MALLOC_", "TCMALLOC_", "LD_", "PYTHON"),
    *("FI_", "OFI_", "IBV_", "MLX5_", "RDMAV_", "OMPI_", "PMIX_", "SLURM_", "TRITON_", "RAY_"),
)
_PREFIXES: Final = ("", "xla_gpu_", "xla_", "xla_gpu_enable_", "jax_", "nccl_", "cuda_")
_CLOSE: Final = 0.9
_ALIKE: Final = 0.75
_SHORTEST: Final = 6  # minimum length to match within a longer name


def is_flag(name: str) -> bool:
    """Return whether XLA may accept a name; for its own names only the compiler can tell."""
    if name.startswith("JAX_"):  # the catalogue lists JAX's variables, too
        return False
    return name.startswith(("xla_", *LIBTPU)) or name in names_ever()


def is_variable(name: str) -> bool:
    """Return whether JAX, XLA, NCCL, CUDA, the allocator or the system reads a variable."""
    if name in _variables():
        return True
    if name.startswith(_LISTED) or not (is_setting(name) or name.startswith(_SYSTEM)):
        return False
    return name.lower() not in names() and not _close(name, _variables(), 1, _CLOSE)


def refuse_unread_variable(name: str, value: str) -> None:
    """Raise UsageError for a word `name=value` that nothing reads."""
    if not is_variable(name):
        raise unread(name, value)


def refuse_bare_flag(name: str, value: str) -> None:
    """Raise UsageError for a variable, given as such, that is meant as a flag or an option.

    Variables are written in capitals, so only other names are checked.
    """
    if name == name.upper() or name in _variables():
        return
    near = nearest(name, 1, _CLOSE)
    if near == (name,) and is_flag(name):
        raise UsageError(
            f"--env {name}={value}: {name} is a flag of XLA, not a variable",
            next=f"use --set {name}={value}",
        )
    if near:
        raise unread(name, value)


def unread(name: str, value: str) -> UsageError:
    """Return the error for a name that nothing reads."""
    near = nearest(name)
    own = f"{OWN_PREFIX}{name}={value}"
    return UsageError(
        f"{name}: unknown flag, option or variable",
        why="it would become an environment variable that nothing reads; for a variable of your own"
        f" program, write {own}",
        next=f"did you mean {' or '.join(near)}?" if near else "counterpoint flags list",
    )


def nearest(name: str, count: int = 3, alike: float = _ALIKE) -> tuple[str, ...]:
    """Return known names similar to this one, most similar first."""
    bare = name.strip("-").lower().replace("-", "_")
    known = {name.lower(): name for name in (*names_ever(), *_variables(), *names())}
    exact = [known[prefix + bare] for prefix in _PREFIXES if prefix + bare in known]
    if exact:
        return tuple(exact[:count])
    within = [name for name in names() if bare in name] if len(bare) >= _SHORTEST else []
    if within:
        return tuple(sorted(within, key=lambda name: (not name.endswith(bare), len(name)))[:count])
    stripped = dict(_stripped(known.values()))
    similar = _close(_without_prefix(bare), stripped, count, alike)
    return tuple(dict.fromkeys(stripped[name] for name in similar))


@cache
def _variables() -> frozenset[str]:
    options = (name for name in names_ever() if name.startswith("JAX_"))
    return frozenset({*variables(), *nccl_names(), *JAX_ELSEWHERE, *FLAG_VARIABLES, *options})


def _stripped(known: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in known:
        yield _without_prefix(name.lower()), name


def _without_prefix(name: str) -> str:
    for prefix in ("xla_gpu_", "xla_", "jax_", "nccl_"):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _close(name: str, known: Iterable[str], count: int, cutoff: float) -> list[str]:
    import difflib

    return difflib.get_close_matches(name, list(known), n=count, cutoff=cutoff)
