"""Reallocation gives every job the start, place, size and moves of its slow twin."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given, strategies as st
from support.examples import examples
from support.grid_crowds import VARIANTS, crowds, grids
from support.grid_twin import GridTwin
from support.gridded import Fate, Grid, fates, rejections
from support.located import DYNAMIC

from pybatsched.core.policy import Policy
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for


class Outcome(NamedTuple):
    """What became of all jobs, and the policy's own figures."""

    fates: dict[str, Fate]
    rejected: set[str]
    figures: dict[str, float]
    n_messages: int

    def without_events(self) -> tuple[Any, ...]:
        """Leave out how many events there were, and how often jobs were withdrawn by them."""
        fates = {name: fate._replace(resubmitted=0) for name, fate in self.fates.items()}
        figures = {name: figure for name, figure in self.figures.items() if name not in {"n_events", "max_resubmitted"}}
        return fates, self.rejected, figures


def run(policy: str | type[Policy], grid: Grid, workload: Workload, options: dict[str, Any]) -> Outcome:
    session = Session(plan_for(policy, **options), checked=True)
    fake = FakeBatsim(workload, grid.n_procs, config=DYNAMIC, hosts=grid.hosts).run(session.handle)
    assert not fake.deadlocked
    figures = dict(session.engine.policy.figures())
    return Outcome(fates(fake, grid), rejections(fake), figures, session.n_messages)


@examples(300)
@given(st.data(), grids(), VARIANTS)
def test_starts_equal_those_of_the_slow_twin(data: st.DataObject, grid: Grid, options: dict[str, Any]) -> None:
    """The twin has an event at each multiple of the period; the policy leaves out those that would change nothing."""
    workload = data.draw(crowds(grid))
    fast, slow = (run(policy, grid, workload, options) for policy in ("reallocation", GridTwin))
    assert fast.without_events() == slow.without_events()
    assert fast.figures["n_events"] <= slow.figures["n_events"]
    for name, fate in fast.fates.items():
        assert fate.resubmitted <= slow.fates[name].resubmitted
        assert fate.resubmitted == slow.fates[name].resubmitted or options["algorithm"] == "all_cancellation"
