"""Try each flag of the recipes on common steps, and write what XLA makes of it, by release.

    python tools/tried_flags.py src/counterpoint/flags/catalogue/tried_flags.tsv

Run it with the Python of each release: the rows of that jaxlib are written anew, and the others
stay. It needs XLA's GPU compiler and no GPU, and takes minutes. A row says whether the compile of a
step ended, whether the program is the same, or by how much the predicted step time changes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import counterpoint
from common_steps import STEPS
from counterpoint.core import CounterpointError, UsageError
from counterpoint.core.printable import printable
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.jaxlib import installed_version
from counterpoint.flags.recipe import recipes
from counterpoint.workflow.forecast.ranking import RankedCandidate

TARGET = "8xH100"
HEAD = """\
# What XLA makes of flags on common steps (tools/common_steps.py), without a device, by release.
# Written by tools/tried_flags.py: the release, the target, the step, the flag, its value, and what
# came of it: `crash` with the compiler's words, `same` program, or the change of the predicted step
# time as a share (-0.02: 2% faster).
"""


def lines(version: str) -> Iterator[tuple[str, str]]:
    """Yield flags and values of recipes that a release takes and that are not its defaults."""
    flags = release(version).flags
    seen: set[tuple[str, str]] = set()
    for recipe in recipes().values():
        for line in recipe.lines_for(version, "H100"):
            flag = flags.get(line.name)
            if flag is None or not flag.compile_option or flag.is_default(line.value):
                continue
            if "dump" not in line.name and "pgle" not in line.name:
                seen.add((line.name, line.value))
    yield from sorted(seen)


def rows(version: str) -> Iterator[str]:
    """Yield the rows of the installed release."""
    tried = list(lines(version))
    for step in STEPS:
        place = f"{Path(__file__).with_name('common_steps.py')}:{step}"
        sys.stderr.write(f"{version} {step}: {len(tried)} flags\n")
        found = counterpoint.predict(
            place, target=TARGET, candidates=[f"--{name}={value}" for name, value in tried]
        )
        base = found.base.step_s
        by_pair = {
            pair: candidate
            for candidate in found.candidates
            if not candidate.is_base
            for pair in candidate.settings.xla
        }
        for name, value in tried:
            told = result(by_pair[name, value], base)
            yield f"{version}\t{TARGET}\t{step}\t{name}\t{value}\t{told}"


def result(candidate: RankedCandidate, base_s: float) -> str:
    """Return what came of a candidate, in one word and the compiler's message."""
    if isinstance(candidate.error, UsageError):
        return f"refused {_words(candidate.error)}"
    if candidate.error is not None:
        return f"crash {_words(candidate.error)}"
    if candidate.same_as is not None or candidate.forecast is None:
        return "same"
    return f"{candidate.forecast.step_s / base_s - 1:+.4f}"


def _words(error: CounterpointError) -> str:
    text = error.why or error.what
    return printable(" ".join(text.split()))[:120]


def write(place: Path) -> None:
    """Write the rows of the installed release into the table."""
    version = installed_version()
    if version is None:
        raise SystemExit("no jaxlib is installed")
    old = place.read_text("utf-8").splitlines() if place.exists() else []
    others = [row for row in old if row[:1] not in ("#", "") and row.split("\t")[0] != version]
    new = sorted([*others, *rows(version)])
    place.write_text(HEAD + "".join(f"{row}\n" for row in new), "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
