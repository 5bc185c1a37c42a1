"""How the compiler refuses and how it ends, in the words of what would help."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest

from counterpoint.compile.failures import CompileFailed, died, refused
from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.job import CompileOutcome, FailureKind, ProgramForm
from counterpoint.compile.worker_process import Worker
from counterpoint.core import UsageError
from counterpoint.hardware.targets import parse_target
from golden_files import Golden, cases

LIBTPU_LOG = """\
WARNING: Logging before InitGoogle() is written to STDERR
ERROR: Unknown command line flag 'xla_tpu_nonsense'
"""
STEP = Workload(name="jit_step", form=ProgramForm.MLIR, program=b"", origin="step.mlir")


@pytest.mark.parametrize(
    ("target", "why", "next_"),
    [
        ("v5e-8", "read only as it starts", "--env LIBTPU_INIT_ARGS=--xla_tpu_nonsense=..."),
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
    assert error.what.startswith("xla_tpu_x: ")
    assert error.what.endswith("'bla'")
    assert isinstance(error, UsageError)


@pytest.mark.parametrize(
    ("status", "outside"), [(None, True), (-signal.SIGKILL, True), (-signal.SIGSEGV, False)]
)
def test_who_was_ended_from_outside_proves_nothing(status: int | None, outside: bool) -> None:
    """A profile is blamed for a crash of the compiler, and not for the clock or the memory."""
    error = died(status, "", STEP, 5.0)
    assert isinstance(error, CompileFailed)
    assert (error.exit_code, error.from_outside) == (3, outside)


@pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")
def test_a_worker_that_can_not_be_started_leaves_no_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    (tmp_path / "job").mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        Worker(tmp_path / "job", {})
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_how_failures_read(golden: Golden) -> None:
    no_option = CompileOutcome(failure=FailureKind.NO_OPTION, option="xla_tpu_nonsense")
    no_value = CompileOutcome(
        failure=FailureKind.COMPILER,
        detail="INVALID_ARGUMENT: Failed to parse 'bla' into flag xla_tpu_x: no number",
    )
    tpus, gpus = parse_target("v5e-8", tpus=True), parse_target("8xH100")
    failures = {
        "an option of libtpu, for TPUs": refused(no_option, STEP, tpus),
        "an option of libtpu, for GPUs": refused(no_option, STEP, gpus),
        "a value that libtpu cannot parse": refused(no_value, STEP, tpus),
        "a flag that ended libtpu": died(1, LIBTPU_LOG, STEP, 900),
        "out of time": died(None, "", STEP, 900),
        "killed": died(-9, "", STEP, 900),
        "crashed": died(-11, "Check failed: limit > 0\n", STEP, 900),
    }
    text = cases({name: f"exit {error.exit_code}\n{error}" for name, error in failures.items()})
    golden("failures.txt", re.sub(r"(libtpu|jaxlib) (None|\d[\w.]*)", r"\1 VERSION", text))
