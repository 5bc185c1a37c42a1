"""Finds the step among the functions that the program lowers, and then ends the program.

The program sees its devices: small functions run for real, large ones return zeros that take no
memory (`fake_execution`), and the step is not even compiled. The step is the function with a
backward pass that has the most FLOPs; in a program without one, the heaviest that is called
repeatedly, with nothing new beside it, or was lowered when the program ended.

A step is an iteration of the loop, which may call several functions: gradients and what applies
them, two networks in turn. So the program goes on for some iterations (`loop_calls`). That costs
little: what is heavy returns zeros, and the program gets a few seconds.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
import threading
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from . import OUTCOME, fake_execution, gpu_attributes, stand_ins, virtual_devices, write_line
from . import jax_internals as inside
from .fake_execution import FakeExecutions, UncompiledExecutable
from .function import JaxObject, LoweredFunction, describe_function, lowered_for
from .loop_calls import Key, LoopCalls
from .write_guard import WriteGuard

_SOME = 3  # names in an error
_SHARE = 0.1
"""Minimum FLOPs of a step, as a share of the heaviest function's."""
_AGAIN = 32
"""Calls of the heaviest function without any backward pass, after which it is taken as the step."""
_QUIET_S, _LONGEST_QUIET_S = 10.0, 60.0
"""Seconds of the program's work without a new function, and seconds in all if it only waits, after
which that one is the step although it is small enough to run: before, it may be what precedes
training, as the steps of a game."""
_NEVER = 1000
"""Calls of the heaviest function, without the one named by the user, after which to give up."""
_NOT_ON_CPU = ("for platform cpu", "interpret mode is supported on CPU")
"""In JAX's errors for what CPUs lack: kernels of cuDNN, and those of Pallas."""
_TOO_LONG = "a step takes long to compile, and it is not run"
_SILENT_S = 5.0
"""Seconds of work without a call or a lowering, after the step is known, that end the program."""
_HEAVY_FLOPS = 1e10
"""A function of a loop with more is not compiled either."""
_TEXTS = 64
"""Functions whose text is kept, since they may be part of an iteration."""

current: StepFinder | None = None


def begin(
    jax: ModuleType,
    task: dict[str, Any],
    guard: WriteGuard,
    kept: Any,  # noqa: ANN401  KeptVariables, which was loaded by its path
) -> None:
    """Catch what this process lowers from now on; jax has just been imported."""
    global current  # noqa: PLW0603  one process, one catcher
    if current is not None:
        return
    version = str(jax.__version__)
    moved = inside.missing_internals(version)
    if moved:
        more = f" and {len(moved) - _SOME} more" if len(moved) > _SOME else ""
        raise RuntimeError(f"jax {version} has no {', '.join(moved[:_SOME])}{more}")
    current = StepFinder(jax, task, guard, kept)
    current.start()


