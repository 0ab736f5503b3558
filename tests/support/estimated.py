"""Jobs with correct and wrong estimates."""

from __future__ import annotations

from hypothesis import strategies as st

from pybatsched.testing import Workload

#: The machine that they are for.
N_PROCS = 6


@st.composite
def workloads(draw: st.DrawFn, *, honest: bool = False, deadlines: bool = False) -> Workload:
    """Draw jobs; unless they are honest, some take longer than estimated. With deadlines, about half have one."""
    jobs = Workload()
    at = 0
    for index in range(draw(st.integers(1, 14))):
        at += draw(st.sampled_from([0, 0, 0, 1, 2, 5]))
        run, n = draw(st.integers(1, 9)), draw(st.integers(1, N_PROCS))
        off = draw(st.sampled_from([0, 0, 0, 1, 6] if honest else [-6, -1, 0, 0, 0, 1, 6]))
        fields = {}
        if deadlines and draw(st.booleans()):
            fields = {"deadline": at + max(run + off, 1) + draw(st.integers(0, 80))}
        jobs.job(f"{index:02}", n=n, s=run, at=at, estimate=max(run + off, 1), walltime=run + 20, **fields)
    return jobs
