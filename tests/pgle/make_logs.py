"""Compile one small program with every kind of profile, and keep what XLA logs.

    python tests/pgle/make_logs.py       writes tests/pgle/data/*.log

Needs XLA's GPU compiler (see tests/hlo/make_fixtures.py) and no GPU. The files in the
repository were written with jax 0.10.2. Lines that tell nothing of profiles are left out, and the
lines on single instructions that say the same of each are cut to the first of them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from counterpoint.hlo.model.program import Program
from counterpoint.pgle.lookups import xla_lookups
from counterpoint.pgle.profiles.files import write_profile
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from xla_compiler import CHECKER_FLAG, PATH_FLAG, Compilation, Compiler

DATA: Final = Path(__file__).parent / "data"
LEVELS: Final = {
    "loud": {},
    "informing": {"TF_CPP_VMODULE": ""},
    "usual": {"TF_CPP_VMODULE": "", "TF_CPP_MIN_LOG_LEVEL": "1"},
}
QUIET: Final = ("none", "full", "half", "foreign", "absent", "wrong_ending", "unchecked")
_TELLING: Final = ("pgle", "profile", "gpu_hlo_schedule", "deviceless compilation")
_NOISE: Final = ("PGLE did NOT find", "PGLE did not find", "PGLE missed cost for", "found async")
_KEPT_NOISE: Final = 6


def main() -> None:
    DATA.mkdir(exist_ok=True)
    for level, environment in LEVELS.items():
        with tempfile.TemporaryDirectory() as scratch:
            compiler = Compiler(Path(scratch), environment)
            files = Path(scratch) / "profiles"
            files.mkdir()
            for name, compilation in cases(compiler, files):
                if level != "loud" and name not in QUIET:
                    continue
                text = "".join(f"{line}\n" for line in telling(compilation))
                text = text.replace(str(files), "/profiles").replace(scratch, "")
                (DATA / f"{name}.{level}.log").write_text(text)
            compiler.close()


def cases(xla: Compiler, files: Path) -> Iterator[tuple[str, Compilation]]:
    """Every row of docs/reference/pgle-traps.md that leaves, or lacks, a line in the log."""
    plain = xla.compile("small")
    program = plain.program
    for name, profile in profiles(program).items():
        write_profile(profile, files / f"{name}.pbtxt")
    full = files / "full.pbtxt"
    (files / "empty.pbtxt").write_text("")
    (files / "corrupt.pbtxt").write_text("costs { name: ")
    (files / "full.txt").write_bytes(full.read_bytes())
    (files / "text.pb").write_bytes(full.read_bytes())
    (files / "directory").mkdir()
    yield "none", plain
    for name in ("full", "half", "foreign", "empty", "corrupt", "absent"):
        yield name, xla.with_profile("small", files / f"{name}.pbtxt")
    yield "text_in_pb", xla.with_profile("small", files / "text.pb")
    yield "wrong_ending", xla.with_profile("small", files / "full.txt")
    yield "directory", xla.with_profile("small", files / "directory")
    yield "from_text", xla.compile("small", fdo_profile=full.read_text())
    yield (
        "error",
        xla.with_profile(
            "small", files / "half.pbtxt", **{CHECKER_FLAG: "PGLE_STRICTNESS_LEVEL_ERROR"}
        ),
    )
    yield (
        "unchecked",
        xla.with_profile(
            "small", files / "half.pbtxt", **{CHECKER_FLAG: "PGLE_STRICTNESS_LEVEL_OFF"}
        ),
    )
    yield (
        "scheduler_off",
        xla.compile(
            "small",
            **{
                PATH_FLAG: str(full),
                "xla_gpu_enable_latency_hiding_scheduler": False,
                "xla_gpu_enable_analytical_sol_latency_estimator": False,
            },
        ),
    )


def profiles(program: Program) -> dict[str, Profile]:
    names = [it.names[0] for it in xla_lookups(program)]
    return {
        "full": Profile(tuple(InstructionCost(name, 10.0) for name in names)),
        "half": Profile(tuple(InstructionCost(name, 10.0) for name in names[::2])),
        "foreign": Profile(tuple(InstructionCost(name, 10.0, "f" * 32) for name in names)),
    }


def telling(compilation: Compilation) -> Iterator[str]:
    """The lines that Counterpoint may learn from, and what XLA refused the compile with."""
    lines = compilation.log.splitlines()
    yield from _without_noise(
        line for line in lines if any(word in line.lower() for word in _TELLING)
    )
    if compilation.error:
        yield f"jax.errors.JaxRuntimeError: {compilation.error}"


def _without_noise(lines: Iterable[str]) -> Iterator[str]:
    kept = 0
    for line in lines:
        if any(words in line for words in _NOISE):
            kept += 1
            if kept > _KEPT_NOISE:
                continue
        yield line


if __name__ == "__main__":
    main()
