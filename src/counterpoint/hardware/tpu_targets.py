"""Parses TPU slices as people, XPK and GKE write them.

`v5e-256` is a slice by its size: cores of v4, v5p and TPU7x, chips of v5e and v6e. `v5e:8x16` is
one by its shape, `2xv5e-256` are two slices, and `2xv5e-256:200G` says the network of each host.
"""

from __future__ import annotations

import math
import re
from typing import Final

from counterpoint.core import ArgumentError
from counterpoint.hardware.chip import chip_of_tpu, find_tpu, tpu_named, tpus
from counterpoint.hardware.target import Target
from counterpoint.hardware.tpu import Tpu, TpuSlice

_SLICE: Final = re.compile(
    r"(?:(?P<slices>\d{1,6})[xX])?(?:TPU[ -]?)?(?P<name>v?\d+[a-z]*|trillium|ironwood)"
    r"(?:-(?P<size>\d{1,9})|:(?P<shape>\d{1,4}(?:[xX]\d{1,4}){1,2}))"
    r"(?P<network>:(?P<rate>\d{1,6}(?:\.\d+)?)(?P<unit>[A-Za-z/]+))?",
    re.IGNORECASE | re.ASCII,
)
_COUNTED: Final = re.compile(
    r"(?:(?P<slices>\d{1,6})[xX])?(?P<devices>\d{1,9})[xX](?P<chip>TPU[ -]?(?:v?\d\w*|v5 lite))",
    re.IGNORECASE | re.ASCII,
)
_GBITS: Final = re.compile(r"[Gg](?:b|bps|b/s|bit|bit/s)?")
_BEGUN: Final = re.compile(r"(?:\d+x)?(?P<name>v\d+[a-z]?|tpu\d+x?)(?![a-z\d])", re.IGNORECASE)
_MOST_SLICES: Final = 4096
_MOST_GBPS: Final = 12_800
_EXAMPLE: Final = "v5e-256"
_FORM: Final = (
    "a slice is NAME-SIZE such as v5e-256, or NAME:SHAPE such as v5e:16x16; 2xv5e-256 are two,"
    " and :200G is the network of each host"
)


