"""Makes a find of a parser as small as it can be, and writes it into the corpus that tests replay.

`python tests/fuzz/smaller.py build/fuzz/FIND NAME`, before what it found is mended.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from batches import judged
from parsers import Parse, parser_of
from seeds import Seed
from worker import load_commands

Fails = Callable[[bytes], bool]
_TRIES = 150
"""How many smaller inputs are tried for one file."""


def main() -> None:
    """Reduce the files of a find one after the other."""
    options = argparse.ArgumentParser()
    options.add_argument("find", type=Path)
    options.add_argument("name")
    options.add_argument("--into", type=Path, default=Path(__file__).parent / "corpus")
    given = options.parse_args()
    load_commands()
    told = (given.find / "CASE").read_text().splitlines()
    name, path = told[1].rpartition(" ")[2].rsplit(":", 2)[0], told[2]
    files = {
        str(file.relative_to(given.find)): file.read_bytes()
        for file in sorted(given.find.rglob("*"))
        if file.is_file() and file.name != "CASE"
    }
    parse = parser_of(name)
    if parse is None:
        raise SystemExit(f"no parser reads {name} by itself")
    verdict = ended(parse, files, path)
    if verdict is None:
        raise SystemExit(f"{given.find} ends well")
    for file, content in files.items():
        files[file] = smallest(
            content, lambda data, file=file: ended(parse, files | {file: data}, path) == verdict
        )
    out = given.into / f"{given.name}.json"
    out.write_text(json.dumps(entry(name, path, files), indent=1) + "\n")
    print(f"{verdict}: {out}, {out.stat().st_size} bytes")


def ended(parse: Parse, files: dict[str, bytes], path: str) -> str | None:
    """Return how a parser ends badly in a process of its own; None if it does not."""
    place = Path(tempfile.mkdtemp(prefix="fuzz-"))
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.chdir(place)
            found = judged(parse, files, Seed("", files, path, ()), place)
            os.write(theirs, (found[0] if found else "-").encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    shutil.rmtree(place, ignore_errors=True)
    return None if said == "-" else said or f"ended with {os.waitstatus_to_exitcode(status)}"


def smallest(data: bytes, fails: Fails) -> bytes:
    """Leave out lines, then bytes, in ever smaller parts, as long as it still fails."""
    if fails(b""):
        return b""
    lines = _without([*data.splitlines(keepends=True)], lambda parts: fails(b"".join(parts)))
    data = b"".join(lines)
    single = _without([data[at : at + 1] for at in range(len(data))], lambda p: fails(b"".join(p)))
    return b"".join(single)


def _without(parts: list[bytes], fails: Callable[[Sequence[bytes]], bool]) -> list[bytes]:
    size, tries = max(1, len(parts) // 2), 0
    while parts and tries < _TRIES:
        at = 0
        while at < len(parts) and tries < _TRIES:
            tries += 1
            left = parts[:at] + parts[at + size :]
            if fails(left):
                parts = left
            else:
                at += size
        if size == 1:
            break
        size //= 2
    return parts


def entry(name: str, path: str, files: dict[str, bytes]) -> dict[str, object]:
    """Return what the corpus keeps: texts as they are, other bytes in base 64."""
    texts, packed = dict[str, str](), dict[str, str]()
    for file, data in files.items():
        try:
            texts[file] = data.decode()
        except UnicodeDecodeError:
            packed[file] = base64.b64encode(data).decode()
    return {"parse": [name, path], "files": texts, "packed": packed}


if __name__ == "__main__":
    main()
