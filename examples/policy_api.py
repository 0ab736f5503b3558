"""Examples of the API of policies: every hook and every decision, with what comes of them. docs/api.md lists them."""

import tempfile
from pathlib import Path

from pydantic import Field

from pybatsched import (
    REGISTRATION_FINISHED,
    Answer,
    BatsimFeature,
    CallMeLater,
    ChangeJobState,
    ExecuteJob,
    InputError,
    IntervalSet,
    JobFields,
    LocalPolicy,
    LocalScheduler,
    Log,
    Notify,
    Policy,
    Query,
    RegisterJob,
    RegisterProfile,
    RejectJob,
    Release,
    Replace,
    Requeue,
    Reshape,
    SetJobMetadata,
    SetResourceState,
    Simulation,
    StartAt,
    ToJobMsg,
    events,
)
from pybatsched.testing import Workload, run_policy
from pybatsched.workload.model import Workload as Jobs


class Fits(Policy):
    """Start the jobs that fit, in order of submission."""

    def on_begin(self, cluster):
        self.cluster = cluster
        self.part = cluster.add_partition("all", cluster.procs)
        self.waiting = []

    def on_job_submitted(self, job, now):
        self.waiting.append(job)

    def decide(self, now):
        for job in list(self.waiting):
            if job.n_procs <= self.part.n_free:
                self.waiting.remove(job)
                yield ExecuteJob(job.id, self.part.free.first(job.n_procs), reason="fits")


def starts(run):
    """When each job started, by name."""
    return {job_id.partition("!")[2]: job.started_at for job_id, job in run.jobs.items()}


two = Workload().job("a", n=3, s=10, walltime=20).job("b", n=2, s=5, at=1, walltime=9)
assert starts(run_policy(Fits, two, n_procs=4)) == {"a": 0, "b": 10}


# The events of a run: what is recorded when.
class Diary(Fits):
    """Record the events."""

    def on_begin(self, cluster):
        super().on_begin(cluster)
        self.lines = diary

    def on_job_submitted(self, job, now):
        super().on_job_submitted(job, now)
        self.lines.append(f"{now:g} {job.id} came")

    def on_job_ended(self, job, now):
        self.lines.append(f"{now:g} {job.id} {job.final_state}")

    def on_machines_changed(self, procs, now):
        self.lines.append(f"{now:g} machines {procs}: {self.cluster.unavailable or 'none'} away")

    def on_notify(self, event, now):
        self.lines.append(f"{now:g} {event.kind}")

    def on_end(self, now):
        self.lines.append(f"{now:g} over")


diary = []
outage = [(2, events.MACHINES_UNAVAILABLE, "3"), (4, events.MACHINES_AVAILABLE, "3")]
run_policy(Diary, two, n_procs=4, machine_events=outage)
assert diary == [
    "0 w0!a came",
    "1 w0!b came",
    "1 no_more_static_job_to_submit",
    "2 machines 3: 3 away",
    "4 machines 3: none away",
    "4 no_more_external_event_to_occur",
    "10 w0!a COMPLETED_SUCCESSFULLY",
    "15 w0!b COMPLETED_SUCCESSFULLY",
    "15 over",
]


# Jobs wait again after a failure (option `on_failure`).
class Again(Diary):
    """Record the jobs that wait again after a failure."""

    def on_failure(self, job, now):
        self.waiting.append(job)
        self.lines.append(f"{now:g} {job.id} waits again")


diary = []
outage = [(2, events.MACHINES_UNAVAILABLE, "0"), (4, events.MACHINES_AVAILABLE, "0")]
run_policy(Again, two, n_procs=4, machine_events=outage, on_failure="requeue_last")
assert diary[2:6] == ["1 no_more_static_job_to_submit", "2 machines 0: 0 away", "2 w0!a ", "2 w0!a waits again"]