def parse_tpu_target(text: str) -> Target | None:
    """Parse slices of TPUs; None if the text names none."""
    plain = text.strip()
    match = _SLICE.fullmatch(plain)
    if match is not None:
        return _named(text, match)
    counted = _COUNTED.fullmatch(plain)
    tpu = (
        find_tpu(counted["chip"]) or tpu_named(counted["chip"][3:].strip(" -")) if counted else None
    )
    if counted is None or tpu is None:
        begun = _BEGUN.match(plain)
        named = tpu_named(begun["name"]) if begun is not None else None
        if named is not None:
            raise _refused(text, "not a slice", instead=_near(named, 8 // named.devices))
        return None
    devices = int(counted["devices"])
    if devices % tpu.devices:
        raise _refused(text, f"{devices:,} devices, but a chip of {tpu.name} has {tpu.devices}")
    return _sized(text, tpu, devices // tpu.devices, int(counted["slices"] or 1), None)


def target_of_slice(where: TpuSlice) -> Target:
    """Return the Target of slices."""
    return Target(
        gpu=chip_of_tpu(where.tpu).name,
        gpus_per_host=where.chips_per_host * where.tpu.devices,
        hosts=where.hosts * where.slices,
        config="",
        tpu=where,
    )


def counted_devices(name: str, size: int) -> tuple[Tpu, int] | None:
    """Return the generation, and the devices behind the number in a slice's name."""
    tpu = tpu_named(name)
    return (tpu, size // tpu.counted_per_chip * tpu.devices) if tpu is not None else None


def resized(where: TpuSlice, devices: int) -> str:
    """Return the slice of so many devices, or as few slices as there are of so many in total."""
    tpu = where.tpu
    chips = -(-devices // tpu.devices)
    for slices in range(1, chips + 1):
        shape = tpu.shape(chips // slices) if chips % slices == 0 else None
        if shape is not None:
            return str(TpuSlice(tpu=tpu, shape=shape, slices=slices, dcn_gbps=where.dcn_gbps))
    return str(where)


def _named(text: str, match: re.Match[str]) -> Target:
    tpu = tpu_named(match["name"])
    if tpu is None:
        names = ", ".join(tpu.name for tpu in tpus())
        raise _refused(
            text, f"no generation {match['name']} of TPUs is known", f"known generations: {names}"
        )
    slices, gbps = int(match["slices"] or 1), _gbps(text, match)
    if match["shape"] is None:
        size = int(match["size"])
        if size % tpu.counted_per_chip:
            raise _refused(
                text,
                f"{size:,} cores, but a chip of {tpu.name} has {tpu.cores}",
                f"the size of a slice of {tpu.name} counts its cores",
                _near(tpu, -(-size // tpu.counted_per_chip)),
            )
        return _sized(text, tpu, size // tpu.counted_per_chip, slices, gbps)
    shape = tuple(int(side) for side in match["shape"].lower().split("x"))
    if not tpu.accepts(shape):
        axes = (
            "two sides of 1, 2, 4, 8 or 16"
            if tpu.dimensions == 2
            else ("2x2x1, 2x2x2, 2x2x4, 2x4x4, or three sides that are multiples of 4")
        )
        problem = f"{tpu.name} has no slice of this shape"
        raise _refused(text, problem, f"slices have {axes}", _near(tpu, math.prod(shape)))
    return _sliced(text, TpuSlice(tpu=tpu, shape=shape, slices=slices, dcn_gbps=gbps))


def _sized(text: str, tpu: Tpu, chips: int, slices: int, gbps: float | None) -> Target:
    shape = tpu.shape(chips)
    if shape is None:
        raise _refused(text, f"{tpu.name} has no slice of {chips:,} chips", *_nearest(tpu, chips))
    return _sliced(text, TpuSlice(tpu=tpu, shape=shape, slices=slices, dcn_gbps=gbps))


def _sliced(text: str, where: TpuSlice) -> Target:
    if not 0 < where.slices <= _MOST_SLICES:
        raise _refused(text, f"{where.slices:,} slices", f"the maximum is {_MOST_SLICES:,}")
    return target_of_slice(where)


def _near(tpu: Tpu, chips: int) -> str:
    """Return a slice of so many chips, or of nearly as many."""
    shape = tpu.shape(chips)
    return str(TpuSlice(tpu=tpu, shape=shape)) if shape else _nearest(tpu, chips)[1]


def _nearest(tpu: Tpu, chips: int) -> tuple[str, str]:
    sizes = list(tpu.sizes())
    below = max((size for size in sizes if size < chips), default=sizes[0])
    near = dict.fromkeys([below, *[size for size in sizes if size > chips][:1]])
    names = [str(TpuSlice(tpu=tpu, shape=tpu.shape(size) or ())) for size in near]
    if chips > tpu.slice:
        slices = -(-chips // tpu.slice)
        whole = TpuSlice(tpu=tpu, shape=tpu.shape(tpu.slice) or (), slices=slices)
        return tpu.slice_source, str(whole) if tpu.shape(tpu.slice) else names[0]
    return f"the nearest: {', '.join(names)}", names[-1]


def _gbps(text: str, match: re.Match[str]) -> float | None:
    if match["rate"] is None:
        return None
    gbps = float(match["rate"])
    if not _GBITS.fullmatch(match["unit"]):
        in_bytes = match["unit"].upper().startswith("G") and "B" in match["unit"]
        raise _refused(
            text,
            f"network rates are in Gb/s (G), not {match['unit']}",
            f"{gbps:g} GB/s are {gbps * 8:g}G" if in_bytes else None,
            text[: match.start("rate")] + f"{gbps * 8 if in_bytes else gbps:g}G",
        )
    if not 0 < gbps <= _MOST_GBPS:
        raise _refused(
            text, f"a network of {gbps:,g} Gb/s for each host", f"the maximum is {_MOST_GBPS:,}"
        )
    return gbps


def _refused(
    text: str, problem: str, why: str | None = None, instead: str = _EXAMPLE
) -> ArgumentError:
    return ArgumentError("target", text, problem, why=why or _FORM, instead=instead)
