"""`make fuzz MINUTES=60`: damages seeds and runs the commands on them until the time is over."""

# ruff: noqa: S311 - damage is random, nothing is secret

from __future__ import annotations

import argparse
import collections
import hashlib
import os
import pickle
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from mutators import by_name, raw
from seeds import Seed, all_seeds
from shapes import mixed
from worker import Ending, load_commands, run_case


def main() -> int:
    """Run until the time is over; print a table of verdicts."""
    options = argparse.ArgumentParser()
    options.add_argument("--minutes", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=int(time.time()), help="of random numbers")
    options.add_argument("--only", default="")
    options.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    options.add_argument("--limit", type=float, default=20.0)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-"))
    load_commands()
    try:
        apart(lambda: _save_seeds(scratch))
        with (scratch / "seeds.pickle").open("rb") as file:
            seeds: list[Seed] = [s for s in pickle.load(file) if given.only in s.name]  # noqa: S301 - just written
        return _campaign(seeds, given, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _save_seeds(scratch: Path) -> None:
    (scratch / "seeds").mkdir()
    with (scratch / "seeds.pickle").open("wb") as file:
        pickle.dump(all_seeds(scratch / "seeds"), file)


def apart(work: Callable[[], object]) -> None:
    """Do something in a forked child: polars has no threads here, so that cases can be forked."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - a case that can't be made is left out
            code = 1
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1] != 0:
        raise RuntimeError("could not be made")


def _campaign(seeds: list[Seed], given: argparse.Namespace, scratch: Path) -> int:
    rng = random.Random(given.seed)
    until = time.monotonic() + given.minutes * 60
    table: collections.Counter[tuple[str, str]] = collections.Counter()
    kept: dict[str, int] = {}
    while time.monotonic() < until:
        seed = rng.choices(seeds, [s.weight for s in seeds])[0]
        shaped = None if given.only or rng.random() > _SHAPED else mixed(rng)
        if shaped is not None:
            files = {shaped.file: shaped.text(0)}
            seed = Seed(f"shape {shaped.file}", files, shaped.file, (shaped.command,))
        place = scratch / "case"
        number = rng.randrange(2**40)
        try:
            apart(partial(_make, place, seed, number, damaged=shaped is None))
        except RuntimeError:
            continue
        words = [seed.path if word == "@" else word for word in rng.choice(seed.commands)]
        ending = run_case(words, place, given.limit)
        verdict = ending.verdict
        limit = 2 + 5 * sum(map(len, seed.files.values())) / 1e6
        if verdict == "ok" and ending.seconds > 3 * limit:
            verdict = "slow"
        if verdict == "ok" and ending.peak > (300 << 20) + 50 * sum(
            map(len, seed.files.values())
        ) + (150 << 20):
            verdict = "memory"
        table[seed.name, verdict] += 1
        key = (
            f"{seed.name} {verdict}"
            if not verdict.startswith(("traceback", "control"))
            else verdict
        )
        if verdict != "ok" and kept.get(key, 0) < 1:
            kept[key] = kept.get(key, 0) + 1
            _keep(given.keep, key, ending, place, f"case {number}")
        shutil.rmtree(place, ignore_errors=True)
    print(f"{sum(table.values())} cases")
    for (name, verdict), count in sorted(table.items()):
        if verdict != "ok":
            print(f"{count:6} {name:16} {verdict}")
    return int(any(verdict != "ok" for _, verdict in table))


_SHAPED = 0.15
"""How many of the cases are mixed shapes and no damaged seeds."""


def _make(place: Path, seed: Seed, number: int, *, damaged: bool) -> None:
    write(place, damage(seed, random.Random(number)) if damaged else seed.files)


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


def _keep(into: Path, key: str, ending: Ending, place: Path, what: str) -> None:
    name = (
        "".join(c if c.isalnum() else "-" for c in key)[:80]
        + "-"
        + hashlib.sha256(key.encode()).hexdigest()[:6]
    )
    target = into / name
    if target.exists():
        return
    shutil.copytree(place, target)
    (target / "COMMAND").write_text(
        repr(ending.words)
        + "\n"
        + what
        + f"\n{key}\n{ending.seconds:.1f} s {ending.peak >> 20} MiB\n",
        errors="backslashreplace",
    )


if __name__ == "__main__":
    sys.exit(main())
