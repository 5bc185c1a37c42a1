"""One compile to do: its program, devices and settings, each in the channel that accepts it.

A compile takes any field of XLA's DebugOptions as an option, without changing the process. Some
names are flags only, and some fields are messages that only the parser of XLA_FLAGS can read: these
go to the environment of the worker, which exists for one compile anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Final

from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.interpreter import Interpreter
from counterpoint.compile.worker_process import CompileOutcome, FailureKind
from counterpoint.core import UsageError
from counterpoint.core.frozen import frozen
from counterpoint.flags.text import parse_xla_flags, render_xla_flags
from counterpoint.hardware import Target

TIMEOUT_S: Final = 900.0


@frozen(kw_only=True)
class CompileTask:
    """A workload, its target, and the compiler's settings.

    `options` are XLA flags by name, without dashes. `environment` is added to a clean one: the
    caller's own XLA_FLAGS or JAX variables do not count unless given here. `interpreter` has the
    compiler; by default that is this process's own. `schedule_only` stops libtpu before it makes
    machine code, which takes it minutes: the program then has no estimates of cycles.
    With `scheduler_view` the module is the one that libtpu's scheduler saw, before later passes
    renamed and fused what it had ordered (libtpu_schedule.py).
    """

    workload: Workload
    target: Target
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = TIMEOUT_S
    interpreter: Interpreter | None = None
    schedule_only: bool = False
    scheduler_view: bool = False  # only with `schedule_only`

    @property
    def requested(self) -> Mapping[str, str]:
        """All options: those of the run that left the workload, overridden by `options`."""
        return {**self.workload.options, **self.options}

    @property
    def flags(self) -> Mapping[str, str]:
        """All options, and the flags in the worker's XLA_FLAGS."""
        try:
            flags = dict(parse_xla_flags(self.environment.get("XLA_FLAGS", "")))
        except UsageError:  # XLA will report it
            flags = {}
        return {**flags, **self.requested}

    @property
    def inherited(self) -> frozenset[str]:
        """Options not requested here: only the run that left the workload had them."""
        return frozenset(self.workload.options) - set(self.options)

    @property
    def has_kernels(self) -> bool:
        """True if the autotuner's choices on this very kind of device lie beside the program."""
        workload = self.workload
        return bool(workload.autotuned) and self.target.config == workload.config


@frozen(kw_only=True)
class CompileOutput:
    """The scheduled module, the compiler's log, the outcome, and the accepted options."""

    module: bytes
    log: str
    outcome: CompileOutcome
    taken: Mapping[str, str]


_BOOLS: Final = {"true": "True", "false": "False"}
_NUMBERS_AS_BOOLS: Final = {"1": "True", "0": "False", "yes": "True", "no": "False"}
_MESSAGES: Final = frozenset(
    {
        "xla_gpu_analytical_latency_estimator_options",
        "xla_backend_extra_options",
        "xla_gpu_cost_model_gemm_tiling_options",
        "xla_gpu_thunk_buffer_debug_filter",
    }
)

AUTOTUNED: Final = "xla_gpu_load_autotune_results_from"
KERNELS: Final = "xla_gpu_kernel_cache_file"
"""A file of compiled kernels by their computations; XLA reads and extends it after scheduling."""
_OVERLAPPED: Final = "xla_gpu_experimental_parallel_collective_overlap_limit"
"""A value below 1 aborts the process."""
# Options that may abort the process, or whose effect outlasts their compile: loaded autotune
# results stay in a cache of the whole process, and fuel counters keep decreasing.
_OWN_PROCESS: Final = frozenset(
    {
        AUTOTUNED,
        "xla_gpu_dump_autotune_results_to",
        "xla_gpu_per_fusion_autotune_cache_dir",
        "xla_gpu_override_gemm_autotuner",
        KERNELS,
        "xla_unsupported_crash_on_hlo_pass_noop_change",
        "xla_unsupported_crash_on_hlo_pass_silent_hlo_change",
        "xla_fuel",
    }
)


@frozen
class Channels:
    """Options of one compile, by channel."""

    options: Mapping[str, str]
    flags: Mapping[str, str]

    @property
    def all(self) -> Mapping[str, str]:
        return {**self.options, **self.flags}

    def having(self, option: str, value: str) -> Channels:
        """Return these with another compile option."""
        return Channels({**self.options, option: value}, self.flags)

    def without(self, option: str) -> Channels:
        """Return these without an option."""
        return Channels(
            {name: value for name, value in self.options.items() if name != option},
            {name: value for name, value in self.flags.items() if name != option},
        )

    @property
    def xla_flags(self) -> str:
        return render_xla_flags(self.flags.items())


def channels(options: Mapping[str, str]) -> Channels:
    """Assign each option to its known channel."""
    return Channels(
        {
            name: _BOOLS.get(value.lower(), value)
            for name, value in options.items()
            if name not in _MESSAGES
        },
        {name: value for name, value in options.items() if name in _MESSAGES},
    )


def rerouted(sent: Channels, outcome: CompileOutcome) -> Channels | None:
    """Return another channel or spelling for the refused option; None if there is none left."""
    name = outcome.option
    if name is None or name not in sent.options:
        return None
    value = sent.options[name]
    if outcome.failure is FailureKind.BAD_VALUE and "valid bool" in outcome.detail:
        spelled = _NUMBERS_AS_BOOLS.get(value.lower())
        return replace(sent, options={**sent.options, name: spelled}) if spelled else None
    if outcome.failure is FailureKind.BAD_VALUE and not (
        "valid enum" in outcome.detail or "valid message" in outcome.detail
    ):
        return None
    return Channels(sent.without(name).options, {**sent.flags, name: value})


