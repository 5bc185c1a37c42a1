"""Scalars: the few numbers that are fitted to measured runs, and the source of each.

Everything else in the cost model is a table or a formula. They are few, so that a handful of
measured steps can fit them without overfitting.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.core import InputError, parse_toml
from counterpoint.core.opening import read_input
from counterpoint.hardware.chip import kernel_chip


@dataclass(frozen=True, slots=True)
class Scalar:
    """One number: its value, its relative error, and its source."""

    value: float
    reach: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalars:
    """The numbers that `counterpoint calibrate` fits."""

    # Share of the table's (or the chip's) matrix rate that GEMMs of a long step reach: clocks fall
    # under load, which a benchmark of one GEMM does not show.
    matmul: Scalar
    # Share of the data sheet's memory bandwidth that memory-bound fusions reach.
    memory: Scalar
    # The same for attention kernels, relative to the matrix rate.
    attention: Scalar
    # Share of a NIC's rate that large messages reach.
    network: Scalar
    # Share by which compute slows down while a collective runs concurrently.
    slowdown: Scalar


@cache
def default_scalars(chip: str) -> Scalars:
    """Return the uncalibrated values: of the chip with these kernels, else of any chip."""
    file = resources.files("counterpoint.cost").joinpath("scalars.toml")
    sections = tomllib.loads(file.read_text("utf-8"))
    values = sections | dict(kernel_chip(chip).scalars)
    return Scalars(**{name: Scalar(**value) for name, value in values.items()})


_MOST: Final = {"slowdown": 1.0}
"""Maximum plausible values; 1.5 for a share of something that is itself an estimate."""
_MOST_ELSE: Final = 1.5


@dataclass(frozen=True, slots=True)
class ScalarFile:
    """The content of a scalars file, its chip, and its path.

        chip = "H100"
        [matmul]
        value = 0.93
        reach = 0.05
        source = "412 GEMMs of run 2026-11-20_3, 8 H100"

    Scalars that the file leaves out keep the value they have without it.
    """

    chip: str
    scalars: Mapping[str, Scalar]
    path: str

    def over(self, start: Scalars, gpu: str) -> Scalars:
        """Return the scalars of a GPU with the file's values in place of theirs."""
        if self.chip not in ("", gpu):
            raise InputError(
                f"{self.path} was fitted on {self.chip}, but the target is {gpu}",
                why="the efficiency reached on one chip does not hold for another",
                next=f"omit it; to use it anyway, set chip = {_quoted(gpu)} in it",
            )
        return replace(start, **self.scalars)


def read_scalars(path: str | Path) -> ScalarFile:
    """Read a file from `scalars_toml`, or handwritten.

    Raise InputError for an implausible value.
    """
    try:
        entries = parse_toml(read_input(path).decode())
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: can't be read as a calibration file",
            why=(error.strerror if isinstance(error, OSError) else None) or str(error),
            next="counterpoint calibrate RUN -o calibration.toml",
        ) from error
    known = [field.name for field in fields(Scalars)]
    chip = entries.pop("chip", "")
    unknown = sorted(set(entries) - set(known) - {"fit"})
    if unknown or not isinstance(chip, str):
        raise InputError(
            f"{path}: {', '.join(unknown) or 'chip'} is not a known key",
            why="a calibration file has chip and the sections " + ", ".join(known),
            next="counterpoint calibrate RUN -o calibration.toml",
        )
    named = [name for name in known if name in entries]
    return ScalarFile(chip, {key: _scalar(path, key, entries[key]) for key in named}, str(path))


def _scalar(path: str | Path, name: str, section: object) -> Scalar:
    values = cast(dict[str, Any], section) if isinstance(section, dict) else {}
    least = 0.0 if name == "slowdown" else 0.01
    most = _MOST.get(name, _MOST_ELSE)
    value = _share(path, name, "value", values.get("value"), least, most)
    reach = _share(path, name, "reach", values.get("reach", 0.1), 0.0, 1.0)
    return Scalar(value, reach, str(values.get("source", path)))


def _share(
    path: str | Path, name: str, key: str, value: object, least: float, most: float
) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
        return float(value)
    raise InputError(
        f"{path}: [{name}] {key} = {value}",
        why=f"it must be a share between {least:g} and {most:g}",
        next="counterpoint calibrate RUN -o calibration.toml",
    )


def scalars_toml(chip: str, scalars: Mapping[str, Scalar], comments: tuple[str, ...] = ()) -> str:
    """Return the scalars as the text of a file, comments first."""
    lines = [f"# {line}" for comment in comments for line in comment.splitlines()]
    lines.append(f"chip = {_quoted(chip)}")
    for name, scalar in scalars.items():
        lines += [
            "",
            f"[{name}]",
            f"value = {scalar.value:.6g}",
            f"reach = {scalar.reach:.3g}",
            f"source = {_quoted(scalar.source)}",
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Quote a string: JSON's strings without escapes of surrogates are TOML's basic strings."""
    return json.dumps(text, ensure_ascii=False)
