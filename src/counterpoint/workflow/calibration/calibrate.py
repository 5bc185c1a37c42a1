"""Calibrate: fit the few scalars of the cost model to measurements.

`calibrate` takes recordings of GPUs: times of single instructions against their prices. Kinds of
work are left out in turn to estimate the error on work outside the fit.

`calibrate_steps` (`step_fit.py`) takes step times alone, such as published ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from counterpoint.core import InputError
from counterpoint.cost.build import build_model
from counterpoint.cost.model import CostModel, PriceFamily
from counterpoint.cost.scalars import Scalar, Scalars, default_scalars
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import StepData, context_of
from counterpoint.hardware.chip import chip_named
from counterpoint.hardware.mismatch import mismatched_devices, unknown_devices
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import resize_advice, target_name
from counterpoint.simulate.simulation import simulate
from counterpoint.timeline.model import Timeline, machines
from counterpoint.workflow.calibration.calibration import (
    IDLE,
    LEAST,
    MOST,
    Calibration,
    CalibrationStep,
    ScalarFit,
    StepFit,
    idle_notes,
    reject_worse,
    rejected,
    rejection_reason,
)
from counterpoint.workflow.calibration.calibration import apply_fits as believed
from counterpoint.workflow.calibration.samples import (
    Factor,
    Sample,
    alone,
    fit_factor,
    fit_slowdown,
    priced,
    recorded,
)


def check_machine(timeline: Timeline, target: Target) -> None:
    """Reject times of another machine than the target."""
    named = ", ".join(timeline.inputs)
    other = mismatched_devices(timeline.devices, target)
    unknown = [
        device for device in unknown_devices(timeline.devices) if device and not target.origin
    ]
    if other is not None or unknown:
        raise InputError(
            f"{named}: recorded on {other or unknown[0]}, but the target {target} has {target.gpu}",
            why="the fit would mistake the difference between the chips for the efficiency of"
            " programs",
            next=_elsewhere(other, len(timeline.devices)),
        )
    number = timeline.step_program
    program = timeline.programs[number].hlo() if number is not None else None
    devices = program.num_partitions * program.num_replicas if program is not None else 1
    if devices > target.devices:
        raise InputError(
            f"{named}: its program runs on {devices:,} devices, but the target {target} has"
            f" {target.devices:,}",
            why="the target determines which collectives leave a host",
            next=resize_advice(target, devices),
        )
    hosts = machines(timeline.hosts[device.host] for device in timeline.devices)
    if hosts is not None and hosts > target.hosts:
        raise InputError(
            f"{named}: recorded on {hosts:,} hosts, but the target {target} has {target.hosts:,}",
            why="the target determines which collectives leave a host",
            next=f"use --target {hosts}x{max(devices // hosts, 1)}x{target.gpu}",
        )


def _elsewhere(other: str | None, devices: int) -> str:
    """Return the remedy for a recording of another chip; `other` is None for an unknown chip."""
    if other is None:
        return "describe the machine in a file: docs/reference/target-files.md"
    chip = chip_named(other)
    if chip is None or chip.gpu is None:
        return "record the step on GPUs of the target: counterpoint run -- python train.py"
    return (
        f"use --target {target_name(chip.gpu.name, devices)}: for a calibration of {chip.gpu.name}"
    )


def machine_notes(timelines: Sequence[Timeline], target: Target) -> Iterator[str]:
    """Yield the assumptions that can't be verified."""
    for timeline in timelines:
        inputs = ", ".join(timeline.inputs)
        for name in unknown_devices(timeline.devices):
            named = f"the unknown device {name}" if name else "no chip"
            yield f"{inputs} names {named}: its times are assumed to be of {target.gpu}"
        each = Counter(timeline.hosts[device.host].machine for device in timeline.devices)
        most = max(each.values(), default=0)
        if most > target.gpus_per_host:
            yield (
                f"WARNING: {inputs} has {most:,} devices on a host, but the target"
                f" {target} has {target.gpus_per_host:,}: the target determines which of them share"
                " fast links"
            )


ModelOf = Callable[[Scalars], CostModel]

_OF_FAMILY: Final = (
    ("matmul", PriceFamily.MATMUL),
    ("memory", PriceFamily.MEMORY),
    ("attention", PriceFamily.ATTENTION),
    ("network", PriceFamily.NETWORK),
)
"""Attention after the GEMMs, as its rate may be relative to theirs."""
_TURNS: Final = 3
"""Parts of a price do not scale (launches, latencies), so the fit is repeated with new prices."""
_NUDGE: Final = 1.1
_FOLLOWS: Final = 1.07


