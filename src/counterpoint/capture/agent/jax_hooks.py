"""Hooks in JAX's profiler, dumps and messages.

`StepTraceAnnotation` gets a subclass, so that `with` and isinstance keep working. JAX marks the
start of an annotation when it is created, not when it is entered; so a step is counted there.
Functions that start a profile are wrapped, since the program's own must not fail because of ours.

`AutoPgleMessages` records JAX's warnings and log lines on automatic PGLE, without changing either.
Its hooks are installed only if AutoPGLE is on. A line that JAX logs at INFO level is enabled,
recorded here, and dropped before any handler that would not have shown it.
"""

from __future__ import annotations

import functools
import logging
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TextIO

from .trace import NoProfileError

Annotated = Callable[[str, object], None]
Profiles = Callable[["str | None"], None]


def wrap_profiler(jax: ModuleType, annotated: Annotated, profiles: Profiles) -> None:
    """Replace the names that the program may use from jax.profiler."""
    place = jax.profiler
    place.StepTraceAnnotation = _reporting_annotation(place.StepTraceAnnotation, annotated)
    session = getattr(place, "ProfileSession", None)
    if session is not None:  # 0.12: trace and start_trace create one, so wrapping it is enough
        session.start = _reporting_session(session.start, profiles)
        return
    place.start_trace = _reporting_start(place.start_trace, profiles)
    place.trace = _reporting_trace(place.trace, profiles)


def before_backends(then: Callable[[], None]) -> None:
    """Call `then` when the program first asks for a device: its backends are made right after."""
    bridge: Any = sys.modules["jax._src.xla_bridge"]
    own = bridge.backends

    @functools.wraps(own)
    def backends() -> object:
        bridge.backends = own
        if not bridge.backends_are_initialized():
            then()
        return own()

    bridge.backends = backends


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


def _reporting_annotation(original: type[Any], annotated: Annotated) -> type[Any]:
    class StepTraceAnnotation(original):
        def __init__(self, name: str, **about: object) -> None:
            annotated(name, about.get("step_num"))
            super().__init__(name, **about)  # pyright: ignore[reportUnknownMemberType]

    for attribute in ("__doc__", "__module__", "__qualname__"):
        setattr(StepTraceAnnotation, attribute, getattr(original, attribute))
    return StepTraceAnnotation


def _reporting_start(original: Callable[..., object], profiles: Profiles) -> Callable[..., object]:
    @functools.wraps(original)
    def start(log_dir: object, *rest: object, **named: object) -> object:
        profiles(str(log_dir))
        return original(log_dir, *rest, **named)

    return start


def _reporting_trace(original: Callable[..., Any], profiles: Profiles) -> Callable[..., object]:
    @functools.wraps(original)
    @contextmanager
    def trace(log_dir: object, *rest: object, **named: object) -> Generator[object, None, None]:
        profiles(str(log_dir))
        with original(log_dir, *rest, **named) as entered:
            yield entered

    return trace


def _reporting_session(
    original: Callable[..., object], profiles: Profiles
) -> Callable[..., object]:
    @functools.wraps(original)
    def start(self: object) -> object:
        log_dir = getattr(self, "log_dir", None)
        profiles(None if log_dir is None else str(log_dir))
        return original(self)

    return start


_LOGGER = "jax._src.compiler"
_TELLING = ("PGLE", "PERSISTENT CACHE MISS", "PERSISTENT CACHE WRITE")
_EMPTY = "PGLE collected an empty trace"
_FROM_CACHE = "loaded from compilation cache"
_KEPT = 50  # messages; counting continues


class AutoPgleMessages:
    """The messages, and how often the decisive ones came."""

    def __init__(self, jax: ModuleType) -> None:
        self._config = jax.config
        self._hooked = False
        self.messages: list[str] = []
        self.empty_traces = 0
        self.loaded_from_cache = 0

    @property
    def enabled(self) -> bool:
        """True if AutoPGLE profiles in this process: two profilers would fail the program."""
        return bool(getattr(self._config, "jax_enable_pgle", False))

    @property
    def expected(self) -> bool:
        """True if programs that AutoPGLE optimized are expected from the cache."""
        return bool(getattr(self._config, "jax_compilation_cache_expect_pgle", False))

    def refuse_two_profilers(self) -> None:
        """Raise if our profile would collide with AutoPGLE's: JAX then fails the program's step."""
        if self.enabled:
            raise NoProfileError(
                "AutoPGLE profiles in this process (JAX_ENABLE_PGLE), and JAX refuses a second "
                "profile in the middle of the program",
                next="profile a second run, with JAX_COMPILATION_CACHE_EXPECT_PGLE=true instead",
            )

    def listen(self) -> None:
        """Install the hooks, if there may be messages."""
        if self._hooked or not (self.enabled or self.expected):
            return
        self._hooked = True
        self._hook_warnings()
        self._hook_log()

    def _hook_warnings(self) -> None:
        show = warnings.showwarning

        def shown(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            self._note(str(message))
            show(message, category, filename, lineno, file, line)

        warnings.showwarning = shown

    def _hook_log(self) -> None:
        logger = logging.getLogger(_LOGGER)
        if logger.isEnabledFor(logging.INFO):
            logger.addFilter(lambda record: self._note(record.getMessage()) or True)
            return
        own = logger.level

        def record_and_filter(record: logging.LogRecord) -> bool:
            self._note(record.getMessage())
            if logger.level != logging.INFO:
                return True  # set by other code since: that takes precedence
            parent = logger.parent
            level = own or (parent.getEffectiveLevel() if parent else logging.WARNING)
            return record.levelno >= level

        logger.setLevel(logging.INFO)
        logger.addFilter(record_and_filter)

    def _note(self, message: str) -> None:
        if not any(words in message for words in _TELLING):
            return
        self.empty_traces += _EMPTY in message
        self.loaded_from_cache += _FROM_CACHE in message
        if len(self.messages) < _KEPT:
            self.messages.append(message)

    def facts(self) -> dict[str, Any]:
        """Return the facts for the process file."""
        return {
            "enabled": self.enabled,
            "expected": self.expected,
            "empty_traces": self.empty_traces,
            "loaded_from_cache": self.loaded_from_cache,
            "messages": list(self.messages),
        }
