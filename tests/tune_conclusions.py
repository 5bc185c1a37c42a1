"""Conclusions made by hand, as studies come to them: measured, without any effect, predicted."""

from __future__ import annotations

from pathlib import Path

import timelines
from counterpoint.core.basis import Range, Unknown
from counterpoint.flags.settings import Settings
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.storage.parquet import write_parquet
from counterpoint.tune.arm import BASE, Acts, Arm, ArmChange, ArmOrigin, Predicted
from counterpoint.tune.conclusion.conclusion import ArmRow, Conclusion, Spent
from counterpoint.tune.statistics.estimate import ArmVerdict, GainEstimate, Pair, RunNoise
from counterpoint.tune.study import Ablated, step_path

BASE_SETTINGS = Settings(
    (("xla_gpu_enable_latency_hiding_scheduler", "true"),), (("NCCL_DEBUG", "WARN"),)
)
PIPELINED = ArmChange(
    dimension="pipelined all-gather",
    choice="on",
    settings=Settings((("xla_gpu_enable_pipelined_all_gather", "true"),)),
)
THRESHOLD = ArmChange(
    dimension="all-gather threshold",
    choice="512 MiB",
    settings=Settings((("xla_gpu_all_gather_combine_threshold_bytes", "536870912"),)),
)
NVLS = ArmChange(
    dimension="NVLS",
    choice="off",
    settings=Settings((), (("NCCL_NVLS_ENABLE", "0"),)),
    acts=Acts.RUNTIME,
)


def predicted(gain: float, low: float, high: float, program: str = "a1b2c3d4e5f6") -> Predicted:
    step = 0.131 * (1 - gain)
    return Predicted(
        step_s=step,
        range_s=Range(0.9 * step, 1.1 * step),
        gain=gain,
        gain_range=Range(low, high),
        program=program,
        exposed_s=0.004,
        peak_bytes=40 << 30,
        limit_bytes=60 << 30,
        fits=True,
    )


def arm(
    name: str,
    *changes: ArmChange,
    origin: ArmOrigin = ArmOrigin.SPACE,
    says: Predicted | None = None,
) -> Arm:
    settings = BASE_SETTINGS
    for it in changes:
        settings = settings.merged(it.settings)
    return Arm(name=name, settings=settings, changes=changes, origin=origin, predicted=says)


def estimate(
    name: str, gain: float, reach: Range | Unknown, verdict: ArmVerdict, rows: int = 4
) -> GainEstimate:
    return GainEstimate(
        arm=name,
        gain=gain,
        range=reach,
        p=0.003,
        rows=rows,
        verdict=verdict,
        decided=True,
        pairs=tuple(Pair(row, 0.1308 * (1 - gain), 0.1308) for row in range(rows)),
    )


BOTH = "pipelined all-gather + all-gather threshold 512 MiB"
WINNER = arm(
    BOTH, PIPELINED, THRESHOLD, origin=ArmOrigin.SEARCH, says=predicted(0.034, 0.011, 0.058)
)
BASE_ROW = ArmRow(
    arm=arm(BASE, origin=ArmOrigin.BASE, says=predicted(0.0, 0.0, 0.0, "000000000000")),
    status="base",
    trials=10,
    median_s=0.1308,
    program="000000000000",
    peak_bytes=41 << 30,
    prediction_off=-0.0015,
)
NVLS_ROW = ArmRow(
    arm=arm("NVLS off", NVLS),
    status="no effect",
    trials=4,
    median_s=0.1309,
    raced=estimate("NVLS off", -0.001, Range(-0.004, 0.003), ArmVerdict.SAME),
)


