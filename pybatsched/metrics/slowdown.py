"""Slowdowns of jobs: the formula for one job, and the same for a column of the job table (with polars)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

#: Lower bound of run times, in seconds, in a bounded slowdown.
DEFAULT_TAU_S: Final = 10.0
#: One tick of the files, in seconds. A run time of 0 counts as one tick in a slowdown without a bound.
TICK_S: Final = 1e-6


def bounded_slowdown(wait_s: float, runtime_s: float, tau_s: float) -> float:
    """Return max(1, (wait + run) / max(run, tau)). The slowdown has tau 0; there a run time of 0 counts as one tick.

    >>> bounded_slowdown(15.0, 5.0, 10.0), bounded_slowdown(1.0, 5.0, 60.0)
    (2.0, 1.0)
    """
    # Without max(), which takes longer than the rest of the function.
    bound_s = tau_s if tau_s > TICK_S else TICK_S  # noqa: FURB136
    slowdown = (wait_s + runtime_s) / (bound_s if bound_s > runtime_s else runtime_s)  # noqa: FURB136
    return 1.0 if slowdown < 1.0 else slowdown  # noqa: FURB136


def bounded_slowdowns(wait_s: pl.Expr, runtime_s: pl.Expr, tau_s: float) -> pl.Expr:
    """Return `bounded_slowdown` for columns of a table."""
    # A column as divisor: polars multiplies by the reciprocal of a constant, which may change the last digit.
    slowdowns = (wait_s + runtime_s) / runtime_s.clip(lower_bound=max(tau_s, TICK_S))
    return slowdowns.clip(lower_bound=1.0)
