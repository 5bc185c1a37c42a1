"""The errors for a program whose step was not found, each with a remedy."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from counterpoint.core import InputError, UsageError
from counterpoint.core.notebook import as_typed
from counterpoint.core.printable import some

_LINES: Final = 14
_MANY: Final = 6
MAX_DEVICES: Final = 4096
_NOISE: Final = re.compile(r"-{8,}$|For simplicity, JAX has removed its internal frames")
_COUNT: Final = re.compile(
    r"(?i)(?:(?:device_count\(\)|len\(\S{0,200}?devices\S{0,200}?\)|n_?devices|num_devices)\s*[!=]=\s*"
    r"|\b(?:expect\w*|needs?|requires?|wants?|must (?:have|be)|only)\b[^\n\d]{0,40}\b)"
    r"(?P<n>\d+)(?=\s*(?:x\s*)?(?:gpus?|devices?|accelerators?)\b|\s*(?:[,:)]|$|and\b))",
    re.MULTILINE,
)
_TRACEBACK: Final = "Traceback (most recent call last):"
_CHAINED: Final = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_EMULATOR: Final = Path(__file__).parent / "emulator"
_FRAME: Final = re.compile(
    r'^ *File "(?P<file>[^"]*)", line \d+, in .*\n *(?P<code>.*)$', re.MULTILINE
)
_RAISES: Final = re.compile(r"raise\b|assert\b|(?:parser|ap)\.error\(")
_OF_INPUT: Final = re.compile(
    r"divisible by|does not divide|partitioned \d+ times|^FileNotFoundError|^usage: "
    r"|^ModuleNotFoundError: No module named '(?!transformer_engine)",
    re.MULTILINE,
)
_OF_HARDWARE: Final = re.compile(
    r"(?i)gpu|cuda|cudnn|tpu|triton|pallas|mosaic|kernel|attention|transformer.?engine|flash"
    r"|platform|backend|hardware|memory_stats|not implemented|notimplemented"
)
"""Words of errors that may come from what the emulator pretends."""
NO_PALLAS: Final = re.compile(r"Cannot lower pallas_call on platform: gpu")
_IN_PALLAS: Final = re.compile(r"jax/_src/pallas/|(?i:pallas[\w ]{0,40} lowering)")
"""Of kernels that Pallas can't lower for the target: on a CPU, they do not even get there."""
INSTALL_ABSL: Final = (
    "pip install absl-py where the program runs: JAX's Pallas for GPUs imports it, and does not"
    " require it"
)
_ALONE: Final = "run the command by itself, with JAX_PLATFORMS=cpu"
_HINTS: Final = (
    (NO_PALLAS, INSTALL_ABSL),
    (re.compile(r"No module named '([\w.]+)'"), r"install \1 where the program runs"),
    (
        re.compile(r"bytes_limit|memory_stats|'NoneType' object is not subscriptable"),
        "virtual devices have no memory_stats(): make the program work without it",
    ),
    (_COUNT, "--target with \\g<n> GPUs: the program requires that many"),
    (
        re.compile(r"(?i)(?:expected|need|require|only).{0,40}\b(?:gpu|cuda|tpu)|no gpu"),
        "the program requires a GPU or TPU and gets CPU devices here: relax its check",
    ),
    (
        re.compile(r"(?i)mesh.{0,80}devices|devices.{0,80}mesh|device count"),
        "--devices N, as many as the program's mesh has",
    ),
)


