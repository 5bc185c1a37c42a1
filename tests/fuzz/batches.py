"""Runs parsers on damaged inputs, many in one process that is watched from outside.

The number of the case under way is in memory that both processes have: if the parser takes the
process with it, or never comes back, the case is known.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import random
import resource
import select
import shutil
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Never

from mutators import by_name, raw
from parsers import Parse
from seeds import Seed
from worker import MEMORY, where

HANG_S = 60.0
"""A case that is still not over after this time never ends, also on a busy machine."""


@dataclass(slots=True)
class Find:
    """A case that ended badly."""

    case: int
    verdict: str
    text: str = ""


@dataclass(slots=True)
class Batch:
    """How many cases were run, and those that ended badly."""

    cases: int = 0
    finds: list[Find] = field(default_factory=list[Find])


def damaged(seed: Seed, number: int, of: int) -> dict[str, bytes]:
    """Return the files of a seed with one of them damaged: the same for the same numbers."""
    rng = random.Random(f"{of}:{seed.name}:{number}")  # noqa: S311 - damage is no secret
    return damage(seed, rng)


def damage(seed: Seed, rng: random.Random) -> dict[str, bytes]:
    """Return the files with one of them damaged."""
    files = dict(seed.files)
    own = [
        name
        for name in files
        if name == seed.path or name.startswith((f"{seed.path}/", "r/", "s/"))
    ]
    name = rng.choice(own)
    mutate = raw if rng.random() < 0.1 else by_name(name)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        files[name] = mutate(files[name], rng)
    return files


def write(place: Path, files: dict[str, bytes]) -> None:
    """Write the files of a case."""
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def run_batch(
    seed: Seed, parse: Parse, cases: range, of: int, seconds: float, place: Path
) -> Batch:
    """Run cases in a forked child until they or the time are over, or one ends the child."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    note = mmap.mmap(-1, 16)
    note[:8] = cases.start.to_bytes(8, "little")
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _child(seed, parse, cases, of, seconds, place, note, theirs)
    os.close(theirs)
    hung = not _watched(child, note)
    if hung:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with os.fdopen(ours, errors="replace") as pipe:
        lines = [json.loads(line) for line in pipe if line.endswith("\n")]
    reached = int.from_bytes(note[:8], "little")
    batch = Batch(reached - cases.start, [Find(*line) for line in lines])
    if hung or code:
        batch.cases += 1
        batch.finds.append(Find(reached, "hang" if hung else f"ended with {code}"))
    return batch


def _watched(child: int, note: mmap.mmap) -> bool:
    """Wait until the child ends; returns False if a case never does."""
    opened = os.pidfd_open(child)
    try:
        before, since = note[:8], time.monotonic()
        while not select.select([opened], [], [], 0.2)[0]:
            if note[:8] != before:
                before, since = note[:8], time.monotonic()
            elif time.monotonic() - since > HANG_S:
                return False
        return True
    finally:
        os.close(opened)


def _child(  # noqa: PLR0917 - all that a case needs
    seed: Seed,
    parse: Parse,
    cases: range,
    of: int,
    seconds: float,
    place: Path,
    note: mmap.mmap,
    finds: int,
) -> Never:
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.environ.update(TMPDIR=str(place), COUNTERPOINT_CACHE="off")
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(place)
        write(place, seed.files)
        parse(place / seed.path)  # the seed itself is valid, and all is imported after it
        until = time.monotonic() + seconds
        for number in cases:
            if time.monotonic() > until:
                break
            files = _made(lambda number=number: damaged(seed, number, of))
            if files is not None:
                found = judged(parse, files, seed, place)
                if found is not None:
                    os.write(finds, (json.dumps([number, *found]) + "\n").encode())
            note[:8] = (number + 1).to_bytes(8, "little")
        code = 0
    finally:
        os._exit(code)


def _made(make: Callable[[], dict[str, bytes]]) -> dict[str, bytes] | None:
    """Return the case, or None where no case can be made of these numbers."""
    try:
        return make()
    except (Exception, MemoryError):  # noqa: BLE001 - a mutator met what it does not know
        return None


def judged(
    parse: Parse, files: dict[str, bytes], seed: Seed, place: Path
) -> tuple[str, str] | None:
    """Parse a case; returns what is wrong and the traceback, or None."""
    from counterpoint.core import CounterpointError

    write(place, files)
    size = sum(map(len, files.values()))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    try:
        with contextlib.suppress(CounterpointError):
            parse(place / seed.path)
    except BaseException as error:  # noqa: BLE001 - polars' panics are none of Exception
        text = traceback.format_exc(limit=-12)
        return f"traceback {where(text, type(error).__name__)}", text[-3000:]
    if time.process_time() - begun > 3 * (2 + 5 * size / 1e6):
        return "slow", f"{time.process_time() - begun:.1f} s of CPU"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if grown > (300 << 20) + 50 * size:
        return "memory", f"{grown >> 20} MiB"
    return None
