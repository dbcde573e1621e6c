"""One law for the losses of all optimizers over sizes and horizons, and whether a speed-up changes with size.

    L_o(N, D) = E + A N^-alpha + B (r_o(N) D)^-beta,    r_o(N) = r_o (N / N0)^t_o

N is the number of parameters, D that of steps, N0 the geometric mean of the sizes. Optimizer o needs r_o(N) times fewer
steps than the reference, for which r = 1 and t = 0. The exponents are shared: separate laws are ill-conditioned.

Source: Volkova et al., "Towards Robust Scaling Laws for Optimizers", 2026; Hoffmann et al., "Training Compute-Optimal
Large Language Models", 2022.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy import optimize

from fairbench.analysis.statistics.significance import TTest, t_test
from fairbench.common.errors import UsageError, pick

Array = npt.NDArray[np.float64]

FLAGGED, REFUSED = 2.0, 4.0
"""Multiples of the largest size beyond which a prediction is flagged, and refused."""
SIZES, HORIZONS = 3, 2
"""The fewest sizes, and steps at each of them, that determine the law."""
EXPONENTS = (0.1, 0.2, 0.4, 0.8)
"""Values of alpha and beta from whose best pairs the fit starts."""
STARTS = 2
"""The number of these pairs."""
STEEPEST, FASTEST = 10.0, 1e6
"""The largest exponent and speed-up of a law: losses that fall by chance alone give larger ones."""
SHARED = 5
"""Parameters that all optimizers share."""
TOLERANCE = 1e-12
"""Relative change of squares and parameters at which a fit ends."""
EQUAL_REFITS = 1e-8
"""Refits that differ by less are equal: each ends within this distance of the minimum."""


@dataclass(frozen=True)
class SpeedUp:
    """The speed-up of an optimizer over the reference.

    Attributes:
        log: log r_o, at the geometric mean of the sizes, with its 95% interval.
        trend: t_o with its 95% interval, and the test that it is 0.
    """

    optimizer: str
    log: TTest
    trend: TTest


@dataclass(frozen=True)
class Prediction:
    """A predicted loss; flagged where the size is beyond `FLAGGED` times the largest one of the fit."""

    loss: float
    flagged: bool


@dataclass(frozen=True, kw_only=True)
class LadderLaw:
    """The law of a ladder: loss = E + A size^-alpha + B (r steps)^-beta; r is the speed-up of the optimizer.

    Attributes:
        arena: the ladder, by the name of its arena in the suite file.
        reference: the optimizer with r = 1.
        E, A, alpha, B, beta: its coefficients, which all optimizers share.
        center: geometric mean of the sizes, in parameters.
        largest: the largest size.
        cells: number of sizes x horizons x optimizers of the fit.
        n: seeds of each.
        spread: standard deviation between seeds, pooled over the cells.
        misfit: mean square of its residuals over what the seeds explain; about 1 where the law describes the cells.
        error: mean absolute relative error of the law in its cells.
        left_out_error: the same at the largest size, for the law of the other sizes; None for fewer than 4 sizes.
    """

    arena: str = ""
    metric: str = ""
    reference: str
    E: float
    A: float
    alpha: float
    B: float
    beta: float
    center: float
    largest: float
    cells: int = 0
    n: int = 0
    spread: float | None = None
    misfit: float | None = None
    error: float | None = None
    left_out_error: float | None = None


@dataclass(frozen=True, kw_only=True)
class Law(LadderLaw):
    """The law of a ladder with the speed-ups of all optimizers but the reference, which has r = 1 and t = 0."""

    speed_ups: tuple[SpeedUp, ...] = ()

    def speed_up(self, optimizer: str, size: float) -> float:
        """r_o(N) of an optimizer. Raises `UsageError` if the law has no such optimizer."""
        own = pick("optimizer", optimizer, {self.reference: None, **{x.optimizer: x for x in self.speed_ups}})
        if own is None:
            return 1.0
        return math.exp(own.log.difference + own.trend.difference * math.log(size / self.center))

    def predict(self, size: float, steps: float, optimizer: str) -> Prediction:
        """The loss that the law predicts.

        Raises:
            UsageError: the size is beyond `REFUSED` times the largest one, or the law has no such optimizer.
        """
        if size > REFUSED * self.largest:
            most = f"{REFUSED:g} times the largest size of the ladder, {self.largest:g}"
            raise UsageError(f"no prediction at size {size:g}, beyond {most}; add a larger size to the ladder")
        of_steps = self.B * (self.speed_up(optimizer, size) * steps) ** -self.beta
        return Prediction(self.E + self.A * size**-self.alpha + of_steps, size > FLAGGED * self.largest)


@dataclass(frozen=True)
class Observations:
    """The cells of a ladder, one for each size, number of steps and optimizer, and the law in them.

    A vector of parameters is (log E, log A', log alpha, log B', log beta, log r_o ..., t_o ...), where A' and B' are
    the terms of the reference at the center.

    Attributes:
        sizes, steps: logarithms, relative to the center.
        member: cells x optimizers without the reference; 1 where the cell is the optimizer's.
    """

    sizes: Array
    steps: Array
    member: Array

    @classmethod
    def of(cls, sizes: Array, steps: Array, optimizers: Sequence[str], names: Sequence[str]) -> "Observations":
        """The cells of sizes and steps relative to the center; `names` are the optimizers without the reference."""
        member = np.array([[name == x for x in names] for name in optimizers], float)
        return cls(np.log(sizes), np.log(steps), member.reshape(len(optimizers), len(names)))

    def terms(self, parameters: Array) -> tuple[Array, Array, Array]:
        """The terms of the law by size and by steps, and the logarithm of the reference's steps for the same loss."""
        _, a, log_alpha, b, log_beta = parameters[:SHARED]
        logs, trends = parameters[SHARED:].reshape(2, -1)
        steps = self.steps + self.member @ logs + self.sizes * (self.member @ trends)
        return np.exp(a - np.exp(log_alpha) * self.sizes), np.exp(b - np.exp(log_beta) * steps), steps

    def predicted(self, parameters: Array) -> Array:
        """The losses of the law."""
        of_size, of_steps, _ = self.terms(parameters)
        return np.asarray(np.exp(parameters[0]) + of_size + of_steps)

    def jacobian(self, parameters: Array) -> Array:
        """The derivatives of the losses, cells x parameters."""
        of_size, of_steps, steps = self.terms(parameters)
        alpha, beta = np.exp(parameters[2]), np.exp(parameters[4])
        own = (-beta * of_steps)[:, None] * self.member
        shared = np.empty((len(steps), SHARED))
        shared[:, 0], shared[:, 1], shared[:, 2] = np.exp(parameters[0]), of_size, -alpha * self.sizes * of_size
        shared[:, 3], shared[:, 4] = of_steps, -beta * steps * of_steps
        return np.concatenate([shared, own, self.sizes[:, None] * own], axis=1)

    def solve(self, losses: Array, start: Array) -> tuple[Array, float]:
        """The least squares from a start, and their sum, by Levenberg and Marquardt."""
        with np.errstate(over="ignore"):  # in a trial step, which is then rejected
            found, _, info, _, _ = optimize.leastsq(
                lambda x: self.predicted(x) - losses,
                start,
                Dfun=self.jacobian,
                full_output=True,
                ftol=TOLERANCE,
                xtol=TOLERANCE,
            )
        return found, float(info["fvec"] @ info["fvec"])

    def best(self, losses: Array) -> Array:
        """The parameters with the least squares, from the best starts."""
        starts = sorted((self._start(losses, *pair) for pair in product(EXPONENTS, EXPONENTS)), key=lambda x: x[1])
        return min((self.solve(losses, start) for start, _ in starts[:STARTS]), key=lambda x: x[1])[0]

    def _start(self, losses: Array, alpha: float, beta: float) -> tuple[Array, float]:
        """The best parameters without trends at given exponents, and their error.

        The law is linear in E, A and a B of each optimizer, which have least squares without iterations (variable
        projection); r_o = (B / B_o)^(1 / beta).
        """
        members = np.column_stack([1 - self.member.sum(axis=1), self.member])
        columns = [np.ones((len(losses), 1)), np.exp(-alpha * self.sizes)[:, None]]
        factors, error = optimize.nnls(np.hstack([*columns, np.exp(-beta * self.steps)[:, None] * members]), losses)
        e, a, b, *own = np.log(np.maximum(factors, 1e-3 * np.abs(losses).max()))
        logs = (np.array(own) - b) / -beta
        return np.array([e, a, math.log(alpha), b, math.log(beta), *logs, *np.zeros(len(own))]), float(error)


