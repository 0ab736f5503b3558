"""Schedules through the protocols of Batsim 4 and 5 are equal, except that Batsim 5 calls at whole milliseconds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from support.examples import examples
from support.fingerprints import POLICIES, outages, setting

from pybatsched.core import decisions as d
from pybatsched.protocol import Message, v4
from pybatsched.protocol.v5_decisions import milliseconds
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for

OUTLIVE_OUTAGES = {"fcfs", "easy", "conservative", "dbf"}  # as generated; other jobs may wait for machines for ever
N_WORKLOADS = examples(60).max_examples  # for each policy
N_OF_MORE = examples(200).max_examples  # where there is time


def on_milliseconds(workload: Workload) -> Workload:
    """Put all times of a workload on whole milliseconds, on which Batsim 5 can call."""
    for job in workload.jobs:
        for key in ("subtime", "walltime", "estimate", "max_stay"):
            if key in job:
                job[key] = max(round(job[key], 3), 0.001 if key != "subtime" else 0.0)
    for profile in workload.profiles.values():
        profile["delay"] = max(round(profile["delay"], 3), 0.001)
    return workload


def later(session: Session, moved: list[float]) -> Callable[[bytes], bytes]:
    """Let a session's calls come at the next whole millisecond; gives those that were moved, too."""

    def on_whole(decision: d.Decision) -> d.Decision:
        if not isinstance(decision, d.CallMeLater) or milliseconds(decision.at) / 1000 == decision.at:
            return decision
        moved.append(decision.at)
        return replace(decision, at=milliseconds(decision.at) / 1000)

    def handle(raw: bytes) -> bytes:
        message = v4.decode_decisions(session.handle(raw))
        return v4.encode_decisions(Message(message.now, tuple(map(on_whole, message.items))))

    return handle


def drawn(policy: str, seed: int) -> tuple[Workload, dict[str, Any], dict[str, Any]]:
    """Draw a workload, what else the simulation is made of, and options; every second one on whole milliseconds."""
    dice = random.Random(f"both {policy} {seed}")
    workload, n_procs, hosts, options = setting(policy, dice)
    events = outages(dice) if policy in OUTLIVE_OUTAGES else []
    if seed % 2:
        on_milliseconds(workload)
    return workload, {"n_procs": n_procs, "hosts": hosts, "machine_events": events}, options


def became(fake: FakeBatsim) -> tuple[list[tuple[str, float | None, float | None, str, str]], bool]:
    """Results of jobs: all but the metadata, which Batsim 5 does not get."""
    jobs = fake.jobs.values()
    return sorted((job.id, job.started_at, job.ended_at, str(job.procs), job.final_state) for job in jobs), (
        fake.deadlocked
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("n", [N_WORKLOADS, pytest.param(N_OF_MORE, marks=pytest.mark.long)])
def test_schedules_are_the_same_through_both_protocols(n: int, policy: str) -> None:
    n_moved = 0
    for seed in range(n):
        workload, world, options = drawn(policy, seed)
        plan = plan_for(policy, **options)
        needed = {need.config_key: True for need in plan.source.cls.needs}
        moved: list[float] = []
        four = FakeBatsim(workload, config=needed, **world).run(later(Session(plan), moved))
        five = FakeBatsim(workload, batsim=5, **world).run(Session(plan).handle)
        assert became(four) == became(five), seed
        n_moved += bool(moved)
    assert n_moved < n / 2  # in all others nothing was moved: there, both are the same as they are
