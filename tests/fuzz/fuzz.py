"""`make fuzz MINUTES=60`: damages seeds and reads them until the time is over.

Half of the time goes to parsers in one process (batches.py), half to commands in a process for
each case (worker.py). `--repeat` takes the name of a case: its seed, the run's number, its own.
"""

# ruff: noqa: S311 - damage is random, nothing is secret

from __future__ import annotations

import argparse
import base64
import collections
import hashlib
import io
import json
import os
import pickle
import random
import shutil
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from batches import Batch, damage, damaged, run_batch, write
from parsers import parser_of
from seeds import Seed, all_seeds
from shapes import mixed
from worker import load_commands, run_case

COMMANDS = "commands"
_SHAPED = 0.15
"""How many of the commands' cases are mixed shapes and no damaged seeds."""
_TURN_S = 10.0
_MOST = 5000
"""How long one parser has its turn, and how many cases one process reads: it is new after that."""

_MOST_PRINTED = 20_000
"""How many characters of a find are printed."""

Table = collections.Counter[tuple[str, str]]


def main() -> int:
    """Run until the time is over; print a table."""
    given = _options()
    warnings.simplefilter("ignore")
    os.environ.setdefault("POLARS_MAX_THREADS", "2")  # threads count as memory, on large machines
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-", dir=_memory()))
    load_commands()
    try:
        apart(lambda: _save_seeds(scratch))
        with (scratch / "seeds.pickle").open("rb") as file:
            seeds: list[Seed] = pickle.load(file)  # noqa: S301 - just written
        campaign = Campaign(seeds, given, scratch)
        return campaign.repeat(given.repeat) if given.repeat else campaign.run()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser()
    options.add_argument("--minutes", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=int(time.time()), help="of random numbers")
    options.add_argument("--first", type=int, default=0, help="the number of the first case")
    options.add_argument("--only", default="", help="seeds whose name has this")
    options.add_argument("--way", choices=("both", "parsers", COMMANDS), default="both")
    options.add_argument("--repeat", default="", help="one case: NAME:SEED:NUMBER")
    options.add_argument("--counts", type=Path, help="a JSON file that sums up several runs")
    options.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    return options.parse_args()


def _memory() -> str | None:
    shared = Path("/dev/shm")  # noqa: S108 - a directory of ours in it
    return str(shared) if os.access(shared, os.W_OK) else None


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
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1] != 0:
        raise RuntimeError("could not be made")


