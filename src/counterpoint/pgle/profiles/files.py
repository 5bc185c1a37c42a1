"""Reads and writes profiles, and reports every mistake that XLA would silently ignore.

XLA reads `.pbtxt` as text and `.pb` as binary; in a directory it looks for `<fingerprint>.pbtxt`,
then `<fingerprint>.pb`. It silently ignores any other file, and compiles as if there were no
profile.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from counterpoint.core import InputError, UsageError, WriteError, refuse_url
from counterpoint.core.opening import read_input
from counterpoint.core.outputs import whole_directory, write_whole
from counterpoint.hlo.wire_schema import Message
from counterpoint.pgle.profiles.profile import (
    BINARY,
    ENDINGS,
    PROFILE,
    SEPARATOR,
    TEXT,
    InstructionCost,
    Latency,
    Profile,
    is_fingerprint,
    origin_of,
    profile_text,
)
from counterpoint.timeline.formats import XPLANE, is_recording

_PLANE: Final = re.compile(
    rb"\n[\x80-\xff]*[\x00-\x7f]"  # a message
    rb"(?:\x08[\x80-\xff]*[\x00-\x7f])?"  # its number
    rb"\x12.(?:/device:|/host:|Task Env|#Chip)",  # its name
    re.DOTALL,
)
"""The head of a recording of JAX's profiler, whatever its file name."""

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
                why="XLA logs an error at most and compiles without the profile",
                next=_MAKE,
            )
        return _read_file(place)
    except OSError as failure:
        raise InputError(f"{place}: can't be read: {failure.strerror or failure}") from None


def _read_file(path: Path) -> Profile:
    if path.suffix not in ENDINGS:
        raise _wrong_ending(path)
    data = read_input(path)
    if not data.strip():
        raise InputError(f"{path} is empty", why="a profile holds costs", next=_MAKE)
    profile = _from_text(path, data) if path.suffix == TEXT else _from_binary(path, data)
    if not profile.costs:
        raise InputError(
            f"{path} holds no costs",
            why="XLA would log that it found a profile and schedule without costs",
            next=_MAKE,
        )
    return profile


def _wrong_ending(path: Path) -> InputError:
    data = read_input(path)
    binary = _parse_binary(data)
    if _parse_text(data) is not None:
        ending = TEXT
    elif binary is not None and _has_names(binary):
        ending = BINARY
    else:
        return _no_profile(path)
    return InputError(
        f"{path}: not a profile file name; it ends in {path.suffix or 'nothing'}",
        why="XLA reads .pbtxt (text) and .pb (binary) and silently ignores every other file",
        next=shlex.join(["mv", str(path), f"{path.with_suffix('')}{ending}"]),
    )


def _no_profile(path: Path) -> InputError:
    return InputError(
        f"{path}: not a profile, by name or content",
        why="XLA reads .pbtxt or .pb files with one cost per instruction, made from recordings",
        next=_make_of(path) if is_recording(path.name) else _MAKE,
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
            f"{path} is not a profile in text form: {_first_line(failure)}",
            why='each cost is written costs { name: "fusion.3" cost_us: 12.5 }',
            next=_MAKE,
        ) from None
    return replace(_profile(path, message), origin=origin_of(text))


def _from_binary(path: Path, data: bytes) -> Profile:
    message = _parse_binary(data)
    nameless = message is None or not _has_names(message)
    if nameless and (path.name.endswith(XPLANE.endings) or _PLANE.match(data)):
        raise InputError(
            f"{path} is a recording, not a profile for XLA's scheduler",
            why="it holds an XPlane; a profile holds one cost per instruction and is made from"
            " a recording",
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
        f"{path} is not a profile in binary form"
        + (": it holds no costs" if message is not None else ", or a damaged one"),
        why="XLA would compile without it",
        next=_MAKE,
    )


def _parse_binary(data: bytes) -> Message | None:
    try:
        return PROFILE.FromString(data)
    except DecodeError:
        return None


def _parse_text(data: bytes) -> Message | None:
    """Return the message of a text that has costs."""
    try:
        message = PROFILE()
        text_format.Parse(data.decode(), message)
    except (UnicodeDecodeError, text_format.ParseError):
        return None
    return message if message.costs else None


