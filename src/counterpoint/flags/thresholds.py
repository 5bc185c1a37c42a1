"""Combine thresholds at which XLA's decisions for a program change.

Between two such break points all thresholds give the same program. Beyond the last one nothing
changes: each computation has as few sets as keys and dependencies allow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.core import ArgumentError
from counterpoint.flags.combiner import (
    DEFAULT,
    KINDS,
    CombinerInput,
    CombinerState,
    MergeResult,
    combiner_inputs,
    merge_by_default,
    part_bytes,
    unrolled,
)
from counterpoint.flags.versions import version_number
from counterpoint.hlo.model.program import Program

__all__ = [
    "KindThresholds",
    "LayerRule",
    "Site",
    "ThresholdResult",
    "Thresholds",
    "flag_of",
    "layer_rule",
    "thresholds",
]

SMALLEST: Final = 1 << 24  # 16 MiB, the smallest value that guides try
_WORK: Final = 8_000_000  # parts and edges that are visited per computation: a few seconds
_MOST_IN_ONE: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdResult:
    """The result of one threshold.

    `exact`: no smaller threshold gives the same; otherwise only this one was computed. `launches`
    counts collectives in loops as often as they run; None if unknown.
    """

    threshold: int
    collectives: int
    launches: int | None
    largest: int  # bytes of the largest set
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One computation and the sizes of its collectives before merging."""

    computation: str
    times: int | None
    in_loop: bool
    sizes: tuple[int, ...]
    pipelined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KindThresholds:
    """One kind of collective of a program.

    `observed` is their number now; `default` is the result of the flag's default. `layer` is the
    smallest threshold that merges all that can merge in loops. `candidates` are powers of two with
    different results.
    """

    kind: str
    sites: tuple[Site, ...]
    observed: int
    default: ThresholdResult
    steps: tuple[ThresholdResult, ...]
    layer: int | None
    total: int  # bytes of all parts in one execution, each loop's as often as it runs
    candidates: tuple[ThresholdResult, ...]

    @property
    def flag(self) -> str:
        return flag_of(self.kind)

    @property
    def choice(self) -> int | None:
        """The value worth setting: it merges a loop's collectives; None if that changes nothing."""
        if self.layer is None or self.at(self.layer).collectives >= self.default.collectives:
            return None
        return self.layer

    def at(self, threshold: int) -> ThresholdResult:
        """Return the result of a threshold."""
        below = [step for step in self.steps if step.threshold <= threshold]
        return below[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """All kinds that a program has, and facts about the program."""

    program: str
    kinds: tuple[KindThresholds, ...]
    unrolled: bool
    scheduled: bool


def flag_of(kind: str) -> str:
    """Return the flag that sets a kind's threshold."""
    return f"xla_gpu_{kind.replace('-', '_')}_combine_threshold_bytes"


def thresholds(program: Program, version: str | None = None) -> Thresholds:
    """Return the break points of a finished program, for the compiler of that jaxlib."""
    most = _MOST_IN_ONE if version_number(version) >= (0, 10) else 256
    old = version_number(version) < (0, 5)
    inputs = (
        (kind, combiner_inputs(program, kind, by_dimension=old and kind == "reduce-scatter"))
        for kind in KINDS
    )
    return Thresholds(
        program=program.name,
        kinds=tuple(_combining(kind, where, most) for kind, where in inputs if where),
        unrolled=unrolled(program),
        scheduled=program.is_scheduled,
    )


def _combining(kind: str, where: Sequence[CombinerInput], most: int) -> KindThresholds:
    outcomes = [_outcomes(place, most) for place in where]
    total = sum(part_bytes(place.parts, range(len(place.parts))) * (place.times or 1)
                for place in where)  # fmt: skip
    loops = [
        place_outcomes
        for place, place_outcomes in zip(where, outcomes, strict=True)
        if place.in_loop
    ]
    merging = [place_outcomes[-1].threshold for place_outcomes in loops if len(place_outcomes) > 1]
    by_default = [merge_by_default(place, most) for place in where]
    default = _step(DEFAULT, where, by_default)
    return KindThresholds(
        kind=kind,
        sites=tuple(_site(place) for place in where),
        observed=sum(len({part.instruction for part in place.parts}) for place in where),
        default=default,
        steps=_steps(where, outcomes),
        layer=max(merging, default=None),
        total=total,
        candidates=_candidates(where, total, most, default),
    )


def _site(place: CombinerInput) -> Site:
    return Site(
        computation=place.computation,
        times=place.times,
        in_loop=place.in_loop,
        sizes=tuple(part.bytes for part in place.parts),
        pipelined=any(part.pipelined for part in place.parts),
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result for one computation from a threshold on."""

    threshold: int
    merged: MergeResult
    exact: bool


def _outcomes(place: CombinerInput, most: int) -> tuple[_Outcome, ...]:
    """Return the outcomes that differ, by rising threshold; the first has nothing merged."""
    merging = CombinerState(place)
    everything = range(len(place.parts))
    total = part_bytes(place.parts, everything)
    factor = _coarseness(place, total)
    outcomes: list[_Outcome] = []
    at, exact = 0, True
    while True:
        merging.reset()
        merged = merging.run(at, everything, most)
        if not outcomes or set(merged.sets) != set(outcomes[-1].merged.sets):
            outcomes.append(_Outcome(at, merged, exact))
        if merged.next is None:
            return tuple(outcomes)
        coarse = min(int(at * factor), total)
        at, exact = max(merged.next, coarse), merged.next >= coarse


def _coarseness(place: CombinerInput, total: int) -> float:
    """Return the step factor between thresholds: 1 tries each break point; more saves minutes."""
    size = len(place.parts) + sum(len(part.before) for part in place.parts)
    tries = max(_WORK // max(size, 1), 24)
    least = min(part.bytes for part in place.parts)
    if len(place.parts) ** 2 <= tries or total <= least:
        return 1.0
    return math.exp(math.log(total / max(least, 1)) / tries)


def _steps(
    where: Sequence[CombinerInput], outcomes: Sequence[tuple[_Outcome, ...]]
) -> tuple[ThresholdResult, ...]:
    """Combine all computations: one step for each threshold at which one of them changes."""
    exact: dict[int, bool] = {}
    for place_outcomes in outcomes:
        for outcome in place_outcomes:
            exact[outcome.threshold] = exact.get(outcome.threshold, False) or outcome.exact
    steps: list[ThresholdResult] = []
    for threshold in sorted(exact):
        now = [
            max(
                (outcome for outcome in sequence if outcome.threshold <= threshold),
                key=lambda outcome: outcome.threshold,
            )
            for sequence in outcomes
        ]
        step = _step(threshold, where, [outcome.merged for outcome in now], exact=exact[threshold])
        steps.append(step)
    return tuple(steps)


def _step(
    threshold: int,
    where: Sequence[CombinerInput],
    merged: Sequence[MergeResult],
    *,
    exact: bool = True,
) -> ThresholdResult:
    launches: int | None = 0
    largest = 0
    for place, place_merged in zip(where, merged, strict=True):
        runs = None if place.times is None else place.times * len(place_merged.sets)
        launches = None if launches is None or runs is None else launches + runs
        largest = max(
            [largest, *(part_bytes(place.parts, merged_set) for merged_set in place_merged.sets)]
        )
    return ThresholdResult(
        threshold=threshold,
        collectives=sum(len(place_merged.sets) for place_merged in merged),
        launches=launches,
        largest=largest,
        exact=exact,
    )


def _candidates(
    where: Sequence[CombinerInput], total: int, most: int, default: ThresholdResult
) -> tuple[ThresholdResult, ...]:
    """Return powers of two from 16 MiB to the total; of those with equal results, the smallest.

    Empty if all of them give the same as the default.
    """
    merging = [CombinerState(place) for place in where]
    by_sets: dict[tuple[frozenset[tuple[int, ...]], ...], ThresholdResult] = {}
    power = SMALLEST
    while power <= max(total, SMALLEST):
        merged: list[MergeResult] = []
        for place_merging in merging:
            place_merging.reset()
            merged.append(place_merging.run(power, range(len(place_merging.place.parts)), most))
        sets = tuple(frozenset(place_merged.sets) for place_merged in merged)
        by_sets.setdefault(sets, _step(power, where, merged, exact=False))
        power *= 2
    candidates = tuple(by_sets.values())
    same = len(candidates) == 1 and candidates[0].collectives == default.collectives
    return () if same else candidates


BYTES: Final = {
    "f64": 8, "f32": 4, "float32": 4, "fp32": 4, "tf32": 4,
    "bf16": 2, "bfloat16": 2, "f16": 2, "fp16": 2, "float16": 2,
    "f8": 1, "fp8": 1, "int8": 1, "s8": 1,
    "int4": 0.5, "s4": 0.5, "fp4": 0.5, "f4": 0.5, "nvfp4": 0.5, "mxfp4": 0.5,
}  # fmt: skip
_SCALE: Final = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_COUNT: Final = re.compile(r"(?P<figure>\d+(?:\.\d+)?(?:[eE][+]?\d+)?)(?P<scale>[KMBGT]?)")
_MOST: Final = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRule:
    """The rule of thumb: at least the weights of one layer in one all-gather.

    Example: Llama-2 7B has 32 layers of 218 million weights, 436 MB each in bfloat16. All-reduces
    should be large enough to fill the links, but small enough to begin before the last gradient is
    there, so a few powers of two are worth a try. `shard_bytes` is what the combiner counts of a
    reduce-scatter. Source: docs/GPU_performance.md of NVIDIA's JAX-Toolbox.
    """

    params: int
    dtype: str
    layers: int | None
    devices: int | None

    @property
    def layer_bytes(self) -> int:
        """Weights, or gradients, of one layer: the smallest useful threshold for all-gathers."""
        return math.ceil(self.params * BYTES[self.dtype])

    @property
    def shard_bytes(self) -> int | None:
        """The part of a layer's gradients that a device keeps: enough for reduce-scatters."""
        return None if self.devices is None else -(-self.layer_bytes // self.devices)

    @property
    def gather_threshold(self) -> int | None:
        """The threshold for all-gathers; None if the default already merges a layer's."""
        return self.layer_bytes if self.layer_bytes > DEFAULT else None

    @property
    def scatter_threshold(self) -> int | None:
        """The threshold for reduce-scatters, by the size that a device keeps if known."""
        counted = self.layer_bytes if self.shard_bytes is None else self.shard_bytes
        return counted if counted > DEFAULT else None

    @property
    def gradient_bytes(self) -> int | None:
        return None if self.layers is None else self.layer_bytes * self.layers

    @property
    def candidates(self) -> tuple[int, ...]:
        """Powers of two from 16 MiB to the size of the gradients, or of one layer."""
        sizes: list[int] = []
        power = SMALLEST
        while power <= (self.gradient_bytes or self.layer_bytes):
            sizes.append(power)
            power *= 2
        return tuple(sizes)


def layer_rule(
    params: str,
    dtype: str = "bf16",
    layers: int | None = None,
    devices: int | None = None,
    *,
    whole: bool = False,
) -> LayerRule:
    """Return the rule for a number of weights per layer; `whole`: in all layers together."""
    kind = dtype.casefold()
    if kind not in BYTES:
        raise ArgumentError("dtype", dtype, "unknown type", why=f"known types: {', '.join(BYTES)}")
    if layers is not None and layers < 1:
        raise ArgumentError("layers", layers, "not a positive integer")
    argument = "total_params" if whole else "params"
    count = parse_count(params, argument)
    if whole and layers is None:
        raise ArgumentError(
            argument,
            params,
            "the number of layers is missing",
            instead=params,
            beside={"layers": 32},
        )
    if whole and layers is not None:
        count //= layers
    return LayerRule(params=count, dtype=kind, layers=layers, devices=devices)


def parse_count(text: str, argument: str = "params") -> int:
    """Parse a number of weights as people write it: 218e6, 218M, 0.218B, 218_000_000."""
    match = _COUNT.fullmatch(text.strip().replace("_", "").replace(",", ""))
    value = float(match["figure"]) * _SCALE[match["scale"]] if match else 0.0
    if not 1 <= value <= _MOST:
        raise ArgumentError(
            argument,
            text,
            "not a number of weights",
            why="a number of weights is at least 1, such as 218e6, 218M or 0.218B",
            instead="218e6",
        )
    return round(value)
