"""What is given to `predict` in Python, checked before anything is read: no type checker was there.

A single name where several are wanted is an error, not its letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.compile import Workload
from counterpoint.core.errors import UsageError
from counterpoint.flags import Settings
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.workflow.prediction.question import Question
from counterpoint.workflow.prediction.subject import Subject
from counterpoint.workflow.prediction.variants import Variant

_CALL: Final = 'counterpoint.predict(workload, target="8xH100")'
_WORKLOADS: Final = (Workload, Program, Subject, Path, str)
_LISTS: Final[Mapping[str, tuple[type, ...]]] = {
    "candidates": (str, Variant),
    "what_if": (str,),
    "nccl_tables": (str, Path),
}
_ONES: Final[Mapping[str, tuple[type, ...]]] = {
    "settings": (Settings,),
    **dict.fromkeys(("profile", "against", "calibration"), (str, Path)),
    **dict.fromkeys(("pgle_out", "gemm_table", "kernel_table"), (str, Path)),
    **dict.fromkeys(("jitter", "devices", "jobs"), (int,)),
    "timeout_s": (int, float),
}
_PATHS: Final = ("nccl_tables", "pgle_out", "gemm_table", "kernel_table")
_OPTIONAL: Final = frozenset(_ONES) - {"settings", "timeout_s"}


def check_workload(workload: object, target: object) -> None:
    """Refuse what is no workload or no target."""
    if not isinstance(workload, _WORKLOADS):
        what = "a function" if callable(workload) else f"{workload!r:.60}"
        raise UsageError(
            f"{what} is no workload",
            why="it is a Workload, a Program, or the path of a file, a dump or a Run",
            next="counterpoint.predict(counterpoint.program(train_step, state, batch),"
            ' target="8xH100")',
        )
    if not isinstance(target, (str, Target, type(None))):
        raise UsageError(f"target={target!r:.60} names no GPUs", next=_CALL)


def read_question(question: object, asked_for: Mapping[str, Any]) -> Question:
    """The Question with these of its fields."""
    if question is not None and not isinstance(question, Question):
        raise UsageError(f"question={question!r:.60} is no Question", next=_CALL)
    known = [it.name for it in fields(Question)]
    for name in asked_for:
        if name not in known:
            near = get_close_matches(name, known, 1) or [", ".join(known)]
            raise UsageError(f"predict has no argument {name}", next=near[0])
    read = {name: _read(name, value) for name, value in asked_for.items()}
    return replace(question or Question(), **read)


def _read(name: str, value: object) -> object:
    if name in _LISTS:
        if isinstance(value, (str, bytes, Path)) or not isinstance(value, Iterable):
            raise UsageError(
                f"{name}={value!r:.60}: it takes several, in a list", next=f"{name}=[{value!r:.60}]"
            )
        several = [_one(name, it, _LISTS[name]) for it in cast("Iterable[object]", value)]
        return tuple(several)
    if name in _ONES and not (value is None and name in _OPTIONAL):
        return _one(name, value, _ONES[name])
    return value


def _one(name: str, value: object, kinds: tuple[type, ...]) -> object:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(it.__name__ for it in kinds)
        raise UsageError(f"{name}: {value!r:.60} is {type(value).__name__}, not {wanted}")
    return Path(value) if name in _PATHS and isinstance(value, str) else value
