"""Destination: what a source says about where its job runs, its jaxlib and its chip.

A launch file is checked for the release that it installs, whatever is installed here: pins of pip,
tags of images, ranges, and else the lock beside the file. Names of machines say the chip. What
contradicts itself says nothing: a page of five machines, a script that installs what it is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from counterpoint.flags.catalogue.lookup import releases
from counterpoint.flags.named_files import LARGEST_SOURCE, read_regular
from counterpoint.flags.parsed import Location, Machine, Pin
from counterpoint.flags.release_number import version_number
from counterpoint.hardware.chip import chips

_DATA: Final = Path(__file__).parents[1] / "catalogue"
_NUMBER: Final = r"v?(\d+\.\d+(?:\.\d+)*)"
_PINS: Final = (
    # What pip, uv or conda install; jaxlib decides, since jax may be newer than its jaxlib.
    re.compile(rf"(?<![\w.-])jaxlib(?:\[[\w ,-]*\])?[\"']?\s*={{2,3}}\s*{_NUMBER}"),
    re.compile(rf"jaxlib-{_NUMBER}(?:\+\w+)?-cp"),
    re.compile(rf"(?<![\w.-])jax(?:\[[\w ,-]*\])?[\"']?\s*={{2,3}}\s*{_NUMBER}"),
    re.compile(rf"\bJAX_VERSION[\"']?\s*[:=]\s*[\"']?{_NUMBER}"),
    # An image that names it: us-docker.pkg.dev/.../tpu:jax0.9.0-rev1, rocm/jax:rocm6.0-jax0.4.31.
    re.compile(rf"(?<![\w./-])(?!https?:|github)\w[\w./-]*[/:][\w.:/-]*?\bjax[-_]?{_NUMBER}"),
)
_CONDA: Final = re.compile(rf"^\s*-\s+jax(?:lib)?={_NUMBER}", re.MULTILINE)
_LOCKED: Final = re.compile(rf"^name = \"jaxlib\"\s*\nversion = \"{_NUMBER}", re.MULTILINE)
_NIGHTLY: Final = re.compile(
    r"(?:nvidia/jax|\w[\w.-]*/[\w./-]*:toolbox)"
    r"(?:[:-][\w.-]*?(20\d\d-\d\d-\d\d)|:(\d\d\.\d\d)-)?[\w.-]*"
)
"""NVIDIA's image of a day (jax:maxtext-2024-10-17) or month (jax:24.10-py3), or of neither."""
_RANGE: Final = re.compile(
    r"(?<![\w.-])jax(?:lib)?(?:\[[\w ,-]*\])? *+((?:(?:[<>]=?|~=|!=) *+\d[\d.]*+ *+,?+ *+)++)"
)
_BOUND: Final = re.compile(r"([<>]=?|~=|!=)\s*(\d[\d.]*)")
_CONCERNS: Final = re.compile(r"jax|maxtext|toolbox", re.IGNORECASE)
_COMMENT: Final = re.compile(r"^[ \t]*(?:#(?!SBATCH)|//).*|[ \t]#[ \t].*", re.MULTILINE)
_INSTALLS: Final = re.compile(r"install|image|docker|FROM|container", re.IGNORECASE)
_BESIDE: Final = (
    *("uv.lock", "poetry.lock", "pdm.lock", "requirements.txt", "constraints.txt"),
    *("pyproject.toml", "environment.yml", "environment.yaml", "Dockerfile"),
)
_HIGHEST: Final = 6  # directories above the source
_ANY_AMD: Final = "AMD"


def pin_of(text: str, where: str, *, page: bool = False) -> Pin | None:
    """Return the release that a text names; None if it names none, or several.

    `page`: only lines that install something count, since prose names all kinds of releases.
    """
    lines = [*_lines(text, page=page)]
    for pattern in _PINS:
        if matches := [(match, at) for at, line in lines for match in pattern.finditer(line)]:
            return _agreed(matches, where)
    if matches := [(match, 0) for match in (*_LOCKED.finditer(text), *_CONDA.finditer(text))]:
        return _agreed(matches, where)
    return _nightly(lines, where) or _within(lines, where)


def pin_beside(source: Path) -> Pin | None:
    """Return the release that a lock or a list of requirements beside a source names.

    They are looked for in its directory and in those above it, up to that of its repository.
    """
    directory = source.resolve().parent
    above = [directory, *directory.parents][:_HIGHEST]
    root = next((at for at, path in enumerate(above) if (path / ".git").exists()), 0)
    for path in (path / name for path in above[: root + 1] for name in _BESIDE):
        try:
            text = read_regular(path, LARGEST_SOURCE).decode()
        except (OSError, ValueError):
            continue
        if pin := pin_of(text, str(path)):
            return pin
    return None


