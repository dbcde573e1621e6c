"""One law for the losses of all optimizers over sizes and horizons, with the trend of each speed-up over size.

    L_o(N, D) = E + A N^-alpha + B (r_o(N) D)^-beta,    r_o(N) = r_o (N / N0)^t_o

N is the number of parameters, D that of steps, N0 the geometric mean of the sizes. Optimizer o needs r_o(N) times fewer
steps than the reference, for which r = 1 and t = 0. The exponents are shared: separate laws are ill-conditioned.

Source: Volkova et al., "Towards Robust Scaling Laws for Optimizers", 2026; Hoffmann et al., "Training Compute-Optimal
Large Language Models", 2022.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairbench.analysis.statistics.least_squares import SHARED, Array, Observations
from fairbench.analysis.statistics.significance import TTest, t_test
from fairbench.common.errors import UsageError, pick

FLAGGED = 2.0
"""The multiple of the largest size beyond which a prediction is flagged."""
REFUSED = 4.0
"""The multiple of the largest size beyond which there is no prediction."""
SIZES = 3
"""The fewest sizes that determine the law."""
HORIZONS = 2
"""The fewest numbers of steps at each size that determine the law."""
STEEPEST = 10.0
"""The largest exponent of a law: losses that fall by chance alone give larger ones."""
FASTEST = 1e6
"""The largest speed-up of a law: losses that fall by chance alone give larger ones."""
EQUAL_REFITS = 1e-8
"""The distance from the minimum at which a fit may end. Refits that differ by less are equal."""


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
        """The speed-up r_o(N) of an optimizer at a size. Raises `UsageError` if the law has no such optimizer."""
        known: dict[str, SpeedUp | None] = {self.reference: None}
        for speed_up in self.speed_ups:
            known[speed_up.optimizer] = speed_up
        own = pick("optimizer", optimizer, known)
        if own is None:
            return 1.0
        log_size = math.log(size / self.center)
        return math.exp(own.log.difference + own.trend.difference * log_size)

    def predict(self, size: float, steps: float, optimizer: str) -> Prediction:
        """The loss that the law predicts.

        Raises:
            UsageError: the size is beyond `REFUSED` times the largest one, or the law has no such optimizer.
        """
        if size > REFUSED * self.largest:
            most = f"{REFUSED:g} times the largest size of the ladder, {self.largest:g}"
            raise UsageError(f"no prediction at size {size:g}, beyond {most}; add a larger size to the ladder")
        reference_steps = self.speed_up(optimizer, size) * steps
        of_size = self.A * size**-self.alpha
        of_steps = self.B * reference_steps**-self.beta
        return Prediction(loss=self.E + of_size + of_steps, flagged=size > FLAGGED * self.largest)


def fit(sizes: Array, steps: Array, losses: Array, optimizers: Sequence[str], reference: str) -> Law:
    """Fit the law to the means over the seeds by least squares, every cell with the same weight.

    `_jackknife` gives the intervals.

    Args:
        sizes, steps, optimizers: size N, steps D and optimizer of each cell.
        losses: cells x seeds, positive, lower is better; the seeds are the same in every cell.
        reference: the optimizer with r = 1 and t = 0.

    Raises:
        ValueError: the cells do not determine the law, see `too_few`, or their losses do not.
    """
    reason = too_few(sizes, steps)
    if reason:
        raise ValueError(reason)
    if not np.isfinite(losses).all():
        raise ValueError("a loss is not finite: leave out optimizers that diverged")
    names = [name for name in dict.fromkeys(optimizers) if name != reference]
    center = center_of(sizes)
    center_of_steps = center_of(steps)
    means = losses.mean(axis=1)
    observed = Observations.of(sizes / center, steps / center_of_steps, optimizers, names)
    best = observed.best(means)
    speed_ups = _speed_ups(names, _jackknife(observed, losses, best))
    log_e, log_a, log_alpha, log_b, log_beta = best[:SHARED]
    alpha, beta = np.exp(np.array([log_alpha, log_beta])).tolist()
    if _falls_by_chance(alpha, beta, best):
        raise ValueError("the losses do not fall with size and steps as the law does")
    spread, misfit = _misfit(observed, losses, best)
    # the fit has sizes and steps as multiples of their centers, the law has them as they are
    log_a_of_sizes = log_a + alpha * math.log(center)
    log_b_of_steps = log_b + beta * math.log(center_of_steps)
    cells, seeds = losses.shape
    return Law(
        reference=reference,
        E=math.exp(log_e),
        A=math.exp(log_a_of_sizes),
        alpha=alpha,
        B=math.exp(log_b_of_steps),
        beta=beta,
        center=center,
        largest=float(sizes.max()),
        cells=cells,
        n=seeds,
        speed_ups=speed_ups,
        spread=spread,
        misfit=misfit,
        error=_relative_error(observed, best, means),
        left_out_error=_left_out_error(observed, means, best),
    )


def _speed_ups(names: Sequence[str], tests: Sequence[TTest]) -> tuple[SpeedUp, ...]:
    """The speed-up of each named optimizer, from the tests of all parameters of the law."""
    own = tests[SHARED:]
    logs = own[: len(names)]
    trends = own[len(names) :]
    return tuple(map(SpeedUp, names, logs, trends))


def _falls_by_chance(alpha: float, beta: float, best: Array) -> bool:
    """Whether exponents, trends or speed-ups are so large that the losses must fall by chance alone."""
    logs, trends = best[SHARED:].reshape(2, -1)
    steepest = max(alpha, beta, *abs(trends))
    fastest = max(abs(logs), default=0)
    return bool(steepest > STEEPEST or fastest > math.log(FASTEST))


def too_few(sizes: Array, steps: Array) -> str:
    """The reason why the cells of an optimizer do not determine a law; empty if they do."""
    different_sizes = set(sizes.tolist())
    if len(different_sizes) < SIZES:
        return f"{len(different_sizes)} of {SIZES} sizes that a trend needs"
    horizons = min(len(set(steps[sizes == size].tolist())) for size in different_sizes)
    if horizons < HORIZONS:
        return f"{horizons} of {HORIZONS} horizons that a trend needs at each size"
    return ""


def center_of(values: Array) -> float:
    """The geometric mean of some values, each different value counted once."""
    logs = np.log(np.unique(values))
    return float(np.exp(logs.mean()))


def _jackknife(observed: Observations, losses: Array, best: Array) -> list[TTest]:
    """The t-test of each parameter, by the jackknife: refits x_(-i) without seed i, and the fit x of all n seeds.

        error = std(n x - (n - 1) x_(-i)) / sqrt(n),    t distribution with n - 1 degrees of freedom

    Seeds are independent, cells need not be: what they share in a seed is in each refit. In the studies of
    `benchmarks/ladder_coverage.py` these intervals cover as declared; those of a bootstrap over 5 seeds do not.

    Source: Miller, "The jackknife - a review", Biometrika 1974.
    """
    n = losses.shape[1]
    if n < 2:
        return [TTest(value, reason="fewer than 2 seeds, no test") for value in best.tolist()]
    refits = []
    for seed in range(n):
        others = np.delete(losses, seed, axis=1)
        refit, _ = observed.solve(others.mean(axis=1), best)
        refits.append(refit)
    errors = (n - 1) * np.std(refits, axis=0, ddof=1) / math.sqrt(n)
    tests = []
    for value, error in zip(best.tolist(), errors.tolist(), strict=True):
        if error < EQUAL_REFITS:
            test = TTest(value, reason="the same in every seed, no test")
        else:
            test = t_test(value, error, n - 1)
        tests.append(test)
    return tests


def _misfit(observed: Observations, losses: Array, best: Array) -> tuple[float | None, float | None]:
    """The spread of the seeds and the misfit of the law: sum(residual^2) n / (spread^2 (cells - parameters))."""
    n = losses.shape[1]
    if n < 2:
        return None, None
    variance = losses.var(axis=1, ddof=1).mean()
    residuals = losses.mean(axis=1) - observed.predicted(best)
    df = len(residuals) - len(best)
    mean_square = residuals @ residuals * n / df
    misfit = None
    if variance > 0:
        misfit = float(mean_square / variance)
    return math.sqrt(variance), misfit


def _relative_error(observed: Observations, parameters: Array, losses: Array) -> float:
    """The mean absolute relative error of the law with these parameters."""
    errors = observed.predicted(parameters) / losses - 1
    return float(np.mean(abs(errors)))


def _left_out_error(observed: Observations, losses: Array, start: Array) -> float | None:
    """The error at the largest size, of the law that is fitted to the other sizes; None for too few sizes.

    That fit starts from the parameters of the whole law.
    """
    largest = observed.sizes == observed.sizes.max()
    others = observed.subset(~largest)
    left_out = observed.subset(largest)
    if len(set(others.sizes.tolist())) < SIZES:
        return None
    parameters, _ = others.solve(losses[~largest], start)
    return _relative_error(left_out, parameters, losses[largest])
