"""How fast Counterpoint reads and explains a profile, beside the other readers of XPlane files.

Profiles of a real JAX step in several sizes are recorded once and kept. Then Counterpoint, two
conversions of xprof and JAX's own ProfileData take turns on each, every time in a fresh process
whose wall time and memory are measured from outside. Nothing passes or fails here: the table is
the result. What it means, and figures: benchmarks/README.md.

    pip install -e '.[bench]'
    python benchmarks/read.py
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from captures import Capture, record
from contenders import CONTENDERS, Contender
from figures import Measured, as_json, as_text
from fresh_process import Failed, Trial, run
from machine import describe

NEEDED = ("counterpoint", "jax", "xprof")


def main() -> int:
    """Record what is missing, measure, and print."""
    options = parse_options()
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        print(
            f"error: not installed: {', '.join(missing)}\n"
            "  why: this benchmark measures Counterpoint beside them\n"
            "  next: pip install -e '.[bench]'",
            file=sys.stderr,
        )
        return 2
    try:
        captures = [record(options.cache, size, say) for size in sorted(set(options.sizes))]
        machine = describe()
        measured = [one for capture in captures for one in measure(capture, options.runs)]
    except (Failed, OSError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    print((as_json if options.json else as_text)(machine, captures, measured))
    return 1 if any(one.failure for one in measured) else 0


def parse_options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--sizes",
        type=sizes,
        default=[25, 80, 400],
        metavar="25,80,400",
        help="about how many MB the profiles should have",
    )
    parser.add_argument("--runs", type=positive, default=3, help="of each reader on each profile")
    parser.add_argument("--json", action="store_true", help="print data instead of a table")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / f"counterpoint-benchmark-{os.getuid()}",
        help="where profiles are kept for the next time (default: %(default)s)",
    )
    return parser.parse_args()


def sizes(text: str) -> list[int]:
    """Sizes in MB, as `25,80,400`."""
    return [positive(part) for part in text.split(",")]


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not text.strip().isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def measure(capture: Capture, runs: int) -> list[Measured]:
    """Every contender in turn, and that several times: what the machine does meanwhile hits all."""
    warm_up(capture.path)
    trials: dict[Contender, list[Trial | Failed]] = {contender: [] for contender in CONTENDERS}
    for turn in range(runs):
        for contender in CONTENDERS:
            with alone(capture.path) as file:
                trial = attempt(contender.command(file), file.parent)
            told = trial if isinstance(trial, Trial) else "failed"
            say(f"{capture.megabytes:,.0f} MB, run {turn + 1}: {contender.name}: {told}")
            trials[contender].append(trial)
    return [Measured.of(contender, capture, trials[contender]) for contender in CONTENDERS]


def attempt(command: Sequence[str], directory: Path) -> Trial | Failed:
    """One measured run; a reader that fails is a result too."""
    try:
        return run(command, directory)
    except Failed as failure:
        return failure


@contextmanager
def alone(path: Path) -> Generator[Path]:
    """The profile in a directory of its own: xprof writes caches beside it, and would find them."""
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        file = Path(directory) / "host.xplane.pb"
        try:
            os.link(path, file)
        except OSError:  # a file system without hard links
            shutil.copyfile(path, file)
        yield file


def warm_up(path: Path) -> None:
    """Bring the file into the page cache, so that the first reader doesn't pay for the disk."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def say(what: str) -> None:
    """Progress."""
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
