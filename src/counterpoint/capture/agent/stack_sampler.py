"""Samples what Python does while a profile is recorded, and leaves the samples in the profile.

JAX's Python tracer records every call, which makes Python up to twice as slow, so it is off unless
it is wanted. A thread that looks at the stacks of the others every few milliseconds costs them
little, and still tells in which function the host is while devices wait for it. Each sample is an
annotation on the sampler's own thread, with the thread that was looked at and its stack. A profile
does not name threads, so the one that starts the sampler says by a mark of its own which it is.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from types import CodeType, FrameType
from typing import Any

SAMPLE, THREAD = "counterpoint sample", "counterpoint thread"
"""Names of the annotations of a sample, and of a thread by itself; readers know them, too."""

_INTERVAL_S = 0.002
_SHARE = 0.02
"""Share of the time that sampling may take: if a sample takes long, they are farther apart."""
_DEPTH = 48
_THREADS = 16

Annotation = Callable[..., "AbstractContextManager[Any]"]


class StackSampler:
    """A thread that samples the stacks of all other threads of Python."""

    def __init__(self, annotation: Annotation) -> None:
        self._annotation = annotation
        self._over = threading.Event()
        self._names: dict[CodeType, str] = {}
        self._thread = threading.Thread(target=self._run, name="counterpoint-sampler", daemon=True)

    def start(self) -> None:
        """Start sampling."""
        with self._annotation(THREAD, thread=threading.get_native_id()):
            self._thread.start()

    def stop(self) -> None:
        """Stop sampling, and wait for the last sample."""
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        wait_s = _INTERVAL_S
        with suppress(Exception):  # the program must not notice
            while not self._over.wait(wait_s):
                began = time.thread_time()
                self._sample()
                wait_s = max(_INTERVAL_S, (time.thread_time() - began) / _SHARE)

    def _sample(self) -> None:
        native = {
            thread.ident: thread.native_id
            for thread in threading.enumerate()
            if not thread.name.startswith("counterpoint")
        }
        for ident, frame in [*sys._current_frames().items()][:_THREADS]:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            thread = native.get(ident)
            if thread is not None:
                with self._annotation(SAMPLE, thread=thread, stack=self._stack(frame)):
                    pass

    def _stack(self, innermost: FrameType) -> str:
        """Return the functions from the outermost on, as the Python tracer names them."""
        names: list[str] = []
        frame: FrameType | None = innermost
        while frame is not None and len(names) < _DEPTH:
            names.append(self._name(frame.f_code))
            frame = frame.f_back
        return "|".join(reversed(names))

    def _name(self, code: CodeType) -> str:
        name = self._names.get(code)
        if name is None:
            file = code.co_filename.rpartition("/")[2]
            name = f"${file}:{code.co_firstlineno} {code.co_name}"
            # These separate the parts of an annotation, and of a stack.
            for mark in "|#,=":
                name = name.replace(mark, "_")
            self._names[code] = name
        return name
