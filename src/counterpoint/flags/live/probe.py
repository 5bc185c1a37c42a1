"""Asks the child's own XLA which flags it takes, before the child ends at one of them.

XLA reads XLA_FLAGS when it first needs an option, minutes into some programs, and ends the process
at the first it does not take. Its parser alone knows what its version takes, so it is asked: in a
process of its own, on the CPU, in a fraction of a second.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.flags.live.answer import (
    Rejected,
    misread,
    misread_words,
    parsing_failed,
    unknown,
    unknown_words,
)
from counterpoint.flags.xla_flags import expand_xla_flags, join_xla_flags, split_xla_flags

_CHILD: Final = """
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
print("taken")
"""
"""CompileOptions is the cheapest that makes XLA read its flags; it loads no backend."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one interpreter's XLA says about flags. `note` tells why it could say nothing."""

    rejected: tuple[Rejected, ...] = ()
    version: str | None = None  # of jaxlib
    note: str | None = None


@dataclass(frozen=True, slots=True)
class _Reply:
    taken: bool
    version: str | None
    missing: str | None
    log: str


class NoReplyError(Exception):
    """The interpreter can't be asked; the text says why."""


@dataclass(frozen=True, slots=True)
class _Child:
    """An interpreter that is asked again and again."""

    python: Path
    environment: Mapping[str, str]
    timeout_s: float

    def ask(self, words: Sequence[str]) -> _Reply:
        """What it does when it is started with these flags."""
        child = {k: v for k, v in self.environment.items() if not k.startswith("COUNTERPOINT_")}
        child |= {"XLA_FLAGS": join_xla_flags(words), "JAX_PLATFORMS": "cpu"}
        child["TF_CPP_MIN_LOG_LEVEL"] = "2"  # errors are to be seen, whatever the user chose
        import subprocess  # here, since `flags check` starts without it

        try:
            done = subprocess.run(  # noqa: S603 - the interpreter that the user runs anyhow
                [self.python, "-c", _CHILD],
                env=child,
                cwd="/",  # a file of the user's called like a module is not to be imported
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NoReplyError(f"it did not answer within {self.timeout_s:g} s") from None
        except OSError as failure:
            raise NoReplyError(failure.strerror or str(failure)) from None
        return _reply(done.stdout, done.stderr)


def _reply(out: str, log: str) -> _Reply:
    said: dict[str, str] = {}
    for line in out.splitlines():
        key, _, value = line.partition(": ")
        said[key] = value
    return _Reply("taken" in said, said.get("jaxlib"), said.get("missing"), log)


def probe(
    python: str | Path,
    xla_flags: str,
    environment: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 60.0,
) -> tuple[Rejected, ...]:
    """All flags that the interpreter's XLA does not take; empty also where it can't be asked."""
    return ask(python, xla_flags, environment, timeout_s=timeout_s).rejected


def ask(
    python: str | Path,
    xla_flags: str,
    environment: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 60.0,
) -> Answer:
    """The same, with the version that was asked, and a note where nothing could be learnt."""
    words = split_xla_flags(expand_xla_flags(xla_flags))
    inherited = os.environ if environment is None else environment
    try:
        path = interpreter(python, inherited)
        return _asked(_Child(path, inherited, timeout_s), words)
    except NoReplyError as failure:
        return Answer(note=f"{python} could not be asked about XLA_FLAGS: {failure}")


def interpreter(python: str | Path, environment: Mapping[str, str]) -> Path:
    """Where an interpreter is."""
    import shutil

    found = shutil.which(python, path=environment.get("PATH"))
    if found is None:
        raise NoReplyError("there is no such program")
    return Path(found).absolute()  # not resolved: a venv's link is what makes it that venv


def _asked(child: _Child, words: Sequence[str]) -> Answer:
    rejected: list[Rejected] = []
    left = list(words)
    while True:
        reply = child.ask(left)
        if reply.missing:
            return Answer(note=f"{child.python} has no jaxlib to be asked: {reply.missing}")
        if reply.taken:
            return Answer(tuple(rejected), reply.version)
        out, found = _found(child, left, reply)
        rejected.extend(found)
        left = [word for word in left if word not in out]


def _found(
    child: _Child, words: Sequence[str], reply: _Reply
) -> tuple[frozenset[str], list[Rejected]]:
    """At least one flag that makes the child end, else it can't be asked."""
    strangers = unknown_words(reply.log, words)
    if strangers:
        return frozenset(strangers), [unknown(word, reply.version) for word in strangers]
    wrong = misread_words(reply.log, words)
    if not wrong:
        if not words or not (parsing_failed(reply.log) or child.ask(()).taken):
            raise NoReplyError(_last_line(reply.log))
        wrong = (_culprit(child, words),)
    return frozenset(wrong), [misread(word) for word in wrong]


def _culprit(child: _Child, words: Sequence[str]) -> str:
    """One value that the parser does not take and does not name, by halving."""
    while len(words) > 1:
        half = words[: len(words) // 2]
        reply = child.ask(half)
        alone = not reply.taken and not unknown_words(reply.log, half)
        words = half if alone else words[len(words) // 2 :]
    return words[0]


def _last_line(log: str) -> str:
    lines = log.strip().splitlines()
    return lines[-1][:300] if lines else "it ended without a word"


def rejection(answer: Answer, *, where: str = "XLA_FLAGS") -> UsageError:
    """The error that names all rejected flags of an answer, each once."""
    rejected = dict.fromkeys(answer.rejected)
    count = len(rejected)
    flags = "\n".join(
        f"    --{flag.name}{'' if flag.value is None else f'={flag.value}'}:"
        f" {flag.reason}. {flag.hint}"
        for flag in rejected
    )
    return UsageError(
        f"{where}: {count} flag{'s' if count > 1 else ''} that jaxlib {answer.version} does not"
        f" take\n{flags}",
        why="XLA ends the process at such a flag",
        next=f"correct {'them' if count > 1 else 'it'} where XLA_FLAGS is set",
    )
