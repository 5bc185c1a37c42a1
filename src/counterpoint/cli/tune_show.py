"""`counterpoint tune show`: a study's conclusion, its winner's settings, its evidence bundle."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from counterpoint.cli.flags_advice import BY_SUFFIX, FormName
from counterpoint.cli.output import (
    check_digest,
    check_output,
    check_page,
    write_output,
)
from counterpoint.cli.printing import (
    document_text,
    print_report,
    say_line,
    say_wrote,
    write_file,
    write_result,
)
from counterpoint.cli.profiles import write_digest
from counterpoint.core import InputError, UsageError
from counterpoint.core.bounds import check_number
from counterpoint.core.notebook import as_typed
from counterpoint.flags.forms import one_line
from counterpoint.report.document import Document
from counterpoint.report.tune.tune_json import tune_json
from counterpoint.tune.conclusion import FAILURES, lacks_profile, settings_caveats
from counterpoint.tune.race import SPENT
from counterpoint.tune.study import plan_of, read_study

if TYPE_CHECKING:
    from counterpoint.flags.catalogue.flag import Release
    from counterpoint.flags.forms import SettingsForm
    from counterpoint.flags.settings import Settings
    from counterpoint.tune.arm import Arm
    from counterpoint.tune.conclusion import Conclusion
    from counterpoint.tune.plan import Budget
    from counterpoint.tune.study import Study


_ENDINGS: Final = (".tar.gz", ".tgz")


_ASKED_FOR: Final = re.compile(r"(--budget|--confirm-rows|--cap) ('[^']*'|\d+)")
"""Options in the sentence of a conclusion that would decide it."""


def check_bundle(path: Path, *, force: bool) -> None:
    """Refuse a path that can't or must not be written."""
    if path.name and not path.name.endswith(_ENDINGS):
        raise UsageError(
            f"can't write {path}: a bundle is a .tar.gz",
            next=f"use --bundle {path.with_suffix('.tar.gz')}",
        )
    check_output(path, force=force, endings=(".tgz", ".gz"), argument="bundle")


def next_command(
    conclusion: Conclusion, study: Study, directory: Path, command: Sequence[str] = ()
) -> str:
    """Return the next command: continue, measure, use the winner, or look elsewhere.

    `command` is run if the study itself, a prediction, has no command.
    """
    place = shlex.quote(str(directory))
    shown_command = shlex.join(as_typed(study.began.command or command))
    if conclusion.state == "running":
        return f"watch -n 60 counterpoint tune show {place}"
    if (words := _words_on(conclusion, study)) is not None:
        return _again(study, words, place)
    return _of_one_that_is_done(conclusion, place, shown_command)


def _of_one_that_is_done(conclusion: Conclusion, place: str, behind: str) -> str:
    winner = conclusion.winner
    if winner is None:
        return f"counterpoint run --profile-start-step 5 -- {behind or 'python train.py'}"
    if conclusion.basis != "predicted":
        return f"counterpoint tune show {place} --as slurm -o job.sh"
    has_settings = bool(winner.settings.flags or winner.settings.variables)
    if not behind:  # no command is known that could be run
        helps = has_settings or not lacks_profile(winner)
        return f"counterpoint tune show {place} --as bash" if helps else "counterpoint pgle --help"
    if lacks_profile(winner):
        given = f"--settings {place}/best.env " if has_settings else ""
        return f"counterpoint pgle manual {given}--profile-start-step 5 -- {behind}"
    return f"counterpoint tune --arm {place}/best.env -- {behind}"


def _words_on(conclusion: Conclusion, study: Study) -> tuple[str, ...] | None:
    """Return the command that continues the study if it should be continued, else None."""
    if conclusion.state != "done" or not study.is_done:
        return study.began.words
    if conclusion.winner is not None and conclusion.confirmed:
        return None
    return _with_more(conclusion, study)


def _again(study: Study, words: Sequence[str], place: str) -> str:
    """Return the command that began or continues it, from the directory it was started in."""
    if not words:
        return f"less {place}/journal.jsonl"
    line = shlex.join(words)
    elsewhere = study.began.cwd and Path(study.began.cwd) != Path.cwd()
    return f"cd {shlex.quote(study.began.cwd)} && {line}" if elsewhere else line


def _with_more(conclusion: Conclusion, study: Study) -> tuple[str, ...] | None:
    """Return the command with the rows and the budget that would decide it; None without such."""
    asked = _ASKED_FOR.findall(conclusion.sentence)
    words, more = study.began.words, {option: value.strip("'") for option, value in asked}
    if study.ended is not None and study.ended.why == SPENT:
        more = {"--budget": _twice(plan_of(study).budget), **more}
    if not more or not words:
        return None
    end = words.index("--") if "--" in words else len(words)
    own, program = list(words[:end]), words[end:]
    for option in more:
        own = [
            word
            for before, word in pairwise(("", *own))
            if option not in (word, before) and not word.startswith(f"{option}=")
        ]
    return (*own, *(word for pair in more.items() for word in pair), *program)


