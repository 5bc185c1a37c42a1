"""A cache of compiles, by the hash of everything they depend on.

It is in $XDG_CACHE_HOME/counterpoint/compile (else ~/.cache), or where COUNTERPOINT_CACHE says;
`COUNTERPOINT_CACHE=off` disables it. An entry is one zip, written to a temporary file and moved
into place, so it is complete or absent; unreadable entries count as absent, and a directory that
can't be written is ignored. The least recently used entries are removed when there are too many.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

from counterpoint.compile.allocator import planned_bytes
from counterpoint.compile.interpreter import Interpreter, installed_version, version_in
from counterpoint.compile.job import outcome_of
from counterpoint.compile.task import CompileOutput, CompileTask
from counterpoint.core.cache import cache_directory
from counterpoint.core.outputs import whole_file

FORMAT: Final = 2
"""Version of the hashed data and of the stored format. Each version has its own cache."""

_PLUGINS: Final = [f"jax-cuda{at}-{it}" for at in (12, 13) for it in ("pjrt", "plugin")]
_PACKAGES: Final = ("jax", "jaxlib", *_PLUGINS)
_TPU_PACKAGES: Final = ("jax", "jaxlib", "libtpu")
_WRITES: Final = re.compile(r"xla_dump_to|_dump_autotune|_cache_dir|_cache_file|JAX_DUMP|_tracing")
_OTHER_CODE: Final = ("PYTHON", "LD_", "PJRT_", "PATH")
_WORD: Final = re.compile(r"[\s=,]+")
_MOST_FILES: Final = 256
_LARGEST: Final = 64 << 20
MOST_BYTES: Final = 4 << 30
_ROOM: Final = 0.9  # share of the limit to keep when tidying, so that not every compile tidies
_ABOUT: Final = "compile.json"
_MODULE: Final = "module.hlo.pb"
_LOG: Final = "log"
_DAMAGE: Final = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    zlib.error,
    zipfile.BadZipFile,
    NotImplementedError,  # a compression method that zipfile does not know
    RuntimeError,  # an encrypted member
)
"""What json, zipfile and the records raise for a damaged entry."""


def fingerprint(task: CompileTask) -> str | None:
    """Return the hash of all that a compile depends on; None if its result can't be cached.

    Equal hashes mean the same scheduled module. Files that an option or a variable names count by
    their content, because each compile reads a profile anew. A compile that writes files, or that
    runs code this process does not see, has no hash.
    """
    if any(name.startswith(_OTHER_CODE) for name in task.environment):
        return None
    settings = [*task.requested.items(), *task.environment.items()]
    if any(_WRITES.search(word) for pair in settings for word in pair):
        return None
    files = _files(value for _, value in settings)
    if files is None:
        return None
    workload, target = task.workload, task.target
    parts = {
        "format": FORMAT,
        "compiler": _versions(_PACKAGES if target.tpu is None else _TPU_PACKAGES, task.interpreter),
        "form": workload.form,
        "program": _hash(workload.program),
        "devices": [workload.replicas, workload.partitions],
        "arrangement": [target.domains, target.hosts, target.gpus_per_host],
        "target": target.config
        if target.tpu is None
        else [target.tpu.topology, target.tpu.topology_options],
        "kernels": _hash(workload.autotuned or b"") if task.has_kernels else None,
        "asked": sorted(task.requested.items()),
        "inherited": sorted(task.inherited),
        "environment": sorted(task.environment.items()),
        "memory": planned_bytes(target.config, task.environment),
        "files": files,
        **({"schedule_only": True} if task.schedule_only else {}),
        **({"scheduler_view": True} if task.scheduler_view else {}),
    }
    return _hash(json.dumps(parts, sort_keys=True).encode())


def _versions(packages: tuple[str, ...], interpreter: Interpreter | None) -> dict[str, str]:
    if interpreter is None:
        return _own_versions(packages)
    versions = {package: version_in(interpreter, package) for package in packages}
    return {package: version for package, version in versions.items() if version is not None}


@cache
def _own_versions(packages: tuple[str, ...]) -> dict[str, str]:
    versions = {package: installed_version(package) for package in packages}
    return {package: version for package, version in versions.items() if version is not None}


def _files(values: Iterator[str]) -> dict[str, str] | None:
    """Return hashes of the files that are named; None if they are too many or too large."""
    hashes: dict[str, str] = {}
    for value in values:
        for word in (value, *_WORD.split(value)):
            if "/" not in word and "." not in word:
                continue
            try:
                path = Path(word)
                files = [path] if path.is_file() else _within(path) if path.is_dir() else []
                if len(files) > _MOST_FILES or any(
                    file.stat().st_size > _LARGEST for file in files
                ):
                    return None
                hashes |= {str(file): _hash(file.read_bytes()) for file in files}
            except (OSError, ValueError):
                return None
    return hashes


def _within(directory: Path) -> list[Path]:
    files: list[Path] = []
    for path in directory.rglob("*"):
        if path.is_file():
            files.append(path)
        if len(files) > _MOST_FILES:
            break
    return sorted(files)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def find(task: CompileTask) -> CompileOutput | None:
    """Return the output of an equal task; None if the cache holds none."""
    entry = _entry(task)
    if entry is None:
        return None
    try:
        with zipfile.ZipFile(entry) as kept:
            about: dict[str, Any] = json.loads(kept.read(_ABOUT))
            output = CompileOutput(
                module=kept.read(_MODULE),
                log=kept.read(_LOG).decode(),
                outcome=outcome_of(about["outcome"]),
                taken=dict(about["taken"]),
            )
    except _DAMAGE:
        return None
    with contextlib.suppress(OSError):
        os.utime(entry)
    return output


def keep(task: CompileTask, output: CompileOutput) -> None:
    """Store the output of a task, if it can be cached."""
    entry = _entry(task)
    if entry is None:
        return
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        _write(entry, output)
        _tidy(entry.parent.parent)


def _entry(task: CompileTask) -> Path | None:
    directory = cache_directory("compile")
    name = fingerprint(task) if directory is not None else None
    if directory is None or name is None:
        return None
    return directory / f"v{FORMAT}" / name[:2] / f"{name}.zip"


def _write(entry: Path, output: CompileOutput) -> None:
    about = {"outcome": asdict(output.outcome), "taken": dict(output.taken)}
    with (
        whole_file(entry, overwrite=True, mode=0o600) as part,
        zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as kept,
    ):
        kept.writestr(_ABOUT, json.dumps(about))
        kept.writestr(_MODULE, output.module)
        kept.writestr(_LOG, output.log)


def _tidy(directory: Path) -> None:
    """Remove the least recently used entries until the rest fits."""
    entries = [(entry.stat(), entry) for entry in directory.rglob("*") if entry.is_file()]
    total = sum(stat.st_size for stat, _ in entries)
    if total <= MOST_BYTES:
        return
    for stat, path in sorted(entries, key=lambda entry: entry[0].st_mtime_ns):
        if total <= _ROOM * MOST_BYTES:
            break
        path.unlink(missing_ok=True)
        total -= stat.st_size
