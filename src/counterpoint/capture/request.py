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
from dataclasses import field
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from counterpoint.core import UsageError
from counterpoint.core.frozen import frozen
from counterpoint.flags import Settings, environment, inherited_settings
from counterpoint.flags.probe import ProbeResult, RejectedFlag, probe_flags, rejection_error

QUIET_S: Final = 1.0
CALM_STEPS: Final = 2
SECONDS: Final = 3.0
LONGEST_S: Final = 60.0
"""Maximum length of a window without steps, which may wait for a long one.

It is shorter if the profile grows fast.
"""


@frozen
class ProfileSchedule:
    """The time at which a process profiles: from a step on, or once compilation is over.

    Steps are counted by the program's marks (`StepTraceAnnotation`, `StepProfiler`), else by
    executions of its largest compiled function. Without `start_step` the window opens after a few
    steps in a row without a compile, or when nothing was compiled for a second. An explicit
    `quiet_s` is waited for even if there are steps, and `seconds` is the length of the window if
    there are no steps. A profile `in_pieces` may exceed 2 GB (JAX 0.11.1 or later, not on GPUs).
    """

    start_step: int | None = None
    steps: int = 10
    quiet_s: float | None = None
    seconds: float | None = None
    perfetto_link: bool = False
    in_pieces: bool = False
    processes: Literal["all"] | tuple[int, ...] = "all"
    instead: str | None = None
    """Why none is recorded: the program records one itself."""

    def for_agent(self, rank: int) -> dict[str, object]:
        """Return the window as the agent of a rank receives it."""
        return {
            "start_step": self.start_step,
            "steps": self.steps,
            "quiet_s": QUIET_S if self.quiet_s is None else self.quiet_s,
            "calm_steps": CALM_STEPS if self.quiet_s is None else None,
            "seconds": SECONDS if self.seconds is None else self.seconds,
            "longest_s": LONGEST_S if self.seconds is None else self.seconds,
            "perfetto_link": self.perfetto_link,
            "in_pieces": self.in_pieces,
            "profile": self.has(rank) and self.instead is None,
            "instead": self.instead,
        }

    @property
    def requested(self) -> tuple[str, ...]:
        """The arguments that ask for a profile of certain steps or times."""
        named = ("start_step", "quiet_s", "seconds")
        return tuple(f"profile_{name}" for name in named if getattr(self, name) is not None)

    def has(self, rank: int) -> bool:
        """Return whether a rank profiles."""
        return self.processes == "all" or rank in self.processes


def agent_window(window: ProfileSchedule | None, rank: int) -> str:
    """Return the window as JSON; without one the agent only counts steps and compilations."""
    fields = (
        ProfileSchedule().for_agent(rank) | {"profile": False}
        if window is None
        else window.for_agent(rank)
    )
    return json.dumps(fields)


@frozen
class RunRequest:
    """One execution of a workload.

    Args:
        command: The command to run.
        directory: Where to keep it; None for a new directory under counterpoint-runs.
        name: The run's name; None for the program's name.
        settings: Flags and variables, after the inherited ones.
        window: The profile window; None for no profile.
        ranks: Processes to start here; None for one, or for one per GPU. Not under a launcher.
        per: What each process gets: a GPU, or the whole node.
        timeout_s: End it after this time.
        hang_after_s: End it after this time without output, step or compilation.
        stop_after_steps: End it after this many steps: that is not a failure.
        echo: Show its output while it runs: as it is, all on stderr, or not.
        environment: The environment it inherits; None for ours.
        origins: The source of each flag, in words, for errors.
    """

    command: tuple[str, ...]
    directory: Path | None = None
    name: str | None = None
    settings: Settings = field(default_factory=Settings)
    window: ProfileSchedule | None = field(default_factory=ProfileSchedule)
    ranks: int | None = None
    per: Literal["gpu", "node"] = "node"
    timeout_s: float | None = None
    hang_after_s: float | None = None
    stop_after_steps: int | None = None
    echo: bool | Literal["stderr"] = True
    environment: Mapping[str, str] | None = None
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def profiles(self, rank: int) -> bool:
        """Return whether a rank is to be profiled."""
        return self.window is not None and self.window.has(rank)


