"""The command that follows a prediction: what could still shorten the step, or the run itself."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from counterpoint.core.notebook import as_typed
from counterpoint.cost.build import build_model
from counterpoint.cost.what_if import parse_what_if
from counterpoint.flags.recipe import recipes
from counterpoint.hardware.target import Target
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.program import Program, launched
from counterpoint.workflow.prediction import Prediction, RankedCandidate

_LINE = 90  # characters of settings; longer lines are hard to read
_CHIP = "flops=2x,hbm=2x"
_SHARE = 0.01  # share of the step from which exposed communication matters


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictCommand:
    """A command line of `predict`, as far as the next one repeats it.

    Args:
        workload: A path or a function; None for a command.
        command: The words of the command.
        options: The user's options for the compile, except candidates.
        settings: The base among them, as options of `run`.
        candidates: The user's candidates.
        asks_what_if: Whether --what-if was answered.
        explains: Whether everything was explained.
    """

    workload: str | None
    command: Sequence[str] = ()
    options: Sequence[str] = ()
    settings: Sequence[str] = ()
    candidates: Sequence[str] = ()
    asks_what_if: bool = False
    explains: bool = False

    def again(self, target: Target, *more: str) -> str:
        """Return the command line with more options."""
        return self.of("predict", target, *more)

    def of(self, command: str, target: Target, *more: str) -> str:
        """Return a command line of another command for the same workload."""
        words = ["counterpoint", command, "--target", str(target), *self.options, *more]
        subject = [self.workload] if self.workload is not None else ["--", *as_typed(self.command)]
        return shlex.join([*words, *subject])


def next_command(prediction: Prediction, given: PredictCommand) -> str:
    """Return the next command for the same workload."""
    target = prediction.target
    on_tpus = target.tpu is not None
    recompiled = prediction.base.compiled is not None and not on_tpus  # `tune` is for GPUs
    first = None if on_tpus else _first(prediction, given)
    if first is not None:
        return first
    best = prediction.candidates[0] if prediction.candidates else None
    if (
        best is not None
        and not on_tpus
        and not any(candidate.is_base and candidate.tied for candidate in prediction.candidates)
    ):
        return _with_best(best, prediction, given)
    if not given.asks_what_if:
        return given.again(target, "--what-if", _question(prediction))
    if not given.explains:
        return given.again(target, "--explain")
    if recompiled:
        return _tune(prediction, given)
    return given.again(target, "-o", "step.pftrace")


def _first(prediction: Prediction, given: PredictCommand) -> str | None:
    """Return what comes before everything else: a step that fits, or the usual recipe."""
    target, fits = prediction.target, prediction.base.memory.fits
    is_compiled = prediction.base.compiled is not None
    if fits is False and is_compiled and not given.candidates:
        return given.of("memory", target, "--fit")
    if fits is False and "memory" not in given.candidates:
        return given.again(target, "--candidate", "memory")
    if not prediction.candidates and is_compiled and fits is not False:
        return given.again(target, "--candidate", "pgle-recommended")
    return None


def _with_best(best: RankedCandidate, prediction: Prediction, given: PredictCommand) -> str:
    """Run or predict with the best candidate; if it has many settings, let `tune` write them."""
    chosen = _chosen(best, prediction)
    if len(shlex.join(chosen)) > _LINE:
        return _tune(prediction, given)
    if given.workload is None:
        return shlex.join(
            ["counterpoint", "run", *given.settings, *chosen, "--", *as_typed(given.command)]
        )
    as_base = [setting.replace("--settings=", "--recipe=") for setting in chosen]
    return given.again(prediction.target, *as_base, "--what-if", _question(prediction))


def _tune(prediction: Prediction, given: PredictCommand) -> str:
    target = ["--target", str(prediction.target)]
    if given.workload is None:
        return shlex.join(["counterpoint", "tune", *target, "--", *given.command])
    return shlex.join(["counterpoint", "tune", "--predict", given.workload, *target])


def _question(prediction: Prediction) -> str:
    """Return what could shorten the step: faster links if it waits for them, else the chip."""
    simulation, target = prediction.base.simulation, prediction.target
    if simulation.exposed_s < _SHARE * simulation.step_s:
        return _CHIP
    if target.tpu is not None:
        return "dcn=2x" if target.tpu.slices > 1 else "ici=2x"
    return _binding(prediction.base.program, target)


def _binding(program: Program, target: Target) -> str:
    """Return the links that would shorten the program's collectives most if twice as fast.

    That is both links of a collective across hosts if speeding up one makes the other the limit.
    """
    communicating = [
        instruction
        for body in launched(program)
        for instruction in body.instructions
        if collective(program, instruction)
    ]
    domain = "nvlink" if target.wiring.joins else "host"

    def seconds(question: str) -> float:
        model = build_model(target, what_if=parse_what_if(question) if question else None)
        return sum(model.price(program, instruction).seconds for instruction in communicating)

    usual, both = seconds(""), f"nic=2x,{domain}=2x"
    single = min(("nic=2x", f"{domain}=2x", "host=2x"), key=seconds)
    saved = usual - seconds(both)
    if saved <= 0:
        return _CHIP  # only the latency of collectives remains, which no link shortens
    return single if usual - seconds(single) > 0.5 * saved else both


def _chosen(best: RankedCandidate, prediction: Prediction) -> list[str]:
    """Return the best candidate's settings beyond those of the base, in the form of `run`."""
    if best.name in recipes():
        return [f"--settings={best.name}"]
    before = prediction.base.settings
    flags = [item for item in best.settings.flags.items() if item not in before.flags.items()]
    variables = [item for item in best.settings.variables.items() if item not in before.env]
    return [
        *(f"--set={name}={value}" for name, value in flags),
        *(f"--env={name}={value}" for name, value in variables if name != "XLA_FLAGS"),
    ]
