"""The checks: one module each, listed here by code. A check's docstring is its documentation.

DOC1xx  software: versions, driver, flags
DOC2xx  profiling: other users of the profiling interface
DOC3xx  memory, files and limits
DOC4xx  network
DOC5xx  the machine: clock, processor, GPUs
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from counterpoint.core.rules import DocumentedRule, found_by
from counterpoint.doctor.checks import (
    clock,
    compilation_cache,
    cpu_governor,
    cuda_plugins,
    disk_space,
    driver,
    flags,
    gpu_state,
    gpu_topology,
    hostname,
    huge_pages,
    library_path,
    locked_memory,
    memory_fraction,
    mtu,
    nccl_environment,
    nccl_interfaces,
    numa,
    open_files,
    profiler_conflicts,
    profiling_permission,
    shared_memory,
    tcp_behavior,
    tcp_buffers,
    versions,
)
from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, unknown

Subject = TypeVar("Subject")


class Check(DocumentedRule, Protocol):
    """The interface of a check's module: documentation, and a pure function of HostFacts."""

    def check(self, facts: HostFacts) -> Iterator[CheckResult]:
        """Yield at least one CheckResult."""
        ...


CHECKS: Final[tuple[Check, ...]] = (
    versions,
    cuda_plugins,
    driver,
    library_path,
    flags,
    profiler_conflicts,
    profiling_permission,
    compilation_cache,
    disk_space,
    open_files,
    locked_memory,
    shared_memory,
    memory_fraction,
    huge_pages,
    nccl_environment,
    nccl_interfaces,
    tcp_buffers,
    tcp_behavior,
    mtu,
    hostname,
    clock,
    cpu_governor,
    numa,
    gpu_state,
    gpu_topology,
)
"""All checks, by code."""


def run_checks(facts: HostFacts, checks: Sequence[Check] = CHECKS) -> tuple[CheckResult, ...]:
    """Return the results of the checks, in their order."""
    return tuple(result for check in checks for result in results_of(check, check.check, facts))


def results_of(
    rule: DocumentedRule, check: Callable[[Subject], Iterable[CheckResult]], subject: Subject
) -> list[CheckResult]:
    """Return the results of one check; of one that fails, that its answer is unknown."""
    results, failure = found_by(rule, check, subject)
    results += [unknown(failure)] if failure else []
    return [replace(result, code=rule.CODE, name=rule.NAME) for result in results]
