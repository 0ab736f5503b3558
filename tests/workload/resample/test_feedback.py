"""Submissions that depend on the ends of jobs: in the workload, in the simulator, in commands and campaigns."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgpack
import pytest
from hypothesis import given, settings, strategies as st
from support import logs
from support.places import PUSHY, RECORDED, ROOT
from support.process import run_cli, run_process

import pybatsched as pb
from pybatsched import testing
from pybatsched.core import decisions as d
from pybatsched.core.cluster import Cluster
from pybatsched.core.policy import Policy
from pybatsched.core.services.feedback import FEEDBACK_JOBS, Feedback, FollowingJob, following_jobs
from pybatsched.errors import InputError, NotSimulatedError, RemoteProtocolError
from pybatsched.experiment.stepping import Simulation
from pybatsched.platform.model import uniform
from pybatsched.session.explain import explain
from pybatsched.session.journal import JournalReader, JournalWriter
from pybatsched.session.replay import replay
from pybatsched.session.session import Session
from pybatsched.simulator import run as simulator_run
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.workload.model import Workload
from pybatsched.workload.resample.feedback import SESSION_S, held_back, with_feedback
from pybatsched_schedulers.fcfs import Fcfs

CALLING = f"{ROOT / 'tests' / 'support' / 'calling.py'}:Calling"
DYNAMIC = {"dynamic-jobs-enabled": True}


def workload(*jobs: tuple[str | None, float, float, float], n_procs: int = 1) -> Workload:
    """Return jobs of one processor given by user, submission, logged wait (below 0: unknown) and run time."""
    rows: list[dict[str, Any]] = []
    for k, (user, at, wait, run) in enumerate(sorted(jobs, key=lambda job: job[1]), start=1):
        row = {"id": k, "subtime": at, "res": 1, "walltime": run + 1, "profile": f"{run}"}
        row |= {} if user is None else {"user": user}
        rows.append(row | ({} if wait < 0 else {"logged_wait_s": wait}))
    return Workload(rows, {f"{run}": {"type": "delay", "delay": run} for *_, run in jobs}, n_procs, "w.json")


def followed(made: Workload) -> dict[int, tuple[int, float]]:
    return {job["id"]: (job["depends_on"], job["think_time"]) for job in made.jobs if "depends_on" in job}


def test_a_job_follows_the_job_of_its_user_that_ended_last() -> None:
    made = with_feedback(
        workload(
            ("ann", 0, 0, 100),  # 1: ends at 100
            ("ann", 10, 5, 20),  # 2: ends at 35
            ("ann", 50, 0, 5),  # 3: 15 s after the end of 2, while 1 runs
            ("bob", 60, 0, 5),  # 4: the first one of bob
            ("ann", 130, 0, 5),  # 5: 30 s after the end of 1
            ("ann", 135 + SESSION_S, 0, 5),  # 6: at the end of the session of 5
            ("ann", 10_000, 0, 5),  # 7: another session
            (None, 10_010, 0, 5),  # 8: nobody's
            ("cid", 20_000, -1, 5),  # 9: its end is not known
            ("cid", 20_010, 0, 5),  # 10
        )
    )
    assert followed(made) == {3: (2, 15), 5: (1, 30), 6: (5, SESSION_S)}
    assert made.about["feedback"] is True


def test_preceding_jobs_of_the_log_are_kept() -> None:
    log = workload(("ann", 0, 0, 10), ("ann", 15, 0, 10), ("ann", 30, 0, 10))
    log.jobs[2] |= {"depends_on": 1, "think_time": 20}
    assert followed(with_feedback(log)) == {2: (1, 5), 3: (1, 20)}
    bare = workload((None, 0, -1, 10), (None, 15, -1, 10))
    bare.jobs[1] |= {"depends_on": 1, "think_time": 5}
    assert followed(with_feedback(bare)) == {2: (1, 5)}


def test_a_log_without_users_or_waits_is_an_error() -> None:
    for log in (workload((None, 0, 0, 10), (None, 15, 0, 10)), workload(("ann", 0, -1, 10), ("ann", 15, -1, 10))):
        with pytest.raises(InputError, match=r"^w\.json: feedback: expected a log with users and waits, or with prec"):
            with_feedback(log)


def run_of(made: Workload, policy: Any = "fcfs") -> dict[str, list[float]]:
    run = pb.simulate(pb.Log(made, "w"), policy, progress=False)
    assert run.is_finished
    return {job_id: times for job_id, *times in run.jobs.select("id", "submitted_at", "started_at", "ended_at").rows()}


def test_followers_are_submitted_a_think_time_after_the_simulated_end() -> None:
    """One processor: bob's job of 1000 s comes first, so ann's first job ends 1000 s later than in the log."""
    made = with_feedback(workload(("bob", 0, 0, 1000), ("ann", 1, 0, 10), ("ann", 16, 0, 10), ("ann", 31, 0, 10)))
    assert followed(made) == {3: (2, 5), 4: (3, 5)}
    times = run_of(made)
    assert times["w0!2"] == [1, 1000, 1010]
    assert times["w0!3"] == [1015, 1015, 1025]
    assert times["w0!4"] == [1030, 1030, 1040]


def test_on_a_machine_without_limits_the_log_is_repeated() -> None:
    log = workload(*[("ann", 100.0 * k, 0, 30 + k) for k in range(20)], ("bob", 7, 0, 3), n_procs=64)
    times = run_of(with_feedback(log))
    assert {name: row[0] for name, row in times.items()} == {f"w0!{job['id']}": job["subtime"] for job in log.jobs}


def test_a_job_may_wait_for_several_and_a_later_job_is_no_predecessor() -> None:
    log = workload(("a", 0, 0, 50), ("a", 1, 0, 200), ("a", 2, 0, 5), ("a", 3, 0, 5), n_procs=8)
    log.jobs[2] |= {"depends_on": [1, 2], "think_time": 7}
    log.jobs[3] |= {"depends_on": 4}  # itself
    log.about["feedback"] = True
    times = run_of(log)
    assert times["w0!3"][0] == 208  # 201 + 7
    assert times["w0!4"][0] == 3


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 5000), st.integers(0, 500), st.integers(1, 900)),
        min_size=2,
        max_size=25,
    )
)
def test_every_job_ends_and_follows_its_predecessor(jobs: list[tuple[str, int, int, int]]) -> None:
    log = workload(*jobs, ("z", 0, 0, 5), ("z", 10, 0, 5), n_procs=2)
    made = with_feedback(log)
    times = run_of(made, "easy")
    assert len(times) == len(log.jobs)
    for job in made.jobs:
        submitted_at = times[f"w0!{job['id']}"][0]
        if "depends_on" in job:
            assert submitted_at == pytest.approx(times[f"w0!{job['depends_on']}"][2] + job["think_time"])
        else:
            assert submitted_at == job["subtime"]


def test_the_last_end_of_a_requeued_job_counts() -> None:
    """8 processors. `Ruthless` requeues the largest job at each submission, with 0.5 s more.

    Job 1 (6 processors, 100 s) starts at 0 and is killed at 10, when job 2 comes. Both start again at once, and job 1
    ends at 110.5. So job 3, which follows it, is submitted at 115.5.
    """
    log = workload(("ann", 0, 0, 100), ("bob", 10, 0, 3), ("ann", 105, 0, 7), n_procs=8)
    log.jobs[0]["res"] = 6
    log.jobs[2] |= {"depends_on": 1, "think_time": 5}
    log.about["feedback"] = True
    plan = pb.policy(f"{PUSHY}:Ruthless")
    times = run_of(log, plan)
    assert times["w0!1"] == [0, 0, 110.5]
    assert times["w0!3"] == [115.5, 115.5, 122.5]


@pytest.mark.parametrize("policy", ["redirection", "dbf", "conservative"])
def test_other_policies(policy: str) -> None:
    made = with_feedback(workload(("ann", 0, 0, 10), ("ann", 15, 0, 10), ("ann", 30, 0, 10), n_procs=10))
    assert run_of(made, policy) == {"w0!1": [0, 0, 10], "w0!2": [15, 15, 25], "w0!3": [30, 30, 40]}


def test_the_clock_of_simgrid() -> None:
    made = with_feedback(workload(("bob", 0, 0, 1000), ("ann", 1, 0, 10), ("ann", 16, 0, 10)))
    run = pb.simulate(pb.Log(made, "w"), "fcfs", clock="simgrid", platform="rackham-core", progress=False)
    assert run.is_finished
    assert run.jobs.sort("id")["submitted_at"].to_list() == [0, 1, 16]


def test_a_rejected_job_is_followed_too() -> None:
    log = workload(("ann", 0, 0, 10), ("ann", 15, 0, 10), ("ann", 30, 0, 10), n_procs=2)
    log.jobs[0]["res"] = 3
    log.jobs[1] |= {"depends_on": 1, "think_time": 5}
    log.jobs[2] |= {"depends_on": 2, "think_time": 5}
    log.about["feedback"] = True
    with pytest.warns(UserWarning, match="1 job rejected"):
        times = run_of(log)
    assert {job_id: row[0] for job_id, row in times.items()} == {"w0!1": 0, "w0!2": 5, "w0!3": 20}


def test_profiles_that_batsim_cannot_register_are_errors() -> None:
    log = workload(("ann", 0, 0, 10), ("ann", 15, 0, 10))
    log.jobs[1] |= {"depends_on": 1, "profile": "both", "walltime": 50}
    log.profiles["both"] = {"type": "composed", "seq": ["10", "10"]}  # delays: they become one
    log.about["feedback"] = True
    assert run_of(log)["w0!2"] == [10, 10, 30]
    log.profiles["flops"] = {"type": "parallel_homogeneous", "cpu": 1e6, "com": 0}
    log.profiles["both"] = {"type": "composed", "seq": ["10", "flops"]}
    with pytest.raises(InputError, match=r"^w\.json: job 2: feedback: its profile is of the type composed, which Bat"):
        run_of(log)


def test_held_back_jobs() -> None:
    log = with_feedback(workload(("ann", 0, 0, 10), ("ann", 15, 0, 10), ("ann", 30, 0, 10)))
    kept, held = held_back("w7", log)
    assert [job["id"] for job in kept.jobs] == [1]
    assert "feedback" not in kept.about
    assert list(kept.profiles) == ["10"]
    first = {**log.jobs[1], "id": "w7!2", "profile": "10.2"}
    profile = {"type": "delay", "delay": 10}
    assert held[0] == FollowingJob(id="w7!2", after=["w7!1"], think_time=5, job=first, profile=profile)
    assert [job.after for job in held] == [["w7!1"], ["w7!2"]]
    log.about["feedback"] = False
    assert held_back("w7", log) == (log, [])


def without_followers(log: Workload) -> tuple[testing.Workload, list[FollowingJob]]:
    """Return the jobs for a fake Batsim, and those for the engine."""
    kept, held = held_back("w0", log)
    return testing.Workload.from_json({"jobs": kept.jobs, "profiles": kept.profiles}), held


@pytest.mark.parametrize(("batsim", "acknowledged"), [(4, False), (4, True), (5, False)])
def test_a_batsim_that_does_not_send_the_jobs(batsim: int, acknowledged: bool, tmp_path: Path) -> None:
    """As in `run`: the session gets the jobs, and the journal keeps them for a replay."""
    log = with_feedback(workload(("bob", 0, 0, 1000), ("ann", 1, 0, 10), ("ann", 16, 0, 10), ("ann", 31, 0, 10)))
    kept, held = without_followers(log)
    session = Session(testing.plan_for("easy"), checked=True, feedback_jobs=held)
    session.record_in(JournalWriter(tmp_path / "journal"))
    with session.closing_journal():
        config = {"dynamic-jobs-enabled": True, "dynamic-jobs-acknowledged": acknowledged}
        fake = testing.FakeBatsim(kept, 1, config, batsim=batsim).run(session.handle)
    assert not fake.deadlocked
    assert {job_id: job.started_at for job_id, job in fake.jobs.items()} == {
        "w0!1": 0,
        "w0!2": 1000,
        "w0!3": 1015,
        "w0!4": 1030,
    }
    assert replay(JournalReader(tmp_path / "journal")).difference is None


def test_an_earlier_journal_with_the_jobs_in_its_first_message(tmp_path: Path) -> None:
    """Journals of the simulator had the jobs in SIMULATION_BEGINS, not in the header."""
    log = with_feedback(workload(("bob", 0, 0, 1000), ("ann", 1, 0, 10), ("ann", 16, 0, 10)))
    scenario = Scenario(uniform(1), {"w0": log}, SimulationOptions())
    simulator_run.run_policy(scenario, testing.plan_for("easy"), journal=JournalWriter(tmp_path / "new"))
    with (tmp_path / "new").open("rb") as file:
        header, request, *others = msgpack.Unpacker(file)
    message = json.loads(request["bytes"])
    message["events"][0]["data"][FEEDBACK_JOBS] = header.pop(FEEDBACK_JOBS)
    request["bytes"] = json.dumps(message).encode()
    (tmp_path / "old").write_bytes(b"".join(map(msgpack.packb, [header, request, *others])))
    for name in ("new", "old"):
        assert replay(JournalReader(tmp_path / name)).difference is None
    old, new = (explain(JournalReader(tmp_path / name), "w0!3") for name in ("old", "new"))
    assert old == new


def test_a_batsim_without_dynamic_jobs_is_refused() -> None:
    kept, held = without_followers(with_feedback(workload(("ann", 0, 0, 10), ("ann", 15, 0, 10))))
    with pytest.raises(InputError, match="feedback: expected a Batsim that is started with dynamic_jobs"):
        testing.FakeBatsim(kept, 1).run(Session(testing.plan_for("easy"), feedback_jobs=held).handle)
    with pytest.raises(InputError, match="feedback_jobs: expected jobs that follow others: Expected `object`"):
        following_jobs([7])


def test_a_run_that_is_stopped_counts_the_jobs_to_come() -> None:
    log = with_feedback(workload(("ann", 0, 0, 10), ("ann", 15, 0, 10), ("ann", 30, 0, 10)))
    run = pb.simulate(pb.Log(log, "w"), "fcfs", stop_at=12, progress=False)
    assert run.about["n_to_come"] == 2


def test_random_failures_go_on_during_a_think_time() -> None:
    """One processor fails every 1000 s on average. Job 2 comes 1200 s after job 1, and every failure kills it."""
    log = workload(("ann", 0, 0, 10), ("ann", 1210, 0, 20_000))
    log.jobs[1] |= {"depends_on": 1, "think_time": 1200}
    log.about["feedback"] = True
    failures = {"mtbf": "1000s", "repair": "10s", "seed": 1}
    run = pb.simulate(pb.Log(log, "w"), "fcfs", failures=failures, stop_at=50_000, progress=False)
    assert (run.figures["n_failures"], run.figures["n_failure_kills"], run.figures["n_requeued"]) == (50, 50, 1)


@pytest.mark.parametrize("think_time", ["abc", None, True, float("nan")])
def test_a_think_time_that_is_no_number_is_an_error(think_time: Any) -> None:
    log = workload(("a", 0, 0, 50), ("a", 1, 0, 5))
    log.jobs[1] |= {"depends_on": 1, "think_time": think_time}
    log.about["feedback"] = True
    with pytest.raises(InputError, match=r"w\.json: job 2, field think_time: expected seconds, found"):
        run_of(log)


def test_calls_during_a_think_time_are_no_endless_calls() -> None:
    """`Calling` requests 1,900 calls, one every 10 s, while job 2 is held back for 20,000 s."""
    log = workload(("ann", 0, 0, 10), ("ann", 20_010, 0, 10))
    log.jobs[1] |= {"depends_on": 1, "think_time": 20_000}
    log.about["feedback"] = True
    assert run_of(log, pb.policy(CALLING, calls=1_900)) == {"w0!1": [0, 0, 10], "w0!2": [20_010, 20_010, 20_020]}


def test_only_a_follower_communicates() -> None:
    log = workload(("ann", 0, 0, 10), ("ann", 15, 0, 10), n_procs=4)
    log.profiles["com"] = {"type": "parallel_homogeneous", "cpu": 1e6, "com": 1e6}
    log.jobs[1] |= {"depends_on": 1, "think_time": 5, "res": 2, "profile": "com", "walltime": 500}
    log.about["feedback"] = True
    ends = {}
    for clock in ("auto", "simgrid"):
        run = pb.simulate(pb.Log(log, "w"), "fcfs", clock=clock, platform="rackham-core", progress=False)
        assert run.is_finished
        ends[clock] = run.jobs.sort("id")["ended_at"].to_list()
    assert ends["auto"] == ends["simgrid"]
    with pytest.raises(NotSimulatedError, match=r"^w\.json: job 2: profile com \(parallel_homogeneous\) communicates"):
        pb.simulate(pb.Log(log, "w"), "fcfs", clock="exact", platform="rackham-core", progress=False)


class Registrar(Fcfs):
    """Finishes the registration itself."""

    manages_registration = True


def test_a_policy_that_manages_the_registration_is_refused() -> None:
    log = with_feedback(workload(("ann", 0, 0, 10), ("ann", 15, 0, 10)))
    kept, held = without_followers(log)
    text = "feedback: policy .*Registrar manages the registration of jobs .*; expected a policy that leaves it to the"
    with pytest.raises(InputError, match=text):
        testing.FakeBatsim(kept, 1, DYNAMIC).run(Session(testing.plan_for(Registrar), feedback_jobs=held).handle)
    scenario = Scenario(uniform(1), {"w0": log}, SimulationOptions())
    sim = Simulation.of(scenario, testing.plan_for("fcfs"))
    sim.run(until=12)
    with pytest.raises(InputError, match=text):
        sim.replace_policy(testing.plan_for(Registrar))
    sim.run()
    assert sim.result().finished


class Rejecter(Policy):
    """Rejects job 1, and starts others at once."""

    def on_begin(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def decide(self, now: float) -> Iterator[d.Decision]:
        for job in [job for job in self.cluster.jobs.values() if job.procs is None]:
            yield d.RejectJob(job.id) if job.id == "w0!1" else d.ExecuteJob(job.id, self.cluster.procs)


@pytest.mark.parametrize(("size", "started_at"), [(1, 1e-5), (2, 0)])
def test_a_job_after_a_rejection_without_a_think_time(size: int, started_at: float) -> None:
    """Job 1 is rejected by the policy or, with two processors, by the engine. A call takes 10 microseconds."""
    kept, _ = without_followers(workload(("ann", 0, 0, 10), ("bob", 100, 0, 10)))
    kept.jobs[0]["res"] = size
    session = Session(testing.plan_for(Rejecter), feedback_jobs=[following("w0!3", think_time=0)])
    fake = testing.FakeBatsim(kept, 1, DYNAMIC).run(session.handle)
    assert (fake.jobs["w0!3"].fields["subtime"], fake.jobs["w0!3"].started_at) == (0, started_at)


def following(job_id: str = "w0!2", **changes: Any) -> FollowingJob:
    return following_jobs([described(job_id, **changes)])[0]


def described(job_id: str = "w0!2", **changes: Any) -> dict[str, Any]:
    fields = {"id": job_id, "res": 1, "walltime": 20, "profile": f"p{job_id}"}
    profile = {"type": "delay", "delay": 10}
    return {"id": job_id, "after": ["w0!1"], "think_time": 5, "job": fields, "profile": profile} | changes


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"id": "2"}, "[1].id: expected an id with a workload, such as w0!3, found '2'"),
        ({"id": "!2"}, "[1].id: expected an id with a workload, such as w0!3, found '!2'"),
        ({"id": "w0!"}, "[1].id: expected an id with a workload, such as w0!3, found 'w0!'"),
        ({"id": "w0!2"}, "[1].id: expected each id once, found 'w0!2' again"),
        ({"after": []}, "[1].after: job w0!3: expected the id of at least one job, found none"),
        ({"think_time": -1}, "[1].think_time: job w0!3: expected 0 seconds or more, found -1.0"),
        ({"think_time": float("inf")}, "[1].think_time: job w0!3: expected 0 seconds or more, found inf"),
        ({"think_time": float("nan")}, "[1].think_time: job w0!3: expected 0 seconds or more, found nan"),
        ({"think_time": 10**400}, ": expected jobs that follow others: Number out of range - at `$[1].think_time`"),
        ({"job": {"res": 1}}, "[1].job.profile: job w0!3: expected the name of a profile, found None"),
        ({"job": {"res": 1, "profile": 7}}, "[1].job.profile: job w0!3: expected the name of a profile, found 7"),
    ],
)
def test_wrong_members_are_errors(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        following_jobs([described(), described("w0!3", **changes)])
    assert str(caught.value) == f"feedback_jobs{text}"


@pytest.mark.parametrize(
    ("held", "stuck", "awaited"),
    [
        ([following(after=["w0!1", "w0!9"])], "[0].after: job w0!2", "w0!9"),
        (
            [following(), following("w0!3", after=["w0!4"]), following("w0!4", after=["w0!3"])],
            "[1].after: job w0!3",
            "w0!4",
        ),
    ],
)
def test_a_run_does_not_wait_for_ever(held: list[FollowingJob], stuck: str, awaited: str) -> None:
    text = f"feedback_jobs{stuck} is never submitted: it follows job {awaited}, which has not ended, and no other job"
    assert text in error_with(held)


def test_the_id_of_another_job_is_an_error() -> None:
    assert error_with([following("w0!1")]).endswith("feedback_jobs: job w0!1 was submitted before; expected a new id")


def error_with(held: list[FollowingJob]) -> str:
    """Return the error of a run of one job w0!1 and these jobs that follow others."""
    kept, _ = without_followers(workload(("ann", 0, 0, 10)))
    with pytest.raises(testing.Refused) as caught:
        testing.FakeBatsim(kept, 1, DYNAMIC).run(Session(testing.plan_for("easy"), feedback_jobs=held).handle)
    assert isinstance(caught.value.__cause__, RemoteProtocolError)
    return str(caught.value)


def test_a_submitted_job_is_not_kept() -> None:
    actions = Mock(now=14.0)
    actions.jobs.is_used.return_value = False
    actions.field_check.error_text.return_value = None
    actions.services.check = ()
    feedback = Feedback([following(), following("w0!3", after=["w0!2"])], actions)
    first = feedback._jobs[0]
    feedback.ended(Mock(id="w0!1", ended_at=10.0), None)
    feedback.after_events()
    assert actions.add_job.call_count == 0
    actions.now = 15.0
    feedback.after_events()
    assert actions.add_job.call_args.args[0] == "w0!2"
    assert actions.add_job.call_args.kwargs == {"at": 15.0}
    assert feedback.is_waiting()
    assert first not in gc.get_referents(feedback._jobs)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A log of one processor: two jobs of user 2, the second 5 s after the end of the first, and a long one of 1."""
    lines = [
        logs.line(1, 0, wait=0, run=1000, allocated=1, user=1, requested_s=2000),
        logs.line(2, 1, wait=0, run=10, allocated=1, user=2, requested_s=20),
        logs.line(3, 16, wait=0, run=10, allocated=1, user=2, requested_s=20),
    ]
    (tmp_path / "log.swf").write_text("; MaxProcs: 1\n" + "\n".join(lines) + "\n")
    return tmp_path


