"""Random jobs for environments and agents, and complete episodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from pybatsched.gym import Agent, SchedulingEnv
from pybatsched.testing import Workload
from pybatsched.workload import model

N_PROCS = 8


@st.composite
def crowds(draw: st.DrawFn, max_jobs: int = 20) -> Workload:
    """Draw jobs with few instants and many sizes; some exceed their estimates, some have none, some never end."""
    jobs = Workload()
    for number in range(draw(st.integers(1, max_jobs))):
        run_s = draw(st.sampled_from([1, 2, 3, 5, 8, 13, 13.25]))
        walltime = draw(st.sampled_from([None, run_s, run_s + 1, 2 * run_s, 30]))
        estimate = draw(st.sampled_from([None, None, 1, run_s, 20]))
        known = {} if estimate is None else {"estimate": estimate}
        at = draw(st.integers(0, 30))
        jobs.job(number, n=draw(st.integers(1, N_PROCS)), s=run_s, at=at, walltime=walltime, **known)
    return jobs


def as_workload(jobs: Workload, n_procs: int = N_PROCS) -> model.Workload:
    return model.Workload(jobs.jobs, jobs.profiles, n_procs, "drawn.json")


@dataclass
class Played:
    """An episode: choices, rewards, starts of jobs, and figures."""

    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    starts: dict[str, float] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)


def played(env: SchedulingEnv, agent: Agent, seed: int | None = None, **options: Any) -> Played:
    """Play an episode. Each observation must be in the declared space."""
    found = Played()
    observation, info = env.reset(seed=seed, options=options or None)
    is_over = False
    while not is_over:
        assert observation in env.observation_space
        mask = info["action_mask"].astype(bool)
        assert (mask == env.action_masks()).all()
        assert mask.any()
        action = int(agent(observation, mask))
        before = {job.id: job for job in env.waiting()}
        now = info["now"]
        observation, reward, is_over, truncated, info = env.step(action)
        assert not truncated
        found.actions.append(action)
        found.rewards.append(reward)
        found.starts |= {name: now for name, job in before.items() if job.started_at == now}
    assert observation in env.observation_space
    assert info["action_mask"].tolist() == [0] * (env.action_space.n - 1) + [1]  # type: ignore[attr-defined]
    found.figures = info["figures"]
    return found
