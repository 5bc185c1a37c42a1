"""Row and arm effects fitted to the logarithms of run times: a randomized complete block design.

log(seconds) = row + arm + noise, by least squares. Effects that a row shares (its nodes, their
neighbors, the time of day) cancel, and rows may lack arms. The fit gives the noise; an arm is
compared with the base in the rows that have both, which anybody can check by hand. For a single
arm this is the paired t-test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoint.core import Range, Unknown
from counterpoint.runs.scores import NEGLIGIBLE_CHANGE, RUN_TO_RUN_NOISE, student_t
from counterpoint.tune.arm import BASE
from counterpoint.tune.statistics.estimate import (
    ArmVerdict,
    DecisionRule,
    GainEstimate,
    GainRanges,
    Observation,
    Pair,
    RunNoise,
    holm,
    judge,
    looks,
    share,
    shared_as,
)

Floats: TypeAlias = NDArray[np.float64]

_LEAST: Final = 1e-4
"""The smallest scatter of runs, as a share of their time; less is an artifact of rounding."""
_PRIOR: Final = 4
"""The weight of the pool beside an arm's own scatter, in degrees of freedom: `Blocks.contrast`.

Chosen by simulation: 20 arms of which one scatters four times as much as the rest are called
different where none is in 2 to 8% of studies with it, and in 18% with the pool alone. It costs
little for arms that scatter as the pool does (docs/concepts/statistics.md).
"""
_RANK: Final = 1e-9
_BOTH_SIDES: Final = 1.96  # sigmas, for 95%
_LEAST_FREEDOM: Final = 2
"""The minimum degrees of freedom. For one, the first pair alone, Student's t is 13 sigmas.

No machine could ever show anything under such a floor; two (4.3 sigmas) are assumed.
"""
_WIDEST: Final = 20.0  # of a log ratio: beyond it, exp has no meaning


@dataclass(frozen=True, slots=True)
class Contrast:
    """The log ratio of an arm's time to the base's, with its standard error."""

    log: float
    error: float
    freedom: int


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The fit. `counts` are the runs by row and arm, `means` their mean logarithms (0 for none).

    `residuals` are one per observation, in their order; `leverages` are the weight of each
    observation in its own fitted value.
    """

    arms: tuple[str, ...]
    rows: tuple[int, ...]
    counts: Floats
    means: Floats
    effects: Floats  # of arms, relative to their mean
    row_effects: Floats
    inverse: Floats
    residuals: Floats
    leverages: Floats
    squares: float  # of the residuals, or of another fit's: `with_noise_of`
    freedom: int

    @property
    def variance(self) -> float | Unknown:
        """The variance of the noise of one run, estimated from all runs."""
        if self.freedom < 1:
            return Unknown("no run was repeated, so the noise is unknown")
        return max(self.squares / self.freedom, _LEAST**2)

    def with_noise_of(self, other: Blocks) -> Blocks:
        """Return the same effects, with the noise of a fit of more runs."""
        return replace(self, squares=other.squares, freedom=other.freedom)

    def contrast(self, arm: str, base: str) -> Contrast | Unknown:
        """Compare the arm with the base, in the rows in which both ran.

        The noise is that of all runs, so that few rows are enough. But an arm that scatters more
        than the pool must not benefit from it: its own paired scatter is shrunk towards the pool,
        and is used if it is larger.
        """
        if base not in self.arms or arm not in self.arms:
            return Unknown(f"{arm if base in self.arms else base} has no run with a step time")
        pairs = np.log([pair.seconds / pair.base_seconds for pair in self.pairs(arm, base)])
        if not len(pairs):
            return Unknown(f"{arm} and {base} never ran in the same row")
        log, scale = float(np.mean(pairs)), 2 / len(pairs)
        pooled = self.variance
        if isinstance(pooled, Unknown):
            return Contrast(log, math.inf, 0)
        freedom = len(pairs) - 1
        if not freedom:
            return Contrast(log, math.sqrt(pooled * scale), self.freedom)
        own = float(np.var(pairs, ddof=1)) / len(pairs) / scale
        moderated = (_PRIOR * pooled + freedom * own) / (_PRIOR + freedom)
        if moderated <= pooled:
            return Contrast(log, math.sqrt(pooled * scale), self.freedom)
        trusted = min(self.freedom, _PRIOR + freedom)
        return Contrast(log, math.sqrt(moderated * scale), trusted)

    def pairs(self, arm: str, base: str) -> tuple[Pair, ...]:
        """Return the rows in which both ran."""
        if arm not in self.arms or base not in self.arms:
            return ()
        arm_at, base_at = self.arms.index(arm), self.arms.index(base)
        both = (self.counts[:, arm_at] > 0) & (self.counts[:, base_at] > 0)
        return tuple(
            Pair(self.rows[at], *map(math.exp, self.means[at, [arm_at, base_at]]))
            for at in np.flatnonzero(both)
        )


