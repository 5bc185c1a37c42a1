"""The options of a trainer in a command: on the command line, and in the YAML files it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.trainers.trainer import Trainer, command_words

_LARGEST: Final = 1 << 20
_OFF: Final = ("", "false", "none", "null", "no")
ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class StepTokens:
    """The tokens that a step trains, of all devices or of each."""

    count: int
    per_device: bool


@dataclass(frozen=True, slots=True)
class TokensInStep:
    """The tokens of a step over all devices, and what tells them."""

    count: int
    devices: int
    source: str  # completes "by ..."


def option(command: Sequence[str], name: str, directory: Path) -> str | None:
    """Return the value of an option: the last one on the command line, else of a file it names.

    Files are looked for in `directory`, in which the command is run.
    """
    words = command_words(command)
    value: str | None = None
    for at, word in enumerate(words):
        key, equals, given = word.removeprefix("--").partition("=")
        if key != name:
            continue
        if equals:
            value = given
        elif word.startswith("--"):
            following = words[at + 1 : at + 2]
            value = following[0] if following and not following[0].startswith("--") else "true"
    if value is not None:
        return value
    for content in _contents(words, directory):
        value = _dotted(content, name)
        if value is not None:
            return value
    return None


def own_profile_option(trainer: Trainer, command: Sequence[str], directory: Path) -> str | None:
    """Return the option by which a trainer records a profile itself, as it is set; None: it is off.

    Only an option that the command or its files have can be seen.
    """
    for name, usual in trainer.profiler.on.items():
        value = option(command, name, directory)
        is_on = value is not None and usual in (ANY, value) and value.lower() not in _OFF
        if is_on:
            return f"{name}={value}"
    return None


def tokens_of(trainer: Trainer, command: Sequence[str], directory: Path) -> StepTokens | None:
    """Return the tokens of a step, from the batch and the sequence that the options set."""
    keys = trainer.tokens
    batch, sequence, batches = (
        next((number for name in names if (number := _number(command, name, directory))), None)
        for names in (keys.batch, keys.sequence, keys.batches)
    )
    if batch is None or sequence is None:
        return None
    count = batch * sequence * (batches or 1)
    return StepTokens(round(count), keys.batch_is_per_device) if count >= 1 else None


def tokens_on(
    trainer: Trainer, command: Sequence[str], directory: Path, devices: int
) -> TokensInStep | None:
    """Return the tokens of a step on that many devices, if they are known."""
    tokens = tokens_of(trainer, command, directory)
    if tokens is None:
        return None
    count = tokens.count * (devices if tokens.per_device else 1)
    return TokensInStep(count, devices, f"{trainer.name}'s batch and sequence")


def _number(command: Sequence[str], name: str, directory: Path) -> float | None:
    value = option(command, name, directory)
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if 0 < number < 1e12 else None


def _contents(words: Sequence[str], directory: Path) -> Iterator[Any]:
    """Yield the YAML files that a command names, the last first, as it overrides the others."""
    for word in reversed(words):
        path = word.partition("=")[2] or word
        if path.endswith((".yaml", ".yml")):
            content = _parsed(str(directory / path))
            if content is not None:
                yield content


@lru_cache(maxsize=32)
def _parsed(path: str) -> Any:  # noqa: ANN401 - whatever YAML holds
    import yaml

    try:
        with Path(path).open(encoding="utf-8") as file:
            return yaml.safe_load(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None


def _dotted(content: Any, name: str) -> str | None:  # noqa: ANN401
    """Return the value at `a.b.c` as the command line would write it."""
    for part in name.split("."):
        if not isinstance(content, dict) or part not in content:
            return None
        content = cast("dict[str, Any]", content)[part]
    if isinstance(content, bool):
        return "true" if content else "false"
    return str(content) if isinstance(content, str | int | float) else None
