"""Simulations that run step by step: exact states, copies, and replaced policies."""

from __future__ import annotations

import itertools
import math
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.places import ROOT
from support.simulated import rows

import pybatsched as pb
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
from pybatsched.simulator.outputs.files import batsim_files
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


def test_a_simulation_warns_at_its_end_as_simulate_does() -> None:
    log = pb.generate_workload("lublin", n_jobs=10, n_procs=8, seed=1)
    texts = []
    for run in (
        lambda: pb.simulate(log, "easy", n_procs=2, progress=False),
        lambda: pb.Simulation(log, "easy", n_procs=2).run(),
    ):
        with pytest.warns(UserWarning, match="rejected") as found:
            run()
        texts.append([str(one.message) for one in found])
        assert {Path(one.filename).name for one in found} == {Path(__file__).name}
    assert texts[0] == texts[1]
    assert texts[0][-1].startswith("easy: 1 job rejected, first reason: ")


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


def whole_run(inputs: Scenario, which: PolicyPlan, prefix: Path) -> str:
    options = with_needs(inputs.options, which)
    inputs = Scenario(inputs.platform, inputs.workloads, options, inputs.event_lists, inputs.ends_at)
    run_policy(inputs, which, batsim_files(str(prefix)))
    return Path(f"{prefix}_jobs.csv").read_text()


class Idle(Policy):
    """Starts nothing."""

    def decide(self, now: float) -> list[d.Decision]:
        return []


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
    sim = Simulation.of(scenario(four_jobs(), 4), plan("easy"), checked=True)
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
    sim = Simulation.of(scenario(four_jobs(), 4), plan("easy"))
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
    sim = Simulation.of(scenario(four_jobs(), 4), plan("easy"))
    for until, now in ((-1, 0.0), (0, 0.0), (2, 2.0), (2.5, 2.0), (9, 9.0), (9.999, 9.0), (10, 10.0)):
        sim.run(until=until)
        assert sim.now == now
        assert not sim.is_over
    assert sim.n_messages == 8
    sim.run(until=math.inf)
    assert sim.is_over
    sim.run()
    with pytest.raises(InputError, match="until: expected a number or None, found 'noon'"):
        sim.run(until="noon")  # type: ignore[arg-type]


def test_a_condition_that_never_holds_is_false_at_the_end() -> None:
    sim = Simulation.of(scenario(four_jobs(), 4), plan("easy"))
    assert not sim.run_until(lambda sim: sim.n_waiting > 2)
    assert sim.is_over
    assert sim.run_until(lambda sim: sim.is_over)


def test_the_result_before_the_end_has_the_known_figures() -> None:
    inputs = scenario(four_jobs(), 4)
    sim = Simulation.of(inputs, plan("easy"))
    sim.run(until=10)
    early = sim.result()
    assert (early.finished, early.ended_at, early.figures.n_jobs, early.n_messages) == (False, 10.0, 2, 8)
    assert early.stopped == "the simulation is not over; it is at 10"
    sim.run()
    assert sim.result() == run_policy(inputs, plan("easy"))
    assert sim.result() is sim.result()


@pytest.mark.parametrize("ends_at", [0.0, 3.0, 12.0, 15.5])
def test_a_truncated_simulation_has_the_result_of_a_truncated_run(ends_at: float) -> None:
    inputs = scenario(four_jobs(), 4, ends_at=ends_at)
    sim = Simulation.of(inputs, plan("easy"))
    sim.run()
    assert sim.is_over
    assert sim.result() == run_policy(inputs, plan("easy"))
    assert sim.result() == sim.copy().result()


def test_jobs_that_never_start_are_in_the_result() -> None:
    sim = Simulation.of(scenario(four_jobs(), 4), own(Idle))
    sim.run()
    assert sim.is_over
    assert not sim.result().finished
    assert [one.job_id for one in sim.result().stuck] == ["w0!a", "w0!b", "w0!c", "w0!d"]
    assert state(sim)[1] == ["a", "b", "c", "d"]
    assert sim.copy().result() == sim.result()


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_steps_write_the_same_rows_as_a_run(name: str, tmp_path: Path) -> None:
    inputs = scenario(crowd(7), event_lists=outages(7))
    expected = whole_run(inputs, plan(name), tmp_path / "whole")
    sim = Simulation.of(inputs, plan(name), batsim_files(str(tmp_path / "steps")), checked=True)
    assert not (tmp_path / "steps_jobs.csv").exists()
    while sim.step():
        pass
    assert (tmp_path / "steps_jobs.csv").read_text() == expected
    for suffix in ("_schedule.csv", "_machine_states.csv"):
        assert (tmp_path / f"steps{suffix}").read_text() == (tmp_path / f"whole{suffix}").read_text()
    assert len(expected.splitlines()) > 30


