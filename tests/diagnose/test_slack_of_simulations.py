"""Slack against the simulator's own truth: it knows when the device came to need what.

Its engine launches a transfer at one moment and reaches the wait for it at another; less the time
in between in which it stands still for other transfers, that is the slack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from statistics import median
from unittest import mock

import polars as pl
import pytest

from counterpoint.core.basis import Basis
from counterpoint.diagnose.collectives.slack import slack_table
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import Context, StepData
from counterpoint.hlo.model.program import Program
from counterpoint.simulate.engine import Engine, RunningBlock
from counterpoint.simulate.layout import lay_out
from counterpoint.simulate.plan import Join, Load, WorkBlock
from counterpoint.simulate.priced_plan import PricedPlan, price_plan
from counterpoint.simulate.simulation import simulate
from hand_made import S, Told, compute, done, entry, loop, program, run_loop, start, straight


class Watched(Engine):
    """The engine, with a note of when each transfer started and how long it stood still."""

    def __init__(self, case: PricedPlan) -> None:
        self.began: dict[int, tuple[float, float]] = {}
        self.stood = 0.0
        self.stands_since: float | None = None
        self.slack: dict[str, list[float]] = defaultdict(list)
        times = case.block_times(case.prices.likely).tolist()
        super().__init__(case.plan, times, case.block_slowing.tolist())

    def so_far(self) -> float:
        return self.stood + (self.now - self.stands_since if self.stands_since is not None else 0)

    def _start(self, flight: RunningBlock) -> None:
        self.began[flight.number] = (self.now, self.so_far())
        super()._start(flight)

    def _work(self, block: WorkBlock) -> None:
        if block.load is not Load.COLLECTIVE:
            return super()._work(block)
        return self._stand(lambda: super(Watched, self)._work(block))

    def _join(self, step: Join) -> None:
        queues = [queue for start in step.starts if (queue := self._open.get(start))]
        if queues:
            flight = min(queues, key=lambda queue: queue[0].number)[0]
            # Still behind others on its stream: it has not begun, so there is no time for it.
            since, stood = self.began.get(flight.number, (self.now, self.stood))
            name = step.starts[0].rpartition("/")[2]
            self.slack[name].append(self.now - since - (self.stood - stood))
        self._stand(lambda: super(Watched, self)._join(step))

    def _stand(self, during: Callable[[], None]) -> None:
        self.stands_since = self.now
        during()
        self.stood, self.stands_since = self.so_far(), None


def truth(made: Program, model: Told) -> dict[str, float]:
    plan = lay_out(made)
    engine = Watched(
        PricedPlan(plan, price_plan(made, plan, model), model.contention, model.launch_s)
    )
    with mock.patch("counterpoint.simulate.engine._alike", return_value=False):
        engine.run()  # every turn of a loop, and none multiplied
    return {name: median(found) * 1e3 for name, found in engine.slack.items()}


def told(made: Program, model: Told, text: str = "") -> dict[str, float]:
    hlo = f"HloModule made, is_scheduled=true, num_partitions=2\n{text}".encode()
    timeline = simulate(made, model, hlo=hlo if text else None).timeline
    assert timeline.basis is Basis.PREDICTED
    selection = select(timeline)
    table = slack_table(StepData(selection=selection, context=Context()))
    return dict(table.select("op", "slack_ms").iter_rows())


HIDDEN = (start("gather"), compute("a"), compute("b"), done("gather"), compute("c"))
EXPOSED = (compute("a"), start("gather"), compute("b"), done("gather"), compute("c"))
NOTHING = (compute("a"), start("gather"), done("gather"), compute("c"))
NESTED = (
    start("one"), compute("a"), start("two"), compute("b"), done("two"), compute("c"), done("one"),
)  # fmt: skip
QUEUED = (
    start("one"), start("two"), compute("a"), done("one"), compute("b"), done("two"), compute("c"),
)  # fmt: skip
SYNC = (start("slow"), compute("a"), start("now", sync=True), done("now"), compute("b"),
        done("slow"))  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "costs"),
    [
        (HIDDEN, {"gather": 0.5}),
        (EXPOSED, {"gather": 3}),
        (NOTHING, {}),
        (NESTED, {"one": 2.5, "two": 4, "b": 0.5}),
        (QUEUED, {"one": 1.5, "two": 0.25}),
        (QUEUED, {"one": 0.5, "two": 3}),
        (SYNC, {"slow": 1.5, "now": 2}),
    ],
)
def test_slack_is_what_the_simulator_knows(
    lines: tuple[str, ...], costs: Mapping[str, float]
) -> None:
    made, model = straight(*lines), Told({"result": 0.5, **costs})
    known = truth(made, model)
    assert known
    found = told(made, model)
    assert {name: found[name] for name in known} == pytest.approx(known, abs=1e-6)


@pytest.mark.parametrize("trips", [1, 2, 5])
@pytest.mark.parametrize("gather", [0.5, 3.0])
def test_in_a_loop_every_turn_counts(trips: int, gather: float) -> None:
    made, model = program(loop(*EXPOSED) + entry(run_loop(trips))), Told({"gather": gather})
    assert told(made, model)["gather"] == pytest.approx(truth(made, model)["gather"], abs=1e-6)


@pytest.mark.parametrize("cost", [0.5, 20.0])
def test_a_loop_between_start_and_done_is_work(cost: float) -> None:
    turn = (compute("a"), compute("b"))
    text = loop(*turn) + entry(start("gather"), run_loop(4), done("gather"), compute("after"))
    made, model = program(text), Told({"gather": cost})
    assert truth(made, model)["gather"] == pytest.approx(8e3)
    assert told(made, model, text)["gather"] == pytest.approx(8e3, abs=1e-6)


@pytest.mark.parametrize("last", ["", compute("x")])
def test_waits_within_a_loop_between_start_and_done_are_no_slack(last: str) -> None:
    turn = (start("inner"), compute("a"), done("inner"), compute("b"))
    text = loop(*turn) + entry(start("outer"), run_loop(3), last, done("outer"), compute("y"))
    made, model = program(text), Told({"outer": 0.5, "inner": 2.0})
    assert told(made, model, text) == pytest.approx(truth(made, model), abs=1e-6)


def test_a_transfer_from_the_host_has_slack_like_a_collective() -> None:
    there = S + "{0:S(5)}"
    lines = (
        f'  far = {there} custom-call(p), custom_call_target="MoveToHost"',
        f"  fetch = ({S}, {there}, u32[]) copy-start(far)",
        compute("a"),
        f"  fetch.done = {S} copy-done(fetch)",
        compute("b", "fetch.done"),
    )
    made, model = straight(*lines), Told({"fetch": 4})
    assert told(made, model)["fetch"] == pytest.approx(truth(made, model)["fetch"], abs=1e-6)


def test_a_sync_collective_has_none() -> None:
    made = straight(SYNC[0], *SYNC[1:])
    selection = select(simulate(made, Told()).timeline)
    table = slack_table(StepData(selection=selection, context=Context()))
    now = table.row(by_predicate=pl.col("op") == "now", named=True)
    assert now["slack_ms"] == 0
    assert now["no_slack_share"] == 1
