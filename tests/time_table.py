"""Seconds and tests per directory, out of the reports that pytest wrote with --junitxml.

python tests/time_table.py build/tests/*.xml
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET


def _cases(file: str) -> Iterator[ET.Element]:
    try:
        return ET.parse(file).iter("testcase")  # noqa: S314 - pytest wrote it
    except (OSError, ET.ParseError) as error:
        sys.exit(f"error: {file} is no report of pytest: {error}\n  next: make test")


def main(files: list[str]) -> None:
    """Print the table; its columns are the files."""
    if not files:
        sys.exit("usage: python tests/time_table.py build/tests/*.xml")
    seconds: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    tests: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    names = [Path(file).stem for file in files]
    for file, name in zip(files, names, strict=True):
        for case in _cases(file):
            # A module that could not be imported is a test without a class, named like the module.
            place = case.get("classname") or case.get("name", "")
            for row in (place.removeprefix("tests.").partition(".")[0], "all"):
                seconds[row][name] += float(case.get("time", 0))
                tests[row][name] += case.find("skipped") is None
    print(f"{'directory':<14}" + "".join(f"{name:>16}" + f"{'s':>8}" for name in names))
    for row in sorted(seconds, key=lambda it: (it == "all", it)):
        cells = "".join(f"{tests[row][it]:>10} tests{seconds[row][it]:>8.0f}" for it in names)
        print(f"{row:<14}{cells}")


if __name__ == "__main__":
    main(sys.argv[1:])