def _twice(budget: Budget) -> str:
    parts = [f"{2 * budget.trials} trials"] if budget.trials is not None else []
    if budget.seconds is not None:
        parts.append(f"{math.ceil(2 * budget.seconds / 60)}m")
    return ", ".join(parts)


def resume_command(words: Sequence[str], directory: Path) -> tuple[str, ...]:
    """Return the command line of `tune` that continues the study, with its path added if absent."""
    at = words.index("--") if "--" in words else len(words)
    own = [word for word in words[:at] if word != "--json"]
    named = any(word in ("-o", "--out") or word.startswith(("-o=", "--out=")) for word in own)
    place = [] if named else ["-o", str(directory)]
    return ("counterpoint", *own, *place, *words[at:])


_BAD: Final = FAILURES | {"failed", "other numbers"}
_SHEBANG: Final = "#!"


def laid_out(study: Study, settings: Settings, form: SettingsForm) -> Settings:
    """Return the settings, for a Slurm job with the measured nodes and processes."""
    from counterpoint.flags.settings import Layout
    from counterpoint.tune.study import plan_of

    if form != "slurm" or settings.layout is not None or not study.trials:
        return settings
    shape = plan_of(study).shape
    ranks = shape.ranks_per_node or (1 if shape.per == "node" else None)
    return replace(settings, layout=Layout(hosts=shape.nodes, processes_per_host=ranks))


def release_of(study: Study) -> Release:
    """Return the study's jaxlib; for old studies that lack it, the installed one."""
    from counterpoint.flags.catalogue.lookup import release
    from counterpoint.flags.jaxlib import chosen_release

    return release(study.jaxlib) if study.jaxlib is not None else chosen_release()


def headed(text: str, conclusion: Conclusion, directory: Path, arm: Arm) -> str:
    """Return the text after a comment with its origin."""
    won = conclusion.winner is not None and conclusion.winner.name == arm.name
    origin = conclusion.sentence if won else f"the arm {arm.name}"
    state = "" if conclusion.state == "done" else f" ({conclusion.state}: not final)"
    found = (f"{origin}{state}", f"counterpoint tune, {directory}", *warnings(conclusion, arm))
    return _with_comment(text, found)


def warnings(conclusion: Conclusion, arm: Arm) -> list[str]:
    """Return what to know before using these settings, such as that the arm failed."""
    row = next((candidate for candidate in conclusion.rows if candidate.arm.name == arm.name), None)
    bad: list[str] = []
    if row is not None and row.status in _BAD:
        kind = "" if row.status == "failed" else f"{row.status}: "
        bad.append(f"{arm.name} failed: {kind}{row.why}")
    return [*bad, *settings_caveats(arm)]


def _with_comment(text: str, lines: Iterable[str]) -> str:
    """Return the text after a comment, which starts with `#` in all forms."""
    comment = "".join(f"# {one_line(line)}\n" for line in lines)
    first, end, rest = text.partition("\n")
    return f"{first}{end}{comment}{rest}" if first.startswith(_SHEBANG) else f"{comment}{text}"


def show(  # noqa: PLR0913 - the options of the command
    study: Path,
    *,
    as_: FormName | Literal["digest"] | None = None,
    arm: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # --xla_a=1
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    bundle: Path | None = None,
    force: bool = False,
    top: int = 20,
    budget: int | None = None,
    json: bool = False,
    html: Path | None = None,
) -> None:
    """Show the result of a study, also while it runs or after an interruption.

    Args:
        study: The directory of the study.
        as_: Print the winner's settings in this form, instead of the report; `digest`: its most
            important lines, for a program that reads text.
        arm: Use the settings of this arm instead of the winner's.
        out: Write the settings to this file; without --as its suffix selects the form.
        bundle: Write journal, report, Runs and settings into one .tar.gz that can be shared.
        force: Overwrite existing files.
        top: Number of rows in the table of arms.
        budget: Characters of the digest; by default 1,500.
        json: Print the full result as JSON.
        html: Write the report as one page to this file (.html).
    """
    check_number("--top", top, 1)
    size = check_digest(as_, budget, json=json)
    form = None if as_ == "digest" else as_
    settings = bool(form or arm or out)
    _refuse_two(json=json, settings=settings, bundle=bundle is not None, digest=size is not None)
    check_page(html, force=force)
    if bundle is not None:
        _bundle(study, bundle, force=force)
        return
    loaded = read_study(study)
    conclusion = _conclusion(loaded)
    if html is not None:
        _write_page(loaded, conclusion, study, top, html, arm)
        if not (settings or json or size is not None):
            return
    if size is not None:
        _digest(loaded, conclusion, study, size)
    elif settings:
        _settings(loaded, conclusion, study, (form, arm, out), force=force)
    else:
        _report(loaded, conclusion, study, top, as_json=json)


def _conclusion(study: Study) -> Conclusion:
    from counterpoint.tune.conclusion import conclude
    from counterpoint.tune.study import plan_of

    return conclude(study, plan_of(study))


