"""Samples what Python does while a profile is recorded, and leaves the samples in the profile.

JAX's Python tracer records every call, which makes Python up to twice as slow, so it is off unless
it is wanted. A thread that looks at the stacks of the others every few milliseconds costs them
little, and still tells in which function the host is while devices wait for it. Each sample is an
annotation on the sampler's own thread, with the thread that was looked at and its stack. A profile
does not name threads, so the one that starts the sampler says by a mark of its own which it is.

A stack does not tell a call that sleeps from one that works, so a sample has what Linux knows: for
how long the thread has run, and waited for a core. Nor does it tell native code that released the
interpreter's lock; but a thread that is found between two bytecodes where Python hands the lock on
had it until the sampler took it. Counterpoint's own functions are not part of a stack.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from opcode import opmap
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SAMPLE, THREAD = "counterpoint sample", "counterpoint thread"
"""Names of the annotations of a sample, and of a thread by itself; readers know them, too."""

_INTERVAL_S = 0.002
_SHARE = 0.02
"""Share of the time that sampling may take: if a sample takes long, they are farther apart."""
_DEPTH = 48
_THREADS = 16

_STAT_BYTES = 128
_OWN = str(Path(__file__).parents[2]) + "/"
_HANDS_ON = frozenset(opmap[name] for name in ("RESUME", "JUMP_BACKWARD"))
"""Bytecodes at which Python hands the lock to a thread that waits for it."""

Annotation = Callable[..., "AbstractContextManager[Any]"]


class StackSampler:
    """A thread that samples the stacks of all other threads of Python."""

    def __init__(self, annotation: Annotation) -> None:
        self._annotation = annotation
        self._over = threading.Event()
        self._names: dict[CodeType, str] = {}
        self._bytecodes: dict[CodeType, bytes] = {}
        self._times = _ThreadTimes()
        self._has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
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
        with suppress(Exception), closing(self._times):  # the program must not notice
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
            if thread is None or not (stack := self._stack(frame)):
                continue
            python = int(self._in_python(frame))
            times = self._times.us(thread)
            known = {} if times is None else {"ran": times[0], "waited": times[1]}
            with self._annotation(SAMPLE, thread=thread, stack=stack, python=python, **known):
                pass

    def _in_python(self, frame: FrameType) -> bool:
        """Return whether the thread stopped between two bytecodes, and not within a call."""
        if not self._has_lock:
            return False
        code = frame.f_code
        if code not in self._bytecodes:
            self._bytecodes[code] = code.co_code  # made anew whenever it is asked for
        bytecodes = self._bytecodes[code]
        return 0 <= frame.f_lasti < len(bytecodes) and bytecodes[frame.f_lasti] in _HANDS_ON

    def _stack(self, innermost: FrameType) -> str:
        """Return the functions from the outermost on, as the Python tracer names them."""
        names: list[str] = []
        frame: FrameType | None = innermost
        while frame is not None and len(names) < _DEPTH:
            if not frame.f_code.co_filename.startswith(_OWN):
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


class _ThreadTimes:
    """For how long threads have run, and waited for a core, as Linux counts it.

    Python gives the interpreter's lock away when it reads a file, and gets it back late where
    another thread wants it, so the C library reads it.
    """

    def __init__(self) -> None:
        self._files: dict[int, int] = {}
        self._text = ctypes.create_string_buffer(_STAT_BYTES)
        self._read = ctypes.PyDLL(None).pread
        self._read.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_long)
        self._read.restype = ctypes.c_ssize_t

    def us(self, thread: int) -> tuple[int, int] | None:
        """Return both in microseconds; None where they are not known."""
        if thread not in self._files:
            with suppress(OSError):  # the thread has ended, or the kernel does not count
                path = f"/proc/self/task/{thread}/schedstat"
                self._files[thread] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        file = self._files.get(thread)
        if file is None:
            return None
        size = self._read(file, self._text, _STAT_BYTES, 0)
        if size <= 0:  # it ended
            os.close(self._files.pop(thread))
            return None
        ran, waited = self._text.raw[:size].split()[:2]
        return int(ran) // 1000, int(waited) // 1000

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()
