"""Detects other users of the GPU's profiling interface before a run.

CUPTI serves one subscriber at a time. Under Nsight Systems, or while DCGM samples the profiling
counters, JAX's profiler gets a trace without kernels, and a profile made from it is empty. It is
better to know before the run than after it.
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
_SHORTENED: Final = 15  # length to which the kernel truncates a process name


@dataclass(frozen=True, slots=True)
class ProfilerConflict:
    """A tool that shares or takes the profiling interface, with its evidence and the remedy.

    `certain` means that no profile can be made with it; otherwise it depends on its activity.
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
) -> tuple[ProfilerConflict, ...]:
    """Return the conflicts for a run in this environment beside processes of these names."""
    names = tuple(processes)
    return (
        *_nsys(environment, jaxlib),
        *_injected(environment),
        *_beside(names),
        *_capturers(names),
    )


def processes_here(root: Path = Path("/proc")) -> tuple[str, ...]:
    """Return the names of this machine's readable processes."""
    names: dict[str, None] = {}
    for entry in root.iterdir() if root.is_dir() else ():
        if entry.name.isdecimal():
            names.update(dict.fromkeys(_names_of(entry)))
    return tuple(sorted(names))


def _names_of(process: Path) -> Iterator[str]:
    """Yield the kernel's truncated name, and the program name."""
    try:
        yield (process / "comm").read_text(errors="replace").strip()
        command = (process / "cmdline").read_bytes().split(b"\0")[0]
        if command:
            yield os.path.basename(os.fsdecode(command))  # noqa: PTH119 - not one of our paths
    except OSError:
        return  # ended meanwhile, or belongs to another user


def _nsys(environment: Mapping[str, str], jaxlib: str | None) -> Iterator[ProfilerConflict]:
    shown = next((name for name in _NSYS if environment.get(name)), None)
    if shown is None and _names(environment, "nsys", "nsight"):
        shown = _names(environment, "nsys", "nsight")[0]
    if shown is None:
        return
    yield ProfilerConflict(
        "Nsight Systems",
        f"{shown}={environment[shown]}",
        "it subscribes to CUPTI first, and JAX's profiler collects an empty trace",
        _share(jaxlib)
        + "make the profile in a run without nsys, keep the executable in a compilation cache "
        "(JAX_ENABLE_PGLE=true JAX_COMPILATION_CACHE_DIR=DIR), and put nsys around a second run "
        "with JAX_COMPILATION_CACHE_EXPECT_PGLE=true",
        certain=not _can_share(jaxlib),
    )


def _injected(environment: Mapping[str, str]) -> Iterator[ProfilerConflict]:
    """Yield libraries that CUDA loads into the process; nsys is reported separately."""
    nsys_variables = _names(environment, "nsys", "nsight")
    for name in _INJECTED:
        path = environment.get(name)
        if path and name not in nsys_variables and not environment.get(_NSYS[0]):
            yield ProfilerConflict(
                "an injected CUDA tool",
                f"{name}={path}",
                "it may subscribe to CUPTI before JAX's profiler does",
                f"unset {name} for the run that makes the profile",
                certain=False,
            )


def _beside(names: tuple[str, ...]) -> Iterator[ProfilerConflict]:
    dcgm = _running(names, _DCGM)
    if dcgm:
        yield ProfilerConflict(
            "DCGM",
            f"process {dcgm}",
            "while it samples profiling counters (DCGM_FI_PROF_*), CUPTI hands JAX no kernels",
            "dcgmi profile --pause   # after the run: dcgmi profile --resume",
            certain=False,
        )
    sanitizer = _running(names, _SANITIZER)
    if sanitizer:
        yield ProfilerConflict(
            "compute-sanitizer",
            f"process {sanitizer}",
            "it holds the profiling interface and slows every kernel: costs would be meaningless",
            "make the profile without it",
            certain=True,
        )


def _capturers(names: tuple[str, ...]) -> Iterator[ProfilerConflict]:
    viewer = _running(names, _CAPTURERS)
    if viewer:
        yield ProfilerConflict(
            "a profiler that captures from JAX's profiler server",
            f"process {viewer}",
            "a process runs one profiler session at a time: a capture through its server (also a "
            "jax.profiler.start_server of the program's own) and ours exclude each other",
            "do not capture through it while the profile is made",
            certain=False,
        )


def _names(environment: Mapping[str, str], *words: str) -> list[str]:
    """Return the injection variables whose path names these tools."""
    return [
        name
        for name in _INJECTED
        if any(word in environment.get(name, "").lower() for word in words)
    ]


def _running(names: tuple[str, ...], wanted: tuple[str, ...]) -> str | None:
    return next((tool for tool in wanted if any(_is(name, tool) for name in names)), None)


def _is(name: str, wanted: str) -> bool:
    return name.startswith(wanted) or name == wanted[:_SHORTENED]


def _can_share(jaxlib: str | None) -> bool:
    if jaxlib is None:
        return False
    numbers = tuple(int(part) for part in jaxlib.split(".")[:2] if part.isdecimal())
    return numbers >= _MULTI_SINCE


def _share(jaxlib: str | None) -> str:
    return f"--{MULTI_SUBSCRIBER}=true (jaxlib {jaxlib} has it); or " if _can_share(jaxlib) else ""
