"""Starts and stops JAX's profiler, with options that make its output useful."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from .stack_sampler import StackSampler

_PYTHON = "python_tracer_level"  # off unless wanted: a span per Python call drowns the rest
_OPTIONS = {
    "host_tracer_level": 2,  # the level of step annotations and of XLA's own spans on the host
    "enable_hlo_proto": True,  # PGLE profiles are made from the HLO in the trace
    "raise_error_on_start_failure": True,  # else a second profiler silently records nothing
}


# What jaxlib 0.11.1 introduced: XLA writes `.xplane.riegeli`, where no message reaches 2 GB. Older
# versions ignore it.
_IN_PIECES = {"enable_continuous_profiling": True}
# XLA's profilers of GPUs can't hand over what they have so far (GpuTracer has no Consume): there
# would be no device in the profile.
_NOT_IN_PIECES = ("gpu", "cuda", "rocm")

_LOOK_S = 0.002


class NoProfileError(Exception):
    """Raised if there is no profile: the reason in words, and a remedy."""

    def __init__(self, reason: str, next: str | None = None) -> None:
        super().__init__(reason)
        self.next = next


class OtherProfilerError(NoProfileError):
    """Raised while another profiler is active, which may end."""


class Profiler:
    """The original functions of jax.profiler, from before they were replaced."""

    def __init__(self, jax: ModuleType) -> None:
        self._jax = jax
        self._start = jax.profiler.start_trace
        self._stop = jax.profiler.stop_trace
        self._before: dict[Path, int] = {}
        self._sampler: StackSampler | None = None
        self.starting: int | None = None  # the thread that is starting one

    def start(
        self,
        directory: Path,
        *,
        perfetto_link: bool,
        perfetto_trace: bool,
        in_pieces: bool = False,
        python: bool = False,
    ) -> None:
        """Start recording into `directory`; `in_pieces` where JAX and the device can.

        With `python` the calls of Python are recorded, too; else its stacks are sampled.
        """
        self.refuse_second()
        _require_writable(directory)
        self._before = _files(directory)
        self.starting = threading.get_ident()
        try:
            self._start(
                str(directory),
                create_perfetto_link=perfetto_link,
                create_perfetto_trace=perfetto_trace,
                **self._options(in_pieces, python),
            )
        except Exception as error:
            raise _in_words(error) from error
        finally:
            self.starting = None
        if not python:
            self._sampler = StackSampler(self._jax.profiler.TraceAnnotation)
            self._sampler.start()

    def refuse_second(self) -> None:
        """Raise if JAX says that its profiler is active; where it does not say, starting fails."""
        state = getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)
        names = ("session", "profile_session")  # from 0.12 on, and before
        if any(getattr(state, name, None) is not None for name in names):
            raise _second("it was started before")

    def stop(self, directory: Path) -> str | None:
        """Stop recording, and check that a profile exists; return a remark on it."""
        self._stop_sampling()
        try:
            self._stop()
        except Exception as error:
            self._let_go()
            if self.wrote(directory) and not type(error).__module__.startswith("jax"):
                return (
                    f"without a trace for Perfetto: {error!r}"  # made after the profile, by Python
                )
            _remove_half(directory, str(error))
            raise NoProfileError(
                f"the profile could not be written into {directory}: {error}"
            ) from error
        if not self.wrote(directory):
            raise NoProfileError(f"JAX's profiler wrote nothing to {directory}")
        return None

    def drop(self, directory: Path) -> None:
        """Stop recording and discard the result."""
        self._stop_sampling()
        if self._let_go():
            return
        self._stop()
        for path in self.written(directory):
            path.unlink()

    def _stop_sampling(self) -> None:
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler = None

    def wrote(self, directory: Path) -> bool:
        """Return whether a profile was written since the start."""
        return bool(self.written(directory))

    def written(self, directory: Path) -> list[Path]:
        """Return the files written since the start."""
        fresh = _files(directory).items() - self._before.items()
        return sorted(path for path, _ in fresh if path.stat().st_size)

    def settle(self, within_s: float | None = None) -> bool:
        """Wait until the devices have finished; return whether they have.

        Uses only public functions and compiles nothing, since in a job of several processes each
        would have to compile alike: it waits for the device if it has such a function, and for
        every live array.
        """
        if within_s is not None and not self._done(time.monotonic() + within_s):
            return False
        for device in self._jax.local_devices():
            wait = getattr(device, "synchronize_all_activity", None)
            if wait is not None:
                wait()
        for array in self._jax.live_arrays():
            with suppress(Exception):  # donated meanwhile, or failed: the program will notice
                array.block_until_ready()
        return True

    def _done(self, until_s: float) -> bool:
        """Return whether every array is ready by then: minutes of work may be queued."""
        for array in self._jax.live_arrays():
            with suppress(Exception):
                while not array.is_ready():
                    if time.monotonic() > until_s:
                        return False
                    time.sleep(_LOOK_S)
        return True

    def _options(self, in_pieces: bool, python: bool) -> dict[str, Any]:
        make = getattr(self._jax.profiler, "ProfileOptions", None)
        if make is None:
            return {}
        options = make()
        for name, value in {**_OPTIONS, _PYTHON: int(python)}.items():
            if hasattr(options, name):
                setattr(options, name, value)
        advanced = hasattr(options, "advanced_configuration")
        if in_pieces and advanced and self._jax.default_backend() not in _NOT_IN_PIECES:
            options.advanced_configuration = _IN_PIECES
        return {"profiler_options": options}

    def _let_go(self) -> bool:
        """Reset JAX as if nothing had been recorded; return whether that was possible.

        There is no public way. Up to 0.11 a failed write blocks its profiler, and the program may
        want to profile too; a discarded recording need not be written first.
        """
        state = getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)
        with suppress(Exception):
            if state is not None:
                state.reset()
                return True
        return False


def refuse_unwritable(directory: Path) -> None:
    """Raise if a profile clearly can't be written there; create nothing."""
    try:
        place = next(path for path in (directory, *directory.parents) if path.exists())
    except OSError as error:
        raise _unwritable(directory, error.strerror or str(error)) from error
    if not place.is_dir():
        raise _unwritable(directory, "Not a directory")
    if not os.access(place, os.W_OK | os.X_OK):
        raise _unwritable(directory, f"{place} may not be written to")


def _unwritable(directory: Path, why: str) -> NoProfileError:
    return NoProfileError(f"{directory} can't be written: {why}", next="name a writable directory")


def _require_writable(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".writable-"):
            pass
    except OSError as error:
        raise _unwritable(directory, error.strerror or str(error)) from error


def _remove_half(directory: Path, message: str) -> None:
    """Remove the file that the error names: half a profile is useless, and fills a full disk."""
    for path in _files(directory):
        if str(path) in message:
            path.unlink()


def _files(directory: Path) -> dict[Path, int]:
    """Return profiles with their write times: two within a second have the same name."""
    patterns = ("plugins/profile/*/*.xplane.pb*", "plugins/profile/*/*.xplane.riegeli")
    profiles = (path for pattern in patterns for path in directory.glob(pattern))
    return {path: path.stat().st_mtime_ns for path in profiles}


def _in_words(error: Exception) -> NoProfileError:
    message = str(error)
    if "Only one profile" in message or "profiling session active" in message:
        return _second(message)
    return NoProfileError(f"JAX's profiler did not start: {message}")


def _second(message: str) -> OtherProfilerError:
    return OtherProfilerError(
        f"another profiler is active in this process ({message})",
        next="use only one profiler; jax.profiler.stop_trace() ends an open one",
    )
