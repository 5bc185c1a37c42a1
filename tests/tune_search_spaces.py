"""Spaces and candidates made by hand, for tests of the offline search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterpoint.core.basis import Range
from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Acts, Arm, ArmChange, ArmOrigin, Predicted
from counterpoint.tune.space.space import Dimension, Space
from counterpoint.tune.study.ledger import Ledger
from counterpoint.tune.study.records import FORMAT, CandidateSeen, StudyBegan
from counterpoint.tune.study.study import Study

NO_NEEDS: Mapping[str, str] = {}


def dimension(
    name: str,
    *choices: str,
    flag: str = "",
    acts: Acts = Acts.SCHEDULE,
    needs: Mapping[str, str] = NO_NEEDS,
    excludes: Sequence[str] = (),
    profile: bool = False,
) -> Dimension:
    """A flag with those values; a variable of that name where no flag is given."""

    def settings(value: str) -> Settings:
        if profile:
            return Settings()
        pair = ((flag or name.upper(), value),)
        return Settings(xla=pair) if flag else Settings(env=pair)

    made = tuple(
        ArmChange(
            dimension=name,
            choice=it,
            settings=settings(it),
            acts=acts,
            profile=profile,
        )
        for it in choices or ("on",)
    )
    return Dimension(name=name, choices=made, acts=acts, needs=needs, excludes=tuple(excludes))


def variable(name: str, value: str, *, dimension: str, acts: Acts = Acts.RUNTIME) -> Dimension:
    """An environment variable with one value."""
    change = ArmChange(
        dimension=dimension, choice=value, settings=Settings(env=((name, value),)), acts=acts
    )
    return Dimension(name=dimension, choices=(change,), acts=acts)


def space(*dimensions: Dimension, seeds: Sequence[Arm] = ()) -> Space:
    return Space(base=Settings(), dimensions=dimensions, seeds=tuple(seeds))


def figures(
    gain: float,
    program: str,
    *,
    reach: tuple[tuple[str, float, float], ...] = (),
    fits: bool | None = True,
    gain_range: Range | None = None,
) -> Predicted:
    """Of a step of one second for the base."""
    step = 1.0 - gain
    return Predicted(
        step_s=step,
        range_s=Range(0.9 * step, 1.1 * step),
        gain=gain,
        gain_range=gain_range or Range(gain, gain),
        program=program,
        peak_bytes=50 if fits is not False else 150,
        limit_bytes=100,
        fits=fits,
        reach=reach,
    )


def seen(
    name: str,
    gain: float,
    *changes: tuple[str, str],
    program: str = "",
    origin: ArmOrigin = ArmOrigin.SEARCH,
    **more: object,
) -> CandidateSeen:
    """A candidate of those changes; of a program of its own where none is given."""
    made = tuple(
        ArmChange(dimension=at, choice=it, settings=Settings(xla=((f"xla_gpu_{at}", it),)))
        for at, it in changes
    )
    told = figures(gain, program or name, **more)  # pyright: ignore[reportArgumentType]
    arm = Arm(name=name, settings=Settings(), changes=made, origin=origin, predicted=told)
    return CandidateSeen(arm=arm)


def ledger() -> Ledger:
    """Of a study without a file."""
    began = StudyBegan(
        format=FORMAT,
        version="0",
        question="q",
        workload="step",
        command=(),
        target="8xH100",
        executor=None,
        base=Settings(),
        options=(),
        at="now",
    )
    return Ledger(Study(began=began), lambda _: None)
