"""`counterpoint flags recommend`: settings worth a try, each with its reason and basis."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from counterpoint.cli.numbers import WholeNumber
from counterpoint.core.errors import UsageError

if TYPE_CHECKING:
    from counterpoint.flags.advice.recommend import Recommendation, Situation

_LINE: Final = 120
"""Characters of a command that is read at a glance; settings that need more go through a file."""
_KEPT: Final = "recommended.env"
RecipeForm = Literal["bash", "env", "python", "slurm", "k8s", "compiler_options"]


def recommend(  # noqa: PLR0913 - the options of the command
    *,
    for_: Annotated[tuple[str, ...], Parameter(name="--for", show_default=False)],
    target: str | None = None,
    jaxlib: str | None = None,
    program: Path | None = None,
    module: str | None = None,
    goal: str = "speed",
    as_: Annotated[RecipeForm | None, Parameter(name="--as")] = None,
    top: WholeNumber = 12,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Recommend settings: those that exist in the release, are not its default, and can matter.

    Args:
        for_: The parallelism: fsdp, tp, pp, dp, ep, multislice (of TPUs); several with commas.
        target: Where it runs: 8xH100, or 4x8xH100 for four hosts of eight; any chip by its name.
        jaxlib: The release; else the one installed here, else the newest known.
        program: What XLA made of the program: an HLO file, a directory of XLA dumps, a Run, or a
            profile that embeds its HLO. What it has decides what can matter.
        module: Of several modules this one.
        goal: speed, memory, debug or pgle.
        as_: Print the settings in this form only, with the reasons as comments.
        top: Rows of what is left out.
        json: Print everything as JSON.
    """
    from counterpoint.flags.advice.recommend import recommend as find_settings
    from counterpoint.report import flags_recommend_document as drawn
    from counterpoint.report.terminal import print_document

    if top < 1:
        raise UsageError(f"--top takes a number from 1 on, not {top}")
    if json and as_ is not None:
        raise UsageError("--json and --as are two forms: choose one")
    words = (one.strip().lower() for text in for_ for one in text.split(","))
    workloads = tuple(dict.fromkeys(one for one in words if one))
    found = find_settings(_situation(workloads, goal, target, jaxlib, (program, module)))
    if as_ is not None:
        sys.stdout.write(drawn.recommendation_text(found, as_))
    elif json:
        sys.stdout.write(drawn.recommendation_json(found))
    else:
        again = {
            "--for": ",".join(workloads),
            "--target": target,
            "--jaxlib": jaxlib,
            "--program": str(program) if program is not None else None,
            "--module": module,
            "--goal": goal if goal != "speed" else None,
        }
        given = [word for name, text in again.items() if text is not None for word in (name, text)]
        same = ["counterpoint", "flags", "recommend", *given]
        then = _check(found, target, program, module)
        if then is None:
            then = shlex.join([*same, "--as", "bash"])
        elif len(then) > _LINE:
            kept = f"{shlex.join([*same, '--as', 'env'])} > {_KEPT}"
            then = f"{kept} && {_check(found, target, program, module, candidate=_KEPT)}"
        print_document(drawn.recommendation_document(found, top, then), sys.stdout)


def _check(
    found: Recommendation,
    target: str | None,
    program: Path | None,
    module: str | None,
    candidate: str | None = None,
) -> str | None:
    """The prediction that checks them; none where nothing is recommended that it could show.

    `candidate` is a file that holds them.
    """
    from counterpoint.flags.line import write_line
    from counterpoint.flags.settings import Settings

    settings = Settings(found.settings.xla, found.settings.env)
    if settings == Settings() or not _predicts(target or "8xH100"):
        return None
    words = ["--target", target or "8xH100", "--candidate", candidate or write_line(settings)]
    if program is not None and _compiles(program, module):
        chosen = [] if module is None else ["--program", module]
        return shlex.join(["counterpoint", "predict", str(program), *chosen, *words])
    return shlex.join(["counterpoint", "predict", *words, "--", "python", "train.py"])


def _predicts(target: str) -> bool:
    """Whether `predict` compiles for it: for TPUs there is no compiler here."""
    from counterpoint.compile import parse_target
    from counterpoint.core.errors import CounterpointError

    try:
        parse_target(target)
    except CounterpointError:
        return False
    return True


def _compiles(program: Path, module: str | None) -> bool:
    """Whether it is there as it was before XLA's passes."""
    from counterpoint.compile import load_workload
    from counterpoint.core.errors import CounterpointError

    try:
        load_workload(program, module)
    except CounterpointError:
        return False
    return True


def _situation(
    workloads: tuple[str, ...],
    goal: str,
    target: str | None,
    jaxlib: str | None,
    named: tuple[Path | None, str | None],
) -> Situation:
    """What is recommended for, with all that the program and this machine tell of it."""
    from counterpoint.cli.finished_program import finished_program
    from counterpoint.flags.advice.program_facts import program_facts
    from counterpoint.flags.advice.recommend import Situation
    from counterpoint.flags.catalogue import release
    from counterpoint.flags.source import installed_jaxlib
    from counterpoint.hardware import parse_devices

    where = parse_devices(target) if target is not None else None
    program, module = named
    subject = finished_program(program, module) if program is not None else None
    told = subject.circumstances.get("jaxlib") if subject is not None else None
    known = release(jaxlib or told or installed_jaxlib())
    return Situation(
        workloads=workloads,
        goal=goal,
        release=known,
        chip=where.chip if where is not None else None,
        hosts=where.hosts if where is not None else None,
        devices=where.count if where is not None else None,
        program=program_facts(subject.program, known.version) if subject is not None else None,
        where=shlex.quote(str(program)) if program is not None else None,
    )
