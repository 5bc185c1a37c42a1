"""The profile window, requested by the program itself.

    with StepProfiler(start_step=5, num_steps=100) as profiler:
        for step in range(steps):
            profiler.on_step(step)
            state = train_step(state)

    trainer.add_hook(StepProfiler(start_step=5), every=1)   # anything with `.step`

    @StepProfiler(start_step=5)
    def train_step(state): ...

Steps are counted as they come, from 0: a resumed job's own numbers don't matter. Under
`counterpoint run` the window goes to the agent that is already in the process.
"""

from __future__ import annotations

import atexit
import functools
import sys
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Literal, ParamSpec, Protocol, Self, TypeVar, overload

from counterpoint.capture.agent.jax_hooks import AutoPgleMessages
from counterpoint.capture.agent.recorder import NotThisProcessError, ProfileRecorder
from counterpoint.capture.agent.steps import API, StepCounter
from counterpoint.capture.agent.trace import NoProfileError, Profiler, refuse_unwritable
from counterpoint.capture.agent.window import AtStep, ProcessState, WindowRequest, why_never
from counterpoint.core import CounterpointError, UsageError
from counterpoint.core.injection import NAME as AGENT

DEFAULT_DIRECTORY = Path("counterpoint-profile")
"""The default directory of a profile."""

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class _Numbered(Protocol):
    """The argument of a trainer's hook: Levanter's StepInfo."""

    @property
    def step(self) -> object: ...


class _Keeper(Protocol):
    """The object that moves the window: the process's agent, or `_Alone`."""

    @property
    def recorder(self) -> ProfileRecorder: ...
    def on_step(self, number: object) -> None: ...
    def step_ended(self) -> None: ...
    def no_more_steps(self) -> None: ...