def blocks(observations: Sequence[Observation]) -> Blocks:
    """Fit the observations: row effects are removed first, then arms are fitted to the rest.

    If an arm runs twice in a row, its mean stands for both runs, and their difference counts as
    noise. Two separate runs would upset the balance by which a steady drift cancels.
    """
    arms = tuple(dict.fromkeys(run.arm for run in observations))
    rows = tuple(sorted({run.row for run in observations}))
    at = np.array([rows.index(run.row) for run in observations], dtype=int)
    which = np.array([arms.index(run.arm) for run in observations], dtype=int)
    logs = np.array([math.log(run.seconds) for run in observations], dtype=float)
    counts, sums = (np.zeros((len(rows), len(arms))) for _ in range(2))
    np.add.at(counts, (at, which), 1.0)
    np.add.at(sums, (at, which), logs)
    ran = (counts > 0).astype(float)
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    in_row = ran.sum(axis=1)
    shares = ran / in_row[:, None]
    gram = np.diag(ran.sum(axis=0)) - ran.T @ shares
    values, vectors = np.linalg.eigh(gram)
    used = values > _RANK * max(len(observations), 1)
    inverse = (vectors[:, used] / values[used]) @ vectors[:, used].T
    effects = inverse @ (means.sum(axis=0) - shares.T @ means.sum(axis=1))
    row_effects = means.sum(axis=1) / in_row - shares @ effects
    apart = np.eye(len(arms))[which] - shares[at]
    leverages = 1 / in_row[at] + np.einsum("ij,jk,ik->i", apart, inverse, apart)
    residuals = logs - row_effects[at] - effects[which]
    return Blocks(
        arms=arms,
        rows=rows,
        counts=counts,
        means=means,
        effects=effects,
        row_effects=row_effects,
        inverse=inverse,
        residuals=residuals,
        leverages=leverages / counts[at, which],
        squares=float(residuals @ residuals),
        freedom=len(observations) - len(rows) - int(used.sum()),
    )


def estimates(
    observations: Sequence[Observation],
    rule: DecisionRule,
    base: str = BASE,
    noise_of: Sequence[Observation] = (),
) -> tuple[GainEstimate, ...]:
    """Compare each arm with the base, in the order of first appearance.

    `noise_of` are other runs of the same arms, in other rows, which show noise and nothing else:
    all runs are fitted together for it, so what the two disagree by is noise, too.

    If the range is Unknown, so are the values that depend on it: the gain is NaN if the arm has no
    row in common with the base. Dropped arms are included: their runs show the noise, and they
    share the rate of false positives.
    """
    fit = blocks(observations)
    if noise_of:
        fit = fit.with_noise_of(blocks([*noise_of, *observations]))
    arms = [arm for arm in fit.arms if arm != base]
    contrasts = [fit.contrast(arm, base) for arm in arms]
    pairs = [fit.pairs(arm, base) for arm in arms]
    rows = [len(pairs_of_arm) for pairs_of_arm in pairs]
    rate = 1 - rule.confidence
    ps = [
        min(1.0, p / share(rule, n)) if (p := _p(contrast)) is not None else 1.0
        for contrast, n in zip(contrasts, rows, strict=True)
    ]
    steps = holm(ps, rule.arms)
    floor = _usual_difference(fit, rule.indifferent)
    found: list[GainEstimate] = []
    for arm, contrast, both, step, among in zip(
        arms, contrasts, pairs, steps, shared_as(steps, rate), strict=True
    ):
        n = len(both)
        if isinstance(contrast, Unknown) or not contrast.freedom:
            found.append(_unknown(arm, contrast, both, rule))
            continue
        reach = GainRanges(
            _gain(contrast.log),
            _range(contrast, rate * share(rule, n) / among),
            _range(contrast, rate),
        )
        last = n >= rule.cap
        judged = judge(reach, floor, rule, looked=n in looks(rule), last=last)
        found.append(
            GainEstimate(
                arm=arm,
                gain=reach.gain,
                range=reach.together,
                p=step.p,
                rows=n,
                verdict=judged.verdict,
                decided=judged.decided,
                why=judged.why,
                futile=judged.futile,
                pairs=both,
            )
        )
    return tuple(found)


