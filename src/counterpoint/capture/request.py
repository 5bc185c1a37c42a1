"""The request for a run: command, interpreter and settings, checked before anything starts."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from counterpoint.core import UsageError
from counterpoint.flags import Settings, environment, inherited_settings
from counterpoint.flags.live import Answer, Rejected, ask, rejection

QUIET_S: Final = 1.0
CALM_STEPS: Final = 2
SECONDS: Final = 3.0
LONGEST_S: Final = 60.0
"""A window without steps may wait for a long one; not where the profile grows fast."""


@dataclass(frozen=True, slots=True)
class Window:
    """When a process profiles: from a step on, or once compilation is over.

    Steps are counted where the program names them (`StepTraceAnnotation`, `StepProfiler`), else by
    executions of its largest compiled function. Without `start_step` the window opens after a few
    steps in a row without a compile, or when nothing was compiled for a second. `quiet_s` is to be
    waited for whatever steps are seen, and `seconds` is as long as the window then stays open
    where no steps are seen.
    """

    start_step: int | None = None
    steps: int = 10
    quiet_s: float | None = None
    seconds: float | None = None
    perfetto_link: bool = False
    processes: Literal["all"] | tuple[int, ...] = "all"

    def for_agent(self, rank: int) -> dict[str, object]:
        """What the agent of a rank is told."""
        return {
            "start_step": self.start_step,
            "steps": self.steps,
            "quiet_s": QUIET_S if self.quiet_s is None else self.quiet_s,
            "calm_steps": CALM_STEPS if self.quiet_s is None else None,
            "seconds": SECONDS if self.seconds is None else self.seconds,
            "longest_s": LONGEST_S if self.seconds is None else self.seconds,
            "perfetto_link": self.perfetto_link,
            "profile": self.has(rank),
        }

    def has(self, rank: int) -> bool:
        """Whether a rank profiles."""
        return self.processes == "all" or rank in self.processes


def agent_window(window: Window | None, rank: int) -> str:
    """The same as JSON; without a window the agent counts steps and compilations only."""
    told = (
        Window().for_agent(rank) | {"profile": False} if window is None else window.for_agent(rank)
    )
    return json.dumps(told)


@dataclass(frozen=True, slots=True)
class Request:
    """One execution of a workload.

    Args:
        command: What to run.
        directory: Where to keep it; None for a directory of its own under counterpoint-runs.
        name: What to call it; None for the program's name.
        settings: Flags and variables, behind the inherited ones.
        window: What to profile; None for no profile.
        ranks: Processes to start here; None for one, or for one per GPU. Not under a launcher.
        per: What a process gets: a GPU, or all that the node has.
        timeout_s: End it after so long.
        hang_after_s: End it when there was no output, step or compilation for so long.
        stop_after_steps: End it once so many steps were seen: that is no failure.
        echo: Show its output while it runs: as it is, all on stderr, or not.
        environment: What it inherits; None for ours.
        origins: Where each flag was given, in words, for errors.
    """

    command: tuple[str, ...]
    directory: Path | None = None
    name: str | None = None
    settings: Settings = field(default_factory=Settings)
    window: Window | None = field(default_factory=Window)
    ranks: int | None = None
    per: Literal["gpu", "node"] = "node"
    timeout_s: float | None = None
    hang_after_s: float | None = None
    stop_after_steps: int | None = None
    echo: bool | Literal["stderr"] = True
    environment: Mapping[str, str] | None = None
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def profiles(self, rank: int) -> bool:
        """Whether a rank is asked for a profile."""
        return self.window is not None and self.window.has(rank)


def refuse_missing(
    command: Sequence[str], env: Mapping[str, str], before: str = "counterpoint run"
) -> None:
    """An error where the first word can't be started; `before` is what stands before `--`."""
    if not command:
        raise UsageError("no command was given", next=f"{before} -- python train.py")
    if shutil.which(command[0], path=env.get("PATH")) is not None:
        return
    by_path = "/" in command[0]
    here = Path(command[0]).is_file()
    may_run = os.access(command[0], os.X_OK)
    raise UsageError(
        f"{command[0]} {'is not executable' if here and by_path else 'was not found'}",
        why=None if by_path else "it is nowhere on the PATH",
        next=f"{before} -- {'./' if may_run else 'python '}{shlex.join(command)}"
        if here
        else f"command -v {shlex.quote(command[0])}",
    )


_PYTHON: Final = re.compile(r"python(\d+(\.\d+)*)?t?$")
_SECONDS: Final = 60
_ASK: Final = """
import json, platform
from importlib.metadata import distributions
names = {"jax", "jaxlib", "libtpu", "libtpu-nightly"}
found = {"python": platform.python_version()}
for one in distributions():
    name = (one.metadata["Name"] or "").lower().replace("_", "-")
    if name in names or name.startswith(("jax-cuda", "jax-rocm")):
        found.setdefault(name, one.version)
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, and the versions of itself and of JAX's distributions in it."""

    path: Path
    versions: Mapping[str, str]