class Campaign:
    """Counts the cases of a run, and keeps what ended badly."""

    def __init__(self, seeds: list[Seed], given: argparse.Namespace, scratch: Path) -> None:
        self._seeds = {seed.name: seed for seed in seeds}
        self._given = given
        self._scratch = scratch
        self._parsed, self._run, self._bad = Table(), Table(), Table()
        self._next = collections.Counter[str]()
        self._saved = collections.Counter[tuple[str, str]]()

    def run(self) -> int:
        """Give each parser its turn, and as much time to commands."""
        given = self._given
        until = time.monotonic() + given.minutes * 60
        chosen = [seed for seed in self._seeds.values() if given.only in seed.name]
        parsers = [s for s in chosen if parser_of(s.name)] if given.way != COMMANDS else []
        order = random.Random(given.seed)
        while (left := until - time.monotonic()) > 0:
            order.shuffle(parsers)
            mine = left if given.way == "parsers" else left / 2
            half = time.monotonic() + min(mine, _TURN_S * len(parsers))
            for seed in parsers:
                turn = min(_TURN_S, given.minutes * 30 / len(parsers), half - time.monotonic())
                if turn > 0:
                    self._parse(seed, turn)
                self._save()
            if given.way != "parsers":
                as_long = min(left / 2, _TURN_S * max(1, len(parsers)))
                self._commands(chosen, min(until, time.monotonic() + as_long))
                self._save()
        self._print()
        return int(bool(self._bad))

    def repeat(self, name: str) -> int:
        """Run one case, keep it, and print how it ended."""
        of, seed, number = name.rsplit(":", 2)
        if of == COMMANDS:
            verdict = self._command([*self._seeds.values()], int(seed), int(number))
            print(verdict)
            return int(verdict != "ok")
        batch = self._batch(self._seeds[of], range(int(number), int(number) + 1), int(seed), 60)
        print("\n".join(f"{find.verdict}\n{find.text}" for find in batch.finds) or "ok")
        return int(bool(batch.finds))

    def _parse(self, seed: Seed, seconds: float) -> None:
        first = self._given.first + self._next[seed.name]
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            batch = self._batch(seed, range(first, first + _MOST), self._given.seed, left)
            if batch.cases == 0:
                break
            first += batch.cases
        self._next[seed.name] = first - self._given.first

    def _batch(self, seed: Seed, cases: range, of: int, seconds: float) -> Batch:
        parse = parser_of(seed.name)
        if parse is None:
            raise RuntimeError(f"no parser reads {seed.name} by itself")
        place = self._scratch / "case"
        batch = run_batch(seed, parse, cases, of, seconds, place)
        self._parsed[seed.name, ""] += batch.cases
        for find in batch.finds:
            self._bad[seed.name, find.verdict] += 1
            apart(lambda find=find: _make(place, damaged(seed, find.case, of)))
            told = f"{seed.path}\n{find.text}"
            self._keep(find.verdict, seed.name, place, f"{seed.name}:{of}:{find.case}", told)
        return batch

    def _commands(self, seeds: list[Seed], until: float) -> None:
        while time.monotonic() < until:
            number = self._given.first + self._next[COMMANDS]
            self._command(seeds, self._given.seed, number)
            self._next[COMMANDS] += 1

    def _command(self, seeds: list[Seed], of: int, number: int) -> str:
        rng = random.Random(f"{of}:{COMMANDS}:{number}")
        seed = rng.choices(seeds, [s.weight for s in seeds])[0]
        shaped = None if self._given.only or rng.random() > _SHAPED else mixed(rng)
        if shaped is not None:
            files = {shaped.file: shaped.text(0)}
            seed = Seed(f"shape {shaped.file}", files, shaped.file, (shaped.command,))
        words = [seed.path if word == "@" else word for word in rng.choice(seed.commands)]
        place = self._scratch / "case"
        shutil.rmtree(place, ignore_errors=True)
        try:
            apart(partial(_make_damaged, place, seed, rng, damaged=shaped is None))
        except RuntimeError:
            return "ok"
        ending = run_case(words, place, 60)
        size = sum(map(len, seed.files.values()))
        verdict = ending.verdict
        if verdict == "ok" and ending.cpu > 3 * (2 + 5 * size / 1e6):
            verdict = "slow"
        if verdict == "ok" and ending.peak > (450 << 20) + 50 * size:
            verdict = "memory"
        self._run[seed.name, ""] += 1
        if verdict != "ok":
            self._bad[seed.name, verdict] += 1
            told = f"{words}\n{ending.err[-3000:]}\n{ending.cpu:.1f} s {ending.peak >> 20} MiB"
            self._keep(verdict, seed.name, place, f"{COMMANDS}:{of}:{number}", told)
        return verdict

    def _keep(self, verdict: str, seed: str, place: Path, case: str, told: str) -> None:
        key = verdict if verdict.startswith("traceback") else f"{seed} {verdict}"
        name = "".join(c if c.isalnum() else "-" for c in key)[-80:]
        target = self._given.keep / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:6]}"
        if target.exists():
            return
        shutil.copytree(place, target, ignore=shutil.ignore_patterns(".tmp"))
        repeat = f"{sys.executable} {sys.argv[0]} --repeat {case}"
        (target / "CASE").write_text(f"{key}\n{repeat}\n{told}\n", errors="backslashreplace")
        print(f"{key}\n  kept in {target}\n  to repeat it: {repeat}", flush=True)
        if len(packed := _packed(target)) <= _MOST_PRINTED:
            print(f"  elsewhere: base64 -d <<<{packed} | tar xJ", flush=True)

    def _save(self) -> None:
        """Add the cases since the last time to the sums in a file."""
        path: Path | None = self._given.counts
        if path is None:
            return
        sums = json.loads(path.read_text()) if path.exists() else {}
        for kind, table in (("parsers", self._parsed), (COMMANDS, self._run)):
            for (name, _), count in table.items():
                of = sums.setdefault(name, {})
                of[kind] = of.get(kind, 0) + count - self._saved[kind, name]
                self._saved[kind, name] = count
        path.write_text(json.dumps(sums, indent=1, sort_keys=True))

    def _print(self) -> None:
        names = sorted({name for name, _ in (*self._parsed, *self._run)})
        print(f"{'':24} {'parsers':>9} {'commands':>9} {'bad':>5}")
        for name in names:
            bad = sum(count for (of, _), count in self._bad.items() if of == name)
            print(f"{name:24} {self._parsed[name, '']:9} {self._run[name, '']:9} {bad:5}")
        sums = [sum(table.values()) for table in (self._parsed, self._run, self._bad)]
        print(f"{'all':24} {sums[0]:9} {sums[1]:9} {sums[2]:5}   seed {self._given.seed}")


def _packed(directory: Path) -> str:
    """Return a directory as text: of a machine that is gone, its log is what is left."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz") as archive:
        archive.add(directory, directory.name)
    return base64.b64encode(out.getvalue()).decode()


def _make(place: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(place, ignore_errors=True)
    write(place, files)


def _make_damaged(place: Path, seed: Seed, rng: random.Random, *, damaged: bool) -> None:
    _make(place, damage(seed, rng) if damaged else seed.files)


if __name__ == "__main__":
    sys.exit(main())
