"""Records JAX's messages on automatic PGLE, in warnings and log lines, without changing either.

Hooks are installed only if AutoPGLE is on. A line that JAX logs at INFO level is enabled, recorded
here, and dropped before any handler that would not have shown it.
"""

from __future__ import annotations

import logging
import warnings
from types import ModuleType
from typing import Any, TextIO

from .trace import NoProfileError

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
                "AutoPGLE profiles in this process (JAX_ENABLE_PGLE), and two at once JAX refuses "
                "in the middle of the program",
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

        def heard(record: logging.LogRecord) -> bool:
            self._note(record.getMessage())
            if logger.level != logging.INFO:
                return True  # set by other code since: that takes precedence
            parent = logger.parent
            level = own or (parent.getEffectiveLevel() if parent else logging.WARNING)
            return record.levelno >= level

        logger.setLevel(logging.INFO)
        logger.addFilter(heard)

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