# What methods return: a scheduler that needs half a simulated second for each message.
class Careful(Fits):
    made = []

    def on_begin(self, cluster):
        super().on_begin(cluster)
        self.made.append(self)
        self.n_starts = 0

    def on_call(self, now):
        self.called_at = now

    def on_unknown(self, event, now):
        raise InputError(f"a message of this kind is not for me: {event.type}")

    def decide(self, now):
        if now == 0:
            yield CallMeLater(7.0)
        for decision in super().decide(now):
            self.n_starts += 1
            yield decision

    def busy_until(self, now):
        return now + 0.5

    def why_waiting(self, job, now):
        return ("{} processors are not free", job.n_procs)

    def remarks(self):
        yield f"{self.n_starts} jobs were started"

    def figures(self):
        return {"starts": self.n_starts}

    def tables(self, now):
        return {"starts": [["time", "starts"], [str(now), str(self.n_starts)]]}

    def broken_promises(self):
        return [] if self.n_starts == 3 else ["three starts were promised"]


assert starts(run_policy(Careful, two, n_procs=4)) == {"a": 0.5, "b": 10.5}
(careful,) = Careful.made
assert careful.called_at == 7
assert (list(careful.remarks()), careful.figures()) == (["2 jobs were started"], {"starts": 2})
assert careful.tables(9)["starts"][1] == ["9", "2"]
assert careful.broken_promises() == ["three starts were promised"]


# Take over from another policy after a second.
class Follows(Fits):
    def take_over(self, job, now):
        self.expected = {**getattr(self, "expected", {}), job.id: job.expected_end_at}
        return True

    def why_waiting(self, job, now):
        return ("processors are expected to be free at {}", min(self.expected.values()))


sim = Simulation(Log(Jobs(two.jobs, two.profiles, n_procs=4), "two jobs"), Fits)
sim.run(until=1)
assert ([job.id for job in sim.running], [job.id for job in sim.waiting]) == (["w0!a"], ["w0!b"])
sim.replace_policy(Follows)
sim.run()
assert sim.result().figures.makespan_s == 15


# Read the text of `--sched-cfg`: here the processors that no job gets.
class Sparing(Fits):
    reads_sched_config = True

    def on_begin(self, cluster):
        spared = IntervalSet.parse(cluster.sched_config)
        self.part = cluster.add_partition("used", cluster.procs - spared)
        self.waiting = []


run = run_policy(Sparing, two, n_procs=4, config={"sched-config": "0"})
assert [str(job.procs) for job in run.jobs.values()] == ["1-3", "1-2"]


# Check fields of jobs: `project` is required.
class Projects(Fits):
    class JobFields(JobFields):
        project: str = Field(min_length=1, description="the name of a project")


text = ""
try:
    run_policy(Projects, Workload().job("a", n=1, s=10, project=""), n_procs=1)
except InputError as error:
    text = str(error)
assert text == "job w0!a, field project: expected the name of a project, found ''"


# Requeue: an urgent job preempts another job, which loses 10 s.
class Makeway(Fits):
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def on_job_submitted(self, job, now):
        self.waiting.insert(0 if job.is_urgent() else len(self.waiting), job)

    def on_job_killed(self, job, now):
        self.waiting.append(job)

    def decide(self, now):
        if self.waiting and self.waiting[0].is_urgent() and self.waiting[0].n_procs > self.part.n_free:
            last = max(self.part.running_jobs, key=lambda job: job.started_at)
            if self.cluster.can_suspend(last) and not self.part.n_kills_pending:
                yield Requeue(last.id, work="rest", extra_s=10, by=self.waiting[0].id, reason="makes way")
        yield from super().decide(now)


jobs = Workload().job("a", n=4, s=100, walltime=500).job("b", n=4, s=20, at=40, urgent=True)
run = run_policy(Makeway, jobs, n_procs=4)
assert {job.id: (job.started_at, job.ended_at) for job in run.jobs.values()} == {
    "w0!a": (0, 40),
    "w0!b": (40, 60),
    "dyn!w0.a.1": (60, 130),
}


