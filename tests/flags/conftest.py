"""XLA's own parser, to hold ours to: jaxlib in a process that forks once per text."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Generator

import pytest

# XLA reads XLA_FLAGS once per process, and importing jaxlib takes longer than a fork.
_SERVER = """
import json, os, sys
import jaxlib.xla_client as client
for line in sys.stdin:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.environ["XLA_FLAGS"] = json.loads(line)
        os.write(write, client.CompileOptions().SerializeAsString())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    taken = os.waitpid(child, 0)[1] == 0
    print(json.dumps(data.hex() if taken else None), flush=True)
"""

Parser = Callable[[str], "bytes | None"]


@pytest.fixture(scope="session")
def xla() -> Generator[Parser]:
    """The options XLA makes of a text, as it serialises them; None if it ends the process."""
    if importlib.util.find_spec("jaxlib") is None:
        pytest.skip("jaxlib is not here")
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin
        assert server.stdout
        send, receive = server.stdin, server.stdout

        def parse(text: str) -> bytes | None:
            send.write(json.dumps(text) + "\n")
            send.flush()
            answer = json.loads(receive.readline())
            return None if answer is None else bytes.fromhex(answer)

        yield parse
        send.close()
