"""Replaces public names of jax.profiler by subclasses and wrappers that report their use.

`StepTraceAnnotation` gets a subclass, so that `with` and isinstance keep working. JAX marks the
start of an annotation when it is created, not when it is entered; so a step is counted there.
Whatever starts a profile is wrapped, since the program's own must not fail because of ours.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

Annotated = Callable[[str, object], None]
Profiles = Callable[["str | None"], None]


def wrap_profiler(jax: ModuleType, annotated: Annotated, profiles: Profiles) -> None:
    """Replace the names that the program may use from jax.profiler."""
    place = jax.profiler
    place.StepTraceAnnotation = _heard_annotation(place.StepTraceAnnotation, annotated)
    session = getattr(place, "ProfileSession", None)
    if session is not None:  # 0.12: trace and start_trace create one, so wrapping it is enough
        session.start = _heard_session(session.start, profiles)
        return
    place.start_trace = _heard_start(place.start_trace, profiles)
    place.trace = _heard_trace(place.trace, profiles)


def tolerate_dump_failures(mlir: ModuleType, failed: Callable[[str], None]) -> None:
    """Keep a failed write of a lowered module from ending the program.

    `run` sets JAX_DUMP_IR_TO, and JAX raises in the program if that directory is full.
    """
    place: Any = mlir
    dump = place.dump_module_to_file

    @functools.wraps(dump)
    def dump_module_to_file(*module: object, **named: object) -> object:
        try:
            return dump(*module, **named)
        except OSError as error:
            failed(f"a lowered module was not kept: {error.strerror or error}")
            return None

    place.dump_module_to_file = dump_module_to_file


def _heard_annotation(original: type[Any], annotated: Annotated) -> type[Any]:
    class StepTraceAnnotation(original):
        def __init__(self, name: str, **about: object) -> None:
            annotated(name, about.get("step_num"))
            super().__init__(name, **about)  # pyright: ignore[reportUnknownMemberType]

    for attribute in ("__doc__", "__module__", "__qualname__"):
        setattr(StepTraceAnnotation, attribute, getattr(original, attribute))
    return StepTraceAnnotation


def _heard_start(original: Callable[..., object], profiles: Profiles) -> Callable[..., object]:
    @functools.wraps(original)
    def start(log_dir: object, *rest: object, **named: object) -> object:
        profiles(str(log_dir))
        return original(log_dir, *rest, **named)

    return start


def _heard_trace(original: Callable[..., Any], profiles: Profiles) -> Callable[..., object]:
    @functools.wraps(original)
    @contextmanager
    def trace(log_dir: object, *rest: object, **named: object) -> Generator[object, None, None]:
        profiles(str(log_dir))
        with original(log_dir, *rest, **named) as entered:
            yield entered

    return trace


def _heard_session(original: Callable[..., object], profiles: Profiles) -> Callable[..., object]:
    @functools.wraps(original)
    def start(self: object) -> object:
        log_dir = getattr(self, "log_dir", None)
        profiles(None if log_dir is None else str(log_dir))
        return original(self)

    return start
