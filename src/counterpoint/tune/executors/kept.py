"""Command lines and processes of the keeper, as executors start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from counterpoint.runs.alive import start_of

MARK: Final = "COUNTERPOINT_GANG"
"""The variable by which all processes of a gang can be found, whoever their parents are."""
_KEEPER: Final = Path(__file__).with_name("keeper.py")


def kept(command: Sequence[str], **options: str) -> tuple[str, ...]:
    """The command, so that nothing is left of it in the end; options as keeper.py says."""
    words = (word for name, value in options.items() for word in (f"--{name}", value))
    return (sys.executable, "-I", "-S", str(_KEEPER), *words, "--", *command)


def with_us() -> str:
    """For `--with`: this process, so that it is not taken for a later one of its number."""
    return f"{os.getpid()}:{start_of(os.getpid())}"


def then(command: Sequence[str]) -> str:
    """For `--then`."""
    return json.dumps(list(command))


def start_kept(
    command: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | int
) -> subprocess.Popen[bytes]:
    """Start one beside us: Ctrl-C at the terminal is ours to pass on."""
    return subprocess.Popen(  # noqa: S603
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=output,
        start_new_session=True,
    )
