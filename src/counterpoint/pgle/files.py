"""Profiles on disk, read with every trap named that XLA falls into in silence.

XLA takes `.pbtxt` as text and `.pb` as binary; a directory it asks for `<fingerprint>.pbtxt`, then
`<fingerprint>.pb`. Whatever has another name it leaves out without a word, and compiles as if
there were no profile.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from counterpoint.core.errors import InputError
from counterpoint.hlo.wire_schema import Message
from counterpoint.pgle.profile import SEPARATOR, Cost, Latency, Profile, is_fingerprint
from counterpoint.pgle.schema import BINARY, ENDINGS, PROFILE, TEXT
from counterpoint.pgle.text import origin_of

_RECORDING: Final = ".xplane.pb"
_RECORDINGS: Final = (".zip", ".xplane.pb.gz", ".sqlite", ".nsys-rep", ".json.gz")
_PLANE: Final = re.compile(
    rb"\n[\x80-\xff]*[\x00-\x7f]"  # a message
    rb"(?:\x08[\x80-\xff]*[\x00-\x7f])?"  # its number
    rb"\x12.(?:/device:|/host:|Task Env|#Chip)",  # its name
    re.DOTALL,
)
"""How a recording of JAX's profiler begins, whatever its file is called."""

_MAKE: Final = "counterpoint pgle make PROFILE... -o FILE.pbtxt"


def read_profile(path: str | Path) -> Profile:
    """Read a profile: a `.pbtxt` or `.pb` file, or a directory of `<fingerprint>.pbtxt`."""
    place = Path(path)
    try:
        if place.is_dir():
            return _read_directory(place)
        if not place.exists():
            raise InputError(
                f"{place}: no such file or directory",
                why="XLA logs an error at most, and compiles without the profile",
                next=_MAKE,
            )
        return _read_file(place)
    except OSError as failure:
        raise InputError(f"{place}: can't be read: {failure.strerror or failure}") from None


def _read_file(path: Path) -> Profile:
    if path.suffix not in ENDINGS:
        raise _wrong_ending(path)
    data = path.read_bytes()
    if not data.strip():
        raise InputError(f"{path} is empty", why="a profile holds costs", next=_MAKE)
    profile = _from_text(path, data) if path.suffix == TEXT else _from_binary(path, data)
    if not profile.costs:
        raise InputError(
            f"{path} holds no costs",
            why="XLA would log that it found a profile, and schedule as if there were none",
            next=_MAKE,
        )
    return profile


def _wrong_ending(path: Path) -> InputError:
    data = path.read_bytes()
    binary = _parse_binary(data)
    if _parse_text(data) is not None:
        ending = TEXT
    elif binary is not None and _has_names(binary):
        ending = BINARY
    else:
        return _no_profile(path)
    return InputError(
        f"{path}: no profile by its name, which ends in {path.suffix or 'nothing'}",
        why="XLA takes .pbtxt (text) and .pb (binary) and leaves out every other file in silence",
        next=shlex.join(["mv", str(path), f"{path.with_suffix('')}{ending}"]),
    )


def _no_profile(path: Path) -> InputError:
    return InputError(
        f"{path}: no profile by its name, nor by what it holds",
        why="XLA takes .pbtxt or .pb files with one cost per instruction, made of recordings",
        next=_make_of(path) if path.name.endswith(_RECORDINGS) else _MAKE,
    )


def _make_of(path: Path) -> str:
    return shlex.join(["counterpoint", "pgle", "make", str(path), "-o", "step.pbtxt"])


def _from_text(path: Path, data: bytes) -> Profile:
    try:
        text = data.decode()
        message = PROFILE()
        text_format.Parse(text, message)
    except (UnicodeDecodeError, text_format.ParseError) as failure:
        if _parse_binary(data) is not None:
            raise InputError(
                f"{path} holds the binary form",
                why=f"XLA reads {TEXT} as text, fails and compiles without it",
                next=shlex.join(["mv", str(path), str(path.with_suffix(BINARY))]),
            ) from None
        raise InputError(
            f"{path} is no profile in text form: {_first_line(failure)}",
            why='each cost is written costs { name: "fusion.3" cost_us: 12.5 }',
            next=_MAKE,
        ) from None
    return replace(_profile(path, message), origin=origin_of(text))


