"""Studies made by hand: records as a tuner would write them, without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from counterpoint.flags.settings import Settings
from counterpoint.runs.steady import Steady
from counterpoint.tune.arm import BASE, Acts, Arm, ArmChange, ArmOrigin, Predicted, merged
from counterpoint.tune.study.records import (
    FORMAT,
    AllocationClosed,
    AllocationOpened,
    ArmDropped,
    ArmEntered,
    CandidateSeen,
    GangStarted,
    Record,
    Resumed,
    SearchEnded,
    StudyBegan,
    TrialEnded,
    TrialStarted,
)
from counterpoint.tune.study.study import Study, fold, follow
from counterpoint.tune.trial.report import Losses, Purpose, TrialFailure, TrialReport

AT = "2026-11-22T10:00:00.000+00:00"
BASE_ARM = Arm(name=BASE, settings=Settings(), origin=ArmOrigin.BASE)


def change(
    dimension: str, choice: str = "on", *, acts: Acts = Acts.RUNTIME, profile: bool = False
) -> ArmChange:
    """A change that sets a variable (runtime) or a flag (schedule) of its own."""
    name = dimension.replace(" ", "_").replace("-", "_")
    settings = (
        Settings(env=((name.upper(), choice),))
        if acts is Acts.RUNTIME
        else Settings(xla=((f"xla_gpu_{name}", choice),))
    )
    return ArmChange(
        dimension=dimension, choice=choice, settings=settings, acts=acts, profile=profile
    )


def arm(
    name: str,
    *changes: ArmChange,
    origin: ArmOrigin = ArmOrigin.SPACE,
    predicted: Predicted | None = None,
) -> Arm:
    """An arm of those changes; of one of its own name where none is given."""
    made = changes or (change(name),)
    return Arm(
        name=name,
        settings=merged(Settings(), made),
        changes=made,
        origin=origin,
        predicted=predicted,
    )


def steady(seconds: float) -> Steady:
    """Thirty good steps."""
    return Steady(median_s=seconds, steps=30, warm_up=3, spread=0.01, source="log")


def report(
    seconds: float | None = 1.0,
    *,
    failure: TrialFailure | None = None,
    program: str | None = None,
    losses: Sequence[float] = (),
    remat: bool | None = None,
    peak: int | None = None,
    limit: int | None = None,
    steps_seen: int | None = None,
    start_s: float | None = None,
) -> TrialReport:
    """Of a run that took so long, or failed."""
    said = Losses(steps=tuple(range(len(losses))), values=tuple(losses)) if losses else None
    return TrialReport(
        steady=None if failure is not None or seconds is None else steady(seconds),
        failure=failure,
        detail=f"planted {failure}" if failure else "",
        program=program,
        losses=said,
        remat=remat,
        peak_bytes=peak,
        limit_bytes=limit,
        steps_seen=steps_seen,
        start_s=start_s,
    )


class Made:
    """Records that grow as a study does; `study` is what they come to."""

    def __init__(self, *arms: Arm, shortlist: bool = True, base: Settings | None = None) -> None:
        self.records: list[Record] = [
            StudyBegan(
                format=FORMAT,
                version="0",
                question="q",
                workload="python train.py",
                command=("python", "train.py"),
                target=None,
                executor="local",
                base=base or Settings(),
                options=(),
                at=AT,
            )
        ]
        self._folded: tuple[list[Record], Study] | None = None  # grows with the records
        if shortlist:
            self.records += [CandidateSeen(arm=it, at=AT) for it in arms]
            names = tuple(it.name for it in arms)
            self.records.append(SearchEnded(why="done", shortlist=names, seconds=1.0, at=AT))

    @property
    def study(self) -> Study:
        done, study = self._folded or ([], None)
        if study is None or any(
            a is not b for a, b in zip_longest(done, self.records[: len(done)])
        ):
            done, study = [self.records[0]], fold(self.records[:1])
        for record in self.records[len(done) :]:
            study = follow(study, record)
        self._folded = ([*self.records], study)
        return study

    def add(self, *records: Record) -> Made:
        self.records.extend(records)
        return self

    def entered(self, *arms: Arm) -> Made:
        """The base and those arms take part."""
        for it in (BASE_ARM, *arms):
            self.add(ArmEntered(arm=it, at=AT))
        return self

    def dropped(self, name: str, kind: str, why: str = "") -> Made:
        return self.add(ArmDropped(arm=name, kind=kind, why=why, at=AT))

    def opened(self, executor: str = "local") -> Made:
        """One more allocation."""
        number = len(self.study.allocations) + 1
        return self.add(
            AllocationOpened(
                number=number, executor=executor, identity=f"alloc{number}", nodes=("a",), at=AT
            )
        )

    def resumed(self) -> Made:
        """Another sitting."""
        return self.add(Resumed(options=(), version="0", at=AT))

    def closed(self) -> Made:
        return self.add(AllocationClosed(number=self.study.open_allocations[-1], at=AT))

    def started(self, name: str, purpose: Purpose, row: int, allocation: int | None = None) -> int:
        """A trial begins; its number."""
        study = self.study
        number = len(study.trials) + 1
        self.add(
            TrialStarted(
                number=number,
                arm=name,
                purpose=purpose,
                row=row,
                allocation=allocation or len(study.allocations),
                directory=f"runs/{number:04d}-{name}",
                at=AT,
            )
        )
        return number

    def ran(
        self,
        name: str,
        told: TrialReport,
        purpose: Purpose,
        row: int,
        wall_s: float = 60.0,
        *,
        starts: bool = True,
    ) -> Made:
        """A trial of an arm from start to end; of one that never started if not `starts`."""
        number = self.started(name, purpose, row)
        if starts:
            self.add(GangStarted(number=number, identity=f"gang{number}", at=AT))
        return self.add(TrialEnded(number=number, report=told, wall_s=wall_s, at=AT))

    def row(self, purpose: Purpose, row: int, seconds: Mapping[str, float]) -> Made:
        """A row in which all went well."""
        for name, took in seconds.items():
            self.ran(name, report(took), purpose, row)
        return self

    def noise(self, first: float = 1.0, second: float = 1.001) -> Made:
        """The first allocation, and the base twice in it."""
        self.opened()
        self.ran(BASE, report(first), Purpose.NOISE, 0)
        return self.ran(BASE, report(second), Purpose.NOISE, 0)
