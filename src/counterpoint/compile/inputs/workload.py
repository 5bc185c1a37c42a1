"""Workload: a module as it was before XLA's passes, and its origin.

Workloads are read from what any run can leave: StableHLO (a file or a JAX_DUMP_IR_TO directory), an
--xla_dump_to directory, a Run, or an nsys-jax bundle that holds a dump. A scheduled module can't be
compiled again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoint.compile.inputs.artifacts import Artifact, artifacts
from counterpoint.compile.inputs.bytecode import BYTECODE, as_text
from counterpoint.compile.inputs.candidates import (
    CandidateModule,
    candidates,
    counts,
    ranked,
    scheduled_places,
    symbol,
)
from counterpoint.compile.job import ProgramForm
from counterpoint.core import ArgumentError, InputError, UsageError
from counterpoint.hardware.chip import find_described
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import even_hosts
from counterpoint.hlo.proto_reader import module_bytes
from counterpoint.hlo.reader import read_program
from counterpoint.runs.layout import is_run
from counterpoint.runs.reader import read_run
from counterpoint.runs.reports import parse_debug_options

_OTHERS: Final = ("xla_dump", "xla_cpu", "xla_force_host", "xla_llvm")
_PLACES: Final = frozenset(
    {
        "xla_gpu_cuda_data_dir",
        "xla_gpu_dump_autotune_results_to",
        "xla_gpu_dump_autotuned_gemm_fusions",
        "xla_gpu_kernel_cache_file",
        "xla_gpu_load_autotune_results_from",
        "xla_gpu_per_fusion_autotune_cache_dir",
        "xla_gpu_pgle_profile_file_or_directory_path",
    }
)
_IN_HEAD: Final = re.compile(r"(replica_count|num_partitions|is_scheduled)=(true|\d{1,9}\b)")
_HLO_TEXT: Final = b"HloModule "
_MANY: Final = 12
_HELP: Final = (
    "run the program with JAX_DUMP_IR_TO=ir (any JAX, also on CPU) and pass ir, or keep the"
    " *before_optimizations.hlo.pb of an XLA dump (--xla_dump_hlo_as_proto)"
)
_NAME: Final = re.compile(r'device_description_str: "([^"]*)"')
_PLATFORM: Final = re.compile(r'platform_name: "([^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One module before XLA's passes."""

    name: str
    form: ProgramForm
    program: bytes = field(repr=False)
    origin: str  # the file it was read from
    # For an HLO proto; StableHLO contains them.
    replicas: int | None = None
    partitions: int | None = None
    # Files that a run on the device left beside it: XLA's description of the device, and the
    # kernels that its autotuner chose.
    config: str | None = field(default=None, repr=False)
    autotuned: bytes | None = field(default=None, repr=False)
    # Flags of that compile, as far as they matter.
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    others: tuple[str, ...] = ()  # modules of the same dump, the larger first
    scheduled: tuple[Artifact, ...] = field(
        default=(), repr=False
    )  # its modules after XLA's passes

    @property
    def devices(self) -> int:
        """The number of devices it is made for; 1 if not specified."""
        if self.replicas is not None and self.partitions is not None:
            return self.replicas * self.partitions
        return math.prod(counts(self.program))


def load_workload(path: Path | str, module: str | None = None) -> Workload:
    """Return the step of a program: the module with the most FLOPs, or the one of that name."""
    path = Path(path)
    files = artifacts_of(path)
    if len(files) == 1 and path.is_file():
        return _single(files[0], module)
    return _chosen(path, files, module)


def artifacts_of(path: Path) -> list[Artifact]:
    """Return the files at a path; for a Run, those of its first rank."""
    return _of_run(path) if is_run(path) else artifacts(path)


