"""All Facts of this host."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from counterpoint.capture.ranks import World, find_world
from counterpoint.core import CounterpointError
from counterpoint.core.rules import find_rule, read_page
from counterpoint.doctor.checks.compilation_cache import SETTING as CACHE
from counterpoint.doctor.facts import (
    CheckedFlags,
    FlagRemark,
    HostFacts,
    InstalledPackages,
    KernelClock,
    RunDirectory,
)
from counterpoint.doctor.gather.machine import (
    RunTool,
    gather_gpus,
    gather_machine,
    gather_network,
    names_in,
    run_tool,
    text_of,
)
from counterpoint.doctor.requirement import normalized_name
from counterpoint.flags import Channel, inherited_settings
from counterpoint.flags.check import CheckRequest, examine
from counterpoint.flags.jaxlib import JaxlibInterpreter, find_interpreter
from counterpoint.flags.lint import Remark
from counterpoint.flags.parse import read_variables
from counterpoint.flags.rules import RULES

_ADDRESS: Final = re.compile(r"https://[^\s)`]+")
_SENTENCE: Final = re.compile(r"(.+?)\.(?:\s|$)", re.DOTALL)

SEEN = ("LD_LIBRARY_PATH", "TF_FORCE_UNIFIED_MEMORY", "SLURM_JOB_NODELIST", "OMP_NUM_THREADS")
"""Variables that checks read in addition to the settings of JAX, XLA and NCCL."""


def seen_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the doctor reads; never those that may hold a secret."""
    from counterpoint.flags import is_setting

    also = (*SEEN, "NSYS_PROFILING_SESSION_ID", "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH")
    return {
        name: value
        for name, value in sorted(environment.items())
        if (is_setting(name) or name in also) and not _secret(name)
    }


def gather_flags(
    environment: Mapping[str, str], interpreter: JaxlibInterpreter | None, *, probe: bool
) -> CheckedFlags:
    """Return the remarks; with `probe`, also query the parser of the installed compiler."""
    from counterpoint.flags.option_probe import probe_compiler

    try:
        written = read_variables(environment, "environment")
        asker = probe_compiler if probe else None
        found = examine(written, CheckRequest(interpreter=interpreter, ask=asker))
    except CounterpointError as failure:
        return CheckedFlags(why_not=failure.what)
    heard = found.confirmation
    given = dict.fromkeys(
        (setting.channel is Channel.LIBTPU_INIT_ARGS, setting.name) for setting in written.given
    )
    return CheckedFlags(
        names=tuple(name for libtpu, name in given if not libtpu),
        libtpu=tuple(name for libtpu, name in given if libtpu),
        release=found.asked,
        remarks=tuple(map(_remark, found.remarks)),
        probed=heard is not None and heard.asked > 0,
    )


def _remark(remark: Remark) -> FlagRemark:
    """Return the remark, with the reason and an address from its rule's page."""
    rule = find_rule(RULES, remark.code)
    page = read_page(rule) if rule else None
    why = _SENTENCE.match(page.sections["Why it costs time"]) if page else None
    addresses = _ADDRESS.findall(page.sections["References"]) if page else []
    return FlagRemark(
        code=remark.code,
        severity=str(remark.severity),
        name=remark.name,
        message=remark.message,
        advice=remark.advice,
        why=" ".join(why[1].split()) if why else "",
        source=_of_reader(remark.name, addresses),
    )


def _of_reader(name: str, addresses: Sequence[str]) -> str:
    """Return the address about the program that reads the setting: NCCL's for NCCL_PROTO."""
    reader = name.lower().split("_", maxsplit=1)[0]
    return next((address for address in addresses if reader and reader in address.lower()), "")


def _secret(name: str) -> bool:
    return any(word in name for word in ("TOKEN", "SECRET", "PASSWORD", "API_KEY"))


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
    found: dict[str, None] = {}
    for directory in filter(None, paths.split(":")):
        if "site-packages/nvidia" in directory:
            continue  # the wheels themselves
        for name in names_in(Path(directory)):
            if _CUDA.match(name):
                found[f"{directory}/{name}"] = None
    return list(found)


_NOWHERE: Final = ("", "-", "sponge", "test_undeclared_outputs_dir")
"""Values of xla_dump_to that are not directories."""


def gather_places(
    root: Path, environment: Mapping[str, str], here: Path
) -> tuple[RunDirectory, ...]:
    """Return the working directory, the compilation cache and the dump directory."""
    mounts = tuple(_mounts(root))
    return tuple(_place(path, setting, mounts) for path, setting in _wanted(environment, here))


def _wanted(environment: Mapping[str, str], here: Path) -> Iterator[tuple[Path, str]]:
    yield here, ""
    cache = environment.get(CACHE, "")
    if cache and "://" not in cache:
        yield here / Path(cache).expanduser(), CACHE
    try:
        dump = inherited_settings(environment).flags.get("xla_dump_to", "")
    except CounterpointError:
        dump = ""  # the `flags` check reports what is wrong with them
    if dump not in _NOWHERE and "://" not in dump:
        yield here / dump, "xla_dump_to"


