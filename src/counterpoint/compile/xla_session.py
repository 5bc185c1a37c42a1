"""A compile with the real XLA:GPU compiler or libtpu, for absent devices. Runs in the worker.

JAX has a public interface for it (`jax.experimental.topologies`), but it takes a Python function.
The input here is a module that was lowered elsewhere, so it goes to the compile-only client itself,
as in JAX's own `lower().compile()`. The few private names are the same in JAX 0.8 to 0.12.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final, TypeAlias

import jax
import numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir
from jax.experimental import topologies
from jaxlib import _jax, version
from jaxlib.mlir import ir

from counterpoint.compile.job import (
    CompileJob,
    CompileOutcome,
    CompileRefused,
    FailureKind,
    ProgramForm,
)
from counterpoint.compile.libtpu_schedule import (
    buffer_bytes,
    dump_options,
    planned_buffers,
    scheduler_module,
    until_scheduled,
)
from counterpoint.compile.serialized import assignment_of, module_of
from counterpoint.compile.text_proto import without_field
from counterpoint.core.wire import message_field, varint_field
from counterpoint.flags.observed import has

# The compiler's client has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
# pyright: reportAttributeAccessIssue=false, reportPrivateUsage=false


# jaxlib's untyped objects.
Device: TypeAlias = Any
Executable: TypeAlias = Any
Module: TypeAlias = Any
Options: TypeAlias = Any
Stats: TypeAlias = Any
DeviceNumbers: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.int64]]

_UNKNOWN_FIELD: Final = re.compile(r'GpuTargetConfigProto.*has no field named "(\w+)"')
_NO_OPTION: Final = re.compile(r"No such compile option: '([^']+)'")
_BAD_VALUE: Final = re.compile(r"While setting option (\w+), '(.*)' is not a valid (\w+)")
_GSPMD: Final = b"{devices="  # in its shardings, in text and bytecode
_SHARDING: Final = re.compile(r'mhlo\.sharding = "[^"]*", |(?:, )?mhlo\.sharding = "[^"]*"')
# Numbers in compile_options.proto: of CompileOptionsProto, of ExecutableBuildOptionsProto in it.
_BUILD_OPTIONS: Final = 3
_DEVICE_MEMORY: Final = 15
_DEVICE_ORDER: Final = re.compile(rb"^// counterpoint\.device_order = ([\d,]+)$", re.MULTILINE)
_ORDER_BYTES: Final = 1 << 20
# Numbers in hlo.proto, of HloProto.
_HLO_MODULE: Final = 1
_BUFFERS: Final = 3
_DUMP: Final = "dump"
_PLUGINS: Final = ("jax-cuda13-plugin", "jax-cuda12-plugin")
_MEMORY: Final = {
    "temp": "temp_size_in_bytes",
    "argument": "argument_size_in_bytes",
    "output": "output_size_in_bytes",
    "alias": "alias_size_in_bytes",
    "code": "generated_code_size_in_bytes",
    "peak": "peak_memory_in_bytes",
    "host_temp": "host_temp_size_in_bytes",
    "host_argument": "host_argument_size_in_bytes",
    "host_output": "host_output_size_in_bytes",
    "host_alias": "host_alias_size_in_bytes",
}


def compile_program(job: CompileJob, program: bytes, log: Path) -> tuple[bytes, CompileOutcome]:
    """Return the scheduled module, as an HloProto with its buffers, and the outcome.

    `log` is the file of stderr.
    """
    _check_plugin(job)
    devices, notes = _tpus(job) if job.topology else _devices(job, log)
    with mlir.make_ir_context():
        module, shardy = _module(job.form, program)
        replicas, partitions = _counts(module, job)
        if replicas * partitions != len(devices):
            raise CompileRefused(FailureKind.DEVICES, f"{replicas * partitions} {len(devices)}")
        assigned = _assigned(program, devices, replicas, partitions)
        dump = log.parent / _DUMP
        added = dump_options(dump, scheduler=job.scheduler_view) if job.schedule_only else {}
        options = _options(job, added, assigned, shardy=shardy)
        started = time.perf_counter()
        if job.schedule_only:
            scheduled = until_scheduled(dump, lambda: _compile(module, devices, options))
            seconds = time.perf_counter() - started
            memory = _planned(buffer_bytes(dump))
            if job.scheduler_view:
                scheduled = scheduler_module(dump) or scheduled
            else:
                scheduled = _as_hlo_proto(scheduled, planned_buffers(dump))
        else:
            executable = _compile(module, devices, options)
            seconds = time.perf_counter() - started
            scheduled = _with_buffers(executable, on_tpus=bool(job.topology))
            memory = _memory(executable.get_compiled_memory_stats(), on_tpus=bool(job.topology))
    return scheduled, CompileOutcome(
        seconds=seconds,
        devices=len(devices),
        memory=memory,
        versions={"jax": jax.__version__, "jaxlib": version.__version__, **_libtpu(job)},
        notes=notes,
    )


def _scheduled(executable: Executable) -> bytes:
    """Return the scheduled module; before jaxlib 0.8.2 only the serialized executable has it."""
    try:
        modules = executable.hlo_modules()
    except RuntimeError as error:
        if "UNIMPLEMENTED" not in str(error):
            raise
        return module_of(executable.serialize())
    scheduled: bytes = modules[0].as_serialized_hlo_module_proto()
    return scheduled


def _with_buffers(executable: Executable, *, on_tpus: bool) -> bytes:
    """Return the scheduled module as an HloProto, with the assignment of buffers if it is known."""
    assignment = None if on_tpus else assignment_of(executable.serialize())
    return _as_hlo_proto(_scheduled(executable), assignment)


def _as_hlo_proto(module: bytes, assignment: bytes | None) -> bytes:
    whole = message_field(_HLO_MODULE, module)
    return whole if assignment is None else whole + message_field(_BUFFERS, assignment)


def _libtpu(job: CompileJob) -> dict[str, str]:
    return {"libtpu": metadata.version("libtpu")} if job.topology else {}


def _check_plugin(job: CompileJob) -> None:
    """Refuse a plugin of another release: JAX only warns, and then crashes."""
    if job.topology:
        try:
            metadata.version("libtpu")
        except metadata.PackageNotFoundError as error:
            raise CompileRefused(
                FailureKind.NO_LIBTPU, "No package metadata was found for libtpu"
            ) from error
        return
    for name in _PLUGINS:
        try:
            plugin = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if plugin.split(".")[:2] != jax.__version__.split(".")[:2]:
            raise CompileRefused(
                FailureKind.NO_PLUGIN, f"{name} {plugin} is of another release than jax"
            )


def _memory(stats: Stats, *, on_tpus: bool) -> dict[str, int]:
    sizes = {
        name: int(getattr(stats, attribute))
        for name, attribute in _MEMORY.items()
        if hasattr(stats, attribute)
    }
    if not has("peak-counts-temporaries", version.__version__):
        sizes.pop("peak", None)
    if on_tpus:  # libtpu reports no peak: its temporaries are all in one block
        held = sizes["argument"] + sizes["output"] - sizes["alias"]
        sizes["peak"] = held + sizes["temp"] + sizes["code"]
    return sizes


def _planned(buffers: int | None) -> dict[str, int]:
    return {} if buffers is None else {"buffers": buffers}


def _devices(job: CompileJob, log: Path) -> tuple[list[Device], list[str]]:
    """Return the absent devices, leaving out configuration fields that this XLA does not know."""
    config, left_out = job.config, list[str]()
    while True:
        try:  # JAX raises NotImplementedError where the plugin describes no topologies
            topology = topologies.get_topology_desc(
                platform="cuda",
                target_config=config,
                topology=f"{job.domains}x{job.hosts_per_domain}x{job.gpus_per_host}",
            )
        except (RuntimeError, NotImplementedError, AssertionError, KeyError) as error:
            unknown = _UNKNOWN_FIELD.findall(log.read_text(errors="replace"))
            if "GpuTargetConfigProto" not in str(error):
                raise CompileRefused(
                    FailureKind.NO_PLUGIN, f"{type(error).__name__}: {error}"
                ) from error
            if not unknown or unknown[-1] in left_out:
                raise CompileRefused(FailureKind.TARGET, str(error)) from error
            left_out.append(unknown[-1])
            config = without_field(config, unknown[-1])
        else:
            notes = [f"this XLA has no target field {', '.join(left_out)}"] if left_out else []
            return list(topology.devices), notes


def _tpus(job: CompileJob) -> tuple[list[Device], list[str]]:
    """Return the absent TPUs, slice by slice."""
    try:
        topology = topologies.get_topology_desc(
            platform="tpu", topology_name=job.topology, **job.topology_options
        )
    except (RuntimeError, NotImplementedError, AssertionError, KeyError, ValueError) as error:
        raise CompileRefused(FailureKind.TARGET, str(error)) from error
    devices: list[Device] = list(topology.devices)
    return sorted(devices, key=lambda one: (getattr(one, "slice_index", 0), one.id)), []


def _module(form: ProgramForm, program: bytes) -> tuple[Module, bool]:
    """Return the module, and whether Shardy is to partition it.

    Programs older than Shardy have the shardings of GSPMD, which partitions them here, too.
    """
    try:
        if form is ProgramForm.MLIR:
            return ir.Module.parse(program), b"sdy." in program or _GSPMD not in program
        if form is ProgramForm.HLO_TEXT:
            program = _proto_of_text(program.decode(errors="replace"))
        return _from_hlo(ir.Module.parse(_jax.mlir.hlo_to_stablehlo(program)))
    except (RuntimeError, ValueError, ir.MLIRError) as error:
        raise CompileRefused(FailureKind.UNREADABLE, str(error)) from error


def _proto_of_text(text: str) -> bytes:
    try:
        from jaxlib import _hlo as home
    except ImportError:  # before 0.10
        home = _jax
    parsed = home.hlo_module_from_text(text)
    serialized: bytes = parsed.as_serialized_hlo_module_proto()
    return serialized


def _from_hlo(module: Module) -> tuple[Module, bool]:
    """Return the module, without GSPMD's shardings if it has those of both partitioners."""
    text: str = module.operation.get_asm(enable_debug_info=True)
    if "xla.sdy." in text:
        return ir.Module.parse(_SHARDING.sub("", text)), True
    return module, _GSPMD.decode() not in text


