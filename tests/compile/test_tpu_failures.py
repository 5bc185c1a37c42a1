"""Settings that libtpu refuses, in the words of what would help."""

from __future__ import annotations

import pytest

from counterpoint.compile.failures import died, refused
from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.job import CompileOutcome, FailureKind, ProgramForm
from counterpoint.core import UsageError
from counterpoint.hardware.targets import parse_target

LIBTPU_LOG = """\
WARNING: Logging before InitGoogle() is written to STDERR
ERROR: Unknown command line flag 'xla_tpu_nonsense'
"""
STEP = Workload(name="jit_step", form=ProgramForm.MLIR, program=b"", origin="step.mlir")


@pytest.mark.parametrize(
    ("target", "why", "next_"),
    [
        ("v5e-8", "read only as it starts", "`env=LIBTPU_INIT_ARGS=--xla_tpu_nonsense=...`"),
        ("8xH100", "8xH100 has GPUs", "omit it"),
    ],
)
def test_an_option_of_libtpu(target: str, why: str, next_: str) -> None:
    outcome = CompileOutcome(failure=FailureKind.NO_OPTION, option="xla_tpu_nonsense")
    error = refused(outcome, STEP, parse_target(target, tpus=True))
    assert why in (error.why or "")
    assert str(error.next).endswith(next_)


def test_a_flag_that_ended_libtpu_is_named() -> None:
    error = died(1, LIBTPU_LOG, STEP, 900)
    assert isinstance(error, UsageError)
    assert error.what.startswith("LIBTPU_INIT_ARGS")
    assert error.what.endswith("xla_tpu_nonsense")


def test_a_value_that_libtpu_cannot_parse_is_the_users_error() -> None:
    detail = "INVALID_ARGUMENT: Failed to parse 'bla' into flag xla_tpu_x: no number"
    outcome = CompileOutcome(failure=FailureKind.COMPILER, detail=detail)
    error = refused(outcome, STEP, parse_target("v5e-8", tpus=True))
    assert error.what == "xla_tpu_x: invalid value 'bla'"
    assert isinstance(error, UsageError)
