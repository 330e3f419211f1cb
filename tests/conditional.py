"""Severities of raters by conditional maximum likelihood, which assumes no distribution of worths: a reference for the
model of raters. Equal to psychotools' `rsmodel` and `pcmodel`, with raters in place of items.
"""

from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from mhbench.errors import refuse


def symmetric_functions(psi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log gamma for every total, (S,) with S = R (K - 1) + 1, and its derivative by each weight (R, K, S), from the
    weights psi of categories (R, K), the first 0.

    Source: Andersen 1972; Fischer and Ponocny 1994 (partial credit).
    """
    weight = np.exp(psi)
    n_raters, n_categories = psi.shape
    size = n_raters * (n_categories - 1) + 1
    gamma = reduce(np.convolve, weight)
    gradient = np.zeros((n_raters, n_categories, size))
    for r in range(n_raters):
        others = reduce(np.convolve, np.delete(weight, r, 0), np.ones(1))
        for k in range(n_categories):
            gradient[r, k, k : k + len(others)] = weight[r, k] * others / gamma[k : k + len(others)]
    return np.log(gamma), gradient


class ConditionalFit(NamedTuple):
    "Severities by conditional maximum likelihood."

    severity: np.ndarray  # (R,) sum to zero; of partial credit, minus the last category's weight a step
    severity_se: np.ndarray  # (R,)
    psi: np.ndarray  # (R, K) weights of categories
    covariance: np.ndarray  # (R * (K - 1),) squared, of psi without the first category, as identified
    log_likelihood: float


def _objective(free: np.ndarray, design: np.ndarray, seen: np.ndarray, patterns: list, shape: tuple) -> tuple:
    psi = np.zeros(shape)
    psi[:, 1:] = (design @ free).reshape(shape[0], -1)
    value = float((seen * psi).sum())
    slope = seen.copy()
    for raters, totals in patterns:
        log_gamma, by_psi = symmetric_functions(psi[raters])
        value -= float(totals @ log_gamma)
        slope[raters] -= by_psi @ totals
    return -value, -design.T @ slope[:, 1:].ravel()


def conditional_severities(ratings: np.ndarray, by_rater: bool = False) -> ConditionalFit:
    """Severities by conditional maximum likelihood from ratings (answers, raters) of categories 0, 1, ..., NaN where
    not asked; `by_rater`, every rater has categories of its own (partial credit).

    Source: Andersen 1972; Andrich 1978 (rating scale); Masters 1982 (partial credit).

    Raises: ValueError where two raters cannot be compared.
    """
    x = np.asarray(ratings, float)
    shape = x.shape[1], int(np.nanmax(x)) + 1
    n_raters, top = shape[0], shape[1] - 1
    there = ~np.isnan(x)
    asked, which = np.unique(there, axis=0, return_inverse=True)
    totals = np.nansum(x, axis=1).astype(int)
    patterns = []
    for j, pattern in enumerate(asked):
        raters = np.flatnonzero(pattern)
        if len(raters) > 1:
            patterns.append((raters, np.bincount(totals[which == j], minlength=len(raters) * top + 1).astype(float)))
    use = there.sum(1) > 1
    seen = np.stack([np.bincount(x[use & there[:, r], r].astype(int), minlength=shape[1]) for r in range(n_raters)])
    if by_rater:  # the first rater's first weight is 0: a line in k cancels
        design = np.eye(n_raters * top)[:, 1:]
    else:
        severity = np.kron(np.eye(n_raters)[:, 1:], -np.arange(1, top + 1)[:, None])
        design = np.hstack([severity, np.tile(np.eye(top)[:, 1:], (n_raters, 1))])
    arguments = design, seen.astype(float), patterns, shape
    free = minimize(_objective, np.zeros(design.shape[1]), arguments, "BFGS", jac=True, options={"gtol": 1e-7}).x
    steps = 1e-4 * np.eye(len(free))
    ahead = [_objective(free + e, *arguments)[1] - _objective(free - e, *arguments)[1] for e in steps]
    information = np.array(ahead) / 2e-4
    if not np.linalg.eigvalsh(information + information.T)[0] > 1e-8:
        refuse("conditional_severities: ratings must connect all raters, and each use several categories; these do not")
    covariance = design @ np.linalg.inv((information + information.T) / 2) @ design.T
    psi = np.zeros(shape)
    psi[:, 1:] = (design @ free).reshape(n_raters, -1)
    last = np.arange(n_raters) * top + top - 1
    centre = np.eye(n_raters) - 1 / n_raters
    variance = centre @ covariance[np.ix_(last, last)] @ centre / top**2
    value = -_objective(free, *arguments)[0]
    return ConditionalFit(-centre @ psi[:, -1] / top, np.sqrt(np.diag(variance)), psi, covariance, value)