@examples(200)
@given(NAMES, SEEDS, st.integers(1, 30), st.integers(0, 80))
def test_a_copy_and_its_original_continue_as_the_uninterrupted_run(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int, n_jobs: int, n_steps: int
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    inputs = scenario(crowd(seed, n_jobs), event_lists=outages(seed))
    expected = whole_run(inputs, plan(name), folder / "whole")
    sim = Simulation.of(inputs, plan(name), batsim_files(str(folder / "sim")))
    for _ in range(n_steps):
        sim.step()
    copy = sim.copy(batsim_files(str(folder / "copy")))
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


class Dice(Policy):
    """Decides at random, with a different seed each time."""

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
    sim = Simulation.of(scenario(crowd(1)), own(Dice))
    sim.run(until=10)
    with pytest.raises(InputError, match="policy Dice: its reply to message 2 differs when the run is repeated"):
        sim.copy()
    sim.run()
    assert sim.result().finished


class Wrong(Policy):
    """Fails at the third job while `is_wrong` is set."""

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
    sim = Simulation.of(scenario(four_jobs(), 4), own(Wrong))
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
        Simulation.of(scenario(four_jobs(), 4), own(Stamped)).run()


class Interrupting(Wrong):
    """Interrupts the process in a decision, `n_interrupts` times."""

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
    sim = Simulation.of(scenario(four_jobs(), 4), own(Interrupting))
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
    for (proc, _, end), (other, start, _) in itertools.pairwise(spans):
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
    sim = Simulation.of(inputs, plan(name), batsim_files(str(prefix)), checked=True)
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
    valid(rows(Path(f"{prefix}_jobs.csv")))
    result = sim.result()
    assert result.finished, result.stuck
    assert result.figures.n_jobs == n_jobs
    assert set(result.figures.n_by_state) <= {"COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED"}, result


@examples(100)
@given(st.sampled_from(["fcfs", "ujf"]), SEEDS, st.integers(1, 30), st.sets(st.integers(0, 60), max_size=5))
def test_a_policy_without_state_continues_as_before_if_it_replaces_itself(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int, n_jobs: int, steps: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    inputs = scenario(crowd(seed, n_jobs), event_lists=outages(seed))
    expected = whole_run(inputs, plan(name), folder / "whole")
    sim = Simulation.of(inputs, plan(name), batsim_files(str(folder / "sim")), checked=True)
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
    sim = Simulation.of(inputs, plan("fcfs"), batsim_files(str(tmp_path / "sim")), checked=True)
    sim.replace_policy(plan(name))
    sim.run()
    assert (tmp_path / "sim_jobs.csv").read_text() == expected


@examples(50)
@given(SEEDS, st.lists(st.sampled_from([{}, {"predict": "last2"}, {"expected_repair_s": 60.0}]), max_size=5))
def test_features_of_the_engine_can_be_added_and_removed(
    tmp_path_factory: pytest.TempPathFactory, seed: int, given_options: list[dict[str, Any]]
) -> None:
    """A checked engine has no short way for replies without such features."""
    folder = tmp_path_factory.mktemp("runs")
    for checked in (False, True):
        outputs = batsim_files(str(folder / f"{checked}"))
        sim = Simulation.of(scenario(crowd(seed, 30)), plan("easy"), outputs, checked=checked)
        for options in given_options:
            for _ in range(8):
                sim.step()
            if not sim.is_over:
                sim.replace_policy(plan("easy", **options))
        sim.run()
    assert (folder / "False_jobs.csv").read_text() == (folder / "True_jobs.csv").read_text()


def jobs_of(*described: tuple[str, int, float, float], **fields: Any) -> Workload:
    """Make jobs of (name, processors, run time, submission) with exact estimates."""
    jobs = Workload()
    for name, n, run_s, at in described:
        jobs.job(name, n=n, s=run_s, at=at, walltime=run_s + 1, estimate=run_s, **fields)
    return jobs


def starts(sim: Simulation) -> dict[str, tuple[float, str]]:
    """Run to the end. Give the start and the processors of each job that is unfinished before."""
    found: dict[str, tuple[float, str]] = {}
    is_left = True
    while is_left:
        for job in sim.running:
            assert job.started_at is not None
            found[job.id[3:]] = (job.started_at, str(job.procs))
        is_left = sim.step()
    assert sim.result().finished
    return found


def test_the_new_policy_decides_at_once() -> None:
    """FCFS leaves c behind b; EASY starts it at the time of the replacement, at any state of the simulator."""
    jobs = jobs_of(("a", 3, 10, 0), ("b", 4, 5, 2), ("c", 1, 6, 3))
    sim = Simulation.of(scenario(jobs, 4), plan("fcfs"), checked=True)
    sim.run(until=3.5)  # the next message, at 10, is known
    assert state(sim) == (3.0, ["b", "c"], ["a"], "3")
    early = sim.result()
    other = sim.copy()
    sim.replace_policy(plan("easy"))
    assert state(sim) == (3.0, ["b"], ["a", "c"], "")
    assert [type(decision) for decision in sim.last_decisions] == [d.ExecuteJob]
    assert sim.result().figures == early.figures
    assert starts(sim) == {"a": (0.0, "0-2"), "b": (10.0, "0-3"), "c": (3.0, "3")}
    assert starts(other) == {"a": (0.0, "0-2"), "b": (10.0, "0-3"), "c": (15.0, "0")}


def test_waiting_jobs_are_in_order_of_submission() -> None:
    """The queue of the old policy was in another order."""
    jobs = jobs_of(("a", 4, 10, 0), ("long", 4, 9, 1), ("short", 4, 2, 2))
    sim = Simulation.of(scenario(jobs, 4), plan("fcfs", order="sjf"), checked=True)
    sim.run(until=5)
    sim.replace_policy(plan("conservative"))
    assert starts(sim) == {"a": (0.0, "0-3"), "long": (10.0, "0-3"), "short": (19.0, "0-3")}


def test_a_job_across_partitions_keeps_its_processors_until_it_ends() -> None:
    """Redirection has 0-3 and 4-7. Job a runs on 0-5, so 0-5 are unavailable; b waits, although c would not."""
    jobs = jobs_of(("a", 6, 10, 0), ("b", 3, 5, 2), ("c", 2, 5, 3))
    sim = Simulation.of(scenario(jobs, dynamic=True), plan("fcfs"), checked=True)
    sim.run(until=2)
    sim.replace_policy(plan("redirection"))
    assert state(sim) == (2.0, ["b"], ["a"], "6-7")
    assert starts(sim) == {"a": (0.0, "0-5"), "b": (10.0, "0-2"), "c": (15.0, "0-1")}


def test_a_running_job_is_known_to_policies_that_plan() -> None:
    """Job c is backfilled only because the end of a is known."""
    jobs = jobs_of(("a", 3, 10, 0), ("b", 4, 5, 2), ("c", 1, 8, 3), ("d", 1, 6, 3))
    for name in ("easy", "conservative", "dbf", "ujfb"):
        sim = Simulation.of(scenario(jobs, 4, dynamic=True), plan("fcfs"), checked=True)
        sim.run(until=2)
        sim.replace_policy(plan(name))
        assert starts(sim) == {"a": (0.0, "0-2"), "b": (10.0, "0-3"), "d": (3.0, "3"), "c": (15.0, "0")}


def test_ujfb_preempts_a_job_that_another_policy_started() -> None:
    jobs = jobs_of(("a", 8, 20, 0))
    jobs.job("u", n=8, s=5, at=4, walltime=6, estimate=5, urgent=True)
    sim = Simulation.of(scenario(jobs, dynamic=True), plan("fcfs"), checked=True)
    sim.run(until=5)
    sim.replace_policy(plan("ujfb", swap_out=0, swap_in=0))
    with pytest.raises(InputError, match="job w0!a is being killed by policy ujfb; expected no pending kill"):
        sim.replace_policy(plan("fcfs"))
    assert [job.id for job in sim.running] == ["w0!a"]  # nothing has changed
    sim.step()
    assert state(sim) == (4.0, ["a"], ["u"], "")
    sim.run()
    assert sim.result().figures.makespan_s == pytest.approx(25, abs=1e-3)
    assert sim.result().policy_figures["n_preemptions"] == 1


def test_a_suspended_job_continues_with_the_rest_of_its_work() -> None:
    jobs = jobs_of(("a", 8, 20, 0), ("b", 8, 1, 3))
    jobs.job("u", n=8, s=5, at=4, walltime=6, estimate=5, urgent=True)
    sim = Simulation.of(scenario(jobs), plan("ujfb", swap_out=0, swap_in=0), checked=True)
    sim.run(until=5)
    assert state(sim) == (4.0, ["a", "b"], ["u"], "")
    sim.replace_policy(plan("fcfs"))
    assert sim.waiting[0].estimate == 16
    found = starts(sim)
    assert (found["u"][0], found["a"][0], found["b"][0]) == (4.0, 9.0, 25.0)


def test_a_held_job_is_released() -> None:
    """During the swap-out the urgent job is held on its processors; FCFS starts it in its turn."""
    jobs = jobs_of(("a", 8, 20, 0))
    jobs.job("u", n=8, s=5, at=4, walltime=6, estimate=5, urgent=True)
    sim = Simulation.of(scenario(jobs), plan("ujfb", swap_out=3), checked=True)
    sim.run(until=5)
    assert [(job.id, job.state) for job in sim.waiting] == [("w0!a", "waiting"), ("w0!u", "held")]
    sim.replace_policy(plan("ujf"))
    assert state(sim) == (4.0, ["a"], ["u"], "")
    assert sim.copy().running == sim.running
    sim.run()
    assert sim.result().finished


def test_a_job_gets_back_the_shape_and_the_estimate_of_its_user() -> None:
    jobs = jobs_of(("a", 4, 20, 0), ("b", 4, 20, 0))
    jobs.job("m", n=1, s=10, at=1, walltime=11, estimate=10, moldable={"fraction": 1, "limit": 4})
    jobs.job("w", n=8, s=5, at=2)
    sim = Simulation.of(scenario(jobs), plan("reallocation", local_options={"assume_walltime": 9}), checked=True)
    sim.run(until=1)
    assert [(job.n_procs, job.estimate) for job in sim.waiting] == [(4, 2.5)]
    sim.replace_policy(plan("easy", assume_walltime=7))
    assert [(job.n_procs, job.estimate) for job in sim.waiting] == [(1, 10.0)]
    sim.run(until=2)
    assert [(job.n_procs, job.estimate) for job in sim.waiting] == [(1, 10.0), (8, 7.0)]
    sim.replace_policy(plan("fcfs"))
    assert [(job.n_procs, job.estimate) for job in sim.waiting] == [(1, 10.0), (8, None)]
    assert starts(sim)["m"] == (20.0, "0")


def test_jobs_that_are_too_large_for_the_new_policy_are_rejected() -> None:
    jobs = jobs_of(("a", 4, 20, 0), ("b", 4, 20, 0))
    jobs.job("m", n=9, s=10, at=1, walltime=11, estimate=10, moldable={"fraction": 1, "limit": 4})
    sim = Simulation.of(scenario(jobs), plan("reallocation"), checked=True)
    sim.run(until=1)
    assert state(sim)[1] == ["m"]
    sim.replace_policy(plan("fcfs"))
    assert state(sim)[1] == []
    assert sim.result().rejections == ((1, "asks for 9 processors; the platform has 8"),)
    sim.run()

    sim = Simulation.of(scenario(jobs_of(("a", 8, 20, 0), ("b", 5, 1, 1)), dynamic=True), plan("fcfs"), checked=True)
    sim.run(until=1)
    sim.replace_policy(plan("redirection"))
    sim.run()
    ((n, why),) = sim.result().rejections
    assert (n, why) == (1, "can never fit: asks for 5 processors, partition principal has 4")


class Plain(Wrong):
    """Starts jobs that fit, and records its events."""

    notes: ClassVar[list[str]] = []

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        Plain.notes = ["begin"]

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.notes.append(f"submitted {job.id[3:]}")

    def on_job_ended(self, job: Job, now: float) -> None:
        self.notes.append(f"ended {job.id[3:]}")

    def on_machines_changed(self, procs: IntervalSet, now: float) -> None:
        self.notes.append(f"changed {procs}")

    def on_notify(self, event: e.Notify, now: float) -> None:
        self.notes.append(event.kind)


class Planning(Plain):
    """Takes over running jobs."""

    def take_over(self, job: Job, now: float) -> bool:
        self.notes.append(f"took over {job.id[3:]}, started at {job.started_at}")
        return job.id != "w0!b"


@pytest.mark.parametrize(
    ("cls", "notes"),
    [
        (Plain, f"begin; changed 0-2; submitted c; {e.NO_MORE_STATIC_JOBS}; changed 0; changed 1-2; ended c"),
        (
            Planning,
            (
                "begin; took over a, started at 0.0; took over b, started at 1.0; changed 0-2; submitted c; "
                f"{e.NO_MORE_STATIC_JOBS}; ended a; changed 1-2; ended c"
            ),
        ),
    ],
)
def test_a_policy_learns_of_the_state_by_its_usual_hooks(cls: type[Policy], notes: str) -> None:
    jobs = jobs_of(("a", 1, 10, 0), ("b", 2, 10, 1), ("x", 1, 2, 1), ("c", 4, 5, 2))
    sim = Simulation.of(scenario(jobs, 4), plan("fcfs"), checked=True)
    sim.run(until=2)
    assert state(sim)[1:3] == (["c"], ["a", "b", "x"])
    sim.run(until=3)
    sim.replace_policy(own(cls))
    sim.run()
    assert "; ".join(Plain.notes) == notes
    assert sim.result().finished


def test_machines_that_are_gone_for_good_are_so_for_the_new_policy() -> None:
    """When the last inherited job has ended, it is known that no processor comes back."""
    gone = [ExternalEvent(1.0, UNAVAILABLE, IntervalSet([7]), {})]
    jobs = jobs_of(("a", 6, 10, 0), ("b", 4, 5, 2), ("c", 4, 5, 3))
    jobs.jobs[1] |= {"external": True, "cluster": "c1"}
    sim = Simulation.of(scenario(jobs, dynamic=True, event_lists=[gone]), plan("fcfs"), checked=True)
    sim.run(until=3)
    sim.replace_policy(plan("reallocation"))
    assert state(sim) == (3.0, ["b", "c"], ["a"], "6")
    sim.run()
    assert sim.result().rejections == ((1, "can never fit: asks for 4 processors, partition c1 has 3"),)
    assert sim.result().finished


def test_a_policy_that_starts_nothing_can_be_replaced_when_no_event_is_left() -> None:
    sim = Simulation.of(scenario(four_jobs(), 4), own(Idle), checked=True)
    sim.run()
    assert sim.is_over
    assert not sim.result().finished
    sim.replace_policy(plan("easy"))
    assert repr(sim) == "<Simulation of easy, at 4: 2 waiting, 2 running, 0 processors free>"
    assert state(sim) == (4.0, ["b", "d"], ["a", "c"], "")
    sim.run()
    assert sim.result().finished


def test_a_policy_that_takes_time_to_decide_can_be_replaced() -> None:
    class Slow(Plain):
        def busy_until(self, now: float) -> float:
            return now + 1

    sim = Simulation.of(scenario(four_jobs(), 4), own(Slow), checked=True)
    sim.run(until=3)
    sim.replace_policy(plan("fcfs"))
    sim.replace_policy(own(Slow))
    sim.run()
    assert sim.result().finished


class Registering(Plain):
    """Manages the registration, and registers a job when it begins to decide."""

    manages_registration = True
    is_done = False

    def decide(self, now: float) -> Iterator[d.Decision]:
        yield from super().decide(now)
        if not self.is_done:
            self.is_done = True
            profile = {"type": "delay", "delay": 3}
            yield d.RegisterProfile("own", "p", profile)
            yield d.RegisterJob("own!1", {"id": "own!1", "subtime": now, "res": 1, "profile": "p", "walltime": 4})
            yield d.Notify(d.REGISTRATION_FINISHED)


def test_jobs_registered_by_a_policy_continue_under_another() -> None:
    sim = Simulation.of(scenario(jobs_of(("a", 4, 10, 0)), 4, dynamic=True), plan("fcfs"), checked=True)
    sim.run(until=0)
    sim.replace_policy(own(Registering))  # the registration is open again
    assert [job.id for job in sim.waiting] == ["own!1"]
    sim.replace_policy(plan("easy"))
    sim.run()
    assert (sim.result().finished, sim.result().figures.n_jobs) == (True, 2)


def test_a_policy_that_needs_a_disabled_feature_cannot_take_over() -> None:
    sim = Simulation.of(scenario(four_jobs()), plan("fcfs"))
    sim.step()
    text = "policy ujfb needs dynamic_jobs, which is off in this simulation; expected it on from the start"
    with pytest.raises(InputError, match=text):
        sim.replace_policy(plan("ujfb"))
    assert sim.n_messages == 1
    sim.run()


def test_a_simulation_that_has_finished_or_was_written_keeps_its_policy(tmp_path: Path) -> None:
    sim = Simulation.of(scenario(four_jobs(), 4), plan("fcfs"))
    sim.run()
    with pytest.raises(
        InputError, match="the policy cannot be replaced: the simulation has finished; replace it earlier"
    ):
        sim.replace_policy(plan("easy"))
    sim = Simulation.of(scenario(four_jobs(), 4), own(Idle), batsim_files(str(tmp_path / "sim")))
    sim.run()
    with pytest.raises(InputError, match="the policy cannot be replaced: the results were written already"):
        sim.replace_policy(plan("easy"))
    other = sim.copy()
    other.replace_policy(plan("easy"))
    other.run()
    assert other.result().finished


class Refusing(Plain):
    """Fails in the given hook."""

    where = ""

    def on_begin(self, cluster: Cluster) -> None:
        cluster.add_partition("some", IntervalSet([0]))
        self.fail("on_begin")
        cluster.add_partition("others", cluster.procs - IntervalSet([0]))

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.fail("on_job_submitted")

    def take_over(self, job: Job, now: float) -> bool:
        self.fail("take_over")
        return True

    def decide(self, now: float) -> Iterator[d.Decision]:
        self.fail("decide")
        yield d.ExecuteJob("w0!b", IntervalSet([3]))

    def fail(self, where: str) -> None:
        if self.where == where:
            raise ValueError("no")


@pytest.mark.parametrize("where", ["on_begin", "take_over", "on_job_submitted", "decide", "rule"])
def test_an_error_of_the_new_policy_leaves_the_old_one(where: str) -> None:
    jobs = jobs_of(("x", 1, 9, 0), ("a", 2, 10, 0), ("b", 4, 5, 2), ("c", 1, 6, 3))
    sim = Simulation.of(scenario(jobs, 4), plan("fcfs"), checked=True)
    sim.run(until=3)
    before = (state(sim), sim.n_messages)
    expected = starts(sim.copy())
    Refusing.where = where
    text = (
        "expected the 4 processors that job w0!b requests, found 1"
        if where == "rule"
        else f"{where} raised ValueError: no"
    )
    with pytest.raises(PolicyError, match=text):
        sim.replace_policy(own(Refusing))
    assert (state(sim), sim.n_messages) == before
    assert starts(sim) == expected


def test_fields_of_unfinished_jobs_are_checked_for_the_new_policy() -> None:
    jobs = jobs_of(("a", 4, 10, 0), moldable=3)
    sim = Simulation.of(scenario(jobs, 4, dynamic=True), plan("fcfs"))
    sim.run(until=0)
    with pytest.raises(InputError, match="job w0!a, field moldable"):
        sim.replace_policy(plan("reallocation"))
    with pytest.raises(InputError, match="has no property node"):
        sim.replace_policy(plan("locality"))
    sim.run()
    assert sim.result().finished
