"""Files that a compiler or JAX wrote, in a directory or a zip."""

from __future__ import annotations

import functools
import math
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from counterpoint.compile.worker_process import ProgramForm
from counterpoint.core import InputError, UsageError
from counterpoint.core.frozen import frozen
from counterpoint.core.scratch import scratch_directory
from counterpoint.core.unpacking import PACKED_ENDING, member, open_archive, unpack
from counterpoint.hlo import Program, read_program
from counterpoint.hlo.work import flops

_IS_FILE: Final = re.compile(r"\.(pb|pbtxt|mlir|debug_options)(\.xz)?$")
_DAMAGE: Final = (OSError, ValueError, MemoryError)
_LOWERED: Final = "module.mlir"
_DEPTH: Final = 4
"""Directory depth of RUN/rank0/xla/FILE: relevant files are not deeper."""


@frozen
class Artifact:
    """One file: `name` lacks a compression suffix, `place` is its location.

    XLA dumps its input as `module_0014.jit_step/module.mlir`: there the directory is part of the
    name.
    """

    name: str
    place: str
    size: int
    _load: Callable[[], bytes] = field(repr=False)

    def read(self) -> bytes:
        """Return the content, decompressed."""
        try:
            return unpack(self._load(), self.place)
        except _DAMAGE as error:
            raise InputError(
                f"{self.place} can't be read",
                why=str(error) or type(error).__name__,
                next="copy it again from its source",
            ) from None


def artifacts(path: Path) -> list[Artifact]:
    """Return the file at a path, or all files in the directory or zip there."""
    try:
        if path.is_dir():
            return list(_in_directory(path))
        if zipfile.is_zipfile(path):
            return _in_zip(path)
        return [_on_disk(path)]
    except _DAMAGE as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path} can't be read", why=reason, next="check the path") from None


def _in_directory(directory: Path, depth: int = _DEPTH) -> Iterator[Artifact]:
    for entry in sorted(directory.iterdir()):
        if entry.is_file():
            yield _on_disk(entry)
        elif depth > 1 and entry.is_dir() and not entry.name.startswith("."):
            yield from _in_directory(entry, depth - 1)


def _on_disk(path: Path) -> Artifact:
    name = _plain(path.name)
    whole = f"{path.parent.name}/{name}" if name == _LOWERED else name
    return Artifact(whole, str(path), path.stat().st_size, path.read_bytes)


def _in_zip(path: Path) -> list[Artifact]:
    with open_archive(path, str(path)) as archive:
        members = [info for info in archive.infolist() if not info.is_dir()]
    return [
        Artifact(
            _member_name(info.filename),
            f"{path}/{info.filename}",
            info.file_size,
            partial(_member, path, info.filename),
        )
        for info in members
    ]


def _member(path: Path, name: str) -> bytes:
    with open_archive(path, str(path)) as archive:
        return member(archive, name, str(path))


def _member_name(member: str) -> str:
    """Return the name of a member.

    In a bundle of several ranks, differing files are in directories.
    """
    parts = PurePosixPath(member).parts
    return next(map(_plain, filter(_IS_FILE.search, parts)), _plain(parts[-1]))


def _plain(name: str) -> str:
    return PACKED_ENDING.sub("", name)


BYTECODE: Final = b"ML\xefR"
_TIMEOUT_S: Final = 300
_CHILD: Final = """
import sys
from pathlib import Path
try:
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo
except ModuleNotFoundError as missing:
    sys.exit(f"{missing}\\n\\n")
given, out = map(Path, sys.argv[1:])
data = given.read_bytes()
with mlir.make_ir_context() as context:
    try:
        module = ir.Module.parse(data)
        portable = any("vhlo" in it.operation.name for it in module.body.operations)
    except Exception as error:
        portable, first = True, error
    if portable:
        module = stablehlo.deserialize_portable_artifact(context, data)
    out.write_text(module.operation.get_asm(enable_debug_info=True))
"""


