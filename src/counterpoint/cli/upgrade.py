"""`counterpoint upgrade`: what a new release of JAX does to a step; also a gate for CI."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Parameter

from counterpoint.cli.notebooks import with_notebook
from counterpoint.cli.options import (
    BaseSettings,
    CompileTimeout,
    Force,
    Json,
    Page,
    Top,
    Where,
    Words,
    flat,
)
from counterpoint.cli.printing import print_report, say_line, write_result
from counterpoint.cli.progress import Progress
from counterpoint.cli.subject import named_workload
from counterpoint.compile.task import TIMEOUT_S
from counterpoint.core import UsageError
from counterpoint.core.arguments import option_of
from counterpoint.core.bounds import check_number, read_share
from counterpoint.core.notebook import as_typed, is_notebook
from counterpoint.hardware.target import Target
from counterpoint.report.predict.upgrade_document import next_command, upgrade_document
from counterpoint.report.predict.upgrade_json import upgrade_json
from counterpoint.workflow.forecast.options import CompileOptions, check_timeout
from counterpoint.workflow.prediction import require_target
from counterpoint.workflow.upgrade import Upgrade, UpgradeOptions, upgrade_code
from counterpoint.workflow.upgrade import upgrade as compare_releases

SLOWER: Final = 1
_EXAMPLE: Final = "counterpoint upgrade --from 0.10.2 --target 8xH100 -- python train.py"


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ComparedOptions:
    """What is compared: two releases of JAX, or two commits with one.

    Args:
        from_: The release of JAX before the upgrade, such as 0.10.2; by default the installed one.
        to: The release after it; by default the newest.
        code: Compare two commits of your own code instead, with the release of --from: main HEAD;
            `.` is the files as they are.
        no_tries: Try no flags that may undo what changed, which takes a compile each.
        bisect: Find the releases between that changed the step.
    """

    from_: str | None = None
    to: str | None = None
    code: Annotated[tuple[str, str] | None, Parameter(consume_multiple=True)] = None
    no_tries: bool = False
    bisect: bool = False


def upgrade(  # noqa: PLR0913 - the options of the command
    workload: str | None = None,
    *command: Words,
    compared: ComparedOptions = ComparedOptions(),
    where: Where = Where(),
    with_: tuple[str, ...] = (),
    base: BaseSettings = BaseSettings(),
    compiling: Annotated[CompileOptions, flat] = CompileOptions(),
    timeout_s: CompileTimeout = TIMEOUT_S,
    fail_above: str | None = None,
    top: Top = 10,
    json: Json = False,
    page: Page = Page(),
    force: Force = False,
) -> int:
    """Predict what a new release of JAX does to a step, and which flags undo it.

    Each release is installed in an environment of its own, lowers the step and compiles it, without
    a GPU. The settings are those of both sides.

    Args:
        workload: StableHLO, a dump, a Run; file.py:function, which runs the file; or `-- CMD`.
        command: The command to start, after `--`: the step is lowered, and nothing is trained.
        with_: A package for both environments, such as optax or 'flax<0.12', beside those that the
            workload imports.
        fail_above: Exit with 1 if the step becomes longer by more than this, e.g. 2%.
    """
    page.check(force=force)
    check_number("--top", top, 1)
    limit = None if fail_above is None else read_share("--fail-above", fail_above, example="2%")
    source = _source(workload, command)
    with Progress("looking for the releases") as progress:
        words = [source] if isinstance(source, str) else as_typed(source)
        target = require_target(where.read(), shlex.join(words))
        compiling.check()
        check_timeout(timeout_s)
        options = UpgradeOptions(
            **vars(compiling),
            settings=base.read(chip=target.gpu),
            packages=with_,
            program=where.program,
            timeout_s=timeout_s,
            tries=not compared.no_tries,
            bisect=compared.bisect,
        )
        found = _found(source, compared, target, options, progress.say)
        progress.say("drawing")
    following = next_command(found, source)
    document = upgrade_document(found, top, following)
    if page.html is not None:
        from counterpoint.cli.pages import upgraded_page

        page.write(upgraded_page(found, document, upgrade_json(found)))
    if json:
        write_result(upgrade_json(found))
    elif page.html is None:
        print_report(document)
    if limit is not None and found.slower_by_more_than(limit):
        say_line(
            f"{found.after.name} makes the step {found.change:.1%} longer, more than {fail_above}"
        )
        return SLOWER
    return 0


def _found(
    source: str | tuple[str, ...],
    compared: ComparedOptions,
    target: Target,
    options: UpgradeOptions,
    say: Callable[[str], None],
) -> Upgrade:
    before = _installed() if compared.from_ is None else compared.from_
    if compared.code is not None:
        _check_code(compared)
        return upgrade_code(
            source, target=target, commits=compared.code, release=before, options=options, say=say
        )
    after = "newest" if compared.to is None else compared.to
    return compare_releases(
        source, target=target, before=before, after=after, options=options, say=say
    )


def _check_code(sides: ComparedOptions) -> None:
    """Refuse options of releases beside --code, which compares commits with one release."""
    given = {"to": sides.to is not None, "no_tries": sides.no_tries, "bisect": sides.bisect}
    name = next((name for name, is_given in given.items() if is_given), None)
    if name is not None:
        raise UsageError(
            f"{option_of(name)} is for two releases, and --code compares two commits with one",
            why="--from names that release; by default it is the installed one",
            next=f"omit {option_of(name)}",
        )


def _source(workload: str | None, command: Sequence[str]) -> str | tuple[str, ...]:
    named = named_workload(workload, _EXAMPLE)
    if is_notebook((named, *command)):
        return tuple(with_notebook([named]))
    return (named, *command) if command else named


def _installed() -> str:
    from importlib import metadata

    try:
        return metadata.version("jax")
    except metadata.PackageNotFoundError:
        raise UsageError(
            "--from is missing, and no JAX is installed beside Counterpoint",
            why="by default the upgrade begins at the installed release",
            next="use --from 0.10.2",
        ) from None