def fit(sizes: Array, steps: Array, losses: Array, optimizers: Sequence[str], reference: str) -> Law:
    """The law with the least squares at the means over the seeds, every cell with the same weight; see `_jackknife`.

    Args:
        sizes, steps, optimizers: N, D and name of each cell.
        losses: cells x seeds, positive, lower is better; the seeds are the same in every cell.
        reference: the optimizer with r = 1 and t = 0.

    Raises:
        ValueError: the cells do not determine the law, see `too_few`, or their losses do not.
    """
    if reason := too_few(sizes, steps):
        raise ValueError(reason)
    if not np.isfinite(losses).all():
        raise ValueError("a loss is not finite: leave out optimizers that diverged")
    names = [name for name in dict.fromkeys(optimizers) if name != reference]
    center, middle, means = center_of(sizes), center_of(steps), losses.mean(axis=1)
    cells = Observations.of(sizes / center, steps / middle, optimizers, names)
    best = cells.best(means)
    tests = _jackknife(cells, losses, best)[SHARED:]
    alpha, beta = np.exp(best[[2, 4]]).tolist()
    logs, trends = best[SHARED:].reshape(2, -1)
    if max(alpha, beta, *abs(trends)) > STEEPEST or max(abs(logs), default=0) > math.log(FASTEST):
        raise ValueError("the losses do not fall with size and steps as the law does")
    spread, misfit = _misfit(cells, losses, best)
    return Law(
        reference=reference,
        E=math.exp(best[0]),
        A=math.exp(best[1] + alpha * math.log(center)),
        alpha=alpha,
        B=math.exp(best[3] + beta * math.log(middle)),
        beta=beta,
        center=center,
        largest=float(sizes.max()),
        cells=losses.shape[0],
        n=losses.shape[1],
        speed_ups=tuple(map(SpeedUp, names, tests[: len(names)], tests[len(names) :])),
        spread=spread,
        misfit=misfit,
        error=_relative_error(cells, best, means),
        left_out_error=_left_out_error(cells, means, best),
    )


