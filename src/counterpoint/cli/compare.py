"""`counterpoint compare`: why one run is slower than another; also a gate for CI."""

from __future__ import annotations

import re
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.options import Digest, Output, Top
from counterpoint.cli.printing import (
    add_step_summary,
    say_line,
)
from counterpoint.cli.profiles import (
    check_paths,
    refuse_directory_of_runs,
    write_answer,
    write_digest,
)
from counterpoint.cli.progress import Progress
from counterpoint.core import InputError, UsageError
from counterpoint.core.printable import counted_noun, printable
from counterpoint.diagnose.compare.comparison import Comparison
from counterpoint.diagnose.compare.comparison import compare as compare_sides
from counterpoint.report.explain.compare_digest import compare_digest
from counterpoint.report.explain.compare_document import compare_document
from counterpoint.report.explain.compare_json import compare_json


def compare(
    *paths: str,
    with_: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    fail_above: str | None = None,
    top: Top = 10,
    short: Digest = Digest(),
    output: Output = Output(),
) -> int:
    """Explain what made B slower or faster than A.

    Args:
        paths: A and B: Runs, profiles or stored predictions; with --with, several runs of A.
        with_: Several runs of B.
        fail_above: Exit with 1 if B is slower by more than this, e.g. 2%, beyond noise, or if a run
            of B failed, computed NaN or made fewer steps.
    """
    a, b = _sides(paths, with_)
    limit = None if fail_above is None else _share(fail_above)
    check_paths(paths, top, "compare")
    output.check()
    size = short.size(json=output.json, out=output.out)
    found = _compare(a, b)
    if output.page.html is not None:
        from counterpoint.cli.pages import compared_page

        page = compared_page(found, compare_document(found, top), compare_json(found))
        output.page.write(page)
    if size is not None:
        write_digest(compare_digest(found).text(size), output.out)
    elif not output.is_page_alone:
        write_answer(lambda: compare_document(found, top), lambda: compare_json(found), output)
    return 0 if limit is None else _gate(found, limit)


def _gate(found: Comparison, limit: float) -> int:
    """Return 1 if a run of B failed, or B is slower by more than the limit, and say so."""
    failures = found.failures(limit)
    verdict = f"B is {'' if failures else 'not '}slower than A by more than {limit:.3%}"
    if found.faults[1]:
        verdict = f"{counted_noun(len(failures), 'run')} of B failed"
    add_step_summary(compare_digest(found).markdown(verdict))
    for failure in failures:
        say_line(printable(failure))
    for differs in found.other_experiment if failures else ():
        text = f"{differs.what}: {differs.a or 'none'} in A, {differs.b or 'none'} in B"
        say_line(f"different experiments: {printable(text)}")
    return 1 if failures else 0


def _sides(
    paths: tuple[str, ...], with_: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if with_ and paths:
        return paths, with_
    if len(paths) == 2 and not with_:
        return paths[:1], paths[1:]
    named = len(paths) + len(with_)
    raise UsageError(
        f"compare needs two inputs, not {named}",
        why="--with separates several runs of A from those of B",
        next="counterpoint compare A B",
    )


def _share(text: str) -> float:
    written = re.fullmatch(r"\s*(\d{1,3}(?:\.\d+)?)\s*%\s*", text)
    if written is None:
        raise UsageError(
            f"--fail-above takes a percentage, not {text!r}", next="use --fail-above 2%"
        )
    return float(written[1]) / 100


def _compare(a: tuple[str, ...], b: tuple[str, ...]) -> Comparison:
    with Progress("reading") as progress:
        try:
            return compare_sides(a, b, progress=progress.read)
        except InputError:
            refuse_directory_of_runs((*a, *b))
            raise
