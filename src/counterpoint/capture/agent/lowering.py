"""Keeps what the program lowers, and ends it once the step is known.

The program believes in its devices: functions that are small run for real, large ones hand back
zeros that take no memory (`held`), and the step is not even compiled. It is the function with a
backward pass that has the most FLOPs; of a program without one, the heaviest that is called again
and again, or was lowered when the program ended.

What it touches of JAX's insides is the same in 0.8 to 0.12: `lower_sharding_computation` and
`ExecuteReplicated` of `pxla`, `compile_or_get_cached` of `compiler`, `backends` of `xla_bridge`.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from . import cudnn, held, unbuilt, virtual
from .lowered import CUDA, Function, OfJax, described

OUTCOME = "lowered.json"
JOURNAL = "journal.jsonl"
_SHARE = 0.1
"""Of the FLOPs of the heaviest function that a step has at least."""
_AGAIN = 32
"""Calls of the heaviest, while nothing with a backward pass comes: then it is what is repeated."""

current: Catcher | None = None


def enter(task: str) -> None:
    """Prepare this process, before jax is there."""
    from .arrival import when_loaded

    told = json.loads(task)
    virtual.prepare(told["devices"], told["backend"])
    when_loaded("jax", lambda: begin(sys.modules["jax"], told))


def begin(jax: ModuleType, task: dict[str, Any]) -> None:
    """Catch what this process lowers from now on; jax has just been loaded."""
    global current  # noqa: PLW0603  one process, one catcher
    if current is None:
        current = Catcher(jax, task)
        current.start()


class Catcher:
    """What was lowered so far, and the step among it."""

    def __init__(self, jax: ModuleType, task: dict[str, Any]) -> None:
        self._jax = jax
        self._directory = Path(task["directory"])
        self._wanted: str | None = task.get("program")
        self._functions: list[Function] = []
        self._modules: dict[int, Function] = {}
        self._pid = os.getpid()
        self.remarks = virtual.Remarks(lambda: self._say({"event": "asked"}))
        self._held = held.Held(self._called)

    def start(self) -> None:
        """Hook in."""
        self._say({"event": "began", "jax": str(self._jax.__version__)})
        virtual.pretend(self._jax, self.remarks)
        cudnn.pretend(self.remarks)
        lowering: OfJax = import_module("jax._src.interpreters.pxla")
        compiler: OfJax = import_module("jax._src.compiler")
        lowering.lower_sharding_computation = self._lowering(lowering.lower_sharding_computation)
        compiler.compile_or_get_cached = self._compiling(compiler.compile_or_get_cached)
        self._held.stand_in(lowering)
        hide: OfJax = import_module("jax._src.traceback_util")
        for file in (__file__, held.__file__, virtual.__file__, unbuilt.__file__):
            hide.register_exclusion(file)  # from what JAX shows of a traceback
        atexit.register(self._end)

    # What JAX is asked

    def _lowering(self, original: OfJax) -> OfJax:
        def lower_sharding_computation(*args: OfJax, **named: OfJax) -> OfJax:
            def again() -> OfJax:
                return original(*args, **{**named, "lowering_platforms": CUDA}).stablehlo()

            try:
                made = original(*args, **named)
            except NotImplementedError as error:
                if named.get("lowering_platforms") or "for platform cpu" not in str(error):
                    raise
                made = original(*args, **{**named, "lowering_platforms": CUDA})
            module = made.stablehlo()
            self._seen(described(module, args[0], again), module)
            return made

        return lower_sharding_computation

    def _compiling(self, original: OfJax) -> OfJax:
        def compile_or_get_cached(*args: OfJax, **named: OfJax) -> OfJax:
            module = args[1] if len(args) > 1 else named["computation"]
            function = self._modules.pop(id(module), None)
            if function is None:  # a pmap of old
                function = described(module, None, None)
                self._seen(function, None)
            began = time.monotonic()
            try:
                executable = original(*args, **named)
            except RuntimeError as error:
                executable = _unbuilt(module, args, named, error)
            if self._held.take(executable, function):
                about = {"seconds": round(time.monotonic() - began, 3), "name": function.name}
                self._say({"event": "held", **about})
            return executable

        return compile_or_get_cached

    # What becomes of it

    def _seen(self, function: Function, module: OfJax) -> None:
        if os.getpid() != self._pid:  # a forked helper: its modules are no step
            return
        if module is not None:
            self._modules[id(module)] = function
            function.module = module  # so that its id stays its own
        if not function.is_own:
            return
        self._functions.append(function)
        self._say({"event": "lowered", **function.facts()})
        if self._wanted is not None:
            if function.is_called(self._wanted):
                self._stop(function, None)
        elif self._is_step(function):
            self._stop(function, None)
        self._forget()

    def _is_step(self, function: Function) -> bool:
        if not function.is_training:
            return False
        others = [it for it in self._functions if it is not function]
        return function.flops >= max(
            (it.flops * (1.0 if it.has_backward else _SHARE) for it in others), default=0.0
        )

    def _called(self, function: Function, times: int) -> None:
        best = self._best()
        if self._wanted is None and function is best and times >= _AGAIN:
            self._stop(function, "it has no backward pass, and was called again and again")

    def _best(self) -> Function | None:
        return max(self._functions, key=lambda it: it.weight, default=None)

    def _forget(self) -> None:
        """What can't be the step any more need not be kept whole."""
        best = self._best()
        for function in self._functions:
            if function is not best:
                function.let_go()

    def _stop(self, step: Function, note: str | None) -> None:
        self._write(step, [note] if note else [], stopped=True)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)

    def _end(self) -> None:
        """The program has come to its end by itself, or failed."""
        if os.getpid() == self._pid and not self._is_known():
            best = self._best() if self._wanted is None else None
            self._write(best, [], stopped=False)

    def _is_known(self) -> bool:
        """Whether another process of the program had the step."""
        try:
            told = json.loads((self._directory / OUTCOME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return told["step"] is not None

    def _write(self, step: Function | None, notes: list[str], *, stopped: bool) -> None:
        facts: dict[str, Any] = {
            "step": None,
            "stopped": stopped,
            "functions": [it.facts() for it in self._functions],
            "notes": [*notes, *self.remarks.notes],
            "variables": self.remarks.variables,
            "jax": str(self._jax.__version__),
        }
        if step is not None:
            text, platform, why = step.for_cuda()
            name = f"jax_ir{len(self._functions):04}_{step.name}_compile.mlir"
            (self._directory / name).write_text(text, encoding="utf-8")
            facts |= {"step": step.name, "devices": step.devices, "platform": platform}
            facts["notes"] += [why] if why else []
        part = self._directory / f"{OUTCOME}.part"
        part.write_text(json.dumps(facts), encoding="utf-8")
        part.replace(self._directory / OUTCOME)

    def _say(self, line: dict[str, Any]) -> None:
        with (self._directory / JOURNAL).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _unbuilt(
    module: OfJax, args: tuple[Any, ...], named: dict[str, Any], error: RuntimeError
) -> unbuilt.Unbuilt:
    """What stands for an executable that the CPU's compiler refuses; else its error stands."""
    devices = args[2] if len(args) > 2 else named["devices"]
    try:
        return unbuilt.Unbuilt(module, devices)
    except Exception:  # noqa: BLE001  whatever a pass may raise
        raise error from None