def _from_binary(path: Path, data: bytes) -> Profile:
    message = _parse_binary(data)
    nameless = message is None or not _has_names(message)
    if nameless and (path.name.endswith(_RECORDING) or _PLANE.match(data)):
        raise InputError(
            f"{path} is a recording, not a profile for XLA's scheduler",
            why="it holds an XPlane; a profile holds one cost per instruction, and is made of such",
            next=_make_of(path),
        )
    if message is not None and message.costs and nameless:
        raise _no_profile(path)
    if message is not None and (message.costs or message.latencies):
        return _profile(path, message)
    if _parse_text(data) is not None:
        raise InputError(
            f"{path} holds the text form",
            why=f"XLA reads {BINARY} as binary, fails and compiles without it",
            next=shlex.join(["mv", str(path), str(path.with_suffix(TEXT))]),
        )
    raise InputError(
        f"{path} is no profile in binary form"
        + (": it holds no costs" if message is not None else ", or a damaged one"),
        why="XLA would compile as if there were none",
        next=_MAKE,
    )


def _parse_binary(data: bytes) -> Message | None:
    try:
        return PROFILE.FromString(data)
    except DecodeError:
        return None


def _parse_text(data: bytes) -> Message | None:
    """The message, of a text that has costs."""
    try:
        message = PROFILE()
        text_format.Parse(data.decode(), message)
    except (UnicodeDecodeError, text_format.ParseError):
        return None
    return message if message.costs else None


def _has_names(message: Message) -> bool:
    """Other messages parse too, but for names and costs they hold nothing."""
    return any(cost.name for cost in message.costs)


def _first_line(failure: Exception) -> str:
    return next(iter(str(failure).splitlines()), type(failure).__name__)


def _profile(path: Path, message: Message) -> Profile:
    try:
        costs = tuple(_cost(it.name, it.cost_us) for it in message.costs)
        latencies = tuple(Latency(it.source, it.target, it.latency_us) for it in message.latencies)
    except ValueError as wrong:
        raise InputError(
            f"{path}: {wrong}", why="XLA would take it as it is, or leave it out", next=_MAKE
        ) from None
    return Profile(costs, latencies)


def _cost(key: str, us: float) -> Cost:
    fingerprint, separator, name = key.partition(SEPARATOR)
    return Cost(name, us, fingerprint) if separator else Cost(key, us)


def _read_directory(directory: Path) -> Profile:
    files = sorted(it for it in directory.iterdir() if it.suffix in ENDINGS)
    _check_names(directory, files)
    parts = [_of_module(path, _read_file(path)) for path in files]
    return Profile(
        tuple(cost for part in parts for cost in part.costs),
        tuple(latency for part in parts for latency in part.latencies),
        {key: value for part in parts for key, value in part.origin.items()},
    )


def _check_names(directory: Path, files: list[Path]) -> None:
    inside = ", ".join(sorted(it.name for it in directory.iterdir())[:5]) or "nothing"
    if not files:
        raise InputError(
            f"{directory}: no profile in this directory (it holds {inside})",
            why="XLA looks for <fingerprint>.pbtxt, then <fingerprint>.pb",
            next="counterpoint pgle make PROFILE... -o DIRECTORY/",
        )
    for path in files:
        if not is_fingerprint(path.stem):
            raise InputError(
                f"{path}: XLA never looks for this file in a directory",
                why="there it asks for names of a module's 32-digit fingerprint only",
                next=f"give XLA the file itself, or move it out of {directory}",
            )
    names = [path.stem for path in files]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"{directory} holds both {twice}{TEXT} and {twice}{BINARY}",
            why=f"XLA reads {twice}{TEXT}, and the other one never",
            next=f"remove one of them, e.g. rm {shlex.quote(str(directory / twice))}{BINARY}",
        )


def _of_module(path: Path, profile: Profile) -> Profile:
    """The costs of a module's own file, which may have bare names: XLA asks that file only."""
    for cost in profile.costs:
        if cost.fingerprint not in (None, path.stem):
            raise InputError(
                f"{path} holds costs of another module: {cost.key}",
                why="XLA opens this file for the module of its name, and drops these costs",
                next="counterpoint pgle merge FILE... -o DIRECTORY/",
            )
    return replace(
        profile, costs=tuple(replace(cost, fingerprint=path.stem) for cost in profile.costs)
    )
