"""What is picked out of a compiler's log, and of the flags it reports."""

from __future__ import annotations

from pathlib import Path

from counterpoint.runs.compiler_lines import CompilerLine, compiler_lines
from counterpoint.runs.reports import read_debug_options

LOG = """\
step 1 loss 2.5
I1121 09:25:01.123456    4711 gpu_hlo_schedule.cc:812] Found profile: jit_step
W0000 00:00:1763717101.123456   4711 hlo_lexer.cc:3] late
2024-07-01 12:00:00.123456: E external/xla/xla/service/x.cc:497] old style
[Gloo] Rank 1 is connected
E1121: not one of them
"""


def test_absl_before_and_after_its_setup_and_older_tsl() -> None:
    assert compiler_lines(LOG) == (
        CompilerLine("I", "gpu_hlo_schedule.cc", 812, "Found profile: jit_step"),
        CompilerLine("W", "hlo_lexer.cc", 3, "late"),
        CompilerLine("E", "external/xla/xla/service/x.cc", 497, "old style"),
    )


def test_flags_of_a_module(tmp_path: Path) -> None:
    file = tmp_path / "module_0001.jit_step.debug_options"
    file.write_text(
        'xla_dump_to: "/home/x y"\nxla_gpu_autotune_level: 0\n'
        "xla_gpu_enable_command_buffer: FUSION\nxla_gpu_enable_command_buffer: CUBLAS\n"
    )
    assert read_debug_options(file) == {
        "xla_dump_to": "/home/x y",
        "xla_gpu_autotune_level": "0",
        "xla_gpu_enable_command_buffer": "FUSION,CUBLAS",
    }


def test_a_module_without_flags(tmp_path: Path) -> None:
    assert read_debug_options(tmp_path / "none.debug_options") == {}