class StepFinder:
    """The functions lowered so far, and the step among them."""

    def __init__(
        self,
        jax: ModuleType,
        task: dict[str, Any],
        guard: WriteGuard,
        kept: Any,  # noqa: ANN401
    ) -> None:
        self._jax = jax
        self._noted = kept
        self._directory = Path(task["directory"])
        self._wanted: str | None = task.get("program")
        self._functions: list[LoweredFunction] = []
        self._modules: dict[int, LoweredFunction] = {}
        self._may_stand_in: bool = task["stand_ins"]
        self._pid = os.getpid()
        self.remarks = virtual_devices.ChangedRequests(lambda: self._say({"event": "asked"}))
        self._guard = guard
        self._iteration: LoopCalls | None = None
        self._untrained: LoopCalls | None = None  # as long as no function trains
        self._times: Counter[Key] = Counter()  # calls before the step was known
        self._zeros: set[Key] = set()  # functions that are not run
        self._new_s = self._times_s()  # when a function was lowered that was not known
        self._busy = False  # compiling, or writing a step
        self._is_ended = False  # by itself
        self._kept: dict[str, Any] = {}  # facts about the step
        self._fakes = FakeExecutions(
            self._called, self._hands_zeros, self._about_to_call, self._heard
        )

    def start(self) -> None:
        """Install the hooks."""
        self._say({"event": "began", "jax": str(self._jax.__version__)})
        virtual_devices.install_hooks(self._jax, self.remarks)
        lowering: JaxObject = import_module(inside.PXLA)
        compiler: JaxObject = import_module(inside.COMPILER)
        lowering.lower_sharding_computation = self._lowering(lowering.lower_sharding_computation)
        compiler.compile_or_get_cached = self._compiling(compiler.compile_or_get_cached)
        self._fakes.install()
        if self._may_stand_in:
            stand_ins.install(self._stood_in)
        hide: JaxObject = import_module(inside.TRACEBACKS)
        for module in (fake_execution, gpu_attributes, virtual_devices):
            hide.register_exclusion(module.__file__)  # from what JAX shows of a traceback
        hide.register_exclusion(__file__)
        atexit.register(self._end)

    # Hooks in JAX

    def _lowering(self, original: JaxObject) -> JaxObject:
        def lower_sharding_computation(*args: JaxObject, **named: JaxObject) -> JaxObject:
            def again() -> JaxObject:
                return original(*args, **{**named, "lowering_platforms": lowered_for()}).stablehlo()

            try:
                lowered = original(*args, **named)
            except (NotImplementedError, ValueError) as error:
                on_cpu = any(reason in str(error) for reason in _NOT_ON_CPU)
                if named.get("lowering_platforms") or not on_cpu:
                    raise
                lowered = original(*args, **{**named, "lowering_platforms": lowered_for()})
            module = lowered.stablehlo()
            order = getattr(lowered, "_device_list", None) or ()
            devices = tuple(int(device.id) for device in order)
            self._seen(describe_function(module, args[0], again, devices), module)
            return lowered

        return lower_sharding_computation

    def _compiling(self, original: JaxObject) -> JaxObject:
        def compile_or_get_cached(*args: JaxObject, **named: JaxObject) -> JaxObject:
            module = args[1] if len(args) > 1 else named["computation"]
            function = self._modules.pop(id(module), None)
            if function is None:  # an old pmap
                function = describe_function(module, None, None)
                self._seen(function, None)
            began = time.monotonic()
            is_step = self._iteration is not None and (
                function.key == self._iteration.step.key
                or (function.is_own and (function.is_training or function.flops > _HEAVY_FLOPS))
            )
            self._busy = True
            try:
                if is_step:
                    raise RuntimeError(_TOO_LONG)  # noqa: TRY301  as the compiler would
                executable = original(*args, **named)
            except RuntimeError as error:
                executable = _uncompiled(module, args, named, error)
            finally:
                self._busy = False
                if self._iteration is not None:
                    self._iteration.hear()
            if self._fakes.take(executable, function, always=is_step):
                about = {"seconds": round(time.monotonic() - began, 3), "name": function.name}
                self._say({"event": "faked", **about})
            return executable

        return compile_or_get_cached

    def _stood_in(self, note: str) -> None:
        self.remarks.note(note)
        self._say({"event": "stood_in"})

    # Handling of functions

    def _seen(self, function: LoweredFunction, module: JaxObject) -> None:
        if os.getpid() != self._pid:  # a forked helper: its modules are not steps
            return
        if module is not None:
            self._modules[id(module)] = function
            function.module = module  # keeps its id unique
        if not function.is_own:
            if self._iteration is not None:
                self._iteration.hear()  # an operation for shapes that are new: it takes time
                self._say({"event": "heard"})  # so the launcher waits, too
            return
        if self._iteration is not None:
            self._iteration.meet(function)
            self._write_facts(stopped=True)
        if all(function.key != other.key for other in self._functions):
            self._new_s = self._times_s()
        self._functions.append(function)
        self._say({"event": "lowered", **function.facts()})
        if self._wanted is not None:
            if self._iteration is None and function.is_called(self._wanted):
                self._take_step(function)
        elif self._is_step(function):
            self._take_step(function)
        self._forget()

    def _is_step(self, function: LoweredFunction) -> bool:
        if not function.is_training:
            return False
        others = [other for other in self._functions if other is not function]
        return function.flops >= max(
            (other.flops * (1.0 if other.has_backward else _SHARE) for other in others), default=0.0
        )

    def _take_step(self, step: LoweredFunction) -> None:
        known = self._iteration
        if known is not None and known.step.key == step.key:
            return  # for its own results, or for other shapes
        self._keep(step)
        if known is None:
            self._iteration = LoopCalls(step, alone=self._wanted is not None)
            threading.Thread(target=self._end_when_silent, daemon=True).start()
        else:
            known.step = step
        self._write_facts(stopped=True)
        self._say({"event": "found", "name": step.name})

    def _end_when_silent(self) -> None:
        while True:
            time.sleep(0.25)
            calls = self._iteration
            if calls is not None and not self._busy and calls.is_silent(_SILENT_S):
                self._write_facts(stopped=True)
                self._leave()

    @staticmethod
    def _times_s() -> tuple[float, float]:
        """Return the processor time of the program, which other programs don't delay, and now."""
        return time.process_time(), time.monotonic()

    def _hands_zeros(self) -> None:
        self._guard.are_zeros = True

    def _called(self, function: LoweredFunction, times: int) -> None:
        del times
        self._zeros.add(function.key)

    def _about_to_call(self, function: LoweredFunction, arguments: JaxObject) -> None:
        """Measure what stays alive beside a function of the loop."""
        calls = self._iteration or self._untrained
        if calls is not None and os.getpid() == self._pid and calls.measures(function):
            gc.collect(1)  # JAX leaves circles with the arguments of calls
            live, held = self._jax.live_arrays(), self._fakes.references
            calls.measure(function, [*arguments], live, held)

    def _heard(self, function: LoweredFunction, arguments: JaxObject, results: JaxObject) -> None:
        """Handle a call of the program's, with its arrays, which may be part of the loop."""
        if os.getpid() != self._pid:
            return
        calls = self._iteration
        if calls is None:
            self._heard_untrained(function, arguments, results)
            return
        before = calls.step
        calls.call(function, arguments, results)
        if function.is_own:
            if calls.step is not before:
                self._keep(calls.step)
            if calls.look() or calls.step is not before:
                self._keep_cycle(calls)
                self._write_facts(stopped=True)
        if calls.is_over:
            self._write_facts(stopped=True)
            self._leave()

    def _heard_untrained(
        self, function: LoweredFunction, arguments: JaxObject, results: JaxObject
    ) -> None:
        """Handle a call before any function that trains, and end what only goes on repeating."""
        best = self._best()
        if best is None:
            return
        self._times[function.key] += 1
        worked_s, passed_s = (now - new for now, new in zip(self._times_s(), self._new_s))  # noqa: B905  Python 3.9 lacks it
        is_new = worked_s < _QUIET_S and passed_s < _LONGEST_QUIET_S
        waits = best.key not in self._zeros and is_new
        if self._wanted is not None:
            if self._times[best.key] >= _NEVER and not waits:
                self._write_facts(stopped=True)
                self._leave()
            return
        calls = self._untrained
        if calls is None or calls.step.key != best.key:
            calls = self._untrained = LoopCalls(best)
        calls.call(function, arguments, results)
        if function.is_own:
            calls.look()
            if calls.times >= _AGAIN and calls.is_over and not waits:
                self._take_untrained(calls, stopped=True)
                self._leave()

    def _take_untrained(self, calls: LoopCalls, *, stopped: bool) -> None:
        """Take the loop of a program without a backward pass for its training."""
        self._iteration = calls
        self._keep(calls.step)
        self._keep_cycle(calls)
        note = None
        if stopped:
            note = (
                f"{calls.step.name} has no backward pass, and was called {calls.times} times: if"
                " the program begins to train later, name the function that does (--program NAME)"
            )
        self._write_facts(note, stopped=stopped)

    def _keep_cycle(self, calls: LoopCalls) -> None:
        """Write the text of each function of an iteration, in a directory of its own."""
        cycle = calls.cycle
        if cycle is None or cycle.is_one_call:
            return
        for number, function in enumerate(cycle.functions):
            self._write_text(function, self._directory / f"cycle{number}")

    def _best(self) -> LoweredFunction | None:
        return max(self._functions, key=lambda function: function.weight, default=None)

    def _forget(self) -> None:
        """Release the text of functions that can't be the step any more."""
        best = self._best()
        for function in self._functions[:-_TEXTS]:
            if function is not best:
                function.let_go()

    def _leave(self) -> None:
        self._say({"event": "left"})
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)

    def _end(self) -> None:
        """Handle the program's own end, or its failure."""
        self._is_ended = True
        if os.getpid() == self._pid and self._iteration is not None:
            self._write_facts(stopped=True)
        elif os.getpid() == self._pid and not self._is_known():
            best = self._best() if self._wanted is None else None
            calls = self._untrained
            if best is not None and calls is not None and calls.step.key == best.key:
                self._take_untrained(calls, stopped=False)
                return
            if best is not None:
                self._keep(best)
            self._write_facts(stopped=False)

    def _is_known(self) -> bool:
        """Return whether another process of the program had the step."""
        try:
            outcome = json.loads((self._directory / OUTCOME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return outcome["step"] is not None

    def _keep(self, step: LoweredFunction) -> None:
        """Write the step's text, lowered for the target."""
        platform = self._write_text(step, self._directory)
        self._kept = {"step": step.name, "devices": step.devices, "platform": platform}

    def _write_text(self, function: LoweredFunction, directory: Path) -> str:
        """Write a function's text, lowered for the target, and return its platform."""
        self._busy = True
        try:
            text, platform, why = function.for_target()
            directory.mkdir(exist_ok=True)
            for old in directory.glob("jax_ir*_compile.mlir"):
                old.unlink()
            name = f"jax_ir{len(self._functions):04}_{function.name}_compile.mlir"
            (directory / name).write_text(text, encoding="utf-8")
        finally:
            self._busy = False
        for doubt in (why, function.remark, virtual_devices.note_of_mesh(text)):
            if doubt:
                self.remarks.note(doubt)
        return platform

    def _write_facts(self, note: str | None = None, *, stopped: bool) -> None:
        facts: dict[str, Any] = {
            "step": None,
            "stopped": stopped,
            "ended": self._is_ended,
            "functions": [function.facts() for function in self._functions],
            "notes": [*([note] if note else []), *self.remarks.notes],
            "variables": self.remarks.variables,
            "settings": self._noted.facts(instead=self.remarks.given_flags()),
            "jax": str(self._jax.__version__),
            **(self._iteration.facts() if self._iteration else {}),
            **self._kept,
        }
        part = self._directory / f"{OUTCOME}.part"
        part.write_text(json.dumps(facts), encoding="utf-8")
        part.replace(self._directory / OUTCOME)

    def _say(self, line: dict[str, Any]) -> None:
        write_line(self._directory, line)


def _uncompiled(
    module: JaxObject, args: tuple[Any, ...], named: dict[str, Any], error: RuntimeError
) -> UncompiledExecutable:
    """Return a stand-in for an executable that the CPU's compiler refuses, or raise its error."""
    devices = args[2] if len(args) > 2 else named["devices"]
    try:
        return UncompiledExecutable(module, devices)
    except Exception:  # noqa: BLE001  whatever a pass may raise
        raise error from None
