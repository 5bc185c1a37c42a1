"""Profiles of a real training step on eight virtual CPU devices, in the sizes asked for.

The step is that of examples/sharded_step.py, made so small that recording takes seconds: the number
of events depends on the ops and the devices, not on how large the arrays are. How many bytes a step
adds differs between versions of JAX, so a short recording is made first to learn it.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from fresh_process import Failed, run

EXAMPLE = Path(__file__).parent.parent / "examples" / "sharded_step.py"
SMALL = ("--width=64", "--sequence=16", "--layers=8", "--dtype=float32")

TRIED_STEPS = 20
WARM_UP_STEPS = 4

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Capture:
    """One recorded profile."""

    path: Path
    asked_mb: int

    @property
    def bytes(self) -> int:
        """The size of the file."""
        return self.path.stat().st_size

    @property
    def megabytes(self) -> float:
        """The same in MB of a million bytes."""
        return self.bytes / 1e6


def record(directory: Path, megabytes: int, say: Say) -> Capture:
    """The profile of about this size: from an earlier time, or recorded now."""
    path = directory / f"{megabytes}MB-{_recipe()}.xplane.pb"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        steps = max(1, round(megabytes * 1e6 / _bytes_per_step(directory, say)))
        say(f"recording {steps} steps, about {megabytes} MB, into {path}")
        _record_steps(steps, path)
    return Capture(path, megabytes)


def _recipe() -> str:
    """What a profile's content depends on, so that one from another recipe is not taken for it."""
    how = EXAMPLE.read_bytes() + repr(SMALL).encode()
    return f"jax{version('jax')}-{hashlib.sha256(how).hexdigest()[:8]}"


@cache
def _bytes_per_step(directory: Path, say: Say) -> float:
    say(f"recording {TRIED_STEPS} steps to learn how large one is")
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        path = Path(scratch) / "tried.xplane.pb"
        _record_steps(TRIED_STEPS, path)
        return path.stat().st_size / TRIED_STEPS


def _record_steps(steps: int, path: Path) -> None:
    """Record in a process of its own; the profile takes its name only when it is whole."""
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        command = [
            sys.executable,
            str(EXAMPLE),
            f"--profile={scratch}",
            f"--steps={WARM_UP_STEPS + steps}",
            f"--profile-start={WARM_UP_STEPS}",
            f"--profile-steps={steps}",
            *SMALL,
        ]
        run(command, Path(scratch))
        found = sorted(Path(scratch).glob("plugins/profile/*/*.xplane.pb"))
        if not found or not found[0].stat().st_size:
            raise Failed(
                f"recording {steps} steps left no profile",
                "jax.profiler writes nothing when a profile exceeds 2 GB: ask for smaller --sizes",
            )
        found[0].replace(path)
