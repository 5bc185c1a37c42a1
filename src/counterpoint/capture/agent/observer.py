"""The observer, one per process: listens to JAX, counts steps, moves the window, records it all."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from .compiles import CompileCounter
from .executions import Executions
from .jax_hooks import AutoPgleMessages, before_backends, tolerate_dump_failures, wrap_profiler
from .process_record import (
    AgentLog,
    backend_is_up,
    device_facts,
    jax_versions,
    memory_limit,
    peak_memory,
    plugin_versions,
)
from .recorder import NotThisProcessError, NotYetError, ProfileRecorder
from .steps import (
    API,
    EXECUTION,
    CountedStep,
    DeferredSteps,
    PrintedCount,
    StepKind,
    StepNumbers,
    whole_number,
)
from .trace import NoProfileError, Profiler
from .window import (
    NONE,
    PATIENCE_FACTOR,
    AtStep,
    CalmSteps,
    ProcessState,
    ProfileClaim,
    Timing,
    WhenQuiet,
    WindowAgreement,
    WindowRequest,
    parse_window,
    why_never,
)

_TICK_S = 0.2  # while a window by time may open or close
_FLUSH_S = 1.0  # of lines otherwise
_REFRESH_S = 10.0  # of the process file
_STEPS_EXPECTED_S = 60.0  # after the last one, or after the compile it waited for
_TOLD = 2  # steps marked by the program: after these its executions are not counted any more
_EARLY_S = 60.0  # a profile of executions that began later is of the training itself
_FIRST = 1  # steps up to this one are over when an execution is reported, too late to wait for

current: Observer | None = None
"""The observer of this process, for `StepProfiler` to find."""


def begin(
    jax: ModuleType,
    directory: str,
    window: str | None,
    kept: Any = None,  # noqa: ANN401  KeptVariables, which was loaded by its path
) -> None:
    """Observe this process from now on; jax has just been imported."""
    global current  # noqa: PLW0603  one process, one observer
    if current is None:
        current = Observer(jax, directory, kept)
        current.start(window)


class Observer:
    """The agent's state in its process."""

    def __init__(self, jax: ModuleType, directory: str, kept: Any = None) -> None:  # noqa: ANN401
        self._jax = jax
        self._kept = kept
        self._awake = True
        self._running = False  # something has been compiled
        self._flags_are_read = False  # by XLA, when the backends were made
        self._journal = AgentLog(directory, os.getpid())
        self._claim = ProfileClaim(self._journal.directory / "profiler.claim")
        self._compiles = CompileCounter(
            self._journal.compiled,
            os.path.dirname(str(jax.__file__)) + os.sep,  # noqa: PTH120
        )
        self._log = DeferredSteps(self._journal.step)
        self._steps = self._log.steps
        self._numbers = StepNumbers()
        self._attentive = True  # handle each step individually while a window may open
        self._remarks = AutoPgleMessages(jax)
        self._profiler = Profiler(jax)
        self._own_profiles: list[str] = []
        self._known: dict[str, Any] = {}
        self._began_s = round(time.time(), 3)
        self._looked_s = 0.0
        self._written: dict[str, Any] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._meeting = WindowAgreement(self._journal.rank.parent)
        self._executions = Executions(self._executed)
        self._heaviest_s = 0.0  # the longest compile before the window was done
        self._once_quiet = self._when_quiet(None)
        self._unseen = WhenQuiet(
            self._long_quiet,
            lambda: self._steps.count + self._executions.count > 0,
            self._steps,
            self._where_to_meet,
        )
        self.recorder = self._record(NONE, self._journal.rank / "profile")

    def start(self, window: str | None) -> None:
        """Install each hook separately, so that a failure leaves the others."""
        os.register_at_fork(after_in_child=self._fall_asleep)
        self._safely(self._journal.open)
        self._safely(lambda: self._ask(parse_window(window)))
        self._safely(self._listen)
        self._safely(lambda: wrap_profiler(self._jax, self.annotated, self._program_profiles))
        self._safely(self._spare_dumps)
        self._safely(lambda: before_backends(self._backends_begin))
        self._safely(self._remarks.listen)
        self._safely(lambda: self._known.update(jax_versions(self._jax)))
        self._note_flags()
        self._safely(self._write)
        atexit.register(self._end)

    def _spare_dumps(self) -> None:
        """Protect the program from dump failures only if the dump is ours, not its own."""
        if os.environ.get("JAX_DUMP_IR_TO") == str(self._journal.rank / "ir"):
            tolerate_dump_failures(sys.modules["jax._src.interpreters.mlir"], self._journal.failed)

    def _when_quiet(self, calm_steps: int | None) -> WhenQuiet:
        calm = CalmSteps(lambda: self._compiles.count, calm_steps)
        return WhenQuiet(self._quiet, self._expecting_steps, self._steps, self._where_to_meet, calm)

    def _ask(self, window: WindowRequest) -> None:
        timing = None
        self._once_quiet = self._when_quiet(window.calm_steps)
        if window.start_step is not None:  # for a program that may only print its steps
            timing = AtStep(window.start_step, self._unseen.time_due, self._numbers.passed)
        self.recorder = self._record(window, self.recorder.directory, timing)

    def _record(
        self, window: WindowRequest, directory: Path, timing: Timing | None = None
    ) -> ProfileRecorder:
        if timing is None:
            at = window.start_step
            timing = self._once_quiet if at is None else AtStep(at)
        recorder = ProfileRecorder(
            window, timing, directory, self._profiler, self._may_open, self._window_changed
        )
        recorder.executed = lambda: self._executions.total
        recorder.seconds_of = self._executions.seconds_of
        recorder.trains = self._executions.trains
        recorder.printed = PrintedCount(self._journal.directory).since
        return recorder

    # Events from JAX

    def _listen(self) -> None:
        monitoring = self._jax.monitoring
        monitoring.register_event_listener(self._happened)
        monitoring.register_event_duration_secs_listener(self._lasted)
        monitoring.register_scalar_listener(self._began)

    def _happened(self, event: str, **_: object) -> None:
        self._safely(self._compiles.happened, event)

    def _began(self, event: str, *_: object, **__: object) -> None:
        self._safely(self._began_stage, event)

    def _began_stage(self, event: str) -> None:
        if self._compiles.began(event) and not self._compiles.goes_on:
            self.recorder.compile_begins()

    def _lasted(self, event: str, seconds: float, **about: object) -> None:
        self._safely(self._ended_stage, event, seconds, about.get("fun_name"))

    def _ended_stage(self, event: str, seconds: float, name: object) -> None:
        compiled = self._compiles.ended(event, seconds, None if name is None else str(name))
        if not compiled:
            return
        aot = self._compiles.last_was_aot
        self._executions.compiled(self._compiles.last_name, seconds, aot=aot)
        if not self._running:
            self._running = True
            self._first_compile()
        self._record_what_was_compiled(seconds, aot=aot)
        if self._compiles.goes_on:  # the thread that looks at times finds it compiling, mostly
            self.recorder.tick()

    def _record_what_was_compiled(self, seconds: float, *, aot: bool) -> None:
        """Record its first execution, if requested, or record again if a heavier one compiled."""
        start = self.recorder.window.start_step
        if start is not None and start <= _FIRST and not aot and not self._steps.count:
            self.recorder.compiled()
        kind = self.recorder.kind
        alone = self._known.get("process_count", 1) == 1  # other processes have other times
        if self.recorder.state != "done" or not alone:
            return
        if kind is None:
            before_training = seconds > self._heaviest_s  # it may have been only a wait for data
        else:
            before_training = kind.source == EXECUTION and self._is_early()
        if before_training:
            self.recorder.again()
            self._executions.listen()

    def _is_early(self) -> bool:
        """Return whether the profile is so early that it may precede the training."""
        return time.monotonic() - (self.recorder.opened_s or 0.0) < _EARLY_S

    def _leave_executions(self) -> None:
        """Stop counting executions unless a window, or an early replaceable profile, needs them."""
        kind = self.recorder.kind
        counted = kind is not None and kind.source == EXECUTION and self._is_early()
        if self.recorder.settled and not counted:
            self._executions.leave()

    def _backends_begin(self) -> None:
        """Put the settings back for XLA, which reads its flags now, and record what it reads."""
        if self._kept is not None:
            self._safely(self._kept.restore_last)
        self._note_flags()
        self._flags_are_read = True

    def _note_flags(self) -> None:
        """Record the settings that the process has now, of flags those that XLA has read."""
        if not self._flags_are_read:
            self._known["xla_flags"] = os.environ.get("XLA_FLAGS", "")
        if self._kept is not None:
            self._safely(lambda: self._known.update(settings=self._kept.facts(self._jax.config)))

    def _first_compile(self) -> None:
        self._note_flags()
        self._remarks.listen()  # the program may have switched AutoPGLE on after its import
        if not self.recorder.settled:
            self._claim.take()
            self._safely(self._executions.listen)
        atexit.unregister(self._end)  # move it before the handlers that the backend registered
        atexit.register(self._end)
        self._watch()

    def _watch(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="counterpoint", daemon=True)
            self._thread.start()

    # Steps

    def annotated(self, name: str, number: object) -> None:
        """Handle the start of a StepTraceAnnotation."""
        if self._attentive:
            self._safely(self._step_begins, name, number)
        elif self._awake:
            self._log.note(name, number)

    def on_step(self, number: object) -> None:
        """Handle a step reported by the program through the API."""
        self._safely(self._step_begins, API, number)

    def _step_begins(self, name: str | StepKind, number: object) -> None:
        start = self._log.begin(name)
        try:
            if not self.recorder.settled:
                self._numbers.came_to(start.kind, None if name == API else whole_number(number))
                self.recorder.step_begins(start)
        finally:  # count the step whatever happens to the window
            self._log.began(start, number)
            self._watch()
            self._attentive = not self.recorder.settled

    def _executed(self, name: str, count: int) -> None:
        """Handle an execution of the leading function: its next step begins."""
        if self._steps.count >= _TOLD:
            self._executions.leave()
        elif not self.recorder.settled:
            start = CountedStep(StepKind(EXECUTION, name), count, leads=True)
            self._safely(self.recorder.step_begins, start)

    def step_ended(self) -> None:
        """Handle the end of the step that `on_step` began."""
        if self.recorder.kind == API:
            self._safely(self.recorder.last_step_ended)

    def no_more_steps(self) -> None:
        """Handle the end of the loop of API steps."""
        if self.recorder.kind == API:
            self._safely(self.recorder.finish)

    def hand_over(self, window: WindowRequest, directory: Path | None) -> None:
        """Take over a window that the program requests.

        One from the command line takes precedence.
        """
        if not self._awake:
            return
        self._steps.follow(API)
        if self.recorder.window.start_step is None and self.recorder.retire():
            self.recorder = self._record(
                window, directory.absolute() if directory else self.recorder.directory
            )
            self._attentive = True

    def _quiet(self) -> bool:
        quiet = self._compiles.quiet(time.monotonic(), self.recorder.window.quiet_s)
        return quiet or self._compiles.goes_on

    def _long_quiet(self) -> bool:
        """Return whether a program that annotates steps would have begun one by now."""
        for_s = PATIENCE_FACTOR * self.recorder.window.quiet_s
        return self._compiles.quiet(time.monotonic(), for_s)

    def _expecting_steps(self) -> bool:
        compiled_s = self._compiles.last_end_s or 0.0
        return self._steps.expected(time.monotonic(), compiled_s, _STEPS_EXPECTED_S)

    # The profile window

    def _where_to_meet(self) -> WindowAgreement | None:
        if not self._know_devices():
            return None
        return self._meeting if self._known.get("process_count", 1) > 1 else None

    def _know_devices(self) -> bool:
        """Query the devices once there is a backend; return whether they are known."""
        if "devices" not in self._known and self._compiles.count and backend_is_up():
            self._known["devices"] = []  # queried once
            self._safely(lambda: self._known.update(device_facts(self._jax)))
        return "devices" in self._known

    def _may_open(self, window: WindowRequest) -> None:
        """Raise if a profile can't be taken now."""
        self._remarks.refuse_two_profilers()
        if not backend_is_up():
            raise NotYetError("the program has compiled only for other devices")
        if window.processes is not None and self._jax.process_index() not in window.processes:
            raise NotThisProcessError(f"only processes {list(window.processes)} are to be profiled")
        if not self._claim.take():
            taken = f"{self._claim.holder} of this rank takes the profile"
            raise NotThisProcessError(taken) if self._claim.used_up else NotYetError(taken)

    def _program_profiles(self, directory: str | None) -> None:
        """Make way for a profile that the program is about to start itself."""
        if not self._awake or self._in_own_start():
            return
        if directory is not None:
            local = directory if "://" in directory else os.path.abspath(directory)  # noqa: PTH100
            self._own_profiles.append(local)
        self._safely(self.recorder.give_way, "the program started its own profile")

    def _in_own_start(self) -> bool:
        return self._profiler.starting == threading.get_ident()

    def _window_changed(self) -> None:
        self._safely(self._leave_executions)
        if self.recorder.state == "done":
            self._heaviest_s = self._executions.heaviest_s
            self._safely(self._claim.use_up)
        self._safely(self._write)

    # The thread

    def _run(self) -> None:
        self._safely(self._learn)
        while not self._ended.wait(_FLUSH_S if self._nothing_by_time() else _TICK_S):
            self._safely(self._tick)

    def _nothing_by_time(self) -> bool:
        recorder = self.recorder
        return recorder.settled or (
            recorder.window.start_step is not None and recorder.state == "waiting"
        )

    def _learn(self) -> None:
        """Collect facts that take a while, or need a backend."""
        self._known["plugins"] = plugin_versions()
        self._write()

    def _tick(self) -> None:
        now_s = time.monotonic()
        if not self.recorder.settled:
            self.recorder.tick()
        self._leave_executions()
        self._log.count()
        self._journal.flush()
        if now_s - self._looked_s >= _REFRESH_S:
            self._write()

    # The end

    def _end(self) -> None:
        if not self._awake or self._ended.is_set():
            return
        self._ended.set()
        self._safely(self._log.count)
        self._safely(lambda: self.recorder.end(self._why_never))
        self._safely(self._executions.leave)
        self._known["ended"] = round(time.time(), 3)
        self._safely(self._journal.flush)
        self._safely(self._write)

    def _why_never(self) -> str:
        compiles, steps = self._compiles, self._steps
        if compiles.count and self._claim.used_up:  # it may have ended before it needed the claim
            return f"{self._claim.holder} of this rank takes the profile"
        if self.recorder.window.start_step is None and self._meeting.step is not None:
            return (
                f"the program ended before step {self._meeting.step}, "
                "which the processes of the job had agreed on"
            )
        return why_never(
            self.recorder.window,
            ProcessState(
                now_s=time.monotonic(),
                compiled=compiles.count,
                busy=compiles.busy,
                last_compile_s=compiles.last_end_s,
                steps=steps.count or self._executions.count,
                executed=None if steps.count else self._executions.leading,
                last_compiled=compiles.last_name,
                times=compiles.times[compiles.last_name or ""],
            ),
        )

    def _fall_asleep(self) -> None:
        """Disable the agent in a forked child: JAX does not work there, and files are shared."""
        self._awake = False

    # Error handling and records

    def _safely(self, act: Callable[..., object], *given: object) -> None:
        if not self._awake:
            return
        try:
            act(*given)
        except NoProfileError:
            pass  # the window records the reason
        except Exception as error:  # noqa: BLE001  nothing in here may reach the program
            self._journal.failed(f"{getattr(act, '__name__', act)}: {error!r}")

    def _write(self) -> None:
        """Write the facts only if they changed: the launcher takes a write as a sign of life."""
        self._looked_s = time.monotonic()
        current_facts = self._facts()
        if current_facts != self._written:
            self._journal.write({**current_facts, "written": round(time.time(), 3)})
            self._written = current_facts

    def _facts(self) -> dict[str, Any]:
        up = self._know_devices()
        return {
            "schema": "counterpoint.process/1",
            "pid": os.getpid(),
            "parent": os.getppid(),
            "command": list(getattr(sys, "orig_argv", sys.argv)),  # orig_argv exists since 3.10
            "executable": sys.executable,
            "began": self._began_s,
            **self._known,
            "peak_memory": peak_memory(self._jax if up else None),
            "memory_limit": memory_limit(self._jax if up else None),
            "compiles": self._compiles.facts(),
            "steps": self._steps.facts(),
            "executions": {leading: self._executions.count}
            if (leading := self._executions.leading)
            else {},
            "autopgle": self._remarks.facts(),
            "own_profiles": list(self._own_profiles),
            "window": self.recorder.facts(self._journal.rank),
            "failures": list(self._journal.failures),
        }
