"""The emulator's reports while a program runs, and the result: the step and its Settings.

`EmulatorReports` reads the journal line by line, for the user and for errors. `read_lowering` turns
the outcome file into a `Lowering`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from counterpoint.core.printable import counted_noun
from counterpoint.lowering.emulator import OUTCOME
from counterpoint.lowering.errors import tied_to_python
from counterpoint.runs.run import RunSettings
from counterpoint.runs.setting_history import histories_of, notes_of

Say = Callable[[str], None]
_SOME: Final = 3
_NAMED: Final = 6
"""Functions of JAX's own that a note names."""


_SAYS: Final = {
    "asked": "has_queried_backend",
    "stood_in": "has_stand_ins",
    "left": "has_left",
}
"""Events that say no more than that something is true."""


class EmulatorReports:
    """The lines that the emulator has written so far, and their meaning."""

    def __init__(self, path: Path, say: Say) -> None:
        path.write_bytes(b"")
        self._path = path
        self._say = say
        self._read = 0
        self.functions: list[dict[str, Any]] = []
        self.has_begun = False
        self.has_left = False  # whether the program was ended because its step is known
        self.has_queried_backend = False
        self.has_stand_ins = False  # whether a package of ours took the place of a missing one
        self.contained: dict[str, str] | None = None  # directories, by the names of their layers
        self.refused: list[str] = []  # directories that have no layer
        self.uncontained: str | None = None  # why there is no layer
        self.unstartable: str | None = None  # why the command can't be executed
        self.unusable: str | None = None  # why the emulator can't work in this program
        self._kept: list[str] = []  # files that the program would have overwritten
        self._wrote: list[str] = []

    def look(self) -> bool:
        """Report new lines; return whether there are any."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            with suppress(ValueError):
                self._read_line(json.loads(line))
        return bool(whole)

    def _read_line(self, line: dict[str, Any]) -> None:
        if line["event"] == "began":
            self.has_begun = True
            self._say(f"the program has loaded jax {line['jax']}")
        elif line["event"] == "lowered":
            self.functions.append(line)
            name = line["name"]
            self._say(f"lowered {name} (--program {name} stops there)")
        elif line["event"] in _SAYS:
            setattr(self, _SAYS[line["event"]], True)
        elif line["event"] == "kept":
            self._kept.append(line["name"])
            self._say(f"{line['name']} is not changed")
        elif line["event"] == "contained":
            self.contained, self.refused = line["places"], line["refused"]
        elif line["event"] in ("uncontained", "unstartable", "unusable"):
            setattr(self, line["event"], line["name"])
        elif line["event"] == "wrote":
            self._wrote.append(line["name"])
        elif line["event"] == "found":
            name = line["name"]
            self._say(f"found {name}: looking for other functions of the iteration")
        elif line["event"] != "heard":
            self._say(f"{line['name']} is not run; its results are zeros")

    def notes(self) -> list[str]:
        """Return notes on the program's files."""
        notes: list[str] = []
        if self._kept:
            files = first_names(self._kept)
            notes.append(f"not changed, although the program writes or removes it: {files}")
        wrote = [name for name in self._wrote if Path(name).exists()]
        if wrote:
            files = first_names(wrote)
            notes.append(f"the program has written zeros to {files}: remove it before a real run")
        return notes


def first_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
    return f"{', '.join(names[:_SOME])}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredFunction:
    """A function of an iteration, of which there are several: `load_workload(directory, name)`."""

    name: str
    directory: Path
    alive_bytes: int | None  # of a device, beside the arrays of a call; None: not measured
    updates: bool = False  # whether it applies gradients, or adds them up


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowering:
    """The step of a program: `load_workload(directory, name)` reads it.

    If an iteration calls several functions, or one several times, they are the `cycle`, and `order`
    has the calls of one iteration, as indices into it. The step is then the heaviest of these.
    """

    directory: Path
    name: str
    devices: int
    platform: str = "cuda"  # platform it is lowered for; "cpu" if CUDA was not possible
    jax: str = ""  # the version that lowered it
    # The program's own flags and variables, as it set or inherited them: Settings of a prediction.
    xla_flags: str = ""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    others: tuple[str, ...] = ()  # other functions that it lowered, the larger first
    notes: tuple[str, ...] = ()
    cycle: tuple[LoweredFunction, ...] = ()
    order: tuple[int, ...] = ()
    main: int = 0  # the number of the step in the cycle