def too_few(sizes: Array, steps: Array) -> str:
    """Why the cells of an optimizer do not determine a law; empty when they do."""
    horizons = min((len(set(steps[sizes == size].tolist())) for size in set(sizes.tolist())), default=0)
    if (count := len(set(sizes.tolist()))) < SIZES:
        return f"{count} of {SIZES} sizes that a trend needs"
    return "" if horizons >= HORIZONS else f"{horizons} of {HORIZONS} horizons that a trend needs at each size"


def center_of(values: Array) -> float:
    """The geometric mean of the different values."""
    return float(np.exp(np.log(np.unique(values)).mean()))


def _jackknife(cells: Observations, losses: Array, best: Array) -> list[TTest]:
    """The test of each parameter, from the refits x_(-i) without each seed, and the fit x of all n seeds.

        error = std(n x - (n - 1) x_(-i)) / sqrt(n),    t distribution with n - 1 degrees of freedom

    Seeds are independent, cells need not be: what they share in a seed is in each refit. In the studies of
    `benchmarks/ladder_coverage.py` these intervals cover as declared; those of a bootstrap over 5 seeds do not.

    Source: Miller, "The jackknife - a review", Biometrika 1974.
    """
    n = losses.shape[1]
    if n < 2:
        return [TTest(x, reason="fewer than 2 seeds, no test") for x in best.tolist()]
    refits = [cells.solve(np.delete(losses, i, axis=1).mean(axis=1), best)[0] for i in range(n)]
    errors = (n - 1) * np.std(refits, axis=0, ddof=1) / math.sqrt(n)
    return [
        TTest(x, reason="the same in every seed, no test") if error < EQUAL_REFITS else t_test(x, error, n - 1)
        for x, error in zip(best.tolist(), errors.tolist(), strict=True)
    ]


def _misfit(cells: Observations, losses: Array, best: Array) -> tuple[float | None, float | None]:
    """The spread of the seeds and the misfit of the law: sum(residual^2) n / (spread^2 (cells - parameters))."""
    n = losses.shape[1]
    if n < 2:
        return None, None
    variance, residuals = losses.var(axis=1, ddof=1).mean(), losses.mean(axis=1) - cells.predicted(best)
    square = residuals @ residuals * n / (len(residuals) - len(best))
    return math.sqrt(variance), float(square / variance) if variance > 0 else None


def _relative_error(cells: Observations, parameters: Array, losses: Array) -> float:
    return float(np.mean(abs(cells.predicted(parameters) / losses - 1)))


def _left_out_error(cells: Observations, losses: Array, start: Array) -> float | None:
    """The error at the largest size of the law of the others; their least squares are sought from the whole law."""
    largest = cells.sizes == cells.sizes.max()
    rest, left_out = (Observations(cells.sizes[x], cells.steps[x], cells.member[x]) for x in (~largest, largest))
    if len(set(rest.sizes.tolist())) < SIZES:
        return None
    return _relative_error(left_out, rest.solve(losses[~largest], start)[0], losses[largest])