def _place(path: Path, setting: str, mounts: tuple[tuple[str, str], ...]) -> RunDirectory:
    existing = next(
        (directory for directory in (path, *path.parents) if directory.is_dir()), Path("/")
    )
    try:
        about = os.statvfs(existing)
        free = about.f_bavail * about.f_frsize if about.f_blocks else None  # /proc has no size
    except OSError:
        free = None
    return RunDirectory(
        path=str(path),
        named_by=setting,
        exists=path.is_dir(),
        writable=_can_write(existing) and (not path.exists() or path.is_dir()),
        filesystem=_filesystem(existing, mounts),
        free_bytes=free,
    )


def _can_write(directory: Path) -> bool:
    """Try an unnamed file: permissions alone allow root, even on /proc or a root-squashing NFS."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def _mounts(root: Path) -> Iterator[tuple[str, str]]:
    for line in (text_of(root / "proc/mounts") or "").splitlines():
        words = line.split()
        if len(words) > 2:
            yield words[1].replace("\\040", " "), words[2]


def _filesystem(path: Path, mounts: tuple[tuple[str, str], ...]) -> str:
    """Return the type of the path's mount: the longest mount point above it; the last one wins."""
    real = os.path.realpath(path)
    best = ("", "")
    for point, kind in mounts:
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def gather(
    environment: Mapping[str, str],
    *,
    root: Path = Path("/"),
    ask: RunTool = run_tool,
    python: Path | None = None,
    probe: bool = True,
    dcn: bool = False,
    clock: KernelClock | None = None,
) -> HostFacts:
    """Gather the facts of this host. `dcn`: a step's traffic between hosts is known to use TCP."""
    host = socket.gethostname()
    hosts, ranks_here = _counts(environment)
    from counterpoint.pgle.making import processes_here  # imported here because it loads polars

    interpreter = find_interpreter(python, environment)
    slices = environment.get("MEGASCALE_NUM_SLICES", "")
    return HostFacts(
        host=host,
        hosts=hosts,
        ranks_here=ranks_here,
        dcn=dcn or (slices.isdecimal() and int(slices) > 1),
        tpu=_has_tpu(root),
        privileged=_privileged(root),
        environment=seen_environment(environment),
        processes=processes_here(root / "proc"),
        software=gather_software(environment, interpreter.python if interpreter else None, ask),
        flags=gather_flags(environment, interpreter, probe=probe),
        network=gather_network(root, ask, host),
        gpus=gather_gpus(root, ask),
        machine=gather_machine(root, clock),
        places=gather_places(root, environment, Path.cwd()),
    )


def _counts(environment: Mapping[str, str]) -> tuple[int, int]:
    """Return the number of hosts that run together and of ranks on this one, from launchers."""
    try:
        world = find_world(environment)
    except CounterpointError:
        return 1, 1
    if world is None:
        names = environment.get("TPU_WORKER_HOSTNAMES", "")  # workers of a TPU slice
        workers = len([name for name in names.split(",") if name.strip()])
        batch = _number(environment, "SLURM_JOB_NUM_NODES", "SLURM_NNODES")  # before the first step
        return max(1, workers, batch), 1
    ranks_here = _number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
    ranks_here = ranks_here or _slurm_ranks_here(environment, world)
    hosts = _number(environment, "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
    if "OMPI_COMM_WORLD_LOCAL_SIZE" in environment or not hosts:
        hosts = -(-world.size // ranks_here)
    return min(hosts, world.size), ranks_here


def _slurm_ranks_here(environment: Mapping[str, str], world: World) -> int:
    """Return the first number of `4(x2),3`: enough to see whether there are several."""
    first = environment.get("SLURM_STEP_TASKS_PER_NODE", "").partition(",")[0].partition("(")[0]
    return int(first) if first.isdecimal() and int(first) else world.size


def _number(environment: Mapping[str, str], *names: str) -> int:
    texts = (environment.get(name, "") for name in names)
    return next((int(text) for text in texts if text.isdecimal() and int(text)), 0)


def _has_tpu(root: Path) -> bool:
    """Detect a TPU: an accel device file, or a vfio device file on a machine of Google's."""
    if any(name.startswith("accel") for name in names_in(root / "dev")):
        return True
    return bool(set(names_in(root / "dev/vfio")) - {"vfio"}) and _google(root)


def _google(root: Path) -> bool:
    return "Google" in (text_of(root / "sys/class/dmi/id/product_name") or "")


def _privileged(root: Path) -> bool:
    for line in (text_of(root / "proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) & (1 << 21))  # CAP_SYS_ADMIN
    return os.geteuid() == 0
