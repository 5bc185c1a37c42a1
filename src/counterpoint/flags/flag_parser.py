"""XLA's own parser of flags, in a process of the interpreter that will run the program."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROGRAM: Final = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except Exception:
    pass
try:
    import jaxlib.version
    import jaxlib.xla_client as client
except ImportError as missing:
    print("missing:", missing)
    sys.exit(0)
print("jaxlib:", jaxlib.version.__version__, flush=True)
client.CompileOptions()
print("taken", flush=True)
"""
"""CompileOptions is the cheapest call that makes XLA read its flags; it loads no backend."""

_MATRIX_THREADS: Final = "OPENBLAS_NUM_THREADS"
"""numpy, which jaxlib needs, otherwise starts threads for matrices: a third of the time."""


class ProbeError(Exception):
    """The interpreter can't be queried; the text says why."""


@dataclass(frozen=True, slots=True)
class ParserReply:
    """What the process said of its flags."""

    taken: bool
    version: str | None
    missing: str | None
    log: str


@dataclass(frozen=True, slots=True)
class FlagParser:
    """An interpreter that is queried repeatedly."""

    python: Path
    environment: Mapping[str, str]
    timeout_s: float

    def ask(self, words: Sequence[str]) -> ParserReply:
        """Return its reply when started with these flags."""
        from counterpoint.flags.text import join_xla_flags

        try:
            process = _start(self.python, self.environment, join_xla_flags(words))
        except OSError as failure:
            raise ProbeError(failure.strerror or str(failure)) from None
        try:
            out, log = process.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            raise ProbeError(f"it did not answer within {self.timeout_s:g} s") from None
        return _reply(out.decode(errors="replace"), log.decode(errors="replace"))


def _reply(out: str, log: str) -> ParserReply:
    fields: dict[str, str] = {}
    for line in out.splitlines():
        key, _, value = line.partition(": ")
        fields[key] = value
    return ParserReply("taken" in fields, fields.get("jaxlib"), fields.get("missing"), log)


def _start(python: Path, environment: Mapping[str, str], flags: str) -> subprocess.Popen[bytes]:
    child = {k: v for k, v in environment.items() if not k.startswith("COUNTERPOINT_")}
    child |= {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    child["TF_CPP_MIN_LOG_LEVEL"] = "2"  # errors must show, whatever the user chose
    child[_MATRIX_THREADS] = "1"
    return subprocess.Popen(  # noqa: S603 - the user's own interpreter
        [python, "-c", _PROGRAM],
        env=child,
        cwd="/",  # keeps a user's file from shadowing a module
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()