# Replace, and metadata: a job of eight processors runs on four free processors for twice as long.
class Shrinks(Fits):
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def decide(self, now):
        for job in list(self.waiting):
            n = min(job.n_procs, self.part.n_free)
            if n == 0:
                return
            self.waiting.remove(job)
            duration_s = job.fields["seconds"] * job.n_procs / n
            yield SetJobMetadata(job.id, f"shrunk_by={job.n_procs - n}")
            yield Replace(job.id, self.part.free.first(n), n=n, duration_s=duration_s)


jobs = Workload().job("a", n=4, s=100, walltime=500, seconds=100).job("b", n=8, s=10, at=5, walltime=30, seconds=10)
run = run_policy(Shrinks, jobs, n_procs=8)
assert [(job.ended_at, str(job.procs)) for job in run.jobs.values() if job.ended_at] == [(100, "0-3"), (25, "4-7")]


# StartAt and Release: jobs start on the full hour. A job with the field `now` starts at once, if necessary instead of a
# held job. If processors of a held job become unavailable, the job waits again.
class FullHour(Fits):
    def on_begin(self, cluster):
        super().on_begin(cluster)
        self.held = []

    def on_job_released(self, job, procs, now):
        self.held.remove(job)
        self.waiting.append(job)

    def decide(self, now):
        for job in list(self.waiting):
            hurry = bool(job.fields.get("now"))
            while hurry and self.held and job.n_procs > self.part.n_free:
                self.waiting.append(self.held.pop())
                yield Release(self.waiting[-1].id, reason=("makes way for {}", job.id))
            if job.n_procs <= self.part.n_free:
                self.waiting.remove(job)
                yield StartAt(job.id, self.part.free.first(job.n_procs), now if hurry else -(-now // 3600) * 3600)
                self.held += [] if hurry else [job]


alone = Workload().job("a", n=4, s=30, at=100)
outage = [(1000, events.MACHINES_UNAVAILABLE, "3"), (4000, events.MACHINES_AVAILABLE, "3")]
assert starts(run_policy(FullHour, alone, n_procs=4)) == {"a": 3600}
assert starts(run_policy(FullHour, alone, n_procs=4, machine_events=outage)) == {"a": 7200}
assert starts(run_policy(FullHour, alone.job("b", n=4, s=50, at=200, now=True), n_procs=4)) == {"a": 3600, "b": 200}


# on_job_eligible: the policy has jobs that may not start yet at their submission, and starts first what these need.
class KnowsAll(Fits):
    gets_jobs_early = True

    def on_begin(self, cluster):
        super().on_begin(cluster)
        self.early = {}

    def on_job_submitted(self, job, now):
        if job.eligible_at > now:  # infinite
            self.early[job.id] = job
        else:
            self.waiting.append(job)

    def on_job_eligible(self, job, now):
        self.waiting.append(self.early.pop(job.id))

    def decide(self, now):
        needed = {f"w0!{job.fields['depends_on'].partition(':')[2]}" for job in self.early.values()}
        self.waiting.sort(key=lambda job: job.id not in needed)
        yield from super().decide(now)


jobs = Workload().job("a", n=4, s=30).job("b", n=4, s=20).job("c", n=4, s=10, depends_on="afterok:b")
assert starts(run_policy(KnowsAll, jobs, n_procs=4)) == {"a": 20, "b": 0, "c": 50}


# Reshape: every job runs on half of its requested processors for twice as long.
class Halves(Fits):
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def decide(self, now):
        for job in self.waiting:
            yield Reshape(job.id, max(job.n_procs_requested // 2, 1), 2.0)
        yield from super().decide(now)


run = run_policy(Halves, Workload().job("a", n=4, s=30, walltime=60), n_procs=4)
assert [(job.started_at, job.ended_at, str(job.procs)) for job in run.jobs.values() if job.ended_at] == [(0, 60, "0-1")]


# Register jobs: the policy starts a one-processor job after each job.
class Probing(Fits):
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})
    manages_registration = True

    def on_begin(self, cluster):
        super().on_begin(cluster)
        self.probe = None

    def on_job_ended(self, job, now):
        if job.workload != "probe":
            self.probe = f"probe!{job.seq}"

    def decide(self, now):
        yield from super().decide(now)
        if self.probe:
            yield RegisterProfile("probe", "p", {"type": "delay", "delay": 1})
            yield RegisterJob(self.probe, {"id": self.probe, "res": 1, "profile": "p", "subtime": now, "walltime": 2})
            yield Notify(REGISTRATION_FINISHED)
            yield ExecuteJob(self.probe, self.part.free.first(1))
            self.probe = None


run = run_policy(Probing, Workload().job("a", n=1, s=10), n_procs=1)
assert [(job.id, job.started_at, job.ended_at) for job in run.jobs.values()] == [("w0!a", 0, 10), ("probe!0", 10, 11)]


# Energy: hosts without a job sleep and wake up for the next job. A host uses 100 W awake and 5 W asleep, and needs one
# second to fall asleep and two seconds to wake up. At the end of each job, the policy queries the consumed energy.
AWAKE, ASLEEP = "0", "1"
HOST = """
    <host id="{}" speed="1Gf, 1f, 1f, 0.5f">
      <prop id="wattage_per_state" value="100:100:200, 5:5:5, 60:60:60, 120:120:120"/>
      <prop id="sleep_pstates" value="1:2:3"/>
    </host>"""
PLATFORM = """<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="all" routing="Full">{}</zone></platform>"""


class Sleepy(Fits):
    said = []

    def on_begin(self, cluster):
        super().on_begin(cluster)
        self.switching = self.ended = False

    def on_machines_changed(self, procs, now):
        self.switching = False

    def on_job_ended(self, job, now):
        self.ended = True

    def on_answer(self, event, now):
        self.said.append((now, event.consumed_energy))

    def decide(self, now):
        yield from super().decide(now)
        if self.ended:
            self.ended = False
            yield Query({"consumed_energy": {}})
        if self.waiting and self.cluster.asleep and not self.switching:
            self.switching = True
            yield SetResourceState(self.cluster.asleep, AWAKE)
        if self.part.free and not self.waiting and not self.switching:
            self.switching = True
            yield SetResourceState(self.part.free, ASLEEP)


with tempfile.TemporaryDirectory() as directory:
    platform = Path(directory, "two.xml")
    platform.write_text(PLATFORM.format("".join(HOST.format(name) for name in ("master_host", "h0", "h1"))))
    jobs = Workload().job("a", n=2, s=10).job("b", n=2, s=10, at=100)
    run = run_policy(Sleepy, jobs, platform=platform, energy=True)
assert starts(run) == {"a": 3, "b": 102}  # the hosts fell asleep at the start, which took a second
assert Sleepy.said == [(13, 2600), (112, 6060)]


# Messages to jobs: a job in two parts asks whether to continue.
class Talks(Fits):
    def on_begin(self, cluster):
        super().on_begin(cluster)
        self.questions = []

    def on_job_message(self, event, now):
        self.questions.append(event)

    def decide(self, now):
        yield from super().decide(now)
        for event in self.questions:
            yield ToJobMsg(event.job_id, "yes" if event.msg["wants"] == "more" else "no")
        self.questions.clear()


profiles = {
    "all": {"type": "composed", "repeat": 1, "seq": ["half", "ask", "hear"]},
    "half": {"type": "delay", "delay": 10},
    "ask": {"type": "send", "msg": {"wants": "more"}, "sleeptime": 1},
    "hear": {"type": "recv", "regex": "yes", "success": "half", "polltime": 1},
}
jobs = Workload.from_json({"jobs": [{"id": "a", "subtime": 0, "res": 1, "profile": "all"}], "profiles": profiles})
assert run_policy(Talks, jobs, n_procs=1).jobs["w0!a"].ended_at == 21


# Answer a query (WRENCH sends queries, Batsim 4 does not), and set the state of a job, which then never ends.
class Answers(Fits):
    def on_query(self, event, now):
        self.question = event

    def decide(self, now):
        yield Answer(estimate_waiting_time=dict.fromkeys(self.question.requests["estimate_waiting_time"], 0.0))


policy = Answers(Answers.Options())
policy.on_query(events.Query({"estimate_waiting_time": {"a": {"res": 2}}}, timestamp=3.0), now=3.0)
assert list(policy.decide(3.0)) == [Answer(estimate_waiting_time={"a": 0.0})]


class Claims(Fits):
    def decide(self, now):
        while self.waiting:
            yield ChangeJobState(self.waiting.pop().id, "RUNNING")


run = run_policy(Claims, Workload().job("a", n=1, s=10), n_procs=1)
assert run.deadlocked
assert run.jobs["w0!a"].ended_at is None


# First fit with a queue. A job with the field `instead_of` removes that job from the queue.
class FirstFit(LocalScheduler):
    def plan(self, now):
        for entry in list(self.queue):
            if entry.job.n_procs <= self.partition.n_free:
                yield self.start(entry, "fits")


class Corrected(LocalPolicy):
    """First fit. A job with the field `instead_of` removes that job from the queue."""

    scheduler = FirstFit

    def on_begin(self, cluster):
        super().on_begin(cluster)
        self.cluster = cluster
        self.outdated = []

    def on_job_submitted(self, job, now):
        other = self.cluster.jobs.get(job.fields.get("instead_of"))
        if other is not None and self.local.holds(other):
            self.local.withdraw(other, now)
            self.outdated.append(other)
        super().on_job_submitted(job, now)

    def decide(self, now):
        for job in self.outdated:
            yield RejectJob(job.id, reason="was submitted again")
        self.outdated.clear()
        yield from super().decide(now)


jobs = Workload().job("a", n=4, s=10).job("b", n=4, s=10, at=1).job("c", n=2, s=20, at=2, instead_of="w0!b")
assert starts(run_policy(Corrected, jobs, n_procs=4)) == {"a": 0, "b": None, "c": 10}


# New estimates: a job is predicted to take 5 s, like the user's earlier jobs, and takes 8 s.
class Watching(Fits):
    corrected = []

    def on_estimate_changed(self, job, now):
        self.corrected.append((now, job.id, job.requested, job.estimate))

    def uses_new_estimates(self, now):
        return True  # the default; False saves the calls at corrections


jobs = Workload()
for number, seconds in enumerate([5, 5, 8]):
    jobs.job(str(number), n=2, s=seconds, at=10 * number, walltime=60, user="ann")
jobs.job("next", n=4, s=1, at=21, walltime=60, user="bob")
run_policy(Watching, jobs, n_procs=4, predict="last2", correct="doubling")
assert Watching.corrected == [(25.0, "w0!2", 60.0, 10.0)]


# Early jobs: the policy knows of jobs that may not start yet, such as those that depend on others.
class Expecting(Fits):
    gets_jobs_early = True
    expected = []

    def on_job_submitted(self, job, now):
        if job.eligible_at <= now:
            self.waiting.append(job)
        else:
            self.expected.append((now, job.id))

    def on_job_eligible(self, job, now):
        self.waiting.append(job)


jobs = Workload().job("a", n=1, s=10).job("b", n=1, s=5, at=1, depends_on="afterok:a")
assert starts(run_policy(Expecting, jobs, n_procs=2)) == {"a": 0, "b": 10}
assert Expecting.expected == [(1.0, "w0!b")]