def confirmed(
    observations: Sequence[Observation],
    rule: DecisionRule,
    base: str = BASE,
    noise_of: Sequence[Observation] = (),
) -> tuple[GainEstimate, ...]:
    """Estimate the finalists from the rows of a fresh allocation alone: the claim of the study.

    Finalists were selected partly by luck; these rows are independent of it. There is one look, so
    the whole rate is spent on it, shared among finalists only. All are decided.

    How much identical runs differ was seen in the race, too (`noise_of`), and four rows alone say
    little about it. They may even all be wrong by the same amount, as under a load that comes every
    second trial if chance puts the base first in each: they then seem to have no noise at all, and
    only that the race found another gain shows it.
    """
    finalists = len({run.arm for run in observations} - {base})
    once = replace(rule, looks=(), cap=1, arms=max(finalists, 1))
    return estimates(observations, once, base, noise_of)


def noise(
    observations: Sequence[Observation], base: str = BASE, indifferent: float = NEGLIGIBLE_CHANGE
) -> RunNoise:
    """Estimate the difference between identical runs, from the residuals of the fit."""
    del base  # the runs of all arms show the noise
    return _noise(blocks(observations), indifferent)


def _noise(fit: Blocks, indifferent: float) -> RunNoise:
    variance = fit.variance
    if isinstance(variance, Unknown):
        return RunNoise(sigma=variance, freedom=0, floor=max(indifferent, RUN_TO_RUN_NOISE))
    sigma = math.sqrt(2 * variance)
    sigmas = student_t(max(fit.freedom, _LEAST_FREEDOM))
    floor = max(indifferent, math.expm1(min(sigmas * sigma, _WIDEST)))
    return RunNoise(sigma=sigma, freedom=fit.freedom, floor=floor)


def _usual_difference(fit: Blocks, indifferent: float) -> float:
    """Return the range of an arm without effect: two sigmas, whatever the degrees of freedom.

    Student's t belongs in the report of the noise. Here it would mean that the less is known of the
    noise, the more arms have no effect: in simulated studies, one of eight that gain 2%.
    """
    variance = fit.variance
    if isinstance(variance, Unknown):
        return max(indifferent, RUN_TO_RUN_NOISE)
    return max(indifferent, math.expm1(_BOTH_SIDES * math.sqrt(2 * variance)))


def _unknown(
    arm: str, contrast: Contrast | Unknown, pairs: tuple[Pair, ...], rule: DecisionRule
) -> GainEstimate:
    why = (
        contrast
        if isinstance(contrast, Unknown)
        else Unknown("no run was repeated, so the noise is unknown")
    )
    return GainEstimate(
        arm=arm,
        gain=math.nan if isinstance(contrast, Unknown) else _gain(contrast.log),
        range=why,
        p=None,
        rows=len(pairs),
        verdict=ArmVerdict.OPEN,
        decided=len(pairs) >= rule.cap,
        why=why.reason,
        pairs=pairs,
    )


def _p(contrast: Contrast | Unknown) -> float | None:
    from scipy.special import stdtr  # pyright: ignore[reportMissingTypeStubs]

    if isinstance(contrast, Unknown) or not contrast.freedom:
        return None
    return 2 * float(stdtr(contrast.freedom, -abs(contrast.log) / contrast.error))


def _range(contrast: Contrast, level: float) -> Range:
    from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]

    half = float(stdtrit(contrast.freedom, 1 - level / 2)) * contrast.error
    half = min(half, _WIDEST)
    return Range(_gain(contrast.log + half), _gain(contrast.log - half))


def _gain(log: float) -> float:
    return -math.expm1(log)
