"""The least-squares fit of a ladder's law to the losses of its cells; `scaling_law` has the law."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy import optimize

Array = npt.NDArray[np.float64]

EXPONENTS = (0.1, 0.2, 0.4, 0.8)
"""Values of alpha and beta that are tried together. The fit starts from the best pairs."""
STARTS = 2
"""The number of pairs of exponents from which the fit starts."""
SHARED = 5
"""The number of parameters that all optimizers share."""
TOLERANCE = 1e-12
"""The relative change of squares and parameters below which a fit ends."""


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
        """The cells with some sizes, steps and optimizers.

        Args:
            sizes, steps: the size and the steps of each cell, relative to the center.
            optimizers: the optimizer of each cell.
            names: the optimizers without the reference.
        """
        shape = (len(optimizers), len(names))
        member = np.zeros(shape)
        for cell, optimizer in enumerate(optimizers):
            if optimizer in names:
                member[cell, names.index(optimizer)] = 1.0
        return cls(np.log(sizes), np.log(steps), member)

    def subset(self, chosen: npt.NDArray[np.bool_]) -> "Observations":
        """The cells where `chosen` is true."""
        return Observations(self.sizes[chosen], self.steps[chosen], self.member[chosen])

    def terms(self, parameters: Array) -> tuple[Array, Array, Array]:
        """Three values of each cell: the term of the size, the term of the steps, and the reference's equivalent steps.

        The last is the logarithm of the steps with which the reference reaches the same loss.
        """
        _, log_a, log_alpha, log_b, log_beta = parameters[:SHARED]
        # the speed-ups of all optimizers, then their trends
        logs, trends = parameters[SHARED:].reshape(2, -1)
        steps = self.steps + self.member @ logs + self.sizes * (self.member @ trends)
        of_size = np.exp(log_a - np.exp(log_alpha) * self.sizes)
        of_steps = np.exp(log_b - np.exp(log_beta) * steps)
        return of_size, of_steps, steps

    def predicted(self, parameters: Array) -> Array:
        """The loss of each cell by the law."""
        of_size, of_steps, _ = self.terms(parameters)
        return np.asarray(np.exp(parameters[0]) + of_size + of_steps)

    def jacobian(self, parameters: Array) -> Array:
        """The derivatives of the losses by the parameters, cells x parameters."""
        of_size, of_steps, steps = self.terms(parameters)
        alpha = np.exp(parameters[2])
        beta = np.exp(parameters[4])
        shared = np.empty((len(steps), SHARED))
        shared[:, 0] = np.exp(parameters[0])
        shared[:, 1] = of_size
        shared[:, 2] = -alpha * self.sizes * of_size
        shared[:, 3] = of_steps
        shared[:, 4] = -beta * steps * of_steps
        logs = (-beta * of_steps)[:, None] * self.member
        trends = self.sizes[:, None] * logs
        return np.concatenate([shared, logs, trends], axis=1)

    def solve(self, losses: Array, start: Array) -> tuple[Array, float]:
        """The parameters with the least squares near a start, and the sum of squares, by Levenberg and Marquardt."""

        def residuals(parameters: Array) -> Array:
            """The predicted minus the measured losses."""
            return self.predicted(parameters) - losses

        with np.errstate(over="ignore"):  # a step that overflows is tried and rejected
            parameters, _, info, _, _ = optimize.leastsq(
                residuals,
                start,
                Dfun=self.jacobian,
                full_output=True,
                ftol=TOLERANCE,
                xtol=TOLERANCE,
            )
        squares = info["fvec"] @ info["fvec"]
        return parameters, float(squares)

    def best(self, losses: Array) -> Array:
        """The parameters with the least squares, among the fits from the best starts."""
        starts = [self._start(losses, alpha, beta) for alpha, beta in product(EXPONENTS, EXPONENTS)]
        starts.sort(key=_fit_error)
        fits = [self.solve(losses, start) for start, _ in starts[:STARTS]]
        best, _ = min(fits, key=_fit_error)
        return best

    def _start(self, losses: Array, alpha: float, beta: float) -> tuple[Array, float]:
        """The best parameters at given exponents, with all trends 0, and their error.

        The law is linear in E, A and a B of each optimizer, which have least squares without iterations (variable
        projection); r_o = (B / B_o)^(1 / beta).
        """
        is_reference = 1 - self.member.sum(axis=1)
        members = np.column_stack([is_reference, self.member])
        columns_of_e = np.ones((len(losses), 1))
        columns_of_a = np.exp(-alpha * self.sizes)[:, None]
        columns_of_b = np.exp(-beta * self.steps)[:, None] * members
        factors, error = optimize.nnls(np.hstack([columns_of_e, columns_of_a, columns_of_b]), losses)
        # a factor of 0 has no logarithm
        least = 1e-3 * np.abs(losses).max()
        log_e, log_a, log_b, *own_log_b = np.log(np.maximum(factors, least))
        logs = (np.array(own_log_b) - log_b) / -beta
        trends = np.zeros(len(own_log_b))
        shared = [log_e, log_a, math.log(alpha), log_b, math.log(beta)]
        return np.array([*shared, *logs, *trends]), float(error)


def _fit_error(fit: tuple[Array, float]) -> float:
    """The error of a pair of parameters and their error."""
    return fit[1]
