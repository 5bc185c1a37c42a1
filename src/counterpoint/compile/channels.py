"""The channels by which options reach the compiler: compile options, or XLA_FLAGS.

A compile takes any field of XLA's DebugOptions as an option, without changing the process. Some
names are flags only, and some fields are messages that only the parser of XLA_FLAGS can read: these
go to the environment of the worker, which exists for one compile anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from counterpoint.compile.job import CompileOutcome, FailureKind
from counterpoint.flags.text import render_xla_flags

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


@dataclass(frozen=True, slots=True)
class Channels:
    """Options of one compile, by channel."""

    options: Mapping[str, str]
    flags: Mapping[str, str]

    @property
    def all(self) -> Mapping[str, str]:
        return {**self.options, **self.flags}

    def having(self, option: str, value: str) -> Channels:
        """Return the channels with one more compile option."""
        return Channels({**self.options, option: value}, self.flags)

    def without(self, option: str) -> Channels:
        """Return the channels without an option."""
        return Channels(
            {name: value for name, value in self.options.items() if name != option},
            {name: value for name, value in self.flags.items() if name != option},
        )

    @property
    def xla_flags(self) -> str:
        return render_xla_flags(self.flags.items())


def channels(options: Mapping[str, str]) -> Channels:
    """Return the options, each in the channel that is known to accept it."""
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