def refuse_missing(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Refuse a command that can't be started."""
    if not command:
        raise UsageError(
            "no command was given", next="counterpoint predict --target 8xH100 -- python train.py"
        )
    if shutil.which(command[0], path=environment.get("PATH")) is not None:
        return
    is_script = command[0].endswith(".py") and Path(command[0]).is_file()
    raise UsageError(
        f"{command[0]} {'is not executable' if Path(command[0]).is_file() else 'was not found'}",
        why=None if os.sep in command[0] else "it is not on the PATH",
        next=f"counterpoint predict --target 8xH100 -- python {shlex.join(as_typed(command))}"
        if is_script
        else None,
    )


def refuse_many(devices: int) -> None:
    """Refuse more virtual devices than a process can have."""
    if devices > MAX_DEVICES:
        raise UsageError(
            f"a program is lowered for {MAX_DEVICES:,} devices at most, not {devices:,}",
            why="all devices are virtual devices of one process",
            next="name a function, file.py:make_step, whose mesh is an AbstractMesh",
        )


def failed(
    command: Sequence[str], status: int, errors: str, seen: Sequence[str], notes: Sequence[str]
) -> InputError:
    """Return the error for a program that failed before its step was known."""
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit code {status}"
    lines = [line for line in errors.splitlines() if line.strip() and not _NOISE.match(line)]
    lines = lines[-_LINES:]
    last = "\n       ".join(lines) or "(it printed nothing to stderr)"
    told = _last_failure(errors)
    hint = next((match.expand(hint) for at, hint in _HINTS if (match := at.search(told))), None)
    had = f"; it had lowered {', '.join(seen[:_MANY])}" if seen else ", and had lowered nothing"
    alone = None if _IN_PALLAS.search(told) else _ALONE
    return InputError(
        f"{shlex.join(as_typed(command))} ended {how} before its step was known{had}",
        why=f"{'; '.join(notes)}; its last lines:\n       {last}",
        next=hint or _one_of(seen) or alone,
    )


def _last_failure(errors: str) -> str:
    """Return the text from the last exception on, with those that it names as its cause.

    A program may have printed exceptions before that it caught: they are not why it ended.
    """
    parts = errors.split(_TRACEBACK)
    kept = parts[-1]
    for earlier in reversed(parts[1:-1]):
        if not earlier.rstrip().endswith(_CHAINED):
            break
        kept = earlier + kept
    return kept


def is_own_refusal(errors: str) -> bool:
    """Return whether the program refuses its own input, whatever devices there are.

    It raises an error itself that does not speak of hardware, or JAX finds that sizes do not
    divide, or a file, a package or an option is missing.
    """
    told = _last_failure(errors)
    if _OF_HARDWARE.search(_message(told)):
        return False
    place = _last_frame(told)
    return _OF_INPUT.search(told) is not None or (
        place is not None and _RAISES.match(place["code"]) is not None
    )


def is_of_stand_in(errors: str) -> bool:
    """Return whether a stand-in of ours raised the error."""
    place = _last_frame(_last_failure(errors))
    return place is not None and Path(place["file"]).parent == _EMULATOR


def _message(told: str) -> str:
    """Return what follows the last frame: the exception with its text."""
    frames = list(_FRAME.finditer(told))
    return told[frames[-1].end() :] if frames else told


def _last_frame(told: str) -> re.Match[str] | None:
    return next(reversed(list(_FRAME.finditer(told))), None)


def too_long(command: Sequence[str], timeout_s: float, seen: Sequence[str]) -> InputError:
    """Return the error for a program that exceeded the timeout without a step."""
    return InputError(
        f"{shlex.join(as_typed(command))} had lowered no step after {timeout_s:g} s and was ended",
        why=_list_of(seen) if seen else "it lowered no function of its own",
        next=_one_of(seen) or f"use --timeout {10 * timeout_s:g}",
    )


def no_jax(command: Sequence[str]) -> InputError:
    """Return the error if no Python process imported jax with the agent loaded."""
    return InputError(
        f"{shlex.join(as_typed(command))} ended, and none of its Python processes imported jax",
        why="it does not use JAX, or its Python ignores PYTHONPATH (python -I, -E; a container)",
        next="counterpoint predict --target 8xH100 -- python train.py",
    )


def unusable(command: Sequence[str], why: str) -> InputError:
    """Return the error if the emulator can't work with the program's JAX."""
    return InputError(
        f"{shlex.join(as_typed(command))}: the program's JAX can't be emulated",
        why=f"{why}; 0.8 to 0.12 are supported",
        next="predict from a file: JAX_DUMP_IR_TO=ir on a real run, then counterpoint predict ir",
    )


def no_step(
    command: Sequence[str], program: str | None, seen: Sequence[str], files: Sequence[str]
) -> InputError:
    """Return the error for a program that ended successfully without a function to predict."""
    if program is not None:
        return InputError(
            f"--program {program}: {shlex.join(as_typed(command))} has not lowered a function of"
            " that name",
            why="\n       ".join([_list_of(seen) if seen else "it has lowered nothing", *files]),
            next=_one_of(seen),
        )
    return InputError(
        f"{shlex.join(as_typed(command))} ended without jitting a function",
        why="outside of jax.jit, each operation is a program of its own: none of them is a step",
        next="put the training step in jax.jit",
    )


def tied_to_python(command: Sequence[str], name: str, why: str) -> InputError:
    """Return the error for a custom_partitioning that has to stay a pointer to Python code."""
    return InputError(
        f"{shlex.join(as_typed(command))}: {name} contains a custom_partitioning, which can't leave"
        " its process",
        why=why,
        next="call the kernel within jax.shard_map, or predict from the XLA dump of a real run",
    )


def _list_of(seen: Sequence[str]) -> str:
    return f"it has lowered {some(seen, _MANY)}"


def _one_of(seen: Sequence[str]) -> str | None:
    return f"use --program {seen[0]}: to take that one" if seen else None
