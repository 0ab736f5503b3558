"""Compute figures of runs: of jobs, of classes of jobs, over time, and of two runs. See docs/metrics.md."""

from __future__ import annotations

from pybatsched.metrics.outcomes import JobRecord, Outcome, joined
from pybatsched.metrics.slowdown import DEFAULT_TAU_S
from pybatsched.metrics.tally import Figures, Tally

__all__ = ["DEFAULT_TAU_S", "Figures", "JobRecord", "Outcome", "Tally", "joined"]
