"""Query an interpreter's own XLA for the compiler options it accepts.

compiler_options are another channel than XLA_FLAGS: some names work in one only, and values are
parsed by other rules. XLA reads them in order before it compiles. So each is given with a
nonexistent one behind it: if that one is refused, ours was accepted, and nothing is compiled.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from counterpoint.core import CounterpointError
from counterpoint.flags.catalogue.flag import similar
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.flag_parser import ProbeError
from counterpoint.flags.jaxlib import JaxlibInterpreter
from counterpoint.flags.lifecycle import removal_of
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.probe import ProbeResult, RejectedFlag, interpreter, probe_flags
from counterpoint.flags.settings import Channel
from counterpoint.flags.text import render_xla_flags

__all__ = ["probe_compiler"]

Value: TypeAlias = str | bool | int | float

_SENTINEL: Final = "counterpoint_is_no_option"
_CHILD: Final = """
import json, os, sys
answer = os.dup(1)
os.dup2(2, 1)
def say(**what):
    os.write(answer, (json.dumps(what) + "\\n").encode())
pairs, sentinel = json.loads(sys.stdin.read())
try:
    import jax
    import jaxlib.version
    lowered = jax.jit(lambda x: x + 1).lower(0.0)
except Exception as missing:
    say(missing=f"{type(missing).__name__}: {missing}")
    sys.exit(0)
say(version=jaxlib.version.__version__)
for name, value in pairs:
    try:
        lowered.compile(compiler_options={name: value, sentinel: "1"})
        say(said=None)
    except Exception as refused:
        text = str(refused)
        say(said=None if sentinel in text else text or type(refused).__name__)