def _of_run(path: Path) -> list[Artifact]:
    """Return the files of the first rank: the ranks of a run compile the same program."""
    for rank in read_run(path).ranks:
        files = [*rank.lowered, *rank.unoptimized]
        if files:
            beside = {file.parent for file in (*rank.unoptimized, *rank.hlo, *rank.debug_options)}
            return [artifact for file in files for artifact in artifacts(file)] + [
                artifact for directory in beside for artifact in artifacts(directory)
            ]
    return artifacts(path)


def _single(artifact: Artifact, wanted: str | None) -> Workload:
    data = as_text(artifact.read(), artifact.place)
    if not data:
        raise InputError(f"{artifact.place}: the file is empty", next=_HELP)
    form = form_of(data)
    if form is None:
        raise InputError(f"{artifact.place}: neither StableHLO nor an HLO module", next=_HELP)
    name = (symbol(data) if form is ProgramForm.MLIR else None) or artifact.name.partition(".")[0]
    workload = _workload(CandidateModule(name, form, artifact), data)
    if wanted is not None and wanted not in workload.name:
        problem = f"{artifact.place} contains only module {workload.name}"
        raise ArgumentError("module", wanted, problem)
    return workload


def form_of(data: bytes) -> ProgramForm | None:
    """Return the form of a module, from its content; None if it is not a module."""
    if data.startswith(BYTECODE):
        return ProgramForm.MLIR
    head = data.lstrip()[:4096]
    if head.startswith(_HLO_TEXT) or b"\n" + _HLO_TEXT in head:
        return ProgramForm.HLO_TEXT
    if symbol(data) is not None:
        return ProgramForm.MLIR
    # Text has no zero bytes, a proto soon has some.
    return ProgramForm.HLO_PROTO if b"\x00" in head else None


def _chosen(path: Path, artifacts: list[Artifact], wanted: str | None) -> Workload:
    modules = ranked(candidates(artifacts))
    if not modules:
        raise _nothing(path, artifacts)
    chosen = modules[0] if wanted is None else _named(path, modules, wanted)
    beside = {artifact.name: artifact for artifact in artifacts}
    return _workload(
        chosen,
        as_text(chosen.artifact.read(), chosen.artifact.place),
        config=_companion(chosen, beside, "gpu_target_config.pbtxt"),
        autotuned=_companion(chosen, beside, "autotune_results.pbtxt"),
        options=_options(_companion(chosen, beside, "debug_options")),
        others=tuple(candidate.name for candidate in modules if candidate is not chosen),
        scheduled=tuple(artifact for artifact in artifacts if _is_scheduled_form(chosen, artifact)),
    )


def _is_scheduled_form(chosen: CandidateModule, artifact: Artifact) -> bool:
    """Return whether this file holds the chosen module after XLA's passes."""
    if not artifact.name.endswith("after_optimizations.hlo.pb"):
        return False
    if chosen.stem:
        return artifact.name.startswith(f"{chosen.stem}.")
    return f".{chosen.name}." in artifact.name


def _named(path: Path, modules: list[CandidateModule], wanted: str) -> CandidateModule:
    for matches in (
        [candidate for candidate in modules if candidate.name == wanted],
        [candidate for candidate in modules if wanted in candidate.name],
    ):
        if len(matches) == 1:
            return matches[0]
    names = [candidate.name for candidate in modules]
    shown = ", ".join(names[:_MANY]) + (f" and {len(names) - _MANY} more" if names[_MANY:] else "")
    raise ArgumentError(
        "module", wanted, f"not one module of {path}", why=f"it holds {shown}", instead=names[0]
    )


def _companion(chosen: CandidateModule, beside: dict[str, Artifact], kind: str) -> bytes | None:
    """Return a file of the same compile; for StableHLO, of the same module."""
    if chosen.stem:
        artifact = beside.get(f"{chosen.stem}.{kind}")
    else:
        ending = f".{chosen.name}.{kind}"
        artifact = next((file for name, file in beside.items() if name.endswith(ending)), None)
    return artifact.read() if artifact else None