def machine_of(text: str, where: str, *, page: bool = False) -> Machine | None:
    """Return the chip that a text names; None if it names none, or several.

    `page`: a `#` begins a heading, which names the chip of a section, and no comment.
    """
    bare = text if page else _COMMENT.sub("", text)
    lowered = bare.lower()
    if len(lowered) != len(bare):
        return None  # letters of which one becomes two
    machines: dict[str, Machine] = {}
    for word, pattern, chip in _machines():
        if chip not in machines and word in lowered and (match := _word(pattern, lowered)):
            line = bare.count("\n", 0, match.start()) + 1
            shown = _shown(bare[match.start() : match.end()])
            machines[chip] = Machine(chip, shown, Location(where, line))
    named = [machine for chip, machine in machines.items() if chip != _ANY_AMD]
    if len(named) == 1:
        return named[0]
    return None if named else machines.get(_ANY_AMD)


def _word(pattern: str, text: str) -> re.Match[str] | None:
    """Return the first match that does not begin within a word."""
    for match in re.finditer(rf"{pattern}(?!\w)", text):
        before = text[match.start() - 1 : match.start()]
        if not (before.isalnum() or before in ("-", "_")):
            return match
    return None


def _lines(text: str, *, page: bool) -> Iterator[tuple[int, str]]:
    """Yield the lines that may name a release, without comments, each with its number."""
    for at, line in enumerate(text.split("\n"), 1):
        if _CONCERNS.search(line) and not (page and not _INSTALLS.search(line)):
            yield at, _COMMENT.sub("", line)


def _agreed(matches: Iterable[tuple[re.Match[str], int]], where: str) -> Pin | None:
    pins = {
        version_number(match[1]): Pin(_shown(match[0]), Location(where, at or None), (match[1],))
        for match, at in reversed([*matches])
    }
    return next(iter(pins.values())) if len(pins) == 1 else None


def _shown(text: str) -> str:
    return " ".join(text.split()).replace('"', "").replace("'", "").removesuffix("-cp")


def _nightly(lines: list[tuple[int, str]], where: str) -> Pin | None:
    """Return the releases around the day of an image, which may have what either has."""
    days = {
        match[1] or (match[2] and f"20{match[2].replace('.', '-')}-01"): (match[0], at)
        for at, line in reversed(lines)
        for match in _NIGHTLY.finditer(line)
    }
    if len(days) != 1:
        return None
    ((day, (text, at)),) = days.items()
    dates = _dates()
    before = [version for version, date in dates if day and date <= day]
    after = [version for version, date in dates if day and date > day]
    if not before or not after:
        return None
    return Pin(text, Location(where, at), (before[-1], after[0]), nightly=True)


def _within(lines: list[tuple[int, str]], where: str) -> Pin | None:
    """Return the releases that a range allows, the newest first: `jax>=0.4.30,<0.5`."""
    ranges = {
        match[1]: (match[0], at) for at, line in reversed(lines) for match in _RANGE.finditer(line)
    }
    if len(ranges) != 1:
        return None
    ((bounds, (text, at)),) = ranges.items()
    every = [*_BOUND.finditer(bounds)]
    allowed = [one for one in releases() if all(_holds(one, bound[1], bound[2]) for bound in every)]
    return Pin(_shown(text), Location(where, at), tuple(reversed(allowed))) if allowed else None


def _holds(version: str, comparison: str, bound: str) -> bool:
    is_, than = version_number(version), version_number(bound)
    match comparison:
        case "<":
            return is_ < than
        case "<=":
            return is_ <= than
        case ">":
            return is_ > than
        case "!=":
            return is_ != than
        case "~=":
            return is_ >= than and is_[: len(than) - 1] == than[:-1]
        case _:
            return is_ >= than


@cache
def _dates() -> tuple[tuple[str, str], ...]:
    rows = _rows("release_dates.tsv")
    return tuple((version, date) for version, date in rows)


@cache
def _machines() -> tuple[tuple[str, str, str], ...]:
    """Return the rows; a pattern, slow to compile, is so only for a text with its word."""
    return (
        *((*machine, chip.target_name) for chip in chips() for machine in chip.machines),
        *((name, _SLURM.format(name), chip) for name, chip in _slurm_names()),
        *((word, pattern, chip) for word, pattern, chip in _rows("machines.tsv")),
    )


_SLURM: Final = r'--(?:gres[= ]gpu:|gpus(?:-per-(?:node|task))?[= ]|constraint[= ]"?){}(?![\w-])'
"""--gres=gpu:h100:8, --gpus-per-node=h100:8, --constraint=h100."""


def _slurm_names() -> Iterator[tuple[str, str]]:
    names = ("A100", "V100", *(chip.target_name for chip in chips() if chip.vendor != "Google"))
    return ((name.lower(), name) for name in names if name.isalnum())


def _rows(name: str) -> Iterator[list[str]]:
    for line in (_DATA / name).read_text("utf-8").splitlines():
        if not line.startswith("#"):
            yield line.split("\t")
