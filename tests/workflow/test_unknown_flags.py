"""Flags that went, all at once."""

from __future__ import annotations

from pathlib import Path

from counterpoint.core.errors import UsageError
from counterpoint.workflow.forecast.unknown_flags import with_the_others

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
