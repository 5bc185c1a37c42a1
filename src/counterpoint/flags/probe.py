"""Query the child's own XLA for the flags it accepts, before the child ends at one of them.

XLA reads XLA_FLAGS when it first needs an option, minutes into some programs, and aborts
on the first flag it rejects. Only its parser knows what its version accepts, so it is queried in a
separate process, on the CPU, in a fraction of a second. Its answer is kept beside the cache of
compiles for the next time, as long as that jaxlib stays as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core import UsageError, parse_json
from counterpoint.core.cache import cache_directory
from counterpoint.core.outputs import write_whole
from counterpoint.flags.flag_parser import FlagParser, ParserReply, ProbeError
from counterpoint.flags.jaxlib import jaxlib_metadata
from counterpoint.flags.lifecycle import unknown_hint
from counterpoint.flags.text import expand_xla_flags, names, split_xla_flags

__all__ = [
    "XLA_ABORTS",
    "ProbeResult",
    "RejectedFlag",
    "probe_flags",
    "rejection_error",
]

XLA_ABORTS: Final = "XLA aborts on an invalid flag"
"""The reason in the error for flags that the compiler rejects."""
_UNKNOWN: Final = re.compile(r"Unknown flags? in XLA_FLAGS: (.*)")
_BAD: Final = (
    re.compile(r"Couldn't interpret value (?P<value>.*) for flag (?P<name>\w+)\."),
    re.compile(r"Illegal value for (?:--)?(?P<name>\w+) '(?P<value>.*?)'(?=$|:)", re.MULTILINE),
)
_PARSE_FAILED: Final = re.compile(r"Check failed: tsl::Flags::Parse|Flag parsing failed")


@dataclass(frozen=True, slots=True)
class RejectedFlag:
    """One flag that the compiler rejects."""

    name: str
    reason: str
    hint: str
    value: str | None = None  # None: given without a value


def unknown_words(log: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return our flags that the log calls unknown; it lists them in our order."""
    match = _UNKNOWN.search(log)
    if match is None:
        return ()
    rest = log[match.start(1) :]
    unknown_flags: list[str] = []
    for word in words:
        if rest.startswith(word) and rest[len(word) : len(word) + 1] in ("", " ", "\n"):
            unknown_flags.append(word)
            rest = rest[len(word) + 1 :]
    return tuple(unknown_flags)


def misread_words(log: str, words: Iterable[str]) -> tuple[str, ...]:
    """Return our flags whose value the log calls wrong; it does not contain every wrong value."""
    logged = {
        f"--{match['name']}={match['value']}"
        for pattern in _BAD
        for match in pattern.finditer(log.partition("usage: ")[0])
    }
    return tuple(word for word in words if word in logged)


def parsing_failed(log: str) -> bool:
    """Return whether a value was wrong, named or not."""
    return _PARSE_FAILED.search(log) is not None


def unknown(word: str, version: str | None) -> RejectedFlag:
    """Reject a name that this version does not know, or that needs a value and got none."""
    name, equals, value = word[2:].partition("=")
    return RejectedFlag(
        name, "unknown flag", unknown_hint(name, version), value if equals else None
    )


def misread(word: str) -> RejectedFlag:
    """Reject a value that the flag does not accept."""
    name, equals, value = word[2:].partition("=")
    reason = f"does not accept the value {value!r}"
    return RejectedFlag(name, reason, _value_hint(name, value), value if equals else None)


def _value_hint(name: str, value: str) -> str:
    if value.strip("'\"") != value:
        return "The quotes are part of the value; quote only once."
    if value.endswith((",", ";")):
        return "Flags are separated by spaces; a comma or semicolon belongs to the value."
    if name == "xla_gpu_enable_command_buffer" and value.isdigit():
        return "Levels no longer exist: empty disables command buffers, otherwise FUSION,CUBLAS,..."
    known = names().get(name)
    if known is None:
        return "Its type is unknown."
    if known.values:
        return f"Accepted values: {', '.join(known.values)}."
    return _TYPE_HINTS.get(known.type, f"Its type is {known.type}.")


_TYPE_HINTS: Final = {
    "bool": "Accepted values: true, false.",
    "int32": "It must be an integer.",
    "int64": "It must be an integer.",
    "float": "It must be a number.",
    "map": "It must be a comma-separated list of key=value.",
}


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The answer of one interpreter's XLA about flags. `note` says why it could not answer."""

    rejected: tuple[RejectedFlag, ...] = ()
    version: str | None = None  # of jaxlib
    note: str | None = None


def probe(
    python: str | Path,
    xla_flags: str,
    environment: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 60.0,
) -> tuple[RejectedFlag, ...]:
    """Return all flags that the interpreter's XLA refuses; also empty if it can't be queried."""
    return probe_flags(python, xla_flags, environment, timeout_s=timeout_s).rejected


def probe_flags(
    python: str | Path,
    xla_flags: str,
    environment: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 60.0,
) -> ProbeResult:
    """Query like `probe`; also return the version, and a note if nothing could be learned."""
    words = split_xla_flags(expand_xla_flags(xla_flags))
    inherited = os.environ if environment is None else environment
    try:
        path = interpreter(python, inherited)
        kept = _place_of_answer(path, words, inherited)
        answer = _kept_answer(kept)
        if answer is None:
            answer = _query(FlagParser(path, inherited, timeout_s), words)
            _keep_answer(kept, answer)
    except ProbeError as failure:
        return ProbeResult(note=f"XLA_FLAGS could not be checked with {python}: {failure}")
    return answer