@functools.lru_cache(maxsize=4)
def as_text(data: bytes, place: str) -> bytes:
    """Return the module as text; data that is not bytecode is returned unchanged.

    Only the jaxlib that wrote bytecode, or a later one, can read it, so a child process with JAX
    does. Portable artifacts (`mlir_module_serialized` of `jax.export`) are read, too.
    """
    if not data.startswith(BYTECODE):
        return data
    with scratch_directory("bytecode") as scratch:
        source, out = scratch / "module.mlirbc", scratch / "module.mlir"
        source.write_bytes(data)
        done = subprocess.run(  # noqa: S603  our own words in our own interpreter
            [sys.executable, "-P", "-c", _CHILD, str(source), str(out)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode == 0:
            return out.read_bytes()
    lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    last = lines[-1] if lines else f"its reader died ({done.returncode})"
    if "No module named" in last:
        raise UsageError(
            f"{place} is bytecode, which only JAX can read, and JAX is not installed",
            why=last,
            next=f"{sys.executable} -m pip install 'counterpoint[compiler]'",
        )
    raise InputError(
        f"{place}: bytecode that this jaxlib can't read",
        why=last[:300],
        next="pass StableHLO that this or an older jaxlib wrote, or its text",
    )


_LOWERED_NAMES: Final = (
    re.compile(r"jax_ir\d+_(?P<name>.+)_compile\.mlir"),  # JAX_DUMP_IR_TO
    re.compile(r"(?P<stem>module_\d+\.(?P<name>.+))/module\.mlir"),  # --xla_dump_to, since 0.9
    re.compile(r"(?!module_\d)(?!jax_ir\d)(?P<name>.+)\.(?:mlir|mlirbc|stablehlo)"),
)
_DUMPED: Final = re.compile(r"(module_\d+\.(.+?)(?:\.\d+)?)\.before_optimizations\.(hlo\.pb|txt)$")
_SCHEDULED: Final = re.compile(r"after_optimizations\.(hlo\.pb|txt)$")
_SYMBOL: Final = re.compile(rb'(?m)^\s*(?:builtin\.)?module @"?([\w.$<>-]+)"?')
_COUNT: Final = re.compile(rb"mhlo\.num_(replicas|partitions) = (\d{1,9})\b")
_HEAD: Final = 1 << 20
_DOT: Final = re.compile(
    rb"stablehlo\.(?:dot_general|convolution)\b[^\n]*: \(tensor<((?:\d{1,18}x){0,32})[a-z]\w*>, "
    rb"tensor<((?:\d{1,18}x){0,32})[a-z]\w*>\) -> tensor<((?:\d{1,18}x){0,32})[a-z]\w*>"
)
_WORK: Final = ("dot", "convolution", "custom-call")
_SMALL: Final = 0.02  # of the largest: too small to be the step, so its FLOPs are not counted


@frozen
class CandidateModule:
    """A module that may be the step. `stem` is the common prefix of one compile's files."""

    name: str
    form: ProgramForm
    artifact: Artifact
    stem: str = ""


def candidates(found: Iterable[Artifact]) -> list[CandidateModule]:
    """Return the modules among these files, as they were before XLA's passes.

    A module that JAX lowered is preferred to XLA's dump of it: it is the same program, but closer
    to what was compiled.
    """
    files = list(found)
    lowered = [candidate for artifact in files if (candidate := _lowered(artifact))]
    return lowered or [candidate for artifact in files if (candidate := _dumped(artifact))]


def scheduled(found: Iterable[Artifact]) -> list[str]:
    """Return the locations of modules after XLA's passes, which can't be compiled again."""
    return [artifact.place for artifact in found if is_scheduled(artifact)]


def is_scheduled(artifact: Artifact) -> bool:
    """Return whether it is a module after XLA's passes, by its name."""
    return _SCHEDULED.search(artifact.name) is not None


def ranked(found: Iterable[CandidateModule]) -> list[CandidateModule]:
    """Return the largest by FLOPs first, then by size; one compile per module."""
    found = list(found)
    largest = max((candidate.artifact.size for candidate in found), default=0)
    weigh: Callable[[CandidateModule], tuple[float, int]] = partial(_weight, largest)
    best: dict[str, CandidateModule] = {}
    for candidate in sorted(found, key=weigh, reverse=True):
        best.setdefault(candidate.name, candidate)
    return list(best.values())


def _lowered(artifact: Artifact) -> CandidateModule | None:
    for pattern in _LOWERED_NAMES:
        if found := pattern.fullmatch(artifact.name):
            parts = found.groupdict()
            return CandidateModule(
                parts["name"], ProgramForm.MLIR, artifact, parts.get("stem") or ""
            )
    return None


def _dumped(artifact: Artifact) -> CandidateModule | None:
    found = _DUMPED.fullmatch(artifact.name)
    if found is None:
        return None
    form = ProgramForm.HLO_TEXT if found[3] == "txt" else ProgramForm.HLO_PROTO
    return CandidateModule(found[2], form, artifact, found[1])


def _weight(largest: int, candidate: CandidateModule) -> tuple[float, int]:
    size = candidate.artifact.size
    if size < _SMALL * largest:
        return 0.0, size
    try:
        if candidate.form is ProgramForm.MLIR:
            return lowered_flops(as_text(candidate.artifact.read(), candidate.artifact.place)), size
        return hlo_flops(read_program(candidate.artifact.read())), size
    except (InputError, UsageError):
        return 0.0, size  # reported if it is chosen


def lowered_flops(data: bytes) -> float:
    """Estimate the FLOPs of a module in StableHLO text, each loop counted once; 0 for bytecode.

    The text has M*K, K*N and M*N; the root of their product is M*N*K.
    """
    total = 0.0
    for found in _DOT.finditer(data):
        total += 2 * math.sqrt(math.prod(_elements(part) for part in found.groups()))
    return total


def _elements(shape: bytes) -> float:
    return math.prod(float(size) for size in shape.split(b"x") if size)


def hlo_flops(program: Program) -> float:
    """Return the FLOPs of a module's computing instructions, each loop counted once."""
    return sum(
        flops(program, instruction) or 0.0
        for instruction in program.instructions
        if instruction.opcode in _WORK
    )


def counts(data: bytes) -> tuple[int, int]:
    """Return replicas and partitions of a module in StableHLO text; 1 if not specified."""
    found = dict(_COUNT.findall(data[:_HEAD]))
    return int(found.get(b"replicas", 1)), int(found.get(b"partitions", 1))


def symbol(data: bytes) -> str | None:
    """Return the name of a module in StableHLO text."""
    found = _SYMBOL.search(data[:_HEAD])
    return found[1].decode() if found else None
