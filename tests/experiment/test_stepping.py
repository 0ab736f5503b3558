"""Simulations that run step by step: exact states, copies, and other policies that take over."""

from __future__ import annotations

import csv
import math
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.places import ROOT

from pybatsched.core import decisions as d, events as e
from pybatsched.core.cluster import Cluster
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job
from pybatsched.core.policy import Policy
from pybatsched.errors import InputError, PolicyError
from pybatsched.experiment.stepping import JobView, Simulation
from pybatsched.platform.model import uniform
from pybatsched.policies.registry import PolicyPlan, PolicySource, find
from pybatsched.simulator.external_events import AVAILABLE, UNAVAILABLE, ExternalEvent
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.simulator.outputs.files import Outputs
from pybatsched.simulator.run import run_policy, with_needs
from pybatsched.testing import Workload
from pybatsched.workload import model

N_PROCS = 8
AGENT = f"{ROOT / 'tests' / 'support' / 'agents.py'}:by_numbers"
#: All included policies, with options.
POLICIES: dict[str, dict[str, Any]] = {
    "fcfs": {},
    "easy": {},
    "conservative": {},
    "dbf": {},
    "ujf": {},
    "ujfb": {"swap": "fixed", "swap_out": 1, "swap_in": 2},
    "redirection": {"group_size": 4, "theta": 1},
    "reallocation": {"period": 10, "threshold": 1},
    "locality": {},
    "rl": {"agent": AGENT},
}
NAMES = st.sampled_from(sorted(POLICIES))
SEEDS = st.integers(0, 2**32)
#: Two nodes, which are two clusters, for the policies that read these properties.
HOSTS = [
    {"node": f"n{i // 4}", "cluster": f"c{i // 4}", "memory_gb": "16", "fs_bw_gbps": "0.5", "vh": str(i // 4)}
    for i in range(N_PROCS)
]


def plan(name: str, **options: Any) -> PolicyPlan:
    return PolicyPlan(find(name), {**POLICIES[name], **options}, trusted=True)


def own(cls: type[Policy]) -> PolicyPlan:
    return PolicyPlan(PolicySource(cls.__name__, cls, "here"))


def scenario(jobs: Workload, n_procs: int = N_PROCS, *, dynamic: bool = False, **inputs: Any) -> Scenario:
    log = model.Workload(jobs.jobs, jobs.profiles, n_procs, "w.json")
    options = SimulationOptions(dynamic_jobs=dynamic)
    properties = HOSTS if n_procs == N_PROCS else ()
    return Scenario(uniform(n_procs, properties=properties), {"w0": log}, options, **inputs)


def crowd(seed: int, n_jobs: int = 30) -> Workload:
    """Draw jobs for all policies: they meet, some are urgent, some have deadlines or files, some end early or late."""
    dice = random.Random(seed)
    jobs, at = Workload(), 0.0
    for index in range(n_jobs):
        at += dice.choice([0, 0, 1, 2, 4])
        run_s = dice.choice([1, 2, 5, 9, 20])
        estimate = max(run_s + dice.choice([0, 0, 3, 20, -1]), 1)
        fields: dict[str, Any] = {"urgent": not dice.randrange(5)}
        if not dice.randrange(4):
            fields["max_stay"] = estimate + dice.choice([0, 30, 100])
        if not dice.randrange(3):
            fields |= {"input_file": dice.choice("abc"), "input_size_gb": 2}
        if not dice.randrange(6):
            fields["moldable"] = {"fraction": 0.8, "limit": 4}
        walltime = max(run_s, estimate) + 1
        jobs.job(f"{index:02}", n=dice.randint(1, 4), s=run_s, at=at, estimate=estimate, walltime=walltime, **fields)
    return jobs


def outages(seed: int) -> list[list[ExternalEvent]]:
    """Draw machines that become unavailable and come back."""
    dice = random.Random(seed)
    found = []
    for nth in range(dice.randrange(3)):
        procs = IntervalSet([dice.randrange(N_PROCS)])
        at = 10.0 * (nth + 1)
        found += [
            ExternalEvent(at, UNAVAILABLE, procs, {}, 2 * nth),
            ExternalEvent(at + 5, AVAILABLE, procs, {}, 2 * nth + 1),
        ]
    return [found] if found else []


def rows(prefix: Path) -> list[dict[str, str]]:
    with Path(f"{prefix}_jobs.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def whole_run(inputs: Scenario, which: PolicyPlan, prefix: Path) -> str:
    options = with_needs(inputs.options, which)
    inputs = Scenario(inputs.platform, inputs.workloads, options, inputs.event_lists, inputs.ends_at)
    run_policy(inputs, which, Outputs(str(prefix)))
    return Path(f"{prefix}_jobs.csv").read_text()


# --- worked examples ---


def four_jobs() -> Workload:
    """Four processors. EASY starts c before b: it ends by the shadow time of b, 10."""
    jobs = Workload()
    jobs.job("a", n=3, s=10, at=0, walltime=20, estimate=10, user="ann")
    jobs.job("b", n=4, s=5, at=2, walltime=6)
    jobs.job("c", n=1, s=6, at=3, walltime=7)
    jobs.job("d", n=2, s=1, at=4, walltime=7)
    return jobs


def state(sim: Simulation) -> tuple[float, list[str], list[str], str]:
    return sim.now, [job.id[3:] for job in sim.waiting], [job.id[3:] for job in sim.running], str(sim.free)


def test_each_step_has_the_state_after_its_reply() -> None:
    sim = Simulation(scenario(four_jobs(), 4), plan("easy"), checked=True)
    assert state(sim) == (0.0, [], [], "0-3")
    assert (sim.n_messages, sim.last_events, sim.last_decisions, sim.is_over) == (0, (), (), False)
    expected = [
        (0.0, [], [], "0-3"),  # SIMULATION_BEGINS
        (0.0, [], ["a"], "3"),
        (2.0, ["b"], ["a"], "3"),
        (3.0, ["b"], ["a", "c"], ""),
        (4.0, ["b", "d"], ["a", "c"], ""),
        (4.0, ["b", "d"], ["a", "c"], ""),  # no more static jobs
        (9.0, ["b", "d"], ["a"], "3"),
        (10.0, ["d"], ["b"], ""),
        (15.0, [], ["d"], "2-3"),
        (16.0, [], [], "0-3"),
        (16.0, [], [], "0-3"),  # SIMULATION_ENDS
    ]
    found = []
    while sim.step():
        found.append(state(sim))
        assert sim.n_messages == len(found)
        assert (sim.n_waiting, sim.n_running, sim.n_free) == (len(sim.waiting), len(sim.running), len(sim.free))
    assert found == expected
    assert sim.is_over
    assert not sim.step()


def test_jobs_events_and_decisions_can_be_read() -> None:
    sim = Simulation(scenario(four_jobs(), 4), plan("easy"))
    assert sim.run_until(lambda sim: sim.n_waiting == 1)
    (job,) = sim.running
    procs = IntervalSet.parse("0-2")
    assert job == JobView("w0!a", "running", 3, 0.0, 0.0, procs, 10.0, 20.0, job.fields)
    assert job.fields["user"] == "ann"
    (waiting,) = sim.waiting
    assert waiting == JobView("w0!b", "waiting", 4, 2.0, None, None, 6.0, 6.0, waiting.fields)
    assert [event.job_id for event in sim.last_events if isinstance(event, e.JobSubmitted)] == ["w0!b"]
    assert not sim.last_decisions
    sim.step()
    (decision,) = sim.last_decisions
    assert isinstance(decision, d.ExecuteJob)
    assert (decision.job_id, str(decision.procs)) == ("w0!c", "3")
    assert waiting.state == "waiting"  # a record of its time
    assert repr(sim) == "<Simulation of easy, at 3: 1 waiting, 2 running, 0 processors free>"


def test_a_run_stops_before_a_message_that_is_later() -> None:
    sim = Simulation(scenario(four_jobs(), 4), plan("easy"))
    for until, now in ((-1, 0.0), (0, 0.0), (2, 2.0), (2.5, 2.0), (9, 9.0), (9.999, 9.0), (10, 10.0)):
        sim.run(until=until)
        assert sim.now == now
        assert not sim.is_over
    assert sim.n_messages == 8
    sim.run(until=math.inf)
    assert sim.is_over
    sim.run()
    with pytest.raises(InputError, match="until is 'noon'; expected a simulated time in seconds"):
        sim.run(until="noon")  # type: ignore[arg-type]


def test_a_condition_that_never_holds_is_false_at_the_end() -> None:
    sim = Simulation(scenario(four_jobs(), 4), plan("easy"))
    assert not sim.run_until(lambda sim: sim.n_waiting > 2)
    assert sim.is_over
    assert sim.run_until(lambda sim: sim.is_over)


def test_the_result_is_that_of_a_run_and_before_the_end_what_is_known() -> None:
    inputs = scenario(four_jobs(), 4)
    sim = Simulation(inputs, plan("easy"))
    sim.run(until=10)
    early = sim.result()
    assert (early.finished, early.ended_at, early.figures.n_jobs, early.n_messages) == (False, 10.0, 2, 8)
    assert early.stopped == "the simulation is not over; it is at 10"
    sim.run()
    assert sim.result() == run_policy(inputs, plan("easy"), Outputs(None))
    assert sim.result() is sim.result()


def test_jobs_that_never_start_are_in_the_result() -> None:
    class Idle(Policy):
        def decide(self, now: float) -> list[d.Decision]:
            return []

    sim = Simulation(scenario(four_jobs(), 4), own(Idle))
    sim.run()
    assert sim.is_over
    assert not sim.result().finished
    assert [one.job_id for one in sim.result().stuck] == ["w0!a", "w0!b", "w0!c", "w0!d"]
    assert state(sim)[1] == ["a", "b", "c", "d"]
    assert sim.copy().result() == sim.result()


# --- equal to a whole run ---


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_steps_write_the_same_rows_as_a_run(name: str, tmp_path: Path) -> None:
    inputs = scenario(crowd(7), event_lists=outages(7))
    expected = whole_run(inputs, plan(name), tmp_path / "whole")
    sim = Simulation(inputs, plan(name), Outputs(str(tmp_path / "steps")), checked=True)
    assert not (tmp_path / "steps_jobs.csv").exists()
    while sim.step():
        pass
    assert (tmp_path / "steps_jobs.csv").read_text() == expected
    for suffix in ("_schedule.csv", "_machine_states.csv"):
        assert (tmp_path / f"steps{suffix}").read_text() == (tmp_path / f"whole{suffix}").read_text()
    assert len(expected.splitlines()) > 30


@examples(200)
@given(NAMES, SEEDS, st.integers(1, 30), st.integers(0, 80))
def test_a_copy_and_its_original_go_on_as_the_uninterrupted_run(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int, n_jobs: int, n_steps: int
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    inputs = scenario(crowd(seed, n_jobs), event_lists=outages(seed))
    expected = whole_run(inputs, plan(name), folder / "whole")
    sim = Simulation(inputs, plan(name), Outputs(str(folder / "sim")))
    for _ in range(n_steps):
        sim.step()
    copy = sim.copy(Outputs(str(folder / "copy")))
    silent = sim.copy()
    for other in (copy, silent):
        assert (state(other), other.n_messages, other.is_over) == (state(sim), sim.n_messages, sim.is_over)
        assert (other.last_events, other.last_decisions) == (sim.last_events, sim.last_decisions)
        assert other.waiting == sim.waiting
        assert other.running == sim.running
    copy.run()
    if n_steps < 3:
        assert state(silent) == state(sim)  # independent
    sim.run()
    silent.run()
    assert (folder / "sim_jobs.csv").read_text() == expected
    assert (folder / "copy_jobs.csv").read_text() == expected
    assert sim.result() == copy.result() == silent.result()
    assert {path.name.partition("_")[0] for path in folder.iterdir()} <= {"whole", "sim", "copy"}


# --- mistakes and interrupts ---


class Dice(Policy):
    """Decides at random, without a seed that is the same each time."""

    seeds: Iterator[int]

    def on_begin(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.dice = random.Random(next(self.seeds))

    def decide(self, now: float) -> Iterator[d.Decision]:
        (partition,) = self.cluster.partitions.values()
        for job in list(self.cluster.jobs.values()):
            if job.procs is None and job.n_procs <= partition.n_free:
                procs = IntervalSet(self.dice.sample(sorted(partition.free), job.n_procs))
                yield d.ExecuteJob(job.id, procs)


def test_a_policy_that_decides_otherwise_when_it_is_repeated_cannot_be_copied() -> None:
    Dice.seeds = iter(range(9))
    sim = Simulation(scenario(crowd(1)), own(Dice))
    sim.run(until=10)
    with pytest.raises(InputError, match="policy Dice: its reply to message 2 differs when the run is repeated"):
        sim.copy()
    sim.run()
    assert sim.result().finished


class Wrong(Policy):
    """Fails at the third job, as long as it is told to."""

    is_wrong = True

    def on_begin(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.n = 0

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.n += 1
        if self.n == 3 and Wrong.is_wrong:
            raise ValueError("three")

    def decide(self, now: float) -> Iterator[d.Decision]:
        (partition,) = self.cluster.partitions.values()
        for job in list(self.cluster.jobs.values()):
            if job.procs is None and job.n_procs <= partition.n_free:
                yield d.ExecuteJob(job.id, partition.free.first(job.n_procs))


def test_an_error_in_a_step_leaves_the_state_before_it() -> None:
    Wrong.is_wrong = True
    sim = Simulation(scenario(four_jobs(), 4), own(Wrong))
    for _ in range(2):
        with pytest.raises(PolicyError, match="ValueError: three"):
            sim.run()
        assert state(sim) == (2.0, ["b"], ["a"], "3")
        assert sim.n_messages == 3
    copy = sim.copy()
    Wrong.is_wrong = False
    for one in (sim, copy):
        one.run()
        assert one.result().finished


def test_an_error_of_the_simulator_is_one_of_the_policy() -> None:
    class Stamped(Wrong):
        def busy_until(self, now: float) -> float:
            return now + 1e-3

        def decide(self, now: float) -> Iterator[d.Decision]:
            yield d.Query({"consumed_energy": {}})

    with pytest.raises(PolicyError, match="what Batsim refuses"):
        Simulation(scenario(four_jobs(), 4), own(Stamped)).run()


class Interrupting(Wrong):
    """Interrupts the process in a decision, once; twice if `n_interrupts` says so."""

    n_interrupts = 0

    def decide(self, now: float) -> Iterator[d.Decision]:
        if now == 3:
            while Interrupting.n_interrupts:
                Interrupting.n_interrupts -= 1
                os.kill(os.getpid(), signal.SIGINT)
        yield from super().decide(now)


@pytest.mark.parametrize(("n_interrupts", "n_messages"), [(1, 4), (2, 3)])
@pytest.mark.parametrize("method", ["run", "run_until", "step"])
def test_an_interrupt_leaves_the_simulation_usable(method: str, n_interrupts: int, n_messages: int) -> None:
    Wrong.is_wrong = False
    Interrupting.n_interrupts = n_interrupts
    sim = Simulation(scenario(four_jobs(), 4), own(Interrupting))
    with pytest.raises(KeyboardInterrupt):
        if method == "run":
            sim.run()
        elif method == "run_until":
            sim.run_until(lambda _: False)
        else:
            while sim.step():
                pass
    assert sim.n_messages == n_messages
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    sim.run()
    assert sim.result().finished


# --- another policy takes over ---


def replaced(sim: Simulation, which: PolicyPlan) -> None:
    """Replace the policy, after the answer to a pending kill if there is one."""
    try:
        sim.replace_policy(which)
    except InputError as error:
        assert "is being killed by policy" in str(error)
        before = sim.now
        sim.step()
        assert sim.now <= before + 1e-5
        replaced(sim, which)


def valid(found: list[dict[str, str]]) -> None:
    """Assert that no processor has two jobs at once, and that no job starts before its submission."""
    spans: list[tuple[int, float, float]] = []
    for row in found:
        if row["final_state"] == "REJECTED":
            continue
        assert float(row["starting_time"]) >= float(row["submission_time"])
        start, end = float(row["starting_time"]), float(row["finish_time"])
        spans += [(proc, start, end) for proc in IntervalSet.parse(row["allocated_resources"])]
    spans.sort()
    for (proc, _, end), (other, start, _) in zip(spans, spans[1:], strict=False):
        assert proc != other or end <= start + 2e-5


@examples(400)
@given(NAMES, NAMES, SEEDS, st.integers(1, 30), st.lists(st.integers(0, 40), min_size=1, max_size=3), st.booleans())
def test_every_policy_can_take_over_from_every_other_at_any_step(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    other: str,
    seed: int,
    n_jobs: int,
    steps: list[int],
    fails: bool,
) -> None:
    prefix = tmp_path_factory.mktemp("runs") / "run"
    lists = outages(seed) if fails else []
    inputs = scenario(crowd(seed, n_jobs), dynamic=True, event_lists=lists)
    sim = Simulation(inputs, plan(name), Outputs(str(prefix)), checked=True)
    for nth, n_steps in enumerate(steps):
        for _ in range(n_steps):
            sim.step()
        if sim.is_over:
            break
        replaced(sim, plan(other if nth % 2 == 0 else name))
    copy = sim.copy()
    assert (state(copy), copy.last_decisions) == (state(sim), sim.last_decisions)
    sim.run()
    copy.run()
    assert copy.result() == sim.result()
    valid(rows(prefix))
    result = sim.result()
    assert result.finished, result.stuck
    assert result.figures.n_jobs == n_jobs
    assert set(result.figures.n_by_state) <= {"COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED"}, result


@examples(100)
@given(st.sampled_from(["fcfs", "ujf"]), SEEDS, st.integers(1, 30), st.sets(st.integers(0, 60), max_size=5))
def test_a_policy_without_memory_goes_on_as_before_if_it_takes_over_from_itself(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int, n_jobs: int, steps: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    inputs = scenario(crowd(seed, n_jobs), event_lists=outages(seed))
    expected = whole_run(inputs, plan(name), folder / "whole")
    sim = Simulation(inputs, plan(name), Outputs(str(folder / "sim")), checked=True)
    for nth in sorted(steps):
        while sim.n_messages < nth and sim.step():
            pass
        if not sim.is_over:
            sim.replace_policy(plan(name))
    sim.run()
    assert (folder / "sim_jobs.csv").read_text() == expected


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_policy_that_takes_over_before_the_first_step_has_the_whole_run(name: str, tmp_path: Path) -> None:
    inputs = scenario(crowd(3))
    expected = whole_run(inputs, plan(name), tmp_path / "whole")
    sim = Simulation(inputs, plan("fcfs"), Outputs(str(tmp_path / "sim")), checked=True)
    sim.replace_policy(plan(name))
    sim.run()
    assert (tmp_path / "sim_jobs.csv").read_text() == expected
