"""The Python that a command runs, and the versions of JAX in it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

_PYTHON: Final = re.compile(r"python(\d+(\.\d+)*)?t?$")
_SECONDS: Final = 60
_ASK: Final = """
import json, platform
from importlib.metadata import distributions
names = {"jax", "jaxlib", "libtpu", "libtpu-nightly"}
versions = {"python": platform.python_version()}
for one in distributions():
    name = (one.metadata["Name"] or "").lower().replace("_", "-")
    if name in names or name.startswith(("jax-cuda", "jax-rocm")):
        versions.setdefault(name, one.version)
print(json.dumps(versions))
"""


@dataclass(frozen=True, slots=True)
class JaxInterpreter:
    """A Python, and the versions of itself and of JAX's distributions in it."""

    path: Path
    versions: Mapping[str, str]


def find_interpreter(command: Sequence[str], env: Mapping[str, str]) -> JaxInterpreter | None:
    """Return the Python of a command: its first word, its script's, or the one on the PATH.

    None if there is none, or if it does not answer.
    """
    path = interpreter_path(command, env)
    return None if path is None else _ask(path, env)


def interpreter_path(command: Sequence[str], env: Mapping[str, str]) -> Path | None:
    """Return the path of the same Python, without running it."""
    return named_interpreter(command, env) or _first(("python3", "python"), env)


def named_interpreter(command: Sequence[str], env: Mapping[str, str]) -> Path | None:
    """Return the Python that the command itself names.

    A wrapper such as a shell script names none.
    """
    return _first(_named(command, env.get("PATH")), env)


def is_python(word: str) -> bool:
    """Return whether a command's word is the name of a Python."""
    return _PYTHON.match(Path(word).name) is not None


def _first(names: Sequence[str], env: Mapping[str, str]) -> Path | None:
    paths = (shutil.which(name, path=env.get("PATH")) for name in names)
    return next((Path(path) for path in paths if path is not None), None)


def _named(command: Sequence[str], search: str | None) -> list[str]:
    if not command:
        return []
    first = command[0]
    if is_python(first):
        return [first]
    script = shutil.which(first, path=search)
    by_path = [word for word in command[1:] if "/" in word and _PYTHON.match(Path(word).name)]
    return [*(_shebang(Path(script)) if script else []), *by_path]  # nsys profile .venv/bin/python


def _shebang(script: Path) -> list[str]:
    """Return the Python in a console script's first line."""
    try:
        with script.open("rb") as file:
            line = file.readline(1024)
    except OSError:
        return []
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    return [word for word in words if _PYTHON.match(Path(word).name)][:1]


def _ask(path: Path, env: Mapping[str, str]) -> JaxInterpreter | None:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own interpreter
            [path.absolute(), "-c", _ASK],
            cwd="/",  # avoid importing a user's file that is named like a module
            env={**env, "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        versions: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None
    return JaxInterpreter(path, MappingProxyType(versions))