def find_interpreter(command: Sequence[str], env: Mapping[str, str]) -> Interpreter | None:
    """The Python behind a command: its first word, that of its script, or the one on the PATH.

    None where there is none, or where it does not answer.
    """
    path = interpreter_path(command, env)
    return None if path is None else _ask(path, env)


def interpreter_path(command: Sequence[str], env: Mapping[str, str]) -> Path | None:
    """The same, without asking it anything."""
    return named_interpreter(command, env) or _first(("python3", "python"), env)


def named_interpreter(command: Sequence[str], env: Mapping[str, str]) -> Path | None:
    """The Python that the command itself names. A wrapper such as a shell script names none."""
    return _first(_named(command, env.get("PATH")), env)


def is_python(word: str) -> bool:
    """Whether a command's word is a Python, by its name."""
    return _PYTHON.match(Path(word).name) is not None


def _first(names: Sequence[str], env: Mapping[str, str]) -> Path | None:
    found = (shutil.which(name, path=env.get("PATH")) for name in names)
    return next((Path(path) for path in found if path is not None), None)


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
    """The Python that a console script names in its first line."""
    try:
        with script.open("rb") as file:
            line = file.readline(1024)
    except OSError:
        return []
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    return [word for word in words if _PYTHON.match(Path(word).name)][:1]


def _ask(path: Path, env: Mapping[str, str]) -> Interpreter | None:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own interpreter
            [path.absolute(), "-c", _ASK],
            cwd="/",  # a file of the user's called like a module is not to be imported
            env={**env, "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        versions: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None
    return Interpreter(path, MappingProxyType(versions))


_INHERITED = "the inherited XLA_FLAGS"


def refuse_unknown_flags(
    request: Request, inherited: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Ask the XLA that will run whether it takes the flags, if there are any.

    Where the command does not name its Python, another may run in the end: then it is said only.
    """
    variables = environment(request.settings, inherited)
    text = variables.get("XLA_FLAGS")
    python = interpreter_path(request.command, variables)
    if not text or python is None:
        return
    answer = ask(python, text, variables)
    if not answer.rejected:
        return
    refused = _refusal(answer, request, inherited_settings(inherited).flags)
    if named_interpreter(request.command, variables) is None:
        say(f"{python} would refuse: {refused.what}")
        return
    raise refused


def _refusal(answer: Answer, request: Request, theirs: Mapping[str, str]) -> UsageError:
    """The error, blamed on those who gave the flags."""
    where = dict.fromkeys(_origin(flag, request, theirs) for flag in answer.rejected)
    told = rejection(answer, where=", ".join(where))
    places = [place for place in where if place != _INHERITED]
    if _INHERITED in where:
        places.append("it where XLA_FLAGS is set")
    return UsageError(told.what, why=told.why, next=f"correct {', and '.join(places)}")


def _origin(flag: Rejected, request: Request, theirs: Mapping[str, str]) -> str:
    """What is inherited comes first: settings that repeat it may be made of it."""
    ours = request.settings.flags.get(flag.name)
    repeated = flag.name in theirs and theirs[flag.name] == ours
    if ours is None or repeated or flag.value not in (None, ours):
        return _INHERITED
    return request.origins.get(flag.name, f"the setting {flag.name}")


_DEVICES: Final = ("nvidia*", "dxg", "kfd", "nvhost*", "nvgpu*", "nvmap", "dri/renderD*")
_TOOLS: Final = ("nvidia-smi", "rocm-smi", "amd-smi")
_LIBRARY: Final = "libcuda.so*"
_LIBRARIES: Final = (
    *("usr/lib*", "lib*", "usr/lib*/*-linux-gnu", "lib*/*-linux-gnu", "usr/local/nvidia/lib*"),
    *("usr/local/cuda*/compat", "usr/lib/wsl/lib", "run/opengl-driver/lib", "usr/lib*/*/tegra"),
)


def shows_gpu(environ: Mapping[str, str], root: Path = Path("/")) -> bool:
    """Whether a program that is started here with these variables may find a GPU."""
    if not sys.platform.startswith("linux"):
        return True  # where nothing is known of what a GPU leaves
    if any(shutil.which(tool, path=environ.get("PATH")) for tool in _TOOLS):
        return True
    named = (Path(it) for it in environ.get("LD_LIBRARY_PATH", "").split(":") if it)
    found = chain(
        *((root / "dev").glob(it) for it in _DEVICES),
        root.glob("proc/driver/nvidia*"),
        *(root.glob(f"{it}/{_LIBRARY}") for it in _LIBRARIES),
        *(it.glob(_LIBRARY) for it in named),
    )
    return any(True for _ in found)