def found() -> Conclusion:
    """A winner, confirmed, and others of each kind."""
    return Conclusion(
        sentence=f"+3.1% [+2.3%, +3.9%] from {BOTH}; 1 other setting: no effect within 0.6%",
        basis="measured",
        state="done",
        winner=WINNER,
        verdict=ArmVerdict.FASTER,
        confirmed=True,
        gain=0.031,
        range=Range(0.023, 0.039),
        rows=(
            ArmRow(
                arm=WINNER,
                status="winner",
                trials=8,
                median_s=0.12675,
                raced=estimate(BOTH, 0.033, Range(0.021, 0.045), ArmVerdict.FASTER),
                confirmed=estimate(BOTH, 0.031, Range(0.023, 0.039), ArmVerdict.FASTER),
                prediction_off=0.0016,
                program="a1b2c3d4e5f6",
                peak_bytes=44 << 30,
            ),
            BASE_ROW,
            NVLS_ROW,
            ArmRow(
                arm=arm("double buffering"),
                status="slower",
                why="dropped after 2 rows: at least 1.2% slower",
                trials=2,
                median_s=0.1339,
                raced=estimate(
                    "double buffering", -0.024, Range(-0.036, -0.012), ArmVerdict.SLOWER
                ),
            ),
            ArmRow(
                arm=arm("memory fraction 0.95"),
                status="out of memory",
                why="RESOURCE_EXHAUSTED: Out of memory allocating 8.2 GiB",
                trials=1,
                failures=1,
            ),
            ArmRow(
                arm=arm("all-gather threshold 64 MiB"),
                status="same program",
                why="XLA compiles it to the base's program",
            ),
        ),
        noise=RunNoise(sigma=0.0021, freedom=9, floor=0.006),
        spent=Spent(
            trials=29, seconds=4980.0, node_seconds=9960.0, trials_left=None, seconds_left=2220.0
        ),
        ablation=(
            Ablated(
                arm=BOTH,
                dimension="pipelined all-gather",
                choice="on",
                loses=0.022,
                low=0.013,
                high=0.031,
                basis="measured",
                at="2026-11-22T10:00:00.000+00:00",
            ),
            Ablated(
                arm=BOTH,
                dimension="all-gather threshold",
                choice="512 MiB",
                loses=0.008,
                low=None,
                high=None,
                basis="predicted",
                at="2026-11-22T10:00:00.000+00:00",
            ),
        ),
        notes=("one trial was lost with its node, and made again",),
    )


def keep_steps(conclusion: Conclusion, study: Path, step: Timeline | None = None) -> None:
    """Keep a predicted step of each arm that was predicted, as the search does."""
    for row in conclusion.rows:
        if row.arm.predicted:
            path = step_path(study, row.arm.predicted)
            write_parquet(step or timelines.two_devices(), path, overwrite=True)


def nothing() -> Conclusion:
    """No effect: the base is as good as anything that was tried."""
    return Conclusion(
        sentence="no effect: 1 setting changes the step by no more than 0.6%",
        basis="measured",
        state="done",
        verdict=ArmVerdict.SAME,
        rows=(BASE_ROW, NVLS_ROW),
        noise=RunNoise(sigma=0.0021, freedom=5, floor=0.006),
        spent=Spent(trials=10, seconds=1200.0, node_seconds=1200.0, trials_left=10),
    )


def foreseen() -> Conclusion:
    """Offline alone: nothing ran."""
    same = ArmRow(
        arm=arm("all-gather threshold 64 MiB", says=predicted(0.0, 0.0, 0.0, "000000000000")),
        status="same program",
        why="XLA compiles it to the base's program",
    )
    large = ArmRow(
        arm=arm("scheduler's memory limit 120"),
        status="out of memory",
        why="its peak of 70.1 GiB is over the 60.0 GiB that JAX's allocator has",
    )
    return Conclusion(
        sentence=f"+3.4% [+1.1%, +5.8%] predicted from {BOTH}; nothing was run",
        basis="predicted",
        state="done",
        winner=WINNER,
        verdict=ArmVerdict.FASTER,
        gain=0.034,
        range=Range(0.011, 0.058),
        rows=(ArmRow(arm=WINNER, status="winner"), BASE_ROW, same, large),
        spent=Spent(trials=0, seconds=212.0, node_seconds=0.0),
    )


def unfinished() -> Conclusion:
    """Interrupted after a row: nobody knows anything yet."""
    raced = estimate(BOTH, 0.03, Unknown("one row tells no range"), ArmVerdict.OPEN, rows=1)
    return Conclusion(
        sentence=f"not decided: {BOTH} looks 3.0% faster after 1 row",
        basis="measured",
        state="interrupted",
        verdict=ArmVerdict.OPEN,
        rows=(ArmRow(arm=WINNER, status="not decided", trials=1, raced=raced), BASE_ROW),
        noise=RunNoise(sigma=Unknown("the base ran once"), freedom=0, floor=0.005),
        spent=Spent(trials=2, seconds=300.0, node_seconds=300.0, trials_left=18),
    )