def calibrate(
    timelines: Sequence[Timeline],
    target: Target,
    *,
    start: Scalars | None = None,
    model_of: ModelOf | None = None,
) -> Calibration:
    """Fit the scalars of the target's chip to recordings of steps on it.

    `start` defaults to the chip's scalars. Raises an InputError if no recording has a program with
    its HLO and times of its instructions on a device, or if one is of another machine.
    """
    before = start if start is not None else default_scalars(target.gpu)
    for timeline in timelines:
        check_machine(timeline, target)

    def make(scalars: Scalars) -> CostModel:
        return model_of(scalars) if model_of else build_model(target, scalars=scalars)

    samples_of = [recorded(timeline) for timeline in timelines]
    if not any(samples_of):
        raise _nothing(timelines)
    _, fits = _fit([sample for samples in samples_of for sample in samples], before, make)
    measured = [_step(timeline) for timeline in timelines]

    def step_of(step: CalibrationStep, scalars: Scalars) -> float:
        return simulate(step.program, make(scalars)).step_s

    busy = [recording for recording in measured if recording is not None and recording.idle <= IDLE]
    fits = reject_worse(before, fits, busy, step_of)
    scalars = believed(before, fits)
    steps = list(_steps(measured, samples_of, before, fits, make))
    return Calibration(
        chip=target.gpu,
        scalars=scalars,
        fits=tuple(fits),
        steps=tuple(steps),
        notes=(
            *machine_notes(timelines, target),
            *idle_notes(recording for recording in measured if recording is not None),
            *_notes(timelines, fits, steps),
        ),
    )


def _nothing(timelines: Sequence[Timeline]) -> InputError:
    named = ", ".join(name for timeline in timelines for name in timeline.inputs)
    return InputError(
        f"{named or 'no recording'}: nothing to calibrate on",
        why="calibration needs times of instructions on GPUs and the HLO of the program that ran",
        next="counterpoint run -- python train.py",
    )


def _fit(samples: list[Sample], before: Scalars, make: ModelOf) -> tuple[Scalars, list[ScalarFit]]:
    fits: list[ScalarFit] = []
    scalars = before
    for name, family in _OF_FAMILY:
        scalars, fit = _fit_one(name, family, tuple(samples), scalars, make)
        fits.append(fit)
    scalars, fit = _fit_slowdown(tuple(samples), scalars, make)
    return scalars, [*fits, fit]


def _fit_one(
    name: str, family: PriceFamily, samples: tuple[Sample, ...], scalars: Scalars, make: ModelOf
) -> tuple[Scalars, ScalarFit]:
    """Fit one scalar to the times of its family; unchanged if the recordings have none."""
    before: Scalar = getattr(scalars, name)

    def model(value: float) -> CostModel:
        return make(replace(scalars, **{name: replace(before, value=value)}))

    def fitted(value: float) -> Factor | None:
        return fit_factor(_chosen(samples, family, model(value), model(value / _NUDGE)))

    value = before.value
    first = factor = fitted(value)
    for _ in range(_TURNS):
        if factor is None:
            break
        value = min(max(value * factor.value, LEAST), MOST)
        factor = fitted(value)
    if first is None or factor is None:
        return scalars, _unchanged(name, before, f"no {family} of known shape was measured")
    how = _how(family, factor)
    after = Scalar(value, factor.reach, how)
    fit = ScalarFit(
        name=name,
        before=before,
        after=after,
        samples=len(factor.kept),
        measured_s=sum(sample.weight for sample in factor.kept),
        error_before=first.error_before,
        error_after=factor.error_after,
        unseen=factor.unseen,
        how=how,
    )
    return _believed(scalars, fit, len({sample.shapes for sample in factor.kept}))


def _believed(scalars: Scalars, fit: ScalarFit, kinds: int) -> tuple[Scalars, ScalarFit]:
    why = rejection_reason(fit, kinds)
    if why:
        return scalars, rejected(fit, why)
    return replace(scalars, **{fit.name: fit.after}), fit


def _chosen(
    samples: tuple[Sample, ...], family: PriceFamily, model: CostModel, slower: CostModel
) -> tuple[Sample, ...]:
    """Return the samples of the family whose price depends on the scalar, not on another bound."""
    of_family = [
        sample
        for sample in priced(samples, model)
        if sample.family is family
        and slower.price(sample.program, sample.instruction).seconds > sample.priced_s * _FOLLOWS
    ]
    if family is PriceFamily.NETWORK:
        return tuple(sample for sample in of_family if sample.bound_by != "latency")
    return alone(of_family)