class StepProfiler:
    """Profiles `num_steps` steps from step `start_step` on, counted from 0.

    Args:
        start_step: The first step to record. The first steps compile and warm up: leave them out.
        num_steps: The number of steps.
        log_dir: The output directory, in JAX's layout. By default the directory of the run, else
            ./counterpoint-profile.
        perfetto_link: Have JAX print a link to ui.perfetto.dev. The program waits until someone
            opens it.
        processes: "all", or the indices (`jax.process_index()`) of the processes to profile.
    """

    def __init__(
        self,
        start_step: int = 5,
        num_steps: int = 100,
        *,
        log_dir: str | PathLike[str] | None = None,
        perfetto_link: bool = False,
        processes: Literal["all"] | Sequence[int] = "all",
    ) -> None:
        if start_step < 0:
            raise UsageError(
                f"start_step={start_step}: steps are counted from 0", next="start_step=5"
            )
        if num_steps < 1:
            raise UsageError(f"num_steps={num_steps} records nothing", next="num_steps=10")
        if isinstance(processes, str) and processes != "all":
            raise UsageError(
                f"processes={processes!r} is neither 'all' nor indices of processes",
                next="processes=(0,)",
            )
        self._window = WindowRequest(
            start_step=start_step,
            steps=num_steps,
            perfetto_link=perfetto_link,
            processes=None if isinstance(processes, str) else tuple(processes),
        )
        self._log_dir = None if log_dir is None else Path(log_dir)
        self._keeper: _Keeper | None = None

    @property
    def state(self) -> str:
        """One of waiting, open, done, failed, never."""
        return "waiting" if self._keeper is None else self._keeper.recorder.state

    @property
    def reason(self) -> str | None:
        """The reason why there is no profile, or a shorter one."""
        return None if self._keeper is None else self._keeper.recorder.reason

    @property
    def path(self) -> Path | None:
        """The directory of the profile, once it exists."""
        if self._keeper is None or self.state != "done":
            return None
        return self._keeper.recorder.directory

    def on_step(self, step: object = None) -> None:
        """Handle a step that is about to begin.

        Its number, or anything with `.step`, is only noted.
        """
        if self._keeper is None:
            self._keeper = _agent(self._window, self._log_dir)
        if self._keeper is None:
            alone = _Alone(self._window, self._log_dir or DEFAULT_DIRECTORY)
            self._keeper = alone  # a caller who goes on after the error runs without a profile
            alone.refuse()
        self._keeper.on_step(getattr(step, "step", step))

    def close(self) -> None:
        """End the steps, and the profile if it is still open."""
        if self._keeper is not None:
            self._keeper.no_more_steps()
        if self._keeper is None:
            _warn("on_step was never called")
        elif isinstance(self._keeper, _Alone) and self.state == "waiting":
            _warn(self.reason or self._keeper.why_never())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        elif self._keeper is not None:
            self._keeper.no_more_steps()

    @overload
    def __call__(self, step: Callable[_Given, _Result]) -> Callable[_Given, _Result]: ...
    @overload
    def __call__(self, step: int | _Numbered | None) -> None: ...
    def __call__(self, step: object) -> object:
        """Act as a callback if given a step, as a decorator if given a function."""
        if callable(step) and not hasattr(step, "step"):
            return self._around(step)
        return self.on_step(step)

    def _around(self, function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        @functools.wraps(function)
        def step(*given: _Given.args, **named: _Given.kwargs) -> _Result:
            self.on_step()
            result = function(*given, **named)
            if self._keeper is not None:
                self._keeper.step_ended()
            return result

        return step


def _agent(window: WindowRequest, directory: Path | None) -> _Keeper | None:
    """Return the agent of this process, with the window handed to it."""
    _jax()  # starts the agent, if there is one
    observer = sys.modules.get(f"{AGENT}.observer")
    current = getattr(observer, "current", None)
    if current is not None:
        current.hand_over(window, directory)
    return current


def _jax() -> ModuleType:
    try:
        import jax
    except ImportError as error:
        raise CounterpointError(
            "StepProfiler needs JAX in this interpreter", why=str(error), next="pip install jax"
        ) from error
    return jax


class _Alone:
    """Moves the window in a process without an agent.

    Problems that prevent a profile are raised before the first step; later they are warnings, since
    training matters more than a profile.
    """

    def __init__(self, window: WindowRequest, directory: Path) -> None:
        jax = _jax()
        self._jax = jax
        self._remarks = AutoPgleMessages(jax)
        self._steps = StepCounter()
        self.recorder = ProfileRecorder(
            window,
            AtStep(window.start_step or 0),
            directory.absolute(),
            Profiler(jax),
            self._may_open,
            lambda: None,
        )
        atexit.register(self._at_exit)

    def refuse(self) -> None:
        """Raise problems that can be detected before the first step."""
        try:
            if self._chosen():
                self._remarks.refuse_two_profilers()
                refuse_unwritable(self.recorder.directory)
        except NoProfileError as refused:
            self.recorder.fail(str(refused))
            raise CounterpointError(
                "StepProfiler: no profile", why=str(refused), next=refused.next
            ) from refused

    def on_step(self, number: object) -> None:
        del number  # steps are counted instead
        with _warned():
            self.recorder.step_begins(self._steps.begin(API, time.monotonic()))

    def step_ended(self) -> None:
        with _warned():
            self.recorder.last_step_ended()

    def no_more_steps(self) -> None:
        atexit.unregister(self._at_exit)
        with _warned():
            self.recorder.finish()

    def why_never(self) -> str:
        seen = ProcessState(
            now_s=time.monotonic(),
            compiled=1,  # not observed here, and not the reason
            busy=False,
            last_compile_s=None,
            steps=self._steps.count,
        )
        return why_never(self.recorder.window, seen)

    def _may_open(self, window: WindowRequest) -> None:
        if not self._chosen():
            raise NotThisProcessError(
                f"only processes {list(window.processes or ())} are to be profiled"
            )
        self._remarks.refuse_two_profilers()

    def _chosen(self) -> bool:
        chosen = self.recorder.window.processes
        return chosen is None or self._jax.process_index() in chosen

    def _at_exit(self) -> None:
        with suppress(Exception):  # too late to raise; a profile that was open is kept
            self.recorder.end(self.why_never)


@contextmanager
def _warned() -> Generator[None]:
    """Turn errors into one-line warnings once the program is running."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  the program's step is worth more
        _warn(" ".join(str(error).split()))


def _warn(reason: str) -> None:
    warnings.warn(f"StepProfiler took no profile: {reason}", stacklevel=3)
