"""The environment of a workload's processes: inherited, Settings, and the agent's variables.

It has XLA dump its programs. `--xla_dump_hlo_as_proto` also writes LLVM IR, objects, PTX and a
directory per module, and no flag that all versions know prevents it; `prune_dump` removes these
when the process has ended.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from counterpoint.capture.agent import DIRECTORY, SETTINGS, WINDOW
from counterpoint.capture.ranks import LocalRank
from counterpoint.capture.request import RunRequest, agent_window
from counterpoint.core.injection import NOTED, flags_in, injected, is_noted
from counterpoint.flags.lifecycle import unknown_hint
from counterpoint.flags.settings import Settings, environment, inherited_settings
from counterpoint.flags.text import render_xla_flags
from counterpoint.runs import layout
from counterpoint.runs.outcomes import Outcome, OutcomeKind

KEPT: Final = (
    "after_optimizations.hlo.pb",
    "before_optimizations.hlo.pb",
    ".debug_options",
    "gpu_target_config.pbtxt",
    "autotune_results.pbtxt",
)


def prune_dump(directory: Path) -> None:
    """Remove unneeded files; ignore those that can't be removed."""
    if not directory.is_dir():
        return
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif not path.name.endswith(KEPT):
            with suppress(OSError):
                path.unlink()


AGENT: Final = Path(__file__).parent / "agent"
_NOWHERE: Final = ("", "-", "sponge", "test_undeclared_outputs_dir")
"""Values that XLA and JAX do not take as a directory's path."""


@dataclass(frozen=True, slots=True)
class ChildEnvironment:
    """The whole environment of a rank, and the part recorded in the Run."""

    variables: Mapping[str, str]
    added: Mapping[str, str]
    changed: Mapping[str, tuple[str, str]]
    xla_dump_to: str | None
    jax_dump_ir_to: str | None

    @property
    def difference(self) -> dict[str, object]:
        """The difference from the inherited environment.

        Of the user's own variables, the agent records those that can change the program.
        """
        return {"set": dict(self.added), "changed": {k: list(v) for k, v in self.changed.items()}}


def child_environment(
    request: RunRequest, inherited: Mapping[str, str], seat: LocalRank, directory: Path
) -> ChildEnvironment:
    """Return the environment of a rank that keeps its files in a directory."""
    given = inherited_settings(inherited).merged(request.settings)
    dump = given.flags.get("xla_dump_to")
    dump_settings = _ours(dump, directory)
    variables = environment(_appended(request.settings, dump_settings), inherited)
    variables |= seat.variables
    variables.setdefault("PYTHONUNBUFFERED", "1")  # lines arrive when they are printed
    variables.setdefault("PYTHONFAULTHANDLER", "1")  # crashes and hangs show their stack
    variables.setdefault("JAX_DUMP_IR_TO", str(directory / layout.IR))
    variables |= injected(variables, AGENT)
    variables[DIRECTORY] = str(directory)
    variables[WINDOW] = agent_window(request.window, seat.rank)
    variables[SETTINGS] = json.dumps(_kept(request.settings, dump_settings, inherited, variables))
    return ChildEnvironment(
        variables,
        {name: value for name, value in variables.items() if name not in inherited},
        {
            name: (inherited[name], value)
            for name, value in variables.items()
            if inherited.get(name, value) != value
        },
        xla_dump_to=_place(dump or str(directory / layout.XLA)),
        jax_dump_ir_to=_place(variables["JAX_DUMP_IR_TO"]),
    )


def _kept(
    settings: Settings, dump: Settings, inherited: Mapping[str, str], passed: Mapping[str, str]
) -> dict[str, object]:
    """Return what the agent keeps in the program's environment: `KeptVariables`.

    What the command inherits anyway is its launch script's to change, as without us. So is what
    differs between the processes of a job.
    """
    theirs = inherited_settings(inherited).flags
    flags = [pair for pair in settings.flags.items() if theirs.get(pair[0]) != pair[1]]
    variables = {
        name: value
        for name, value in settings.variables.items()
        if inherited.get(name) != value and name.startswith(NOTED) and name not in _OF_A_PROCESS
    }
    libtpu = flags_in(variables.pop(_LIBTPU, ""), _LIBTPU)
    had = flags_in(inherited.get(_LIBTPU, ""), _LIBTPU)
    own = [pair for pair in libtpu.items() if had.get(pair[0]) != pair[1]]
    kept = {"XLA_FLAGS": [*flags, *dump.xla], _LIBTPU: own}
    return {
        "flags": {name: _written(pairs) for name, pairs in kept.items() if pairs},
        "optional": [name for name, _ in dump.xla],
        "variables": variables,
        "passed": {name: value for name, value in passed.items() if is_noted(name, value)},
        "before": {name: inherited[name] for name in kept if name in inherited},
    }


_LIBTPU: Final = "LIBTPU_INIT_ARGS"
_OF_A_PROCESS: Final = frozenset(
    {
        *("CUDA_VISIBLE_DEVICES", "TPU_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS", "TPU_WORKER_ID"),
        *("JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JAX_COORDINATOR_ADDRESS", "JAX_LOCAL_DEVICE_IDS"),
    }
)
"""Variables that launchers set for each process."""


def _written(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [(name, value, render_xla_flags([(name, value)])) for name, value in pairs]


def _place(path: str) -> str | None:
    """Return the absolute directory; one of the user's may be relative."""
    return None if path in _NOWHERE else str(Path(path).absolute())


def _ours(dump: str | None, directory: Path) -> Settings:
    """Return settings for XLA's dump directory, unless the user's settings have one."""
    if dump:
        return Settings()
    return Settings(
        (("xla_dump_to", str(directory / layout.XLA)), ("xla_dump_hlo_as_proto", "true"))
    )


def _appended(settings: Settings, ours: Settings) -> Settings:
    """Append our flags after the user's, verbatim: XLA itself resolves duplicates."""
    return Settings((*settings.xla, *ours.xla), settings.env)


_NAMES: Final = re.compile(r"--(\w+)")
_UNKNOWN: Final = re.compile(r"Unknown flags? in XLA_FLAGS: (.*)")

_MOST: Final = 3


def with_hints(outcome: Outcome) -> Outcome:
    """Add hints to the outcome for flags that XLA rejected."""
    unknown = _UNKNOWN.search(outcome.detail)
    if outcome.kind is not OutcomeKind.UNKNOWN_FLAG or unknown is None:
        return outcome
    names = list(dict.fromkeys(_NAMES.findall(unknown[1])))[:_MOST]
    hints = [f"{name}: {unknown_hint(name)}" for name in names]
    words = " ".join(dict.fromkeys(unknown[1].split(" ")))  # list a repeated flag once
    detail = outcome.detail.replace(unknown[1], words)
    return replace(outcome, detail=". ".join([detail, *hints]))
