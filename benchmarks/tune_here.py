"""Real studies on this machine: false wins of equal arms, and what `kill -9` costs.

    python benchmarks/tune_here.py [--studies N] [--kills N] [--seed N] [--at-once N]

Each study is `counterpoint tune` with the local executor, in a process of its own. Equal arms set a
variable that the program does not read; its steps compute for about 8 ms, with whatever else runs
here as noise. Killed studies run a program that prints its own step times, so that the same trials
have the same result: the tuner alone is killed at random moments, and the command is repeated until
the study is done.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Final

COMPUTES: Final = """
import time
for step in range(40):
    began = time.perf_counter()
    sum(it * it for it in range(100_000))
    took = time.perf_counter() - began
    print(f"step {step} seconds {took:.6f} loss {3 - step / 100}", flush=True)
"""
PRINTS: Final = """
import os, sys, time
with open(sys.argv[1], "a") as starts:
    starts.write("x")
pace = 0.9 if os.environ.get("TAG") == "1" else 1.0
for step in range(40):
    seconds = pace * (1 + step % 7 / 1000)
    print(f"completed step: {step}, seconds: {seconds}, loss: {3 - step / 100}", flush=True)
    time.sleep(0.005)
"""
EACH: Final = 5
"""Kills of a study, one after the other."""


@dataclass(frozen=True, slots=True)
class Study:
    """A `counterpoint tune` that can be repeated."""

    place: Path
    program: Path
    words: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def start(self) -> subprocess.Popen[bytes]:
        words = (sys.executable, "-m", "counterpoint", "tune", "--executor", "local", "--json")
        arm = ("--arm", "env:TAG=1", "-o", str(self.place))
        behind = ("--", sys.executable, str(self.program), *self.words)
        return subprocess.Popen(
            (*words, *arm, *self.options, *behind),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def finish(self) -> dict[str, Any]:
        out, _ = self.start().communicate()
        return json.loads(out)


def equal(place: Path, seed: int) -> dict[str, Any]:
    program = place / "computes.py"
    program.write_text(COMPUTES)
    options = ("--seed", str(seed), "--cap", "4")
    return Study(place / f"study{seed}", program, options=options).finish()


def result(found: dict[str, Any]) -> tuple[object, ...]:
    """What two studies with the same trials agree about."""
    return found["winner"], found["confirmed"], found["gain"], found["range"]


def killed(place: Path, kills: int, chance: random.Random) -> tuple[int, tuple[object, ...]]:
    """Return how often the program was started, and the result; the tuner is killed so often."""
    place.mkdir()
    program, starts = place / "prints.py", place / "starts"
    program.write_text(PRINTS)
    small = ("--cap", "2", "--confirm-rows", "2", "--seed", "7")
    study = Study(place / "study", program, (str(starts),), small)
    for _ in range(kills):
        process = study.start()
        time.sleep(chance.uniform(2.0, 12.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    found = study.finish()
    return len(starts.read_text()), result(found)


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=40, help="of equal arms")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--at-once", type=int, default=2, help="studies at a time")
    given = parser.parse_args()
    os.nice(10)
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(given.at_once) as pool:
        began = time.monotonic()
        seeds = range(given.seed, given.seed + given.studies)
        found = list(pool.map(equal, repeat(Path(place)), seeds))
        print(equal_line(found, time.monotonic() - began), flush=True)
        chance = random.Random(given.seed)  # noqa: S311  nothing secret
        print(killed_line(Path(place), given.kills, chance))


def equal_line(found: Sequence[dict[str, Any]], seconds: float) -> str:
    if not found:
        return "no studies of equal arms"
    wins = sum(it["confirmed"] for it in found)
    noise = sorted(it["noise"]["sigma"] for it in found)
    trials = sum(it["spent"]["trials"] for it in found) / len(found)
    return (
        f"equal arms: {wins} of {len(found)} studies with a confirmed win, {trials:.1f} trials"
        f" each; sigma of a pair of runs {noise[0]:.1%} to {noise[-1]:.1%}; {seconds:.0f} s"
    )


def killed_line(place: Path, kills: int, chance: random.Random) -> str:
    """Kill studies five times each, and compare them with one that nobody killed."""
    began = time.monotonic()
    starts, wanted = killed(place / "whole", 0, chance)
    most, same, studies = 0.0, 0, max(kills // EACH, 1)
    for number in range(studies):
        more, found = killed(place / f"killed{number}", EACH, chance)
        most = max(most, (more - starts) / EACH)
        same += found == wanted
    return (
        f"kill -9: {studies * EACH} times in {studies} studies of {starts} trials: at most"
        f" {most:.1f} trials repeated a kill; {same} of {studies} with the same result;"
        f" {time.monotonic() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