def test_simulate_with_feedback(place: Path) -> None:
    waits = {}
    for name, words in (("plain", ()), ("feedback", ("--feedback",))):
        args = ("simulate", "-w", str(place / "log.swf"), "--policy", "fcfs", "-e", name, *words)
        done = run_cli(*args, cwd=place)
        assert ("log.swf: 1 job follows the end of another (feedback)\n" in done.stderr) == bool(words)
        assert done.returncode == 0, done.stderr
        waits[name] = pb.read_run(place / name).jobs["wait_s"].to_list()
    assert waits == {"plain": [0, 999, 994], "feedback": [0, 999, 0]}
    assert "--feedback" in json.loads((place / "feedback_summary.json").read_text())["command"]


def test_two_workloads_with_feedback_finish(place: Path) -> None:
    """One processor: job 3 of each workload follows its job 2, 5 s after its end at 2010 and 2020."""
    assert run_cli("workload", "convert", "log.swf", "w.json", "--feedback", cwd=place).returncode == 0
    args = ("--procs", "1", "--policy", "fcfs", "-e", "two", "-q")
    done = run_cli("simulate", "-w", "w.json", "-w", "w.json", *args, cwd=place)
    assert done.returncode == 0, done.stderr
    run = pb.read_run(place / "two")
    assert run.is_finished
    rows = run.jobs.select("id", "submitted_at", "started_at").sort("id").rows()
    assert [row for row in rows if row[0].endswith("!3")] == [("w0!3", 2015, 2020), ("w1!3", 2025, 2030)]


