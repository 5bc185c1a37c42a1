"""What a compile depends on, as one hash: the same hash, the same scheduled module.

Files that an option or a variable names count by their content: a profile is read anew by each
compile. A compile that writes files, or runs with other code than this process sees, has no hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

from counterpoint.compile.allocator import planned_bytes
from counterpoint.compile.task import Task

FORMAT: Final = 1
"""Of what is hashed and of what is kept. Another one is another cache."""

_PLUGINS: Final = [f"jax-cuda{at}-{it}" for at in (12, 13) for it in ("pjrt", "plugin")]
_PACKAGES: Final = ("jax", "jaxlib", *_PLUGINS)
_WRITES: Final = re.compile(r"xla_dump_to|_dump_autotune|_cache_dir|_cache_file|JAX_DUMP|_tracing")
_OTHER_CODE: Final = ("PYTHON", "LD_", "PJRT_", "PATH")
_WORD: Final = re.compile(r"[\s=,]+")
_MOST_FILES: Final = 256
_LARGEST: Final = 64 << 20


def fingerprint(task: Task) -> str | None:
    """The hash; None where a result can't be kept or taken for this one."""
    if any(name.startswith(_OTHER_CODE) for name in task.environment):
        return None
    settings = [*task.asked.items(), *task.environment.items()]
    if any(_WRITES.search(word) for pair in settings for word in pair):
        return None
    files = _files(value for _, value in settings)
    if files is None:
        return None
    workload, target = task.workload, task.target
    parts = {
        "format": FORMAT,
        "compiler": _versions(),
        "form": workload.form,
        "program": _hash(workload.program),
        "devices": [workload.replicas, workload.partitions, target.hosts, target.gpus_per_host],
        "target": target.config,
        "kernels": _hash(workload.autotuned or b"") if task.has_kernels else None,
        "asked": sorted(task.asked.items()),
        "inherited": sorted(task.inherited),
        "environment": sorted(task.environment.items()),
        "memory": planned_bytes(target.config, task.environment),
        "files": files,
    }
    return _hash(json.dumps(parts, sort_keys=True).encode())


@cache
def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _files(values: Iterator[str]) -> dict[str, str] | None:
    """Hashes of the files that are named; None where there are too many, or too large ones."""
    found: dict[str, str] = {}
    for value in values:
        for word in (value, *_WORD.split(value)):
            if "/" not in word and "." not in word:
                continue
            try:
                path = Path(word)
                papers = [path] if path.is_file() else _within(path) if path.is_dir() else []
                if len(papers) > _MOST_FILES or any(it.stat().st_size > _LARGEST for it in papers):
                    return None
                found |= {str(it): _hash(it.read_bytes()) for it in papers}
            except (OSError, ValueError):
                return None
    return found


def _within(directory: Path) -> list[Path]:
    found: list[Path] = []
    for path in directory.rglob("*"):
        if path.is_file():
            found.append(path)
        if len(found) > _MOST_FILES:
            break
    return sorted(found)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
