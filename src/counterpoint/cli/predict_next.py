"""The last line of `predict`: a command that works as it is printed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterpoint.cli.predict_options import CompileOptions
    from counterpoint.hardware import Target
    from counterpoint.hlo import Program
    from counterpoint.workflow.prediction import Prediction, Standing

_LINE = 90  # characters of settings, in a line that is read at a glance
_CHIP = "flops=2x,hbm=2x"
_SHARE = 0.01  # of the step, that exposed communication must have to be asked about


def next_command(
    made: Prediction,
    given: CompileOptions,
    workload: str | None,
    words: Sequence[str],
    *,
    seen: tuple[bool, bool] = (False, False),
) -> str:
    """What to ask next of the same workload: a path or a function, or the words of a command.

    `seen` tells whether --what-if was answered, and whether all was explained.
    """
    behind = shlex.join([workload] if workload is not None else ["--", *words])
    again = ["counterpoint", "predict", "--target", str(made.target), *_again(given)]
    recompiled = made.base.compiled is not None
    if made.base.memory.fits is False and "memory" not in given.candidate:
        return f"{shlex.join([*again, '--candidate', 'memory'])} {behind}"
    if not made.candidates and recompiled and made.base.memory.fits is not False:
        return f"{shlex.join([*again, '--candidate', 'pgle-recommended'])} {behind}"
    best = made.candidates[0] if made.candidates else None
    if best is not None and not any(it.is_base and it.tied for it in made.candidates):
        return _with_best(best, made, given, workload, words)
    answered, explained = seen
    if not answered:
        return f"{shlex.join([*again, '--what-if', _question(made)])} {behind}"
    if not explained:
        return f"{shlex.join([*again, '--explain'])} {behind}"
    return _tune(made, workload, words) if recompiled else _kept(again, behind)


def _with_best(
    best: Standing,
    made: Prediction,
    given: CompileOptions,
    workload: str | None,
    words: Sequence[str],
) -> str:
    """Run with the best candidate, or ask of it; where it is many settings, `tune` writes them."""
    chosen = _chosen(best, made)
    if len(shlex.join(chosen)) > _LINE:
        return _tune(made, workload, words)
    if workload is None:
        return shlex.join(["counterpoint", "run", *_settings(given), *chosen, "--", *words])
    asked = [*_again(given), *(it.replace("--settings=", "--recipe=") for it in chosen)]
    line = ["counterpoint", "predict", "--target", str(made.target), *asked]
    return shlex.join([*line, "--what-if", _question(made), workload])


def _tune(made: Prediction, workload: str | None, words: Sequence[str]) -> str:
    target = ["--target", str(made.target)]
    if workload is None:
        return shlex.join(["counterpoint", "tune", *target, "--", *words])
    return shlex.join(["counterpoint", "tune", "--predict", workload, *target])


def _kept(again: Sequence[str], behind: str) -> str:
    return f"{shlex.join([*again, '-o', 'step.pftrace'])} {behind}"


def _again(given: CompileOptions) -> Iterator[str]:
    """What the user said of the compile, but for candidates."""
    if given.program is not None:
        yield f"--program={given.program}"
    if given.devices is not None:
        yield f"--devices={given.devices}"
    yield from (f"--recipe={it}" for it in given.recipe)
    yield from (f"--set={it}" for it in given.set_)
    yield from (f"--env={it}" for it in given.env)


def _settings(given: CompileOptions) -> Iterator[str]:
    """The same, as `run` takes it."""
    yield from (f"--settings={it}" for it in given.recipe)
    yield from (f"--set={it}" for it in given.set_)
    yield from (f"--env={it}" for it in given.env)


def _question(made: Prediction) -> str:
    """What could make this step shorter: links where it waits for them, else the chip."""
    simulation, target = made.base.simulation, made.target
    if simulation.exposed_s < _SHARE * simulation.step_s:
        return _CHIP
    return _binding(made.base.program, target)


def _binding(program: Program, target: Target) -> str:
    """The links that shorten the program's collectives the most where they are twice as fast.

    Both that a collective across hosts takes, where either alone soon waits for the other.
    """
    from counterpoint.cost import build_model, parse_what_if
    from counterpoint.hlo.collectives import collective
    from counterpoint.hlo.model import launched

    talks = [
        it for body in launched(program) for it in body.instructions if collective(program, it)
    ]
    domain = "nvlink" if target.wiring.joins else "host"

    def seconds(question: str) -> float:
        model = build_model(target, what_if=parse_what_if(question) if question else None)
        return sum(model.price(program, it).seconds for it in talks)

    usual, both = seconds(""), f"nic=2x,{domain}=2x"
    one = min(("nic=2x", f"{domain}=2x", "host=2x"), key=seconds)
    saved = usual - seconds(both)
    if saved <= 0:
        return _CHIP  # only the latency of its collectives is left, which no link shortens
    return one if usual - seconds(one) > 0.5 * saved else both


def _chosen(best: Standing, made: Prediction) -> list[str]:
    """The best candidate's settings, beyond those of the base, as `run` takes them."""
    from counterpoint.flags.advice import recipes

    if best.name in recipes():
        return [f"--settings={best.name}"]
    before = made.base.settings
    flags = [it for it in best.settings.flags.items() if it not in before.flags.items()]
    variables = [it for it in best.settings.variables.items() if it not in before.env]
    return [
        *(f"--set={name}={value}" for name, value in flags),
        *(f"--env={name}={value}" for name, value in variables if name != "XLA_FLAGS"),
    ]