def test_convert_and_resample_with_feedback(place: Path) -> None:
    done = run_cli("workload", "convert", "log.swf", "w.json", "--feedback", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "1 job follows the end of another (feedback)" in done.stdout
    content = json.loads((place / "w.json").read_text())
    assert content["feedback"] is True
    assert (content["jobs"][2]["depends_on"], content["jobs"][2]["think_time"]) == (2, 5)
    weeks = [
        logs.line(k + 1, at, wait=0, run=10, allocated=1, user=5, requested_s=20)
        for k, at in enumerate((0, 15, 604_800, 604_815))
    ]
    (place / "weeks.swf").write_text("; MaxProcs: 1\n" + "\n".join(weeks) + "\n")
    done = run_cli("workload", "resample", "weeks.swf", "--feedback", "--weeks", "4", "--output", "r.json", cwd=place)
    assert done.returncode == 0, done.stderr
    made = json.loads((place / "r.json").read_text())
    assert made["feedback"] is True
    n_following = sum("depends_on" in job for job in made["jobs"])
    assert n_following == len(made["jobs"]) / 2
    assert f"\n{n_following} jobs follow the end of another (feedback)\n" in done.stdout


def test_other_schedulers_are_refused(place: Path) -> None:
    assert run_cli("workload", "convert", "log.swf", "w.json", "--feedback", cwd=place).returncode == 0
    platform = str(RECORDED / "fuzz-11" / "platform.xml")
    for command in (("simulate", "--external", "--procs", "1"), ("batsim", "-p", platform, "--no-sched")):
        done = run_process(*command, "-w", "w.json", "-e", "out", cwd=place)  # `batsim` aborts, as Batsim does
        assert done.returncode != 0
        assert "w.json: feedback: expected a policy of pybatsched" in done.stderr


def test_logs_without_waits_are_refused(place: Path) -> None:
    (place / "bare.swf").write_text(logs.HEADER + logs.line(1, 0, wait=-1) + "\n" + logs.line(2, 60, wait=-1) + "\n")
    for command in (("workload", "convert", "bare.swf", "x.json"), ("simulate", "-w", "bare.swf", "--policy", "fcfs")):
        done = run_cli(*command, "--feedback", cwd=place)
        assert done.returncode == 2
        assert "feedback: expected a log with users and waits" in done.stderr
    assert not (place / "x.json").exists()
