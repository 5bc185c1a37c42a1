"""XLA's own parser of XLA_FLAGS, in a separate process, for any number of texts.

XLA reads its flags once per process and ends the process at one it refuses. Loading it takes a
second, forking some milliseconds: so the process loads it, and forks for each text.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self, cast

_UNKNOWN: Final = re.compile(r"Unknown flags? in XLA_FLAGS: ")
_PATIENCE_S: Final = 120  # loading 400 MB over a network can be slow
_SERVER: Final = """
import json, os, sys, tempfile, warnings
warnings.simplefilter("ignore")  # of forks in a process with threads
answer = os.dup(1)
os.dup2(2, 1)
def say(**what):
    os.write(answer, (json.dumps(what) + "\\n").encode())
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except Exception:
    pass
try:
    import jaxlib
    import jaxlib.version
    import jaxlib.xla_client as client
except Exception as missing:
    say(missing=f"{type(missing).__name__}: {missing}")
    sys.exit(0)
say(version=jaxlib.version.__version__, directory=os.path.dirname(jaxlib.__file__))
log = tempfile.TemporaryFile()
for line in sys.stdin:
    log.seek(0)
    log.truncate()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(log.fileno(), 2)
        os.close(read)
        os.environ["XLA_FLAGS"] = json.loads(line)
        data = client.CompileOptions().SerializeAsString()
        while data:
            data = data[os.write(write, data):]
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    taken = os.waitpid(child, 0)[1] == 0
    log.seek(0)
    said = "" if taken else log.read().decode(errors="replace")
    say(options=data.hex() if taken else None, log=said)
"""


class ParserError(Exception):
    """An interpreter has no XLA that answers."""


@dataclass(frozen=True, slots=True)
class ParseResult:
    """The result for one text: serialized CompileOptions, or None and the content of the log."""

    options: bytes | None
    log: str


def is_unknown(parsed: ParseResult) -> bool:
    """Return whether a name was unknown. A wrong value is found first, and hides unknown names."""
    return parsed.options is None and _UNKNOWN.search(parsed.log) is not None


class Parser:
    """One interpreter's XLA.

    with Parser(python) as parser:
        parser.version
        parser.parse("--xla_gpu_autotune_level=4")
    """

    def __init__(self, python: Path) -> None:
        self._python = python
        self._process = _start(python)
        try:
            hello = self._hello()
        except BaseException:
            self._stop()
            raise
        self.version = str(hello["version"])
        self.directory = Path(hello["directory"])

    def parse(self, text: str) -> ParseResult:
        """Parse a text with XLA."""
        answer = self._ask(text)
        options = answer["options"]
        return ParseResult(None if options is None else bytes.fromhex(options), answer["log"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _hello(self) -> dict[str, Any]:
        hello = self._receive()
        if "version" in hello:
            return hello
        raise ParserError(f"{self._python} cannot import jaxlib: {hello.get('missing')}")

    def _ask(self, text: str) -> dict[str, Any]:
        sending = cast("IO[str]", self._process.stdin)
        with suppress(BrokenPipeError):  # it has exited, and answers nothing
            sending.write(json.dumps(text) + "\n")
            sending.flush()
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        receiving = cast("IO[str]", self._process.stdout)
        if not select.select([receiving], [], [], _PATIENCE_S)[0]:
            raise ParserError(f"{self._python} did not answer within {_PATIENCE_S} s")
        answer = receiving.readline()
        if not answer:
            code = self._process.wait()
            raise ParserError(f"{self._python} ended with exit code {code}")
        return json.loads(answer)

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                cast("IO[Any]", stream).close()


def _start(python: Path) -> subprocess.Popen[str]:
    """Start the interpreter; what it says itself appears where ours does."""
    inherited = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    return subprocess.Popen(  # noqa: S603 - the interpreter that was named
        [python.absolute(), "-c", _SERVER],
        env={**inherited, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"},
        cwd="/",  # keeps a file from shadowing a module
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    )


@dataclass(frozen=True, slots=True)
class EnumSpelling:
    """The accepted names of the values: in XLA_FLAGS, and in the enum, in the same order."""

    values: tuple[str, ...]
    enum: tuple[str, ...]
    any_case: bool = False


def find_spelling(
    parse: Callable[[str], ParseResult], flag: str, enum: Mapping[int, str]
) -> EnumSpelling | None:
    """Return what a flag accepts; None if it accepts nothing that was tried, or is not a flag."""
    names = tuple(enum.values())

    def takes(value: str) -> bool:
        return parse(f"--{flag}={value}").options is not None

    if is_unknown(parse(f"--{flag}=")):
        return None
    prefix = common_prefix(names)
    forms: tuple[Callable[[str], str], ...] = (
        str,
        str.lower,
        lambda name: name.removeprefix(prefix),
        lambda name: name.removeprefix(prefix).lower(),
    )
    taken = next(filter(None, (_taken(takes, names, form) for form in forms)), None)
    taken = taken or _words_taken(takes, names)
    if not taken:
        return None
    any_case = takes(next(iter(taken.values())).swapcase())
    return EnumSpelling(tuple(taken.values()), tuple(taken), any_case)


def _taken(
    takes: Callable[[str], bool], names: tuple[str, ...], form: Callable[[str], str]
) -> dict[str, str]:
    """Return the names that are accepted in one form."""
    return {name: form(name) for name in names if takes(form(name))}


def _words_taken(takes: Callable[[str], bool], names: tuple[str, ...]) -> dict[str, str]:
    """Return for each name the longest part of it that is accepted, if any is."""
    found = ((name, next(filter(takes, _parts(name)), None)) for name in names)
    return {name: part for name, part in found if part is not None}


def _parts(name: str) -> Iterator[str]:
    """Yield all proper runs of its words, in lower case."""
    words = name.lower().split("_")
    for size in range(len(words) - 1, 0, -1):
        for start in range(len(words) - size + 1):
            yield "_".join(words[start : start + size])


def common_prefix(names: tuple[str, ...]) -> str:
    """Return the prefix of all names, up to an underscore; empty for a single name."""
    if len(names) == 1:
        return ""
    least, most = min(names), max(names)
    differ = (at for at, (a, b) in enumerate(zip(least, most, strict=False)) if a != b)
    same = least[: next(differ, len(least))]
    return same[: same.rfind("_") + 1]
