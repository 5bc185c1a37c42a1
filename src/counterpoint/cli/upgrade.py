"""`counterpoint upgrade`: what a new release of JAX does to a step; also a gate for CI."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from counterpoint.cli.notebooks import with_notebook
from counterpoint.cli.output import check_page
from counterpoint.cli.printing import print_report, say_line, write_result
from counterpoint.cli.progress import Progress
from counterpoint.cli.tune_request import read_share
from counterpoint.core import UsageError
from counterpoint.core.arguments import option_of
from counterpoint.core.bounds import check_number
from counterpoint.core.notebook import as_typed, is_notebook

if TYPE_CHECKING:
    from counterpoint.hardware.target import Target
    from counterpoint.workflow.upgrade import Upgrade, UpgradeOptions

SLOWER: Final = 1


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class UpgradeCompileOptions:
    """The devices, and the settings of both sides.

    Args:
        target: The devices: 8xH100, 64x8xH100:400G for 64 hosts with a NIC per GPU, or a .toml.
        with_: A package for both environments, such as optax or 'flax<0.12', beside those that the
            workload imports.
        set_: A flag of XLA on both sides: xla_gpu_...=value.
        env: A variable on both sides: NAME=value.
        recipe: A recipe's name, or a file of settings; --set and --env override it.
        program: The program to compare; by default the one with the most FLOPs.
        devices: Number of devices to lower a function or a command for; by default the target's.
        jobs: Number of concurrent compiles; by default as many as cores and memory allow.
        timeout: Time limit of one compile or lowering, in seconds.
    """

    target: str | None = None
    with_: tuple[str, ...] = ()
    set_: Annotated[
        tuple[str, ...],
        Parameter(allow_leading_hyphen=True),
    ] = ()
    env: tuple[str, ...] = ()
    recipe: tuple[str, ...] = ()
    program: str | None = None
    devices: int | None = None
    jobs: int | None = None
    timeout: float = 900.0


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
    *command: Annotated[str, Parameter(name="COMMAND...", show=False, negative=())],
    compared: Annotated[ComparedOptions | None, Parameter(name="*")] = None,
    compile_: Annotated[UpgradeCompileOptions | None, Parameter(name="*")] = None,
    fail_above: str | None = None,
    top: int = 10,
    json: bool = False,
    html: Path | None = None,
    full: bool = False,
    force: bool = False,
) -> int:
    """Predict what a new release of JAX does to a step, and which flags undo it.

    Each release is installed in an environment of its own, lowers the step and compiles it, without
    a GPU.

    Args:
        workload: StableHLO, a dump, a Run; file.py:function, which runs the file; or `-- CMD`.
        command: The command to start, after `--`: the step is lowered, and nothing is trained.
        compared: What is compared.
        compile_: What is compiled.
        fail_above: Exit with 1 if the step becomes longer by more than this, e.g. 2%.
        top: Rows in each table.
        json: Print everything as JSON.
        html: Write one page to this file (.html): the report, and both steps to zoom into.
        full: Put all of a large step into the page, however large.
        force: Overwrite the file.
    """
    sides, asked = compared or ComparedOptions(), compile_ or UpgradeCompileOptions()
    check_page(html, full=full, force=force)
    check_number("--top", top, 1)
    limit = None if fail_above is None else read_share("--fail-above", fail_above, example="2%")
    source = _source(workload, command)
    with Progress("looking for the releases") as progress:
        found = _found(source, sides, asked, progress.say)
        progress.say("drawing")
    _show(found, top, _next(found, source), json=json, html=html, full=full)
    if limit is not None and found.slower_by_more_than(limit):
        say_line(
            f"{found.after.name} makes the step {found.change:.1%} longer, more than {fail_above}"
        )
        return SLOWER
    return 0


def _found(
    source: str | tuple[str, ...],
    sides: ComparedOptions,
    asked: UpgradeCompileOptions,
    say: Callable[[str], None],
) -> Upgrade:
    from counterpoint.workflow.upgrade import upgrade as compare_releases
    from counterpoint.workflow.upgrade import upgrade_code

    target = _target(asked, source)
    options = _options(asked, target, tries=not sides.no_tries, bisect=sides.bisect)
    before = _installed() if sides.from_ is None else sides.from_
    if sides.code is not None:
        _check_code(sides)
        return upgrade_code(
            source, target=target, commits=sides.code, release=before, options=options, say=say
        )
    after = "newest" if sides.to is None else sides.to
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
    if workload is None:
        raise UsageError(
            "no workload was given",
            why="pass a file or directory, file.py:function, or a command after `--`",
            next="counterpoint upgrade --from 0.10.2 --target 8xH100 -- python train.py",
        )
    if is_notebook((workload, *command)):
        return tuple(with_notebook([workload]))
    return (workload, *command) if command else workload


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


def _target(asked: UpgradeCompileOptions, source: str | tuple[str, ...]) -> Target:
    from counterpoint.hardware.targets import parse_target
    from counterpoint.workflow.prediction import require_target

    found = None if asked.target is None else parse_target(asked.target, tpus=True)
    words = [source] if isinstance(source, str) else as_typed(source)
    return require_target(found, shlex.join(words))


def _options(
    asked: UpgradeCompileOptions, target: Target, *, tries: bool, bisect: bool
) -> UpgradeOptions:
    from counterpoint.workflow import base_settings
    from counterpoint.workflow.upgrade import UpgradeOptions

    check_number("--devices", asked.devices, 1)
    check_number("--jobs", asked.jobs, 1)
    if not 0 < asked.timeout < float("inf"):
        raise UsageError(
            f"--timeout takes a number of seconds above 0, not {asked.timeout:g}",
            next="use --timeout 600",
        )
    return UpgradeOptions(
        settings=base_settings(asked.recipe, asked.set_, asked.env, chip=target.gpu),
        packages=asked.with_,
        program=asked.program,
        devices=asked.devices,
        jobs=asked.jobs,
        timeout_s=asked.timeout,
        tries=tries,
        bisect=bisect,
    )


def _show(
    found: Upgrade, top: int, following: str, *, json: bool, html: Path | None, full: bool
) -> None:
    from counterpoint.report.predict.upgrade_document import upgrade_document
    from counterpoint.report.predict.upgrade_json import upgrade_json

    document = upgrade_document(found, top, following)
    if html is not None:
        from counterpoint.cli.pages import upgraded_page, write_page

        write_page(upgraded_page(found, document, upgrade_json(found)), html, full=full)
    if json:
        write_result(upgrade_json(found))
    elif html is None:
        print_report(document)


def _next(found: Upgrade, source: str | tuple[str, ...]) -> str:
    """Return the command that says more: of the flag that saves most, else of all flags."""
    if not found.is_of_releases or found.target.tpu is not None:
        words = [source] if isinstance(source, str) else ["--", *as_typed(source)]
        target = str(found.target)
        return shlex.join(["counterpoint", "predict", "--target", target, "--explain", *words])
    useful = next((it for it in found.tries if it.helps and len(it.flags) == 1), None)
    if useful is not None:
        return shlex.join(["counterpoint", "flags", "show", useful.flags[0][0]])
    releases = [side.installation.jaxlib for side in (found.before, found.after)]
    return shlex.join(["counterpoint", "flags", "diff", *releases])
