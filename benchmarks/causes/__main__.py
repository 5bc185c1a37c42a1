"""Ask `explain` for the cause of troubles that are known, and print how often it is right.

    python benchmarks/causes [NAME ...] [--out DIRECTORY] [--json FILE] [--table FILE]

Each program of causes/cases.py is run and profiled; what `explain` says first is compared with what
was built in. A profile that --out already holds is not made again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from cases import CASES
from score import Row, Verdict, judge, lines, table


def rows(names: Sequence[str], out: Path) -> Iterator[Row]:
    """Yield a row for each way to profile each program whose name contains one of these.

    A program that fails is told, and left out.
    """
    for case in CASES:
        if not names or any(name in case.program for name in names):
            for way in case.ways:
                try:
                    yield judge(case, way, out / case.program)
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    print(f"error: {case.program} {way}: {error}", file=sys.stderr)


def main() -> int:
    """Run the programs and print the score."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a program's name")
    parser.add_argument("--out", type=Path, help="where profiles are kept")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    parser.add_argument("--table", type=Path, help="write a table of programs, in Markdown")
    given = parser.parse_args()
    unknown = [name for name in given.names if all(name not in it.program for it in CASES)]
    if unknown:
        parser.error(f"no program has {' or '.join(unknown)} in its name: see causes/cases.py")
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        try:
            for row in rows(given.names, given.out or Path(temporary)):
                found.append(row)
                print(row.text(), flush=True)
        except KeyboardInterrupt:
            print("interrupted: the score of what was run", file=sys.stderr)
    if not found:
        return 130
    print("", *lines(found), sep="\n")
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    if given.table:
        given.table.write_text("\n".join(table(found)) + "\n")
    return int(any(row.verdict in (Verdict.WRONG, Verdict.MISSED) for row in found))


if __name__ == "__main__":
    sys.exit(main())