def _refuse_two(*, json: bool, settings: bool, bundle: bool, digest: bool) -> None:
    if json + settings + bundle + digest > 1:
        raise UsageError(
            "--json, --bundle, --as digest and settings (--as, --arm, -o) exclude each other: use"
            " one",
            next="counterpoint tune show STUDY --json > report.json",
        )


def _bundle(directory: Path, path: Path, *, force: bool) -> None:
    from counterpoint.report.tune.evidence import write_bundle

    check_bundle(path, force=force)
    hidden = write_bundle(directory, path)
    say_wrote(path)
    if hidden:
        say_line(f"redacted: the values of {', '.join(hidden)}")
    say_line("It contains the program's output and command line: review them before you share it.")


def _digest(study: Study, conclusion: Conclusion, directory: Path, size: int) -> None:
    from counterpoint.report.tune.tune_digest import tune_digest

    next_line = next_command(conclusion, study, directory)
    write_digest(tune_digest(conclusion, directory.resolve().name, next_line).text(size), None)


def _report(
    study: Study, conclusion: Conclusion, directory: Path, top: int, *, as_json: bool
) -> None:
    from counterpoint.report.tune.tune_document import tune_document
    from counterpoint.report.tune.tune_json import tune_json

    if as_json:
        write_result(tune_json(conclusion, directory))
        return
    next_line = next_command(conclusion, study, directory)
    print_report(tune_document(conclusion, directory, top, next_line))


def _write_page(
    study: Study, conclusion: Conclusion, directory: Path, top: int, path: Path, arm: str | None
) -> None:
    from counterpoint.cli.pages import study_page, write_page

    next_line = next_command(conclusion, study, directory)
    chosen = None if arm is None else _arm(conclusion, directory, arm)
    write_page(study_page(conclusion, directory, top, next_line, chosen), path)


def _settings(
    study: Study,
    conclusion: Conclusion,
    directory: Path,
    wanted: tuple[FormName | None, str | None, Path | None],
    *,
    force: bool,
) -> None:
    from counterpoint.cli.output import check_output, write_output
    from counterpoint.flags.forms import SettingsForm, render
    from counterpoint.report.flags.settings_document import unwritten_lines

    name, arm, out = wanted
    if out is not None:
        check_output(out, force=force, endings=(out.suffix,))
    form = (
        SettingsForm(name) if name else BY_SUFFIX.get(out.suffix if out else "", SettingsForm.BASH)
    )
    chosen = _arm(conclusion, directory, arm)
    settings = laid_out(study, chosen.settings, form)
    text = headed(render(settings, form, release_of(study)), conclusion, directory, chosen)
    for line in (*unwritten_lines(settings, form), *warnings(conclusion, chosen)):
        say_line(line)
    if out is None:
        write_file(text)
        return
    write_output(out, text)
    say_wrote(out)


def _arm(conclusion: Conclusion, directory: Path, name: str | None) -> Arm:
    if name is None:
        if conclusion.winner is not None:
            return conclusion.winner
        raise InputError(
            f"{directory} has no winner{'' if conclusion.state == 'done' else ' yet'}",
            why=conclusion.sentence,
            next=f"counterpoint tune show {shlex.quote(str(directory))}",
        )
    arms = {row.arm.name: row.arm for row in conclusion.rows}
    # A line of progress shortens a name in the middle.
    pattern = ".+".join(map(re.escape, name.split("\N{HORIZONTAL ELLIPSIS}")))
    found = [name] if name in arms else [it for it in arms if re.fullmatch(pattern, it)]
    if len(found) != 1:
        what = "matches several arms of the study" if found else "no arm of the study has this name"
        raise UsageError(
            f"--arm {name}: {what}", why=f"its arms are {', '.join(found or arms) or 'none yet'}"
        )
    return arms[found[0]]


BEST: Final = {
    "best.env": "env",
    "best.sh": "bash",
    "best.py": "python",
    "best.sbatch": "slurm",
    "best.yaml": "k8s",
}
"""Files of the winner's settings, with the form of `flags render` for each."""


def keep_report(conclusion: Conclusion, directory: Path, document: Document) -> None:
    """Write the report and the best settings; remove those of an earlier winner."""
    write_output(directory / "report.json", tune_json(conclusion, directory))
    write_output(directory / "report.txt", document_text(document))
    winner = conclusion.winner
    for name, form in BEST.items():
        text = None if winner is None else _best(winner, form, conclusion, directory)
        if text is None:
            (directory / name).unlink(missing_ok=True)
        else:
            write_output(directory / name, text)


def _best(winner: Arm, form: str, conclusion: Conclusion, directory: Path) -> str | None:
    """Return the text of `tune show --as`, or None if a value can't be written in this form."""
    from counterpoint.flags.forms import SettingsForm, render

    loaded = read_study(directory)
    settings = laid_out(loaded, winner.settings, SettingsForm(form))
    try:
        return headed(render(settings, form, release_of(loaded)), conclusion, directory, winner)
    except UsageError:
        return None