def _has_names(message: Message) -> bool:
    """Return whether costs have names: other messages may parse, but without names."""
    return any(cost.name for cost in message.costs)


def _first_line(failure: Exception) -> str:
    return next(iter(str(failure).splitlines()), type(failure).__name__)


def _profile(path: Path, message: Message) -> Profile:
    try:
        costs = tuple(_cost(entry.name, entry.cost_us) for entry in message.costs)
        latencies = tuple(
            Latency(entry.source, entry.target, entry.latency_us) for entry in message.latencies
        )
    except ValueError as wrong:
        raise InputError(
            f"{path}: {wrong}", why="XLA would use or ignore it as it is", next=_MAKE
        ) from None
    return Profile(costs, latencies)


def _cost(key: str, us: float) -> InstructionCost:
    fingerprint, separator, name = key.partition(SEPARATOR)
    return InstructionCost(name, us, fingerprint) if separator else InstructionCost(key, us)


def _read_directory(directory: Path) -> Profile:
    files = sorted(file for file in directory.iterdir() if file.suffix in ENDINGS)
    _check_names(directory, files)
    parts = [_of_module(path, _read_file(path)) for path in files]
    return Profile(
        tuple(cost for part in parts for cost in part.costs),
        tuple(latency for part in parts for latency in part.latencies),
        {key: value for part in parts for key, value in part.origin.items()},
    )


def _check_names(directory: Path, files: list[Path]) -> None:
    inside = ", ".join(sorted(file.name for file in directory.iterdir())[:5]) or "nothing"
    if not files:
        raise InputError(
            f"{directory}: no profile in this directory (it contains {inside})",
            why="XLA looks for <fingerprint>.pbtxt, then <fingerprint>.pb",
            next="counterpoint pgle make PROFILE... -o DIRECTORY/",
        )
    for path in files:
        if not is_fingerprint(path.stem):
            raise InputError(
                f"{path}: XLA never looks for this file in a directory",
                why="in a directory it looks only for names of a module's 32-digit fingerprint",
                next=f"pass the file itself to XLA, or move it out of {directory}",
            )
    names = [path.stem for path in files]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"{directory} holds both {twice}{TEXT} and {twice}{BINARY}",
            why=f"XLA reads {twice}{TEXT} and never the other one",
            next=f"remove one of them, e.g. rm {shlex.quote(str(directory / twice))}{BINARY}",
        )


def _of_module(path: Path, profile: Profile) -> Profile:
    """Return the costs of a module's own file, whose names may be bare: XLA reads no other."""
    for cost in profile.costs:
        if cost.fingerprint not in (None, path.stem):
            raise InputError(
                f"{path} holds costs of another module: {cost.key}",
                why="XLA opens this file for the module of its name and drops these costs",
                next="counterpoint pgle merge FILE... -o DIRECTORY/",
            )
    return replace(
        profile, costs=tuple(replace(cost, fingerprint=path.stem) for cost in profile.costs)
    )


def write_profile(profile: Profile, path: str | Path, overwrite: bool = False) -> Path:
    """Write a `.pbtxt` or `.pb` file, or a directory (a name without ending) with one per module.

    The write is atomic; an existing file is replaced only with `overwrite`.

    Equal costs give equal bytes. In a directory, names contain their fingerprint as well: a single
    file stays correct when it is given to XLA directly.
    """
    place = Path(path)
    check_place(path, overwrite=overwrite)
    if not profile.costs:
        raise InputError("a profile without costs cannot be written", why="XLA would find nothing")
    try:
        if is_directory_name(path):
            _write_directory(profile, place)
        else:
            _write_file(profile, place)
    except OSError as failure:
        raise WriteError(path, failure) from None
    return place


def is_directory_name(path: str | Path) -> bool:
    """Return whether an output name means a directory."""
    place = Path(path)
    return place.is_dir() or not place.suffix or str(path).endswith("/")


def check_place(path: str | Path, *, overwrite: bool) -> None:
    """Refuse an output path that can't or must not be written, before any work is done."""
    refuse_url(path)
    place = Path(path)
    if not is_directory_name(path) and place.suffix not in ENDINGS:
        raise UsageError(
            f"can't write {path}: XLA reads no profile with the suffix {place.suffix}",
            why=f"the suffix determines the format: {TEXT} text, {BINARY} binary, none a directory",
            next=f"use -o {place.with_suffix(TEXT)}",
        )
    if not place.absolute().parent.is_dir():
        raise UsageError(f"can't write {path}: there is no directory {place.parent}")
    if place.is_dir():
        _check_directory(place, overwrite=overwrite)
    elif place.exists() and (is_directory_name(path) or not overwrite):
        raise UsageError(f"{path} exists", why="existing files are kept", next="use --force")