def _counts(module: Module, job: CompileJob) -> tuple[int, int]:
    if job.replicas and job.partitions:
        return job.replicas, job.partitions
    attributes = module.operation.attributes
    replicas, partitions = (
        ir.IntegerAttr(attributes[name]).value if name in attributes else 1
        for name in ("mhlo.num_replicas", "mhlo.num_partitions")
    )
    return replicas, partitions


def _assigned(
    program: bytes, devices: list[Device], replicas: int, partitions: int
) -> DeviceNumbers:
    """Return the device of each partition of each replica.

    A program that Counterpoint lowered has the order of its mesh in a comment at its end.
    """
    order = np.arange(replicas * partitions)
    if match := _DEVICE_ORDER.search(program, max(len(program) - _ORDER_BYTES, 0)):
        given = np.array(match[1].split(b","), np.int64)
        if np.array_equal(np.sort(given), order):
            order = given
    # The devices of a second slice of TPUs are not numbered on from the first.
    numbers = np.array([device.id for device in devices], np.int64)
    return numbers[order].reshape(replicas, partitions)


def _options(
    job: CompileJob, added: Mapping[str, str], assigned: DeviceNumbers, *, shardy: bool
) -> Options:
    replicas, partitions = assigned.shape
    options = compiler.get_compile_options(
        num_replicas=replicas,
        num_partitions=partitions,
        device_assignment=assigned,
        env_options_overrides={**job.options, **added},
    )
    build = options.executable_build_options
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = shardy
    return options if job.device_memory is None else _limited(options, job.device_memory)


def _limited(options: Options, device_memory: int) -> Options:
    """Return the options with a device memory limit, a field that Python does not expose.

    Concatenated protobuf messages merge, so the field is appended.
    """
    added = message_field(_BUILD_OPTIONS, varint_field(_DEVICE_MEMORY, device_memory))
    return _jax.CompileOptions.ParseFromString(options.SerializeAsString() + added)


def _compile(module: Module, devices: list[Device], options: Options) -> Executable:
    try:
        return devices[0].client.compile(module, _jax.DeviceList(tuple(devices)), options)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise _refusal(str(error)) from error


def _refusal(message: str) -> CompileRefused:
    if match := _NO_OPTION.search(message):
        return CompileRefused(FailureKind.NO_OPTION, message, match[1])
    if match := _BAD_VALUE.search(message):
        return CompileRefused(FailureKind.BAD_VALUE, message, match[1])
    return CompileRefused(FailureKind.COMPILER, message)
