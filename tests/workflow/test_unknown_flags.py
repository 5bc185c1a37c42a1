"""Flags that went, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.flags.settings import Settings
from counterpoint.workflow.forecast.unknown_flags import unknown_to_xla_flags, with_the_others

FIRST, SECOND = "xla_gpu_graph_level", "xla_gpu_enable_triton_softmax_fusion"


def refused(name: str) -> UsageError:
    return UsageError(f"the compiler of jaxlib 0.10.2 has no option {name}", next="leave it out")


def test_the_others_are_named_and_the_file_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "old flags.sh"
    file.write_text(f"export XLA_FLAGS='--{FIRST}=0 --{SECOND}=false'\n")
    flags = (FIRST, SECOND, "xla_gpu_enable_pipelined_all_gather")
    error = with_the_others(refused(FIRST), flags, ("fsdp", str(file)))
    assert error.what.endswith(f"no option {FIRST}; also removed: {SECOND}")
    assert error.next == f"counterpoint flags check '{file}' --fix"


def test_without_a_file_the_next_step_is_the_compilers() -> None:
    error = with_the_others(refused(FIRST), (FIRST,), ())
    assert (error.what, error.next) == (refused(FIRST).what, "leave it out")


def test_another_error_is_left_as_it_is() -> None:
    error = UsageError("xla_gpu_x: invalid value")
    assert with_the_others(error, (FIRST, SECOND), ()) is error


@pytest.mark.parametrize(
    ("name", "version", "aborts"),
    [
        ("xla_gpu_enable_pipelined_collectives", "0.10.2", True),
        ("xla_gpu_enable_pipelined_collectives", "0.5.3", False),
        ("xla_gpu_executable_warn_stuck_timeout_seconds", "0.12.0.1", True),
        ("xla_gpu_enable_pipelined_all_gather", "0.10.2", False),
        ("xla_gpu_enable_pipelined_collectives", "0.10.99", False),  # not in the catalogue
    ],
)
def test_what_only_a_compile_takes_is_no_flag(name: str, version: str, *, aborts: bool) -> None:
    pair = (name, "false")
    error = unknown_to_xla_flags(Settings(xla=(pair,)), version)
    assert (error is not None) is aborts
    if error is not None:
        assert error.what == f"{name}: XLA of jaxlib {version} aborts on it in XLA_FLAGS"
    assert unknown_to_xla_flags(Settings(options=(pair,)), version) is None