def _check_directory(directory: Path, *, overwrite: bool) -> None:
    try:
        others = [file.name for file in directory.iterdir()]
    except OSError as failure:
        raise WriteError(directory, failure) from None
    strange = [name for name in others if not _is_module_file(Path(name))]
    if strange:
        raise UsageError(
            f"can't write {directory}: it holds {', '.join(sorted(strange)[:3])}",
            why="a directory is replaced as a whole, and this file is not a module's profile",
            next="choose another name",
        )
    if others and not overwrite:
        raise UsageError(
            f"{directory} exists",
            why="existing files are kept",
            next="use --force",
        )


def _is_module_file(path: Path) -> bool:
    return path.suffix in ENDINGS and is_fingerprint(path.stem)


def _write_file(profile: Profile, path: Path) -> None:
    write_whole(path, _encoded(profile, path.suffix))


def _encoded(profile: Profile, ending: str) -> bytes:
    if ending == TEXT:
        return profile_text(profile).encode()
    message: Any = PROFILE()
    for cost in profile.costs:
        message.costs.add(name=cost.key, cost_us=cost.us)
    for latency in profile.latencies:
        message.latencies.add(source=latency.source, target=latency.target, latency_us=latency.us)
    return message.SerializeToString(deterministic=True)


def _write_directory(profile: Profile, directory: Path) -> None:
    """Write one text file per module."""
    with whole_directory(directory, overwrite=True) as part:
        for fingerprint, own in _by_module(profile):
            (part / f"{fingerprint}{TEXT}").write_bytes(_encoded(own, TEXT))


def _by_module(profile: Profile) -> Iterator[tuple[str, Profile]]:
    bare = next((cost.name for cost in profile.costs if cost.fingerprint is None), None)
    if bare is not None or profile.latencies:
        raise InputError(
            f"{bare or 'a latency'} names no module, but each file of a directory belongs to one",
            why="without a fingerprint XLA would never look for it there",
            next=f"write a single file, with a name that ends in {TEXT}",
        )
    for fingerprint in profile.fingerprints:
        if not is_fingerprint(fingerprint):
            raise InputError(
                f"{fingerprint!r} is not a fingerprint, so no file can be named after it",
                why="XLA looks for 32 hexadecimal digits",
                next=f"write a single file, with a name that ends in {TEXT}",
            )
        own = tuple(cost for cost in profile.costs if cost.fingerprint == fingerprint)
        yield fingerprint, Profile(own, origin=_origin_of_module(profile, fingerprint))


def _origin_of_module(profile: Profile, fingerprint: str) -> dict[str, str]:
    """Return origin entries of all modules or of this one, identified by fingerprint in the key."""
    words = {key: key.split()[-1] if key else "" for key in profile.origin}
    return {
        key: value
        for key, value in profile.origin.items()
        if not is_fingerprint(words[key]) or words[key] == fingerprint
    }


_DIGITS: Final = 12
_ADDRESSED: Final = re.compile(rf"-[0-9a-f]{{{_DIGITS}}}$")


def content_addressed_name(data: bytes, stem: str = "step", ending: str = TEXT) -> str:
    """Return `step-<12 digits of the content's SHA-256>.pbtxt`.

    JAX's key of the persistent compilation cache holds the flags, so the path of a profile but not
    its content: a profile replaced under its old name brings back the executable that was compiled
    with the previous one.
    """
    if ending not in ENDINGS:
        raise ValueError(f"XLA reads no profile that ends in {ending}")
    return f"{stem}-{hashlib.sha256(data).hexdigest()[:_DIGITS]}{ending}"


def content_addressed(path: Path) -> Path:
    """Return the content-addressed name for a profile, in the same directory."""
    return path.with_name(content_addressed_name(path.read_bytes(), _stem(path), path.suffix))


def _stem(path: Path) -> str:
    return _ADDRESSED.sub("", path.stem)
