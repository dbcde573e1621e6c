"""The least squares of a ladder's law, see `scaling_law`, in the losses of its cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy import optimize

Array = npt.NDArray[np.float64]

EXPONENTS = (0.1, 0.2, 0.4, 0.8)
"""Values of alpha and beta from whose best pairs the fit starts."""
STARTS = 2
"""The number of these pairs."""
SHARED = 5
"""Parameters that all optimizers share."""
TOLERANCE = 1e-12
"""Relative change of squares and parameters at which a fit ends."""


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
        """The terms of the law by size and by steps, and the logarithm of the reference's steps for the same loss."""
        _, log_a, log_alpha, log_b, log_beta = parameters[:SHARED]
        logs, trends = parameters[SHARED:].reshape(2, -1)
        steps = self.steps + self.member @ logs + self.sizes * (self.member @ trends)
        of_size = np.exp(log_a - np.exp(log_alpha) * self.sizes)
        of_steps = np.exp(log_b - np.exp(log_beta) * steps)
        return of_size, of_steps, steps

    def predicted(self, parameters: Array) -> Array:
        """The losses of the law."""
        of_size, of_steps, _ = self.terms(parameters)
        return np.asarray(np.exp(parameters[0]) + of_size + of_steps)

    def jacobian(self, parameters: Array) -> Array:
        """The derivatives of the losses, cells x parameters."""
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
        """The least squares from a start, and their sum, by Levenberg and Marquardt."""

        def residuals(parameters: Array) -> Array:
            return self.predicted(parameters) - losses

        with np.errstate(over="ignore"):  # in a trial step, which is then rejected
            found, _, info, _, _ = optimize.leastsq(
                residuals,
                start,
                Dfun=self.jacobian,
                full_output=True,
                ftol=TOLERANCE,
                xtol=TOLERANCE,
            )
        squares = info["fvec"] @ info["fvec"]
        return found, float(squares)

    def best(self, losses: Array) -> Array:
        """The parameters with the least squares, from the best starts."""
        starts = [self._start(losses, alpha, beta) for alpha, beta in product(EXPONENTS, EXPONENTS)]
        starts.sort(key=_error)
        fits = [self.solve(losses, start) for start, _ in starts[:STARTS]]
        best, _ = min(fits, key=_error)
        return best

    def _start(self, losses: Array, alpha: float, beta: float) -> tuple[Array, float]:
        """The best parameters without trends at given exponents, and their error.

        The law is linear in E, A and a B of each optimizer, which have least squares without iterations (variable
        projection); r_o = (B / B_o)^(1 / beta).
        """
        of_reference = 1 - self.member.sum(axis=1)
        members = np.column_stack([of_reference, self.member])
        of_e = np.ones((len(losses), 1))
        of_a = np.exp(-alpha * self.sizes)[:, None]
        of_b = np.exp(-beta * self.steps)[:, None] * members
        factors, error = optimize.nnls(np.hstack([of_e, of_a, of_b]), losses)
        least = 1e-3 * np.abs(losses).max()
        log_e, log_a, log_b, *own = np.log(np.maximum(factors, least))
        logs = (np.array(own) - log_b) / -beta
        trends = np.zeros(len(own))
        shared = [log_e, log_a, math.log(alpha), log_b, math.log(beta)]
        return np.array([*shared, *logs, *trends]), float(error)


def _error(fit: tuple[Array, float]) -> float:
    """The error of parameters that come with it."""
    return fit[1]