_FORMAT: Final = 1
_OTHER_CODE: Final = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "LD_")
_READ_BY_XLA: Final = ("XLA_", "JAX_", "TF_")
_MOST_ANSWERS: Final = 1000


def _place_of_answer(
    python: Path, words: Sequence[str], environment: Mapping[str, str]
) -> Path | None:
    """Return the file for an answer; None if nothing is kept, or it may be another jaxlib's."""
    directory = cache_directory("probe", environment)
    installed = jaxlib_metadata(python)
    if directory is None or installed is None:
        return None
    if any(name.startswith(_OTHER_CODE) and value for name, value in environment.items()):
        return None
    try:
        files = [(installed / name).stat() for name in ("METADATA", "RECORD")]
    except OSError:
        return None
    depends = (
        [_FORMAT, str(python), str(installed), list(words)],
        [(file.st_mtime_ns, file.st_size) for file in files],
        sorted(
            item
            for item in environment.items()
            if item[0].startswith(_READ_BY_XLA) and item[0] != "XLA_FLAGS"
        ),
    )
    import hashlib  # imported here because it is slow to load

    name = hashlib.sha256(json.dumps(depends).encode(errors="surrogateescape")).hexdigest()
    return directory / f"{name[:40]}.json"


def _kept_answer(place: Path | None) -> ProbeResult | None:
    """Return the answer that was kept, if it is there and whole."""
    if place is None:
        return None
    from counterpoint.core.records import from_plain

    try:
        kept = from_plain(ProbeResult, parse_json(place.read_bytes()))
    except (OSError, ValueError):
        return None
    return None if kept.version is None else kept


def _keep_answer(place: Path | None, answer: ProbeResult) -> None:
    """Keep an answer of the compiler; where that can't be written, it is asked again."""
    if place is None or answer.note is not None or answer.version is None:
        return
    from counterpoint.core.records import to_plain

    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        if len(os.listdir(place.parent)) > _MOST_ANSWERS:  # noqa: PTH208 - names only
            for old in place.parent.glob("*.*"):
                old.unlink(missing_ok=True)
        write_whole(place, json.dumps(to_plain(answer)).encode())


def interpreter(python: str | Path, environment: Mapping[str, str]) -> Path:
    """Return the path of an interpreter."""
    import shutil

    path = shutil.which(python, path=environment.get("PATH"))
    if path is None:
        raise ProbeError("no such program")
    return Path(path).absolute()  # not resolved: a venv's link selects that venv


def _query(child: FlagParser, words: Sequence[str]) -> ProbeResult:
    rejected: list[RejectedFlag] = []
    left = list(words)
    while True:
        reply = child.ask(left)
        if reply.missing:
            return ProbeResult(note=f"{child.python} cannot import jaxlib: {reply.missing}")
        if reply.taken:
            return ProbeResult(tuple(rejected), reply.version)
        out, refused = _refused_words(child, left, reply)
        rejected.extend(refused)
        left = [word for word in left if word not in out]


def _refused_words(
    child: FlagParser, words: Sequence[str], reply: ParserReply
) -> tuple[frozenset[str], list[RejectedFlag]]:
    """Return at least one flag at which the child ends; NoReplyError if there is none."""
    strangers = unknown_words(reply.log, words)
    if strangers:
        return frozenset(strangers), [unknown(word, reply.version) for word in strangers]
    wrong = misread_words(reply.log, words)
    if not wrong:
        if not words or not (parsing_failed(reply.log) or child.ask(()).taken):
            raise ProbeError(_last_line(reply.log))
        wrong = (_culprit(child, words),)
    return frozenset(wrong), [misread(word) for word in wrong]


def _culprit(child: FlagParser, words: Sequence[str]) -> str:
    """Find, by bisection, one value that the parser refuses without naming it."""
    while len(words) > 1:
        half = words[: len(words) // 2]
        reply = child.ask(half)
        alone = not reply.taken and not unknown_words(reply.log, half)
        words = half if alone else words[len(words) // 2 :]
    return words[0]


def _last_line(log: str) -> str:
    lines = log.strip().splitlines()
    return lines[-1][:300] if lines else "it exited without output"


def rejection_error(answer: ProbeResult, *, where: str = "XLA_FLAGS") -> UsageError:
    """Return the error that names all rejected flags of an answer, each once."""
    rejected = dict.fromkeys(answer.rejected)
    count = len(rejected)
    flags = "\n".join(
        f"    --{flag.name}{'' if flag.value is None else f'={flag.value}'}:"
        f" {flag.reason}. {flag.hint}"
        for flag in rejected
    )
    return UsageError(
        f"{where}: {count} flag{'s' if count > 1 else ''} that jaxlib {answer.version} does not"
        f" accept\n{flags}",
        why=XLA_ABORTS,
        next=f"correct {'them' if count > 1 else 'it'} where XLA_FLAGS is set",
    )
