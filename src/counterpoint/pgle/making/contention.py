"""Who else holds the GPU's profiling interface before a run wants it.

CUPTI serves one subscriber at a time. Under Nsight Systems, or while DCGM samples the profiling
counters, JAX's profiler gets a trace without kernels, and a profile made of that is empty. Better
to know before the run than after it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MULTI_SUBSCRIBER: Final = "xla_gpu_enable_cupti_multi_subscriber"

_MULTI_SINCE: Final = (0, 12)
_NSYS: Final = ("NSYS_PROFILING_SESSION_ID",)
_INJECTED: Final = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
_DCGM: Final = ("nv-hostengine", "dcgm-exporter", "dcgmproftester")
_SANITIZER: Final = ("compute-sanitizer", "cuda-memcheck")
_CAPTURERS: Final = ("xprof", "tensorboard")
_SHORTENED: Final = 15  # characters that the kernel keeps of a process's name


@dataclass(frozen=True, slots=True)
class Conflict:
    """Something that shares or takes the profiling interface: what shows it, and the remedy.

    `certain`: with it no profile comes about; otherwise it depends on what it is doing.
    """

    who: str
    shown_by: str
    effect: str
    next: str
    certain: bool


def conflicts(
    environment: Mapping[str, str],
    processes: Iterable[str],
    jaxlib: str | None = None,
) -> tuple[Conflict, ...]:
    """What is in the way, for a run in this environment beside processes of these names."""
    names = tuple(processes)
    return (
        *_nsys(environment, jaxlib),
        *_injected(environment),
        *_beside(names),
        *_capturers(names),
    )


def processes_here(root: Path = Path("/proc")) -> tuple[str, ...]:
    """Names of this machine's processes; of those only that may be looked at."""
    names: dict[str, None] = {}
    for entry in root.iterdir() if root.is_dir() else ():
        if entry.name.isdecimal():
            names.update(dict.fromkeys(_names_of(entry)))
    return tuple(sorted(names))


def _names_of(process: Path) -> Iterator[str]:
    """The kernel's name of it, which is cut short, and the program it was started as."""
    try:
        yield (process / "comm").read_text(errors="replace").strip()
        command = (process / "cmdline").read_bytes().split(b"\0")[0]
        if command:
            yield os.path.basename(os.fsdecode(command))  # noqa: PTH119 - no path of ours
    except OSError:
        return  # ended meanwhile, or another user's


def _nsys(environment: Mapping[str, str], jaxlib: str | None) -> Iterator[Conflict]:
    shown = next((name for name in _NSYS if environment.get(name)), None)
    if shown is None and _names(environment, "nsys", "nsight"):
        shown = _names(environment, "nsys", "nsight")[0]
    if shown is None:
        return
    yield Conflict(
        "Nsight Systems",
        f"{shown}={environment[shown]}",
        "it subscribes to CUPTI first, and JAX's profiler collects an empty trace",
        _share(jaxlib)
        + "make the profile in a run without nsys, keep the executable in a compilation cache "
        "(JAX_ENABLE_PGLE=true JAX_COMPILATION_CACHE_DIR=DIR), and put nsys around a second run "
        "with JAX_COMPILATION_CACHE_EXPECT_PGLE=true",
        certain=not _can_share(jaxlib),
    )


def _injected(environment: Mapping[str, str]) -> Iterator[Conflict]:
    """Libraries that CUDA loads into the process; nsys has been told of already."""
    ours = _names(environment, "nsys", "nsight")
    for name in _INJECTED:
        path = environment.get(name)
        if path and name not in ours and not environment.get(_NSYS[0]):
            yield Conflict(
                "an injected CUDA tool",
                f"{name}={path}",
                "it may subscribe to CUPTI before JAX's profiler does",
                f"unset {name} for the run that makes the profile",
                certain=False,
            )


def _beside(names: tuple[str, ...]) -> Iterator[Conflict]:
    dcgm = _running(names, _DCGM)
    if dcgm:
        yield Conflict(
            "DCGM",
            f"process {dcgm}",
            "while it samples profiling counters (DCGM_FI_PROF_*), CUPTI hands JAX no kernels",
            "dcgmi profile --pause   # after the run: dcgmi profile --resume",
            certain=False,
        )
    sanitizer = _running(names, _SANITIZER)
    if sanitizer:
        yield Conflict(
            "compute-sanitizer",
            f"process {sanitizer}",
            "it holds the profiling interface and slows every kernel: costs would mean nothing",
            "make the profile without it",
            certain=True,
        )


def _capturers(names: tuple[str, ...]) -> Iterator[Conflict]:
    viewer = _running(names, _CAPTURERS)
    if viewer:
        yield Conflict(
            "a profiler that captures from JAX's profiler server",
            f"process {viewer}",
            "a process profiles itself once at a time: a capture through its server (also a "
            "jax.profiler.start_server of the program's own) and ours exclude each other",
            "capture nothing through it while the profile is made",
            certain=False,
        )


def _names(environment: Mapping[str, str], *words: str) -> list[str]:
    """Injection variables whose path speaks of these tools."""
    return [
        name
        for name in _INJECTED
        if any(word in environment.get(name, "").lower() for word in words)
    ]


def _running(names: tuple[str, ...], wanted: tuple[str, ...]) -> str | None:
    return next((it for it in wanted if any(_is(name, it) for name in names)), None)


def _is(name: str, wanted: str) -> bool:
    return name.startswith(wanted) or name == wanted[:_SHORTENED]


def _can_share(jaxlib: str | None) -> bool:
    if jaxlib is None:
        return False
    numbers = tuple(int(part) for part in jaxlib.split(".")[:2] if part.isdecimal())
    return numbers >= _MULTI_SINCE


def _share(jaxlib: str | None) -> str:
    return f"--{MULTI_SUBSCRIBER}=true (jaxlib {jaxlib} has it); or " if _can_share(jaxlib) else ""