def refuse_missing(
    command: Sequence[str], env: Mapping[str, str], before: str = "counterpoint run"
) -> None:
    """Raise an error if the command can't be started; `before` is the text before `--`."""
    if not command:
        raise UsageError("no command was given", next=f"{before} -- python train.py")
    if shutil.which(command[0], path=env.get("PATH")) is not None:
        if (script := _script(command)) is not None and not script.exists():
            next_command = f"ls {shlex.quote(str(script.parent))}"
            raise UsageError(f"{script} was not found", next=next_command)
        return
    by_path = "/" in command[0]
    is_file = Path(command[0]).is_file()
    may_run = os.access(command[0], os.X_OK)
    raise UsageError(
        f"{command[0]} {'is not executable' if is_file and by_path else 'was not found'}",
        why=None if by_path else "it is not on the PATH",
        next=f"{before} -- {'./' if may_run else 'python '}{shlex.join(command)}"
        if is_file
        else f"command -v {shlex.quote(command[0])}",
    )


def _script(command: Sequence[str]) -> Path | None:
    """Return the script that a Python or a shell is to run, if no other option precedes it."""
    if not (is_python(command[0]) or Path(command[0]).name in ("bash", "sh")):
        return None
    word = next((word for word in command[1:] if word != "-u"), "")
    return Path(word) if word.endswith((".py", ".sh")) and not word.startswith("-") else None


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


@frozen
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


_INHERITED = "the inherited XLA_FLAGS"


def refuse_unknown_flags(
    request: RunRequest, inherited: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Check the flags, if there are any, with the XLA that will run.

    If the command does not name its Python, another one may run in the end: then it is only a
    message.
    """
    variables = environment(request.settings, inherited)
    text = variables.get("XLA_FLAGS")
    python = interpreter_path(request.command, variables)
    if not text or python is None:
        return
    answer = probe_flags(python, text, variables)
    if not answer.rejected:
        return
    error = _refusal(answer, request, inherited_settings(inherited).flags)
    if named_interpreter(request.command, variables) is None:
        say(f"{python} would reject the flags: {error.what}")
        return
    raise error


def _refusal(answer: ProbeResult, request: RunRequest, theirs: Mapping[str, str]) -> UsageError:
    """Return the error, with the sources of the rejected flags."""
    where = dict.fromkeys(_origin(flag, request, theirs) for flag in answer.rejected)
    error = rejection_error(answer, where=", ".join(where))
    places = [place for place in where if place != _INHERITED]
    if _INHERITED in where:
        places.append("XLA_FLAGS where it is set")
    return UsageError(error.what, why=error.why, next=f"correct {', and '.join(places)}")


def _origin(flag: RejectedFlag, request: RunRequest, theirs: Mapping[str, str]) -> str:
    """Return the source of a flag; the environment first, since settings may repeat it."""
    requested = request.settings.flags.get(flag.name)
    repeated = flag.name in theirs and theirs[flag.name] == requested
    if requested is None or repeated or flag.value not in (None, requested):
        return _INHERITED
    return request.origins.get(flag.name, f"the setting {flag.name}")


_DEVICES: Final = ("nvidia*", "dxg", "kfd", "nvhost*", "nvgpu*", "nvmap", "dri/renderD*")
_TOOLS: Final = ("nvidia-smi", "rocm-smi", "amd-smi")
_LIBRARY: Final = "libcuda.so*"
_LIBRARIES: Final = (
    *("usr/lib*", "lib*", "usr/lib*/*-linux-gnu", "lib*/*-linux-gnu", "usr/local/nvidia/lib*"),
    *("usr/local/cuda*/compat", "usr/lib/wsl/lib", "run/opengl-driver/lib", "usr/lib*/*/tegra"),
)


def may_have_gpu(environ: Mapping[str, str], root: Path = Path("/")) -> bool:
    """Return whether a program started here with these variables may find a GPU.

    Used to refuse what can't work, so every doubt counts as a sign of a GPU: device files of a
    driver (NVIDIA, WSL, Jetson, AMD), its tool, or its library wherever a loader may find it. Only
    files are looked at; nothing is started. A container without access to a GPU has none of them.
    """
    if not sys.platform.startswith("linux"):
        return True  # a GPU's traces are unknown here
    if any(shutil.which(tool, path=environ.get("PATH")) for tool in _TOOLS):
        return True
    named = (Path(word) for word in environ.get("LD_LIBRARY_PATH", "").split(":") if word)
    found = chain(
        *((root / "dev").glob(pattern) for pattern in _DEVICES),
        root.glob("proc/driver/nvidia*"),
        *(root.glob(f"{pattern}/{_LIBRARY}") for pattern in _LIBRARIES),
        *(directory.glob(_LIBRARY) for directory in named),
    )
    return any(True for _ in found)
