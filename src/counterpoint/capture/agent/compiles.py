"""Records what JAX traces, lowers and compiles, from `jax.monitoring`, and the caller of each.

JAX reports each of the three by a scalar when it begins and a duration when it ends, in the thread
that does it (0.8 to 0.12). A hit in the persistent cache comes between the two of a compile. The
caller is found on the Python stack of that thread.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple

_STAGES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "backend",
}
_CACHE = "/jax/compilation_cache/"
_COUNTED = {
    _CACHE + "cache_hits": "hits",
    _CACHE + "cache_misses": "misses",
    _CACHE + "compile_requests_use_cache": "requests",
}
_ON_AND_ON, _NAMES = 8, 2
"""After so many compiles in a row of so few functions, more of them will come in each step."""
_WORTH_A_LINE_S = 0.01  # minimum for tracing and lowering; every jnp function traces a little


class CompileCounter:
    """Counts compiles, and detects quiet periods."""

    def __init__(self, write: Callable[[dict[str, Any]], None], jax_directory: str) -> None:
        self.count = 0
        self.ahead_of_time = 0
        self.seconds = 0.0
        self.last_end_s: float | None = None
        self.last_name: str | None = None
        self.last_was_aot = False
        self.times: Counter[str] = Counter()
        self._latest: deque[str | None] = deque(maxlen=_ON_AND_ON)
        self.cache = {"hits": 0, "misses": 0, "requests": 0}
        self._write = write
        self._jax_directory = jax_directory
        self._under_way = 0
        self._lock = threading.Lock()  # several threads may compile
        self._thread = threading.local()

    @property
    def busy(self) -> bool:
        """True while something is being traced, lowered or compiled."""
        return self._under_way > 0

    @property
    def goes_on(self) -> bool:
        """Whether a few functions are compiled again and again: that is the loop, no beginning."""
        return len(self._latest) == _ON_AND_ON and len({*self._latest}) <= _NAMES

    def quiet(self, now_s: float, for_s: float) -> bool:
        """Return whether something has been compiled, and nothing for this long."""
        if not self.count or self.last_end_s is None:
            return False
        return not self.busy and now_s - self.last_end_s >= for_s

    def began(self, event: str) -> bool:
        """Handle a scalar, the start of a stage; return whether it is a program's compile."""
        if event in _STAGES:
            with self._lock:
                self._under_way += 1
        return _STAGES.get(event) == "backend"

    def happened(self, event: str) -> None:
        """Handle an event without a duration."""
        if event in _COUNTED:
            self.cache[_COUNTED[event]] += 1
        if event == _CACHE + "cache_hits":
            self._thread.hit = True

    def ended(self, event: str, seconds: float, name: str | None) -> bool:
        """Handle a duration; return whether it was a program's compile, so that it can run now."""
        stage = _STAGES.get(event)
        if stage is None:
            return False
        now_s = time.monotonic()
        with self._lock:
            self._under_way = max(0, self._under_way - 1)
            self.last_end_s = now_s
        if stage == "backend":
            self._compiled(seconds, name, now_s)
        elif seconds >= _WORTH_A_LINE_S:
            self._write(_line(stage, seconds, name, now_s))
        return stage == "backend"

    def _compiled(self, seconds: float, name: str | None, now_s: float) -> None:
        hit = getattr(self._thread, "hit", False)
        self._thread.hit = False
        compile_caller = caller(self._jax_directory)
        with self._lock:
            self.count += 1
            self.ahead_of_time += compile_caller.aot
            self.seconds += seconds
            self.last_name, self.last_was_aot = name, compile_caller.aot
            self._latest.append(name)
            self.times[name or ""] += 1
        line = _line("cache_hit" if hit else "backend", seconds, name, now_s)
        self._write({**line, "aot": compile_caller.aot, "where": compile_caller.where})

    def facts(self) -> dict[str, Any]:
        """Return the facts for the process file."""
        return {
            "count": self.count,
            "ahead_of_time": self.ahead_of_time,
            "seconds": round(self.seconds, 6),
            "cache": dict(self.cache),
        }


def _line(kind: str, seconds: float, name: str | None, now_s: float) -> dict[str, Any]:
    return {
        "module": module_name(name),
        "fun": name,
        "seconds": round(seconds, 6),
        "kind": kind,
        "at_s": round(now_s, 6),
        "aot": False,
        "where": None,
    }


def module_name(name: str | None) -> str | None:
    """Return XLA's name for what JAX calls `jit(step)`; a bare function is not yet a module."""
    match = re.match(r"(\w+)\((.*)\)$", name or "")
    return re.sub(r"[^\w.-]", "_", f"{match[1]}_{match[2]}") if match else None


_OWN = os.path.dirname(os.path.realpath(__file__)) + os.sep  # noqa: PTH120  no pathlib in a hot path
_STAGES_FILE = os.path.join("_src", "stages.py")  # noqa: PTH118  in JAX's directory
_PLUMBING = (contextlib.__file__, functools.__file__, threading.__file__)


class Caller(NamedTuple):
    """`aot`: by `.lower().compile()`. `where`: the first frame outside JAX, file:line."""

    aot: bool
    where: str | None


def caller(jax_directory: str) -> Caller:
    """Return the caller that waits for the current call."""
    aot, where = False, None
    frame = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        if file == jax_directory + _STAGES_FILE:
            aot = aot or frame.f_code.co_name == "compile"
        elif where is None and not _is_between(file, jax_directory):
            where = f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return Caller(aot, where)


def _is_between(file: str, jax_directory: str) -> bool:
    """Return whether a frame belongs to JAX, the agent, or the plumbing between them."""
    return file.startswith((jax_directory, _OWN, "<frozen")) or file in _PLUMBING
