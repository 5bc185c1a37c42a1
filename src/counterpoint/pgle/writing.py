"""Profiles written for XLA: whole or not at all, and the same bytes for the same costs.

A name that ends in `.pbtxt` is written as text, `.pb` as binary; any other means a directory with
a `<fingerprint>.pbtxt` for each module. There, too, names bear their fingerprint: the files stay
right when somebody hands a single one of them to XLA.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counterpoint.core.errors import InputError, UsageError
from counterpoint.pgle.profile import Profile, is_fingerprint
from counterpoint.pgle.schema import BINARY, ENDINGS, PROFILE, TEXT
from counterpoint.pgle.text import profile_text
from counterpoint.timeline.url import refuse_url


def write_profile(profile: Profile, path: str | Path, overwrite: bool = False) -> Path:
    """Write a `.pbtxt` or `.pb` file, or (a name without ending) a directory of one per module.

    Whole or not at all; what is there already is replaced only with `overwrite`.
    """
    place = Path(path)
    check_place(path, overwrite=overwrite)
    if not profile.costs:
        raise InputError("a profile without costs is not written", why="XLA would find nothing")
    try:
        if is_directory_name(path):
            _write_directory(profile, place)
        else:
            _write_file(profile, place)
    except OSError as failure:
        raise UsageError(f"can't write {path}: {failure.strerror or failure}") from None
    return place


def is_directory_name(path: str | Path) -> bool:
    """Whether a name to write to means a directory."""
    place = Path(path)
    return place.is_dir() or not place.suffix or str(path).endswith("/")


def check_place(path: str | Path, *, overwrite: bool) -> None:
    """Refuse a place that can't or must not be written to, before any work is done."""
    refuse_url(path)
    place = Path(path)
    if not is_directory_name(path) and place.suffix not in ENDINGS:
        raise UsageError(
            f"can't write {path}: XLA takes no profile of the ending {place.suffix}",
            why=f"the ending says the form: {TEXT} text, {BINARY} binary, none a directory",
            next=f"-o {shlex.quote(str(place.with_suffix(TEXT)))}",
        )
    if not place.absolute().parent.is_dir():
        raise UsageError(f"can't write {path}: there is no directory {place.parent}")
    if place.is_dir():
        _check_directory(place, overwrite=overwrite)
    elif place.exists() and (is_directory_name(path) or not overwrite):
        raise UsageError(f"{path} exists", why="nothing is overwritten unasked", next="--force")


def _check_directory(directory: Path, *, overwrite: bool) -> None:
    try:
        others = [it.name for it in directory.iterdir()]
    except OSError as failure:
        raise UsageError(f"can't write {directory}: {failure.strerror or failure}") from None
    strange = [name for name in others if not _is_module_file(Path(name))]
    if strange:
        raise UsageError(
            f"can't write {directory}: it holds {', '.join(sorted(strange)[:3])}",
            why="a directory is replaced as a whole, and that is no profile of a module",
            next="choose another name",
        )
    if others and not overwrite:
        raise UsageError(
            f"{directory} exists",
            why="nothing is overwritten unasked",
            next="--force",
        )


def _is_module_file(path: Path) -> bool:
    return path.suffix in ENDINGS and is_fingerprint(path.stem)


def _write_file(profile: Profile, path: Path) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(_encoded(profile, path.suffix))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


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
    """One text file per module, built beside the directory and moved to its place."""
    modules = dict(_by_module(profile))
    directory = directory.resolve()  # a link to it stays one
    part = directory.with_name(f".{directory.name}.{os.getpid()}.part")
    old = directory.with_name(f".{directory.name}.{os.getpid()}.old")
    try:
        part.mkdir()
        for fingerprint, own in modules.items():
            _write_file(own, part / f"{fingerprint}{TEXT}")
        if directory.exists():
            directory.rename(old)
        part.rename(directory)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _by_module(profile: Profile) -> Iterator[tuple[str, Profile]]:
    bare = next((cost.name for cost in profile.costs if cost.fingerprint is None), None)
    if bare is not None or profile.latencies:
        raise InputError(
            f"{bare or 'a latency'} names no module: in a directory each file is of one",
            why="without a fingerprint XLA would never look for it there",
            next=f"write one file: end its name in {TEXT}",
        )
    for fingerprint in profile.fingerprints:
        if not is_fingerprint(fingerprint):
            raise InputError(
                f"{fingerprint!r} is no fingerprint to name a file by",
                why="XLA looks for 32 hexadecimal digits",
                next=f"write one file: end its name in {TEXT}",
            )
        own = tuple(cost for cost in profile.costs if cost.fingerprint == fingerprint)
        yield fingerprint, Profile(own, origin=_origin_of_module(profile, fingerprint))


def _origin_of_module(profile: Profile, fingerprint: str) -> dict[str, str]:
    """What is told of all modules or of this one: keys of one name it by its fingerprint."""
    words = {key: key.split()[-1] if key else "" for key in profile.origin}
    return {
        key: value
        for key, value in profile.origin.items()
        if not is_fingerprint(words[key]) or words[key] == fingerprint
    }