"""
_BEFORE: Final = re.compile(r"^([A-Z_]+: )?(While setting option \w+, )?")
_WRONG_KIND: Final = re.compile("incompatible function arguments")
_NO_SUCH: Final = re.compile(r"No such compile option")


def probe_options(
    python: str | Path,
    pairs: Iterable[tuple[str, Value]],
    environment: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 120.0,
) -> ProbeResult:
    """Return the options that an interpreter's XLA refuses, with its reasons; values as for JAX.

    XLA_FLAGS are ignored. An accepted option can still make a compile fail.
    """
    queried = list(pairs)
    inherited = os.environ if environment is None else environment
    try:
        path = interpreter(python, inherited)
        hello, *replies = _replies(path, queried, inherited, timeout_s)
    except ProbeError as failure:
        return ProbeResult(note=f"compiler options could not be checked with {python}: {failure}")
    if "missing" in hello:
        return ProbeResult(note=f"{python} cannot import jax: {hello['missing']}")
    version: str = hello["version"]
    rejected = [
        _rejected(name, value, reply["said"], version)
        for (name, value), reply in zip(queried, replies, strict=False)
        if reply["said"] is not None
    ]
    if len(replies) < len(queried):
        name, value = queried[len(replies)]
        rejected.append(RejectedFlag(name, "crashes the compiler", "Remove it.", str(value)))
        rest = probe_options(python, queried[len(replies) + 1 :], environment, timeout_s=timeout_s)
        rejected += rest.rejected
    return ProbeResult(tuple(rejected), version)


def _replies(
    python: Path, asked: list[tuple[str, Value]], inherited: Mapping[str, str], timeout_s: float
) -> list[dict[str, Any]]:
    child = {k: v for k, v in inherited.items() if not k.startswith("COUNTERPOINT_")}
    child.pop("XLA_FLAGS", None)
    child |= {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    try:
        done = subprocess.run(  # noqa: S603 - the user's own interpreter
            [python, "-c", _CHILD],
            input=json.dumps([asked, _SENTINEL]),
            env=child,
            cwd="/",  # keeps a user's file from shadowing a module
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ProbeError(f"it did not answer within {timeout_s:g} s") from None
    except OSError as failure:
        raise ProbeError(failure.strerror or str(failure)) from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        errors = done.stderr.strip().splitlines()
        raise ProbeError(errors[-1][:300] if errors else "it exited without output")
    return [json.loads(line) for line in lines]


def _rejected(name: str, value: Value, message: str, version: str) -> RejectedFlag:
    first = _BEFORE.sub("", message.strip().partition("\n")[0])
    if _NO_SUCH.search(first):
        return RejectedFlag(name, "no such compiler option", _hint(name, version), str(value))
    if _WRONG_KIND.search(first):
        first = f"does not accept {value!r}"
    return RejectedFlag(name, first.rstrip("."), _value_hint(name, version), str(value))


def _hint(name: str, version: str) -> str:
    """Return where to give it instead, or what to give."""
    known = release(version)
    flag = known.flags.get(name)
    if flag is not None and flag.xla_flags:
        instead = f", or set {flag.alias_of} here" if flag.alias_of else ""
        return f"It is accepted in XLA_FLAGS only{instead}."
    removed = removal_of(name)
    if removed:
        return f"{removed.history}. {removed.note}"
    candidates = similar(name, known)
    return f"Did you mean {' or '.join(candidates)}?" if candidates else "Remove it."


def _value_hint(name: str, version: str) -> str:
    flag = release(version).flags.get(name)
    if name.endswith(("_level", "_effort")) and flag is None:
        return "It must be a number, not text."
    if flag is None:
        return "See the documentation of JAX."
    if flag.type in ("map", "message"):
        return "It is accepted in XLA_FLAGS only, because its value is a message."
    if flag.enum:
        return f"Accepted values: {', '.join(flag.enum)}."
    return _KINDS.get(flag.type, f"Its type is {flag.type}.")


_KINDS: Final = {
    "bool": "It must be True or False, or one of these words as text.",
    "int32": "It must be an integer.",
    "int64": "It must be an integer.",
    "float": "It must be a number; zero and negative numbers as text.",
}


def probe_compiler(
    interpreter: JaxlibInterpreter, asked: Mapping[Channel, tuple[Occurrence, ...]]
) -> ProbeResult:
    """Return what the interpreter's XLA refuses; a note if it can't be queried."""
    flags, options = asked[Channel.XLA_FLAGS], asked[Channel.COMPILER_OPTIONS]
    answers: list[ProbeResult] = []
    try:
        if flags:
            answers.append(probe_flags(interpreter.python, _as_text(flags)))
        if options:
            answers.append(_ask_options(interpreter, options))
    except CounterpointError as failure:
        return ProbeResult(note=failure.what)
    rejected = tuple(refused for answer in answers for refused in answer.rejected)
    note = next((answer.note for answer in answers if answer.note), None)
    version = next((answer.version for answer in answers if answer.version), None)
    return ProbeResult(rejected, version, note)


def _ask_options(interpreter: JaxlibInterpreter, options: tuple[Occurrence, ...]) -> ProbeResult:
    """Query with Python values; report the values as they were written."""
    written = {(option.name, str(_python(option))): option.value for option in options}
    answer = probe_options(
        interpreter.python, [(option.name, _python(option)) for option in options]
    )
    rejected = (
        replace(refused, value=written.get((refused.name, refused.value or ""), refused.value))
        for refused in answer.rejected
    )
    return replace(answer, rejected=tuple(rejected))


def _python(one: Occurrence) -> Value:
    """Return the most likely Python value, given its text."""
    text = one.meant
    if text in ("True", "False"):
        return text == "True"
    if text.isascii() and text.removeprefix("-").isdecimal():
        return int(text)
    try:
        return float(text) if one.name.endswith("_effort") else text
    except ValueError:
        return text


def _as_text(given: tuple[Occurrence, ...]) -> str:
    """Return flags as the text of XLA_FLAGS."""
    return " ".join(
        f"--{occurrence.name}"
        if occurrence.value is None
        else render_xla_flags([(occurrence.name, occurrence.meant)])
        for occurrence in given
    )
