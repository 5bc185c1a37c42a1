"""The digest of a study: its verdict, the arms, and what its figures rest on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.report import units
from counterpoint.report.digest import Digest, DigestLine, notes
from counterpoint.report.tune.figures import duration, gain_range_text, gain_text, node_hours, plain
from counterpoint.tune.arm import share_text
from counterpoint.tune.conclusion import (
    NOT_LOOKED_AT,
    NOT_PREDICTABLE,
    NOT_TRIED,
    WORTH_A_TRIAL,
    ArmRow,
    Conclusion,
    lacks_profile,
)
from counterpoint.tune.statistics import ArmVerdict
from counterpoint.tune.study import NO_BUDGET

_ARMS: Final = 20
_UNKNOWN: Final = (NOT_LOOKED_AT, NOT_PREDICTABLE, NOT_TRIED, NO_BUDGET, WORTH_A_TRIAL)
"""An arm with such a status and no prediction has no figures, so its line names no basis."""


def tune_digest(conclusion: Conclusion, study: str, next: str) -> Digest:
    """Return the digest of a study; `study` is its name."""
    basis = conclusion.basis
    how = "predicted, nothing was run" if basis == "predicted" else f"{basis}, per run"
    lines = [
        DigestLine(f"study {study}: {conclusion.state}", 0),
        DigestLine(f"verdict [{how}]: {plain(conclusion.sentence)}", 1),
        *_winner(conclusion, how),
        *(_arm(row, 2 + min(at, _ARMS)) for at, row in enumerate(conclusion.rows)),
        *_noise(conclusion),
        *_spent(conclusion),
        *(
            DigestLine(f"left out {plain(it.name)}: {plain(it.why)}", 30, "unused arm")
            for it in conclusion.left_out
        ),
        *_ablation(conclusion),
    ]
    return Digest((*lines, *notes(map(plain, conclusion.notes), 40)), next)


def _winner(conclusion: Conclusion, how: str) -> Iterator[DigestLine]:
    winner = conclusion.winner
    if winner is None:
        return
    yield DigestLine(f"winner: {winner.name}", 1)
    gain = _saves(conclusion.gain)
    reach = gain_range_text(conclusion.range)
    fresh = "" if conclusion.basis == "predicted" else ", confirmed by fresh runs"
    if not conclusion.confirmed and fresh:
        fresh = ", not confirmed by fresh runs, so it may be too large"
    yield DigestLine(f"gain [{how}]: {gain}, range {reach}{fresh}", 1)
    if lacks_profile(winner):
        text = "the gain includes a PGLE profile, which the settings do not"
        yield DigestLine(f"warning: {text}", 1, "warning")


def _arm(row: ArmRow, rank: int) -> DigestLine:
    predicted, estimate, figures = row.arm.predicted, row.estimate, [row.status]
    if row.why:
        figures[0] += f" ({plain(row.why)})"
    ran = row.trials > 0
    basis = "measured" if ran else "predicted"
    if not ran and predicted is None and row.status in _UNKNOWN:
        basis = None
        figures += ["not predicted"] if row.status == WORTH_A_TRIAL else []
        figures += ["not run"] if row.status == NO_BUDGET else []
    if ran and row.step_s is not None:
        figures.append(f"step {units.milliseconds(row.step_s * 1e3)}")
        if estimate is not None and units.known(estimate.gain) is not None:
            reach = gain_range_text(estimate.range)
            noise = " in these runs, which may be noise" if row.status == ArmVerdict.OPEN else ""
            figures.append(f"{_saves(estimate.gain)}{noise}, range of the saving {reach}")
    elif predicted is not None and not ran:
        figures.append(f"step {units.milliseconds(predicted.step_s * 1e3)}")
        figures += [] if row.arm.is_base else [_saves(predicted.gain)]
    name = row.arm.name if basis is None else f"{row.arm.name} [{basis}]"
    return DigestLine(f"arm {name}: {'; '.join(figures)}", rank, "arm")


def _saves(gain: float | None) -> str:
    """Return a gain in words, because a negative saving is easily misread."""
    text = gain_text(gain)
    verb = "slower by" if text.startswith("-") else "saves"
    return f"{verb} {text.lstrip('+-')} of the base's step"


def _noise(conclusion: Conclusion) -> Iterator[DigestLine]:
    noise = conclusion.noise
    if noise is None:
        return
    least = share_text(noise.floor).replace(" ", "")
    floor = (
        f"one pair of runs shows differences above {least} of the step, several rows smaller ones"
    )
    if isinstance(noise.sigma, Unknown):
        yield DigestLine(f"noise [measured]: unknown, {noise.sigma.reason}; {floor}", 2)
        return
    sigma = units.percent(noise.sigma, 2)
    yield DigestLine(f"noise [measured]: identical runs differ by {sigma} (sigma); {floor}", 2)


def _spent(conclusion: Conclusion) -> Iterator[DigestLine]:
    spent = conclusion.spent
    if spent is None:
        return
    trials, took = counted_noun(spent.trials, "trial"), duration(spent.seconds)
    yield DigestLine(f"spent [measured]: {trials}, {took}, {node_hours(spent.node_seconds)}", 10)


def _ablation(conclusion: Conclusion) -> Iterator[DigestLine]:
    for ablated in conclusion.ablation:
        text = f"without {ablated.dimension}={ablated.choice} [{ablated.basis}]:"
        loses = f"the winner loses {gain_text(ablated.loses).removeprefix('+')} of the base's step"
        yield DigestLine(f"{text} {loses}", 15, "ablation")
