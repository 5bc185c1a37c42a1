"""XLA's own parser, to hold ours to: jaxlib in a process that forks once per text."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

import pytest

# XLA reads XLA_FLAGS once per process, and importing jaxlib takes longer than a fork.
_SERVER = """
import json, os, sys, tempfile
import jaxlib.xla_client as client
for line in sys.stdin:
    read, write = os.pipe()
    log = tempfile.TemporaryFile()
    child = os.fork()
    if child == 0:
        os.dup2(log.fileno(), 2)
        os.environ["XLA_FLAGS"] = json.loads(line)
        os.write(write, client.CompileOptions().SerializeAsString())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    taken = os.waitpid(child, 0)[1] == 0
    log.seek(0)
    answer = data.hex() if taken else None, log.read().decode(errors="replace")
    log.close()
    print(json.dumps(answer), flush=True)
"""

Options = dict[int, tuple[int | bytes, ...]]

COMPILE_OPTIONS_BUILD, BUILD_DEBUG_OPTIONS = 3, 3  # fields that lead to xla.DebugOptions


def fields(data: bytes) -> Options:
    """The fields of a protobuf message, by number."""
    found: dict[int, list[int | bytes]] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                return value

    while at < len(data):
        tag = number()
        kind = tag & 7
        if kind == 0:
            value: int | bytes = number()
        else:
            size = number() if kind == 2 else {1: 8, 5: 4}[kind]
            value, at = data[at : at + size], at + size
        found.setdefault(tag >> 3, []).append(value)
    return {field: tuple(values) for field, values in found.items()}


def debug_options(data: bytes) -> Options:
    for field in (COMPILE_OPTIONS_BUILD, BUILD_DEBUG_OPTIONS):
        (inner,) = fields(data)[field]
        assert isinstance(inner, bytes)
        data = inner
    return fields(data)


@dataclass(frozen=True)
class XlaParser:
    """XLA's parser of XLA_FLAGS."""

    _ask: Callable[[str], tuple[str | None, str]]

    def __call__(self, text: str) -> Options | None:
        """Return the DebugOptions XLA makes of a text, by field number; None if it aborts."""
        answer, _ = self._ask(text)
        return None if answer is None else debug_options(bytes.fromhex(answer))

    def unknown(self, words: Iterable[str]) -> set[str]:
        """Return the words that are no flags to XLA: it names all of them before it aborts."""
        answer, log = self._ask(" ".join(words))
        found = re.search(r"Unknown flags? in XLA_FLAGS: (.*)", log)
        assert (answer is None) == bool(found), log
        return set(found[1].split()) if found else set()


@pytest.fixture(scope="session")
def xla() -> Generator[XlaParser]:
    if importlib.util.find_spec("jaxlib") is None:
        pytest.skip("jaxlib is not here")
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin
        assert server.stdout
        send, receive = server.stdin, server.stdout

        def ask(text: str) -> tuple[str | None, str]:
            send.write(json.dumps(text) + "\n")
            send.flush()
            answer, log = json.loads(receive.readline())
            return answer, log

        yield XlaParser(ask)
        send.close()
