"""Timelines no profile can be made of, and what they hold instead."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import polars as pl

from counterpoint.core.errors import InputError
from counterpoint.pgle.made import ModuleCosts
from counterpoint.timeline.model import Timeline


def require_device_time(timeline: Timeline) -> None:
    """Refuse a Timeline without work on a GPU."""
    kinds = sorted({device.kind for device in timeline.devices})
    if "gpu" in kinds:
        return
    if not kinds or not len(timeline.spans):
        raise InputError(
            f"{_inputs(timeline)}: no device time in this profile, so no costs",
            why=_hold(timeline),
            next="record a profile on GPUs while steps run, e.g. from step 3 on",
        )
    if "tpu" in kinds:
        raise InputError(
            f"{_inputs(timeline)}: a profile of {len(timeline.devices)} TPU cores, not of GPUs",
            why="XLA takes such costs on GPUs only: its TPU compiler schedules by a model of its"
            " own",
            next=f"counterpoint explain {shlex.join(timeline.inputs)}",
        )
    raise InputError(
        f"{_inputs(timeline)}: a profile of {_devices(len(timeline.devices), kinds)}, not of GPUs",
        why="how long an op takes on a CPU says nothing of a GPU, and XLA's CPU compiler takes no"
        " costs",
        next="record a profile on GPUs",
    )


def require_names(timeline: Timeline, ops: pl.DataFrame) -> None:
    """Refuse a Timeline whose kernels name no HLO instruction."""
    if ops["instruction"].is_not_null().any():
        return
    kernels = ", ".join(ops["name"].unique(maintain_order=True).head(2).to_list())
    raise InputError(
        f"{_inputs(timeline)}: no kernel names the HLO instruction that it carries out",
        why="; ".join(timeline.notes) or f"it holds kernels only, like {kernels}",
        next="record it with the JAX profiler, or with `nsys profile --trace=cuda,nvtx`",
    )


def no_costs(timeline: Timeline, modules: Sequence[ModuleCosts]) -> InputError:
    """What to say when the modules asked for ran without any kernel that has a name."""
    return InputError(
        f"{_inputs(timeline)}: no instruction of {', '.join(it.name for it in modules)} took time",
        why="its kernels name no instruction of its HLO: command buffers (CUDA graphs) hide names",
        next="record the profile with XLA_FLAGS=--xla_gpu_enable_command_buffer=",
    )


def _devices(count: int, kinds: Sequence[str]) -> str:
    names = "/".join("CPU" if it == "cpu" else it for it in kinds)
    return f"{count} {names} device{'s' * (count != 1)}"


def _inputs(timeline: Timeline) -> str:
    return ", ".join(timeline.inputs)


def _hold(timeline: Timeline) -> str:
    if len(timeline.host_events):
        return (
            f"it holds {len(timeline.host_events):,} events of host threads only; JAX on CPU"
            " records no device, and a profile that ends before the first step has run shows none"
            " either"
        )
    return "; ".join(timeline.notes) or "it holds nothing"