def read_outcome(directory: Path) -> dict[str, Any] | None:
    try:
        outcome: dict[str, Any] = json.loads((directory / OUTCOME).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return outcome


def function_names(outcome: dict[str, Any] | None, journal: EmulatorReports) -> list[str]:
    """Return names of the lowered functions, the heavier first."""
    functions = outcome["functions"] if outcome else journal.functions
    heavy = sorted(
        functions, key=lambda function: (function["backward"], function["flops"]), reverse=True
    )
    return list(dict.fromkeys(function["name"] for function in heavy))


def read_lowering(
    command: Sequence[str], directory: Path, outcome: dict[str, Any], files: Sequence[str]
) -> Lowering:
    variables: dict[str, str] = dict(outcome["variables"])
    flags = variables.pop("XLA_FLAGS", "")
    name: str = outcome["step"]
    for function in outcome["functions"]:
        if function["name"] == name and function["tied"]:
            raise tied_to_python(command, name, function["tied"])
    cycle, order = _cycle(directory, outcome)
    inside = {name, *(function.name for function in cycle)}
    others = [
        function["name"] for function in sorted(outcome["functions"], key=_heaviest, reverse=True)
    ]
    return Lowering(
        directory=directory,
        name=name,
        devices=outcome["devices"],
        platform=outcome["platform"],
        jax=outcome["jax"],
        xla_flags=flags.strip(),
        variables=variables,
        others=tuple(dict.fromkeys(other for other in others if other not in inside)),
        cycle=cycle,
        order=order,
        main=outcome["cycle"]["main"] if cycle else 0,
        notes=(
            *_iteration_notes(outcome),
            *outcome["notes"],
            *notes_of(histories_of(outcome["settings"], RunSettings(), flags)),
            *files,
        ),
    )


def _cycle(
    directory: Path, outcome: dict[str, Any]
) -> tuple[tuple[LoweredFunction, ...], tuple[int, ...]]:
    """Return the functions of an iteration and their order; nothing if it is one call of one."""
    cycle = outcome.get("cycle")
    if cycle is None or len(cycle["order"]) < 2:
        return (), ()
    functions = tuple(
        LoweredFunction(
            name=function["name"],
            directory=directory / f"cycle{number}",
            alive_bytes=function["alive"],
            updates=function["updates"],
        )
        for number, function in enumerate(cycle["functions"])
    )
    return functions, tuple(cycle["order"])


def _iteration_notes(outcome: dict[str, Any]) -> list[str]:
    """Return notes on what else the loop calls, and whether that is part of the step."""
    step, names = outcome["step"], list[str](outcome.get("beside", []))
    notes = [
        f"{name} is lowered for several shapes; the one that is called most is predicted"
        for name in dict.fromkeys(outcome.get("shapes", []))
    ]
    notes += [
        f"{name} is lowered twice: its first call gets arrays with other shardings than the later"
        " ones, which are predicted"
        for name in outcome.get("resharded", [])
    ]
    if outcome.get("alone"):
        return notes
    also = f"{', '.join(names)} (--program {names[0]})" if names else ""
    if names and outcome.get("cycle") is None:
        left_out = f"which this prediction of {step} leaves out: no iteration was seen to repeat"
        ended = ""
        if outcome["ended"]:
            ended = (
                " before the program ended (if a test of results ended it: they are zeros here, and"
                " single numbers fall from 2 to 1)"
            )
        notes.append(f"an iteration of the loop also runs {also}, {left_out}{ended}")
    elif names:
        notes.append(f"not in every iteration, and so no part of the step: {also}")
    elif outcome.get("cycle") is None and outcome["trains"] and outcome["times"] > 1:
        applied = "what applies them runs operation by operation, outside of jax.jit"
        notes.append(f"no function takes the results of {step}: {applied}, and is left out")
    return [*notes, *_operation_notes(outcome), *_helper_notes(outcome.get("helpers", {}))]


def _operation_notes(outcome: dict[str, Any]) -> list[str]:
    """Return a note on operations outside of `jax.jit` that are programs of the step."""
    cycle: dict[str, Any] | None = outcome.get("cycle")
    if cycle is None:
        return []
    functions: list[dict[str, Any]] = [cycle["functions"][number] for number in cycle["order"]]
    calls = Counter[str](it["name"] for it in functions if it["operation"])
    if not calls:
        return []
    compiled = f"JAX compiles each operation to a program of its own: {_listed(calls)}"
    host = "the time that the host needs to call each is not predicted"
    return [f"outside of jax.jit, {compiled}; {host}"]


def _helper_notes(helpers: dict[str, Any]) -> list[str]:
    """Return a note on JAX's own functions that every iteration calls, as `jnp.add` of arrays."""
    calls: dict[str, int] = helpers.get("calls", {})
    if not calls:
        return []
    moved = helpers["bytes"] / 2**20
    size = f"; they read and write {moved:,.0f} MiB on a device" if moved >= 1 else ""
    count = sum(calls.values())
    also = f"every iteration also makes {counted_noun(count, 'call')} of JAX's own functions"
    return [f"{also} outside of jax.jit, which are left out: {_listed(calls)}{size}"]


def _listed(calls: Mapping[str, int]) -> str:
    named = [f"{count} x {name}" if count > 1 else name for name, count in calls.items()]
    rest = sum([*calls.values()][_NAMED:])
    more = f" and {counted_noun(rest, 'call')} of others" if rest else ""
    return f"{', '.join(named[:_NAMED])}{more}"


def _heaviest(function: dict[str, Any]) -> float:
    return float(function["flops"])
