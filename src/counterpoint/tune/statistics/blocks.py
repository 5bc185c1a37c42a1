"""Rows and arms fitted to the logarithms of run times: a randomized complete block design.

log(seconds) = row + arm + noise, by least squares. Whatever a row shares (its nodes, their
neighbours, the hour) drops out of what is said of arms. Rows may miss arms. The fit tells the
noise; an arm is compared with the base by the rows that have both, which anybody can check. Where
one runs twice in a row, the mean stands for both and how they differ tells of noise; weighed as two
it would tip the balance that cancels a drift. For one arm this is the paired t-test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.basis import Unknown
from counterpoint.tune.statistics.estimate import Observation, Pair

Floats: TypeAlias = NDArray[np.float64]

_LEAST: Final = 1e-4
"""No runs agree better than this share of their time; where they seem to, figures were rounded."""
_PRIOR: Final = 4
"""For how many degrees of freedom the pool speaks beside an arm's own scatter: `Blocks.contrast`.

Chosen by simulation: 20 arms of which one scatters four times as much as the rest are called
different where none is in 2 to 8 % of studies with it, and in 18 % by the pool alone. It takes
little away from arms that scatter as the pool does (docs/concepts/statistics.md).
"""
_RANK: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Contrast:
    """The log of how an arm's time relates to the base's, with its standard error."""

    log: float
    error: float
    freedom: int


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A fit. `counts` are the runs by row and arm, `means` their mean logarithms (0 for none).

    `residuals` are one per observation, in their order; `leverages` tell how much each of them
    bends the fit to itself.
    """

    arms: tuple[str, ...]
    rows: tuple[int, ...]
    counts: Floats
    means: Floats
    effects: Floats  # of arms, against their mean
    row_effects: Floats
    inverse: Floats
    residuals: Floats
    leverages: Floats
    freedom: int

    @property
    def variance(self) -> float | Unknown:
        """Of the noise of one run, from all of them."""
        if self.freedom < 1:
            return Unknown("no run was repeated, so nothing tells how much runs differ")
        return max(float(self.residuals @ self.residuals) / self.freedom, _LEAST**2)

    def contrast(self, arm: str, base: str) -> Contrast | Unknown:
        """The arm against the base, in the rows in which both ran.

        The noise is that of all runs, so that few rows are enough. But an arm that scatters more
        than the pool must not profit from it: its own paired scatter is shrunk towards the pool,
        and counts where it is the larger.
        """
        if base not in self.arms or arm not in self.arms:
            return Unknown(f"{arm if base in self.arms else base} has no run with a step time")
        pairs = np.log([it.seconds / it.base_seconds for it in self.pairs(arm, base)])
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
        """The rows in which both ran."""
        if arm not in self.arms or base not in self.arms:
            return ()
        one, other = self.arms.index(arm), self.arms.index(base)
        both = (self.counts[:, one] > 0) & (self.counts[:, other] > 0)
        return tuple(
            Pair(self.rows[at], *map(math.exp, self.means[at, [one, other]]))
            for at in np.flatnonzero(both)
        )


def blocks(observations: Sequence[Observation]) -> Blocks:
    """Fit them: rows are taken out first, then arms are fitted to what is left."""
    arms = tuple(dict.fromkeys(it.arm for it in observations))
    rows = tuple(sorted({it.row for it in observations}))
    at = np.array([rows.index(it.row) for it in observations], dtype=int)
    which = np.array([arms.index(it.arm) for it in observations], dtype=int)
    logs = np.array([math.log(it.seconds) for it in observations], dtype=float)
    counts, sums = (np.zeros((len(rows), len(arms))) for _ in range(2))
    np.add.at(counts, (at, which), 1.0)
    np.add.at(sums, (at, which), logs)
    ran = (counts > 0).astype(float)
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    in_row = ran.sum(axis=1)
    shares = ran / in_row[:, None]
    gram = np.diag(ran.sum(axis=0)) - ran.T @ shares
    values, vectors = np.linalg.eigh(gram)
    kept = values > _RANK * max(len(observations), 1)
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    effects = inverse @ (means.sum(axis=0) - shares.T @ means.sum(axis=1))
    row_effects = means.sum(axis=1) / in_row - shares @ effects
    apart = np.eye(len(arms))[which] - shares[at]
    leverages = 1 / in_row[at] + np.einsum("ij,jk,ik->i", apart, inverse, apart)
    return Blocks(
        arms=arms,
        rows=rows,
        counts=counts,
        means=means,
        effects=effects,
        row_effects=row_effects,
        inverse=inverse,
        residuals=logs - row_effects[at] - effects[which],
        leverages=leverages / counts[at, which],
        freedom=len(observations) - len(rows) - int(kept.sum()),
    )
