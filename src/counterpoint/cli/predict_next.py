"""The last line of `predict`: a command that works as it is printed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterpoint.cli.predict_options import CompileOptions
    from counterpoint.workflow.prediction.prediction import Prediction, Standing

_SHARE = 0.01  # of the step, that exposed communication must have to be asked about


def next_command(
    made: Prediction, given: CompileOptions, workload: str | None, words: Sequence[str]
) -> str:
    """What to ask next of the same workload: a path or a function, or the words of a command."""
    behind = shlex.join([workload] if workload is not None else ["--", *words])
    again = ["counterpoint", "predict", "--target", str(made.target), *_again(given)]
    recompiled = made.base.compiled is not None
    if made.base.memory.fits is False and "memory" not in given.candidate:
        return f"{shlex.join([*again, '--candidate', 'memory'])} {behind}"
    if not made.candidates and recompiled and made.base.memory.fits is not False:
        return f"{shlex.join([*again, '--candidate', 'pgle-recommended'])} {behind}"
    best = made.candidates[0] if made.candidates else None
    if best is not None and not any(it.is_base and it.tied for it in made.candidates):
        chosen = [*_again(given), *_chosen(best, made)]
        if words:
            return shlex.join(["counterpoint", "run", *_settings(given), *_run(best, made)]) + (
                f" {behind}"
            )
        again = ["counterpoint", "predict", "--target", str(made.target), *chosen]
    return f"{shlex.join([*again, '--what-if', _question(made)])} {behind}"


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
        return "flops=2x,hbm=2x"
    return "nic=2x" if target.devices > target.links.domain else "nvlink=2x"


def _run(best: Standing, made: Prediction) -> list[str]:
    from counterpoint.flags import recipes

    return [f"--settings={best.name}"] if best.name in recipes() else _chosen(best, made)


def _chosen(best: Standing, made: Prediction) -> list[str]:
    """The best candidate's settings, beyond those of the base."""
    before = made.base.settings
    flags = [it for it in best.settings.flags.items() if it not in before.flags.items()]
    variables = [it for it in best.settings.variables.items() if it not in before.env]
    return [
        *(f"--set={name}={value}" for name, value in flags),
        *(f"--env={name}={value}" for name, value in variables if name != "XLA_FLAGS"),
    ]