def _how(family: PriceFamily, factor: Factor) -> str:
    kinds = len({sample.shapes for sample in factor.kept})
    beside = (
        sum(sample.beside > 0.1 for sample in factor.kept)
        if family is not PriceFamily.NETWORK
        else 0
    )
    beside_text = f", {beside} beside a collective" if beside else ""
    dropped = f", {factor.dropped} outliers excluded" if factor.dropped else ""
    return f"{len(factor.kept)} instructions of {kinds} kinds{beside_text}{dropped}"


def _unchanged(name: str, before: Scalar, why: str) -> ScalarFit:
    return ScalarFit(
        name=name,
        before=before,
        after=before,
        samples=0,
        measured_s=0.0,
        error_before=0.0,
        error_after=0.0,
        unseen=None,
        how=why,
    )


def _fit_slowdown(
    samples: tuple[Sample, ...], scalars: Scalars, make: ModelOf
) -> tuple[Scalars, ScalarFit]:
    work = [sample for sample in priced(samples, make(scalars)) if sample.family in _SLOWED]
    slower = fit_slowdown(work)
    before = scalars.slowdown
    if slower is None:
        why = "no work was measured both alone and beside a collective"
        return scalars, _unchanged("slowdown", before, why)
    value, kinds = slower.value, slower.kinds
    how = f"{kinds} kinds of work, beside a collective and alone"
    reach = min(max(slower.apart / value, 0.3), 1.0) if value else 1.0
    after = Scalar(value, reach, how)
    fit = ScalarFit(
        name="slowdown",
        before=before,
        after=after,
        samples=kinds,
        measured_s=sum(sample.weight for sample, _ in slower.pressed),
        error_before=slower.error(before.value),
        error_after=slower.error(value),
        unseen=None,
        how=how,
    )
    return _believed(scalars, fit, kinds)


_SLOWED: Final = (PriceFamily.MATMUL, PriceFamily.MEMORY, PriceFamily.ATTENTION)


def _step(timeline: Timeline) -> CalibrationStep | None:
    number = timeline.step_program
    program = timeline.programs[number].hlo() if number is not None else None
    selection = select(timeline)
    if program is None or not program.is_scheduled or not selection.step_lengths_ms:
        return None
    case = StepData(selection=selection, context=context_of(None))
    return CalibrationStep(
        name=", ".join(timeline.inputs),
        program=program,
        seconds=selection.median_ms / 1e3,
        idle=case.breakdown.idle_ms / selection.median_ms,
    )


def _steps(
    measured: Sequence[CalibrationStep | None],
    taken: Sequence[tuple[Sample, ...]],
    before: Scalars,
    fits: Sequence[ScalarFit],
    make: ModelOf,
) -> Iterator[StepFit]:
    """Predict the step of each recording; without that recording if there are others."""
    names = {fit.name for fit in fits if fit.fitted}
    for at, step in enumerate(measured):
        if step is None:
            continue
        others = [sample for of, samples in enumerate(taken) if of != at for sample in samples]
        unseen = None
        if others:
            fits_without = [fit for fit in _fit(others, before, make)[1] if fit.name in names]
            unseen = simulate(step.program, make(believed(before, fits_without))).step_s
        yield StepFit(
            name=step.name,
            measured_s=step.seconds,
            idle=step.idle,
            before_s=simulate(step.program, make(before)).step_s,
            after_s=simulate(step.program, make(believed(before, fits))).step_s,
            unseen_s=unseen,
        )


def _notes(
    timelines: Sequence[Timeline], fits: Sequence[ScalarFit], steps: Sequence[StepFit]
) -> Iterator[str]:
    for step in steps:
        if step.worse:
            yield (
                f"WARNING: {step.name} is predicted worse than before:"
                f" {step.before_s / step.measured_s - 1:+.1%} became"
                f" {step.after_s / step.measured_s - 1:+.1%}"
            )
    for fit in fits:
        if not fit.fitted:
            yield f"{fit.name} keeps {fit.before.value:.3g}: {fit.how}"
        elif fit.after.value in (LEAST, MOST):
            yield f"{fit.name} was fitted to the end of its range, so something else is wrong"
    if any(str(timeline.basis) == "predicted" for timeline in timelines):
        yield "some of these times are predicted, not measured"
