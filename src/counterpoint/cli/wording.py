"""The words of the command line for the arguments that texts name.

The rooms below name an argument as in Python (`core.arguments`). Whatever a command prints or saves
of theirs passes through here, where "`budget=2h`" becomes "--budget 2h".
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeVar, cast

from counterpoint.core import CounterpointError
from counterpoint.core.arguments import option_of, reword_arguments

T = TypeVar("T")

_SHORT: Final = {"out": "-o"}
_ARGUMENTS: Final = """
a ablate against all allow arm as asked b bare bisect budget bundle by calibration candidate
candidates cap changed_since channel chip code compare compile_timeout confirm confirm_rows cpus
dcn device devices diff digest dir directory disable_async dry_run dtype env executor explain
fail_above fix for force form from full gemm_table goal gpus grep hang_after html idle ignore
in_place indifferent jaxlib jitter job_template jobs json keep_program keep_warmup kernel_table
last layers log loss_tolerance memory min_coverage min_time module name nccl_table no_before
no_browser no_predict no_probe no_profile no_tries nodes nsys nsys_option only out output params
patch per percentile perfetto_link pgle pgle_out plugin port predict print_only processes profile
profile_after_quiet profile_in_pieces profile_python profile_seconds profile_start_step
profile_steps profiling program project python rank ranks ranks_per_node ray_address recipe repeat
repeats run_id runs schedule_only seed select set settings shortlist skip slurm source space step
steps stop_after_steps strict study target target_gain timeout timings to top topology
total_params trips trips_from vary what_if with workload
"""
ARGUMENTS: Final = frozenset(_ARGUMENTS.split())
"""The arguments that commands take; others in backticks are somebody else's."""


def in_options(text: str) -> str:
    """Word the arguments of a text as options."""
    return reword_arguments(text, _option)


def _option(name: str, value: str) -> str:
    if name not in ARGUMENTS:
        return f"`{name}={value}`"
    return f"{shown_option(name)} {value}" if value else shown_option(name)


def shown_option(argument: str) -> str:
    """Return the option of an argument as users write it."""
    return _SHORT.get(argument, option_of(argument))


def argument_of(option: str) -> str:
    """Return the argument that an option gives, the opposite of `option_of`."""
    return option.lstrip("-").replace("-", "_")


def word_error(error: CounterpointError) -> CounterpointError:
    """Word the arguments of an error as options, except those of a Retry, which stay data."""
    error.what = in_options(error.what)
    error.why = in_options(error.why) if error.why else error.why
    error.next = in_options(error.next) if isinstance(error.next, str) else error.next
    return error


def worded(value: T) -> T:
    """Word the arguments of all texts in records and tuples."""
    if isinstance(value, str):
        return cast("T", in_options(value))
    if isinstance(value, tuple):
        return cast("T", tuple(worded(item) for item in cast("tuple[Any, ...]", value)))
    if is_dataclass(value) and not isinstance(value, type):
        texts = {it.name: worded(getattr(value, it.name)) for it in fields(value)}
        return cast("T", replace(cast("Any", value), **texts))
    return value