def _options(reported: bytes | None) -> dict[str, str]:
    """Return XLA:GPU compiler flags among the reported ones, without paths of that machine."""
    flags = parse_debug_options((reported or b"").decode(errors="replace"))
    return {
        name: value
        for name, value in flags.items()
        if not name.startswith(_OTHERS) and name not in _PLACES
    }


def _nothing(path: Path, artifacts: list[Artifact]) -> InputError:
    places = scheduled_places(artifacts)
    if places:
        return InputError(
            f"{path}: contains only already scheduled modules, such as {places[0]}",
            why="XLA can't compile a scheduled module again",
            next=_HELP,
        )
    return InputError(f"{path}: contains no program to compile", next=_HELP)


def _workload(
    chosen: CandidateModule,
    data: bytes,
    config: bytes | None = None,
    autotuned: bytes | None = None,
    options: Mapping[str, str] | None = None,
    others: tuple[str, ...] = (),
    scheduled: tuple[Artifact, ...] = (),
) -> Workload:
    head = _head(chosen, data)
    return Workload(
        name=head.name,
        form=chosen.form,
        program=module_bytes(data) if chosen.form is ProgramForm.HLO_PROTO else data,
        origin=chosen.artifact.place,
        replicas=head.replicas,
        partitions=head.partitions,
        config=config.decode(errors="replace") if config else None,
        autotuned=autotuned,
        options=options or {},
        others=others,
        scheduled=scheduled,
    )


@dataclass(frozen=True, slots=True)
class _Head:
    """Properties of a module needed before it is compiled."""

    name: str
    replicas: int | None = None
    partitions: int | None = None
    is_scheduled: bool = False


def _head(chosen: CandidateModule, data: bytes) -> _Head:
    if chosen.form is ProgramForm.MLIR:
        return _Head(chosen.name)
    head = (
        _head_of_text(data) if chosen.form is ProgramForm.HLO_TEXT else _head_of_proto(chosen, data)
    )
    if head.is_scheduled:
        raise InputError(
            f"{chosen.artifact.place}: module {head.name} is already scheduled",
            why="XLA can't compile it again, and a profile acts on the schedule",
            next=_HELP,
        )
    return head


def _head_of_text(data: bytes) -> _Head:
    """Parse the first line of a module; the compiler parses the rest."""
    line = data[data.index(_HLO_TEXT) :].partition(b"\n")[0].decode(errors="replace")
    fields = dict(_IN_HEAD.findall(line))
    return _Head(
        name=re.split(r"[,\s]", line.split(maxsplit=1)[1])[0],
        replicas=int(fields.get("replica_count", 1)),
        partitions=int(fields.get("num_partitions", 1)),
        is_scheduled="is_scheduled" in fields,
    )


def _head_of_proto(chosen: CandidateModule, data: bytes) -> _Head:
    try:
        program = read_program(data)
    except InputError as error:
        why = error.why or error.what
        raise InputError(f"{chosen.artifact.place}: no program", why=why, next=_HELP) from error
    return _Head(program.name, program.num_replicas, program.num_partitions, program.is_scheduled)


def own_target(workload: Workload) -> Target | None:
    """Return the Target of the run that dumped the program.

    None if it left no description of it.
    """
    if workload.config is None:
        return None
    platform = _PLATFORM.search(workload.config)
    if platform and platform[1].upper() != "CUDA":
        raise UsageError(
            f"{workload.origin} was compiled for {platform[1]}, but the installed compiler is"
            " XLA's for CUDA",
            next="use --target 8xH100",
        )
    name = _NAME.search(workload.config)
    described = name[1] if name else "GPU"
    gpu = find_described(described)
    chip = gpu.name if gpu else described
    hosts, per_host = even_hosts(chip, workload.devices)  # a program does not specify its hosts
    return Target(
        gpu=chip,
        gpus_per_host=per_host,
        hosts=hosts,
        config=workload.config,
    )
