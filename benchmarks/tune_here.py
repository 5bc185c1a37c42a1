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
from itertools import count, repeat
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
import os, time
pace = 0.9 if os.environ.get("TAG") == "1" else 1.0
for step in range(40):
    seconds = pace * (1 + step % 7 / 1000)
    print(f"completed step: {step}, seconds: {seconds}, loss: {3 - step / 100}", flush=True)
    time.sleep(0.03)
"""
EACH: Final = 5
"""Kills of a study, one after the other."""


@dataclass(frozen=True, slots=True)
class Study:
    """A `counterpoint tune` that can be repeated."""

    place: Path
    program: Path
    options: tuple[str, ...] = ()

    def start(self) -> subprocess.Popen[bytes]:
        words = (sys.executable, "-m", "counterpoint", "tune", "--executor", "local", "--json")
        arm = ("--arm", "env:TAG=1", "-o", str(self.place))
        behind = ("--", sys.executable, str(self.program))
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


def killed(place: Path, kills: int, seed: int) -> tuple[int, tuple[object, ...]]:
    """Return the trials of a study whose tuner was killed so often, and its result."""
    place.mkdir()
    program = place / "prints.py"
    program.write_text(PRINTS)
    options = ("--cap", "2", "--confirm-rows", "2", "--seed", "7")
    study = Study(place / "study", program, options)
    chance = random.Random(seed)  # noqa: S311  nothing secret
    for _ in range(kills):
        process = study.start()
        time.sleep(chance.uniform(2.0, 12.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    found = study.finish()
    return found["spent"]["trials"], result(found)


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
        began = time.monotonic()
        trials, wanted = killed(Path(place) / "whole", 0, given.seed)
        places = [Path(place) / f"killed{at}" for at in range(given.kills // EACH)]
        after = list(pool.map(killed, places, repeat(EACH), count(given.seed)))
        if after:
            most = max((more - trials) / EACH for more, _ in after)
            same = sum(found == wanted for _, found in after)
            print(
                f"kill -9: {EACH * len(after)} times in {len(after)} studies of {trials} trials: at"
                f" most {most:.1f} trials repeated a kill; {same} of {len(after)} with the same"
                f" result; {time.monotonic() - began:.0f} s"
            )


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


if __name__ == "__main__":
    main()
