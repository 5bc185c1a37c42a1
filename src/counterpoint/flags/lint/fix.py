"""Fix: the same settings with the mends that are safe, and a list of what was left to the reader.

A mend can call for another one (a new name with an old value), so it goes on until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from counterpoint.flags import repeats
from counterpoint.flags.channel import Channel
from counterpoint.flags.lint.corrected import left_out
from counterpoint.flags.lint.remark import Mend, Remark, Severity
from counterpoint.flags.written import Given, Slip, Written

_ROUNDS: Final = 5
_GRAVITY: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}

Check = Callable[[Written], tuple[Remark, ...]]


@dataclass(frozen=True, slots=True)
class Fixed:
    """`made`: the remarks that were mended; `left`: those that are still true of the result.

    `omitted` is what the result does not hold, since it is no setting, or not known.
    """

    written: Written
    made: tuple[Remark, ...]
    left: tuple[Remark, ...]
    omitted: tuple[Slip, ...]


def fix(written: Written, check: Check) -> Fixed:
    """Mend what can be mended safely."""
    made: list[Remark] = []
    for _ in range(_ROUNDS):
        remarks = check(written)
        chosen = dict(_chosen(written, remarks))
        if not chosen:
            break
        made += chosen.values()
        written = replace(written, given=tuple(_rewritten(written.given, chosen)))
    return Fixed(written, tuple(made), check(written), left_out(written))


def _chosen(written: Written, remarks: Iterable[Remark]) -> Iterator[tuple[int, Remark]]:
    """For each setting the safe mend of the gravest remark."""
    by_place: dict[tuple[object, ...], list[Remark]] = {}
    for one in remarks:
        by_place.setdefault((one.place, one.channel, one.name, one.text), []).append(one)
    taken: set[tuple[object, ...]] = set()
    for number, given in enumerate(written.given):
        key = (given.place, given.channel, given.name, given.text)
        if key in taken:  # of two that are alike, the later one stays
            continue
        taken.add(key)
        safe = [one for one in by_place.get(key, ()) if one.mend and one.mend.safe]
        if safe and given.known:
            yield number, min(safe, key=lambda one: _GRAVITY[one.severity])


def _rewritten(given: tuple[Given, ...], chosen: dict[int, Remark]) -> Iterator[Given]:
    merged: dict[tuple[Channel, str], Given] = {}
    out: list[Given] = []
    for number, one in enumerate(given):
        mend = chosen[number].mend if number in chosen else None
        if mend is None:
            out.append(one)
            continue
        for heir in _heirs(one, mend):
            earlier = merged.get((heir.channel, heir.name))
            if earlier is not None and earlier in out and repeats.is_list(heir.name):
                out.remove(earlier)
                heir = _valued(heir, repeats.add(earlier.meant, heir.meant))  # noqa: PLW2901
            merged[heir.channel, heir.name] = heir
            out.append(heir)
    yield from out


def _heirs(one: Given, mend: Mend) -> Iterator[Given]:
    for name, value in mend.instead:
        yield _valued(replace(one, name=name), value)


def _valued(one: Given, value: str) -> Given:
    dashes = "" if one.channel in (Channel.COMPILER_OPTIONS, Channel.ENVIRONMENT) else "--"
    return replace(one, value=value, text=f"{dashes}{one.name}={value}")
