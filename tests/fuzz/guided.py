"""Lets atheris look for inputs that reach new code in a parser: `guided.py NAME --seconds 60`.

`pip install atheris` (Python 3.11 to 3.13 on Linux). It mutates bytes and keeps what takes a branch
that nothing took before, so it finds what damage at random does not. A find is kept as those of
fuzz.py are, and the search goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import pickle
import shutil
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

NOT_HERE = 77
"""Ends a run without atheris, which is no failure."""


def main() -> int:
    """Run until the time is over; returns 1 if anything ended badly."""
    options = argparse.ArgumentParser()
    options.add_argument("name", help="a seed of one file that a parser reads by itself")
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    options.add_argument("--counts", type=Path, help="a JSON file that sums up several runs")
    given = options.parse_args()
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        print("skipped: atheris is not installed (pip install atheris)")
        return NOT_HERE
    warnings.simplefilter("ignore")
    place = Path(tempfile.mkdtemp(prefix="fuzz-"))
    seed = _seed(given.name, place)
    with atheris.instrument_imports(include=["counterpoint"]):
        from batches import write
        from parsers import parser_of

        parse = parser_of(given.name)
        if parse is None:
            raise SystemExit(f"no parser reads {given.name} by itself")
        write(place / "case", seed.files)
        parse(place / "case" / seed.path)  # what is imported now is followed
    search = Search(parse, seed, place / "case", given)
    corpus = place / "corpus"
    corpus.mkdir()
    (corpus / "seed").write_bytes(seed.files[seed.path])
    words = [f"-max_total_time={given.seconds}", f"-seed={given.seed}", "-timeout=60"]
    words += [f"-artifact_prefix={place}/", "-rss_limit_mb=4096", "-max_len=20000"]
    words += ["-verbosity=0"]
    child = os.fork()  # libFuzzer ends its process
    if child == 0:
        atheris.Setup([sys.argv[0], *words, str(corpus)], search.one)
        atheris.Fuzz()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    cases, finds = json.loads((place / "told").read_text()) if (place / "told").exists() else (0, 0)
    left = [path for path in place.iterdir() if path.name.startswith(("crash", "timeout", "oom"))]
    for path in left:
        given.keep.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, given.keep / f"guided-{given.name}-{path.name}")
    if given.counts:
        sums = json.loads(given.counts.read_text()) if given.counts.exists() else {}
        sums[given.name] = sums.get(given.name, 0) + cases
        given.counts.write_text(json.dumps(sums, indent=1))
    print(f"{given.name}: {cases} cases, {finds + len(left)} bad (libFuzzer ended with {code})")
    shutil.rmtree(place, ignore_errors=True)
    return int(bool(finds or left))


def _seed(name: str, place: Path) -> Any:  # noqa: ANN401 - a Seed, whose module is imported late
    """Make the seeds in a child: polars may have no threads where a process is forked."""
    child = os.fork()
    if child == 0:
        from seeds import all_seeds

        try:
            (place / "seeds").mkdir()
            with (place / "pickle").open("wb") as file:
                pickle.dump({seed.name: seed for seed in all_seeds(place / "seeds")}, file)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with (place / "pickle").open("rb") as file:
        return pickle.load(file)[name]  # noqa: S301 - just written


class Search:
    """Reads what atheris makes, and keeps what ends badly."""

    def __init__(self, parse: Any, seed: Any, place: Path, given: argparse.Namespace) -> None:  # noqa: ANN401
        self._parse, self._path, self._given, self._place = parse, seed.path, given, place
        self._cases, self._found = 0, set[str]()

    def one(self, data: bytes) -> None:
        """Read one input."""
        from worker import where

        from counterpoint.core import CounterpointError

        self._cases += 1
        (self._place / self._path).write_bytes(data)
        try:
            self._parse(self._place / self._path)
        except CounterpointError:
            pass
        except Exception as error:  # noqa: BLE001 - any other is a find
            text = traceback.format_exc(limit=-12)
            self._keep(f"traceback {where(text, type(error).__name__)}", text, data)
        if self._cases % 100 == 1:
            told = json.dumps([self._cases, len(self._found)])
            (self._place.parent / "told").write_text(told)

    def _keep(self, key: str, text: str, data: bytes) -> None:
        if key in self._found:
            return
        self._found.add(key)
        name = "".join(c if c.isalnum() else "-" for c in key)[-80:]
        target = self._given.keep / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:6]}"
        target.mkdir(parents=True, exist_ok=True)
        (target / self._path).write_bytes(data)
        told = f"{key}\n{self._given.name}:0:0\n{self._path}\n{text}"
        (target / "CASE").write_text(told, errors="backslashreplace")
        print(f"{key}\n  kept in {target}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
