"""The rules of `explain`: one module each, named as the rule is, and listed here by code.

A rule's docstring is its documentation (core/rules.py): `counterpoint explain-code` and
docs/rules are made of it. To add a rule: write the module, add it to RULES, test one case that
fires, one that does not and a near miss, run `make docs`.

    STEP1xx  communication: what the step waits for
    STEP2xx  between hosts and slices: transfers, registrations, remote calls
    STEP3xx  the host: launches, input, compiles
    STEP4xx  memory: recomputation, margin
    STEP5xx  compute: precision, rooflines, layouts
    STEP6xx  what the profile itself can be trusted for, and PGLE
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from counterpoint.core.rules import DocumentedRule
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import (
    bandwidth_bound,
    blocking_read,
    busy_threads,
    clocks_apart,
    command_buffers_hide_ops,
    compiler_remat,
    copies_in_transfers,
    dma_registration,
    double_precision,
    eager_dispatch,
    exposed_collective,
    exposed_copy,
    float32_matmul,
    host_bound,
    host_callback,
    input_bound,
    kernel_choice,
    kernel_gaps,
    late_batch,
    late_rank,
    latency_bound,
    layout_copies,
    memory_bound_chain,
    memory_margin,
    missing_donation,
    nothing_hides_the_last,
    pgle_coverage,
    pgle_missing,
    pgle_stale,
    pipeline_bubble,
    profile_truncated,
    profiler_overhead,
    ranks_differ,
    recompilation,
    recv_stall,
    reduced_in_loop,
    rematerialization,
    slow_compile,
    slow_gemm,
    slow_op,
    slow_remote_calls,
    small_collectives,
    synchronous_collective,
    uneven_steps,
    unsharded_batch,
)
from counterpoint.diagnose.step_data import StepData


class StepRule(DocumentedRule, Protocol):
    """One rule: a module of this package."""

    def check(self, data: StepData) -> Iterator[Finding]:
        """Yield the findings: none, one or several."""
        ...


RULES: Final[tuple[StepRule, ...]] = (
    exposed_collective,
    synchronous_collective,
    small_collectives,
    nothing_hides_the_last,
    late_rank,
    bandwidth_bound,
    latency_bound,
    reduced_in_loop,
    pipeline_bubble,
    recv_stall,
    dma_registration,
    copies_in_transfers,
    slow_remote_calls,
    host_bound,
    input_bound,
    recompilation,
    blocking_read,
    late_batch,
    kernel_gaps,
    slow_compile,
    host_callback,
    uneven_steps,
    eager_dispatch,
    busy_threads,
    rematerialization,
    compiler_remat,
    memory_margin,
    float32_matmul,
    slow_gemm,
    memory_bound_chain,
    layout_copies,
    exposed_copy,
    slow_op,
    unsharded_batch,
    double_precision,
    missing_donation,
    kernel_choice,
    command_buffers_hide_ops,
    pgle_missing,
    pgle_stale,
    pgle_coverage,
    profile_truncated,
    profiler_overhead,
    ranks_differ,
    clocks_apart,
)
"""All rules, in order of their codes."""
