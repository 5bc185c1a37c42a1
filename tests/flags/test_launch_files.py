"""Launch files with known settings: the score of the readers, which anyone can print.

`python tests/flags/test_launch_files.py` prints the settings that are right, wrong, missed and
invented, by form; `launch/truth.txt` has what is true.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoint.flags.parse.source import read_source
from counterpoint.flags.parsed import ParsedSource

HERE = Path(__file__).parent / "launch"
LINE = re.compile(r"  (\S+)(?: (\S+))? = (.*?)  (\d+)((?: \w+)*)")
Setting = tuple[str, str, str | None, int, str, bool]
"""Variable, name, value, line, origin, and whether it is conditional."""


def truths() -> Iterator[tuple[str, list[Setting], list[str]]]:
    """Each file with its settings, and what a reader must announce."""
    text = "\n".join(row for row in (HERE / "truth.txt").read_text().split("\n") if row[:1] != "#")
    for part in text.strip().split("\n\n"):
        name, *rows = part.strip("\n").split("\n")
        settings, announced = list[Setting](), list[str]()
        for row in rows:
            if row.startswith("  not read "):
                announced += row.split()[2:]
                continue
            match = LINE.fullmatch(row)
            assert match, row
            variable, flag, value, line, words = match.groups()
            origin = "computed" if value == "?" else "default" if "default" in words else "literal"
            known = None if value == "?" else value
            conditional = "conditional" in words
            settings.append((variable, flag or variable, known, int(line), origin, conditional))
        yield name, settings, announced


def listed(written: ParsedSource) -> list[Setting]:
    """All settings of a source as `flags check --json` lists them, in the order of their lines."""
    found = {
        (
            one.variable,
            one.name,
            one.meant if one.known else None,
            one.place.line or 0,
            str(one.origin),
            one.conditional,
        ): None
        for program in written.programs
        for one in (*program.given, *(it for issue in program.issues for it in issue.lost))
    }
    return sorted(found, key=lambda one: (one[3], one[0]))


TRUTHS = list(truths())


@pytest.mark.parametrize(("name", "settings", "announced"), TRUTHS, ids=lambda it: str(it)[:20])
def test_the_settings_of_a_launch_file(
    name: str, settings: list[Setting], announced: list[str]
) -> None:
    written = read_source(HERE / name)
    assert listed(written) == sorted(settings, key=lambda one: (one[3], one[0]))
    told = " ".join(
        [
            *(text for one in written.programs for text in (*one.notes, *one.not_read)),
            *(issue.text for one in written.programs for issue in one.issues),
        ]
    )
    assert [word for word in announced if word not in told] == []


def test_each_launch_file_has_its_truth() -> None:
    assert {name for name, _, _ in TRUTHS} == {
        path.name for path in HERE.iterdir() if path.name != "truth.txt"
    }


def main() -> None:
    """Print the score."""
    scores: dict[str, Counter[str]] = defaultdict(Counter)
    for name, settings, _ in TRUTHS:
        true = {(one[0], one[1], one[3]): one[2] for one in settings}
        found = {(one[0], one[1], one[3]): one[2] for one in listed(read_source(HERE / name))}
        for row in (scores[Path(name).suffix], scores["all"]):
            row["files"] += 1
            row["right"] += sum(found.get(key, "-") == value for key, value in true.items())
            row["wrong"] += sum(found.get(key, value) != value for key, value in true.items())
            row["missed"] += len(true.keys() - found.keys())
            row["invented"] += len(found.keys() - true.keys())
    for kind, row in scores.items():
        counts = " ".join(
            f"{row[name]:4} {name}" for name in ("files", "right", "wrong", "missed", "invented")
        )
        print(f"{kind:12} {counts}")


if __name__ == "__main__":
    main()