def needs_own_process(options: Mapping[str, str]) -> bool:
    """Return whether a compile with these options needs its own process."""
    limit = options.get(_OVERLAPPED, "1")
    aborts = not limit.isdecimal() or int(limit) < 1
    return aborts or not _OWN_PROCESS.isdisjoint(options)


DEFAULT_FRACTION: Final = 0.75
VARIABLES: Final = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_ALLOCATOR: Final = "XLA_PYTHON_CLIENT_ALLOCATOR"
_WITHOUT_LIMIT: Final = "platform"
_SIZE: Final = re.compile(r"device_memory_size: (\d+)")


def memory_fraction(environment: Mapping[str, str]) -> float:
    """Return the share of the device's memory that JAX's allocator takes with these variables.

    The variables and their meaning are those of `generate_pjrt_gpu_plugin_options` in jaxlib's
    xla_client; the default, 0.75, is that of XLA's `GpuAllocatorConfig`.
    """
    for name in VARIABLES:
        setting = environment.get(name, "").strip()
        if not setting:
            continue
        try:
            fraction = float(setting)
        except ValueError:
            fraction = 0.0
        if not 0.0 < fraction <= 1.0:
            raise UsageError(
                f"{name}={setting}: not a valid fraction of the device's memory",
                why="it must be above 0 and at most 1",
                next=f"{name}=0.92",
            )
        return fraction
    return DEFAULT_FRACTION


def planned_bytes(config: str, environment: Mapping[str, str]) -> int | None:
    """Return the bytes the compiler may plan with; None if a run would have no limit either.

    `config` is XLA's description of the device in text form.

    A client passes its allocator's limit to the compiler (`PyClient::CompileAndLoadIfrtProgram` in
    jaxlib/py_client.cc), and XLA's scheduler, combiners and rematerialization plan with it. Without
    a client XLA assumes 80% of the memory, so tight programs would get a different schedule.
    """
    size = _SIZE.search(config)
    if size is None or environment.get(_ALLOCATOR, "").lower() == _WITHOUT_LIMIT:
        return None
    return int(int(size[1]) * memory_fraction(environment))


_TRITON_GEMM: Final = "xla_gpu_enable_triton_gemm"
_SLOP: Final = "xla_gpu_memory_limit_slop_factor"
_MOST_SLOP: Final = 100


@frozen(kw_only=True)
class AssumedOptions:
    """Options to compile with, and the assumptions made."""

    options: Mapping[str, str]
    notes: tuple[str, ...]
    memory_fraction: float  # share of the device's memory that JAX's allocator takes
    planned_bytes: int | None  # the same in bytes; None if a run has no limit either


def assumed_options(
    workload: Workload,
    target: Target,
    options: Mapping[str, str],
    environment: Mapping[str, str],
) -> AssumedOptions:
    """Return the user's options, plus those that match a run on the device.

    GEMMs that no autotuner chose become library calls. Each compile lets the scheduler plan with
    what JAX's allocator would take (XLA_PYTHON_CLIENT_MEM_FRACTION in `environment`, else JAX's
    default), which needs no option.
    """
    if target.tpu is not None:
        return AssumedOptions(
            options=options, notes=(), memory_fraction=1.0, planned_bytes=target.memory_bytes
        )
    task = CompileTask(workload=workload, target=target, options=options, environment=environment)
    chosen = dict(options)
    if _has_toy_gemms(task):
        chosen[_TRITON_GEMM] = "false"
    return AssumedOptions(
        options=chosen,
        notes=tuple(_notes(task, chosen)),
        memory_fraction=memory_fraction(environment),
        planned_bytes=planned_bytes(target.config, environment),
    )


def _has_toy_gemms(task: CompileTask) -> bool:
    """Return whether XLA, without the autotuner, would take its first Triton kernel."""
    return not (task.has_kernels or AUTOTUNED in task.flags or _TRITON_GEMM in task.flags)


def _notes(task: CompileTask, chosen: Mapping[str, str]) -> Iterator[str]:
    if chosen.get(_TRITON_GEMM) == "false" and _TRITON_GEMM not in task.options:
        yield (
            "GEMMs are compiled as library calls, because choosing a kernel needs the device; they"
            f" are priced by their shapes (`set={_TRITON_GEMM}=true` compiles Triton's)"
        )
    planned = planned_bytes(task.target.config, task.environment)
    fraction = memory_fraction(task.environment)
    if planned is not None:
        whose = "as set" if any(map(task.environment.get, VARIABLES)) else "JAX's default"
        yield (
            f"the compiler plans with {planned / 2**30:.1f} GiB, {fraction:.0%} of the device's"
            f" ({whose}); if your run differs, pass `env=XLA_PYTHON_CLIENT_MEM_FRACTION=N`"
        )
    slop = task.flags.get(_SLOP, "")
    if slop.isdigit() and int(slop) > _MOST_SLOP:
        yield (
            f"{_SLOP}={slop} lets the scheduler plan with more than the allocator has; to compile"
            " as a run with more memory does, set XLA_PYTHON_CLIENT_MEM_FRACTION instead"
        )
