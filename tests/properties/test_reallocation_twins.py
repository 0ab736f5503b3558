"""Reallocation starts every job when and where its slow, obvious twin does, in the same size, after as many moves."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.grid_crowds import VARIANTS, crowds, grids
from support.grid_twin import GridTwin
from support.gridded import Grid, fates, rejections
from support.located import DYNAMIC

from pybatsched.core.policy import Policy
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for


def run(policy: str | type[Policy], grid: Grid, workload: Workload, options: dict[str, Any]) -> tuple[Any, ...]:
    """Give what became of all jobs, and the policy's own figures."""
    session = Session(plan_for(policy, **options), checked=True)
    fake = FakeBatsim(workload, grid.n_procs, config=DYNAMIC, hosts=grid.hosts).run(session.handle)
    assert not fake.deadlocked
    return fates(fake, grid), rejections(fake), session.engine.policy.figures()


@examples(300)
@given(st.data(), grids(), VARIANTS)
def test_the_slow_twin_does_the_same(data: st.DataObject, grid: Grid, options: dict[str, Any]) -> None:
    workload = data.draw(crowds(grid))
    fast, slow = (run(policy, grid, workload, options) for policy in ("reallocation", GridTwin))
    assert fast == slow
