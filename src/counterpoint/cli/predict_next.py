"""The last line of `predict`: a command that works as printed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterpoint.cli.predict_options import CompileOptions
    from counterpoint.hardware import Target
    from counterpoint.hlo import Program
    from counterpoint.workflow.prediction import Prediction, RankedCandidate

_LINE = 90  # characters of settings; longer lines are hard to read
_CHIP = "flops=2x,hbm=2x"
_SHARE = 0.01  # share of the step from which exposed communication matters


def next_command(
    made: Prediction,
    given: CompileOptions,
    workload: str | None,
    words: Sequence[str],
    *,
    seen: tuple[bool, bool] = (False, False),
) -> str:
    """Return the next command for the same workload: a path, a function, or a command's words.

    `seen` says whether --what-if was answered, and whether everything was explained.
    """
    workload_words = shlex.join([workload] if workload is not None else ["--", *words])
    options = ["counterpoint", "predict", "--target", str(made.target), *_again(given)]
    recompiled = made.base.compiled is not None
    if made.base.memory.fits is False and "memory" not in given.candidate:
        return f"{shlex.join([*options, '--candidate', 'memory'])} {workload_words}"
    if not made.candidates and recompiled and made.base.memory.fits is not False:
        return f"{shlex.join([*options, '--candidate', 'pgle-recommended'])} {workload_words}"
    best = made.candidates[0] if made.candidates else None
    if best is not None and not any(
        candidate.is_base and candidate.tied for candidate in made.candidates
    ):
        return _with_best(best, made, given, workload, words)
    answered, explained = seen
    if not answered:
        return f"{shlex.join([*options, '--what-if', _question(made)])} {workload_words}"
    if not explained:
        return f"{shlex.join([*options, '--explain'])} {workload_words}"
    return _tune(made, workload, words) if recompiled else _kept(options, workload_words)


def _with_best(
    best: RankedCandidate,
    made: Prediction,
    given: CompileOptions,
    workload: str | None,
    words: Sequence[str],
) -> str:
    """Run or predict with the best candidate; if it has many settings, let `tune` write them."""
    chosen = _chosen(best, made)
    if len(shlex.join(chosen)) > _LINE:
        return _tune(made, workload, words)
    if workload is None:
        return shlex.join(["counterpoint", "run", *_settings(given), *chosen, "--", *words])
    options = [*_again(given), *(setting.replace("--settings=", "--recipe=") for setting in chosen)]
    line = ["counterpoint", "predict", "--target", str(made.target), *options]
    return shlex.join([*line, "--what-if", _question(made), workload])


def _tune(made: Prediction, workload: str | None, words: Sequence[str]) -> str:
    target = ["--target", str(made.target)]
    if workload is None:
        return shlex.join(["counterpoint", "tune", *target, "--", *words])
    return shlex.join(["counterpoint", "tune", "--predict", workload, *target])


def _kept(again: Sequence[str], behind: str) -> str:
    return f"{shlex.join([*again, '-o', 'step.pftrace'])} {behind}"


def _again(given: CompileOptions) -> Iterator[str]:
    """Yield the user's options for the compile, except candidates."""
    if given.program is not None:
        yield f"--program={given.program}"
    if given.devices is not None:
        yield f"--devices={given.devices}"
    yield from (f"--recipe={value}" for value in given.recipe)
    yield from (f"--set={value}" for value in given.set_)
    yield from (f"--env={value}" for value in given.env)


def _settings(given: CompileOptions) -> Iterator[str]:
    """Yield the same options in the form of `run`."""
    yield from (f"--settings={value}" for value in given.recipe)
    yield from (f"--set={value}" for value in given.set_)
    yield from (f"--env={value}" for value in given.env)


def _question(made: Prediction) -> str:
    """Return what could shorten the step: faster links if it waits for them, else the chip."""
    simulation, target = made.base.simulation, made.target
    if simulation.exposed_s < _SHARE * simulation.step_s:
        return _CHIP
    return _binding(made.base.program, target)


def _binding(program: Program, target: Target) -> str:
    """Return the links that would shorten the program's collectives most if twice as fast.

    That is both links of a collective across hosts if speeding up one makes the other the limit.
    """
    from counterpoint.cost import build_model, parse_what_if
    from counterpoint.hlo.collectives import collective
    from counterpoint.hlo.model import launched

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


def _chosen(best: RankedCandidate, made: Prediction) -> list[str]:
    """Return the best candidate's settings beyond those of the base, in the form of `run`."""
    from counterpoint.flags.advice import recipes

    if best.name in recipes():
        return [f"--settings={best.name}"]
    before = made.base.settings
    flags = [item for item in best.settings.flags.items() if item not in before.flags.items()]
    variables = [item for item in best.settings.variables.items() if item not in before.env]
    return [
        *(f"--set={name}={value}" for name, value in flags),
        *(f"--env={name}={value}" for name, value in variables if name != "XLA_FLAGS"),
    ]
