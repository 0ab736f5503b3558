"""FCFS and EASY on nodes against a slow twin, on paper, and with machines that fail."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings, strategies as st
from support.nodes_twin import SlowNode, SlowPartition, accepting, gpus_of, slow_easy
from support.random_nodes import crowds, described, hosts_of, machines, partitions

from pybatsched import Cluster, Decision, ExecuteJob, IntervalSet, Job, Policy, PolicyError, StartAt
from pybatsched.core import events as e
from pybatsched.testing import FakeJob, Workload, run_policy
from pybatsched_schedulers.conservative import Conservative
from pybatsched_schedulers.easy import Easy


def of_job(job: FakeJob) -> tuple[float, list[int]]:
    assert job.started_at is not None
    return job.started_at, list(job.procs)


@settings(max_examples=200)
@given(machines(), crowds(), st.sampled_from(("easy", "fcfs")))
def test_each_start_is_that_of_the_twin(slow: list[SlowNode], jobs: list[dict[str, Any]], policy: str) -> None:
    workload = Workload()
    # The first job only makes the run count nodes from its beginning.
    workload.job("first", n=1, s=0.25, walltime=0.25, node_memory_gb=0.001)
    for job in jobs:
        workload.job(job["id"], n=job["n"], s=job["s"], at=job["at"] + 1, walltime=job["walltime"], **job["request"])
    found = run_policy(policy, workload, hosts=hosts_of(slow)).jobs
    kept = [job for job in jobs if found[f"w0!{job['id']}"].final_state != "REJECTED"]
    expected = slow_easy(slow, [{**job, "at": job["at"] + 1} for job in kept], backfills=policy == "easy")
    assert {job["id"]: of_job(found[f"w0!{job['id']}"]) for job in kept} == expected


def with_partitions(
    slow: Sequence[SlowNode], jobs: Iterable[dict[str, Any]], data: st.DataObject
) -> tuple[list[SlowPartition], list[dict[str, Any]]]:
    """Draw partitions of a machine, and which ones jobs name."""
    drawn = data.draw(partitions(len(slow)))
    found = []
    for job in jobs:
        named = data.draw(st.lists(st.sampled_from(drawn), max_size=3, unique=True))
        request = {**job["request"], **({"partition": ", ".join(one.name for one in named)} if named else {})}
        found.append({**job, "request": request, "partitions": named or drawn[:1]})
    return drawn, found


def workload_of(jobs: Iterable[Mapping[str, Any]]) -> Workload:
    workload = Workload()
    for job in jobs:
        workload.job(job["id"], n=job["n"], s=job["s"], at=job["at"], walltime=job["walltime"], **job["request"])
    return workload


@settings(max_examples=200)
@given(machines(), crowds(), st.sampled_from(("easy", "fcfs")), st.data())
def test_each_start_in_partitions_is_that_of_the_twin(
    slow: list[SlowNode], jobs: list[dict[str, Any]], policy: str, data: st.DataObject
) -> None:
    drawn, with_names = with_partitions(slow, jobs, data)
    workload = workload_of(with_names)
    found = run_policy(policy, workload, hosts=hosts_of(slow), node_partitions=described(drawn)).jobs
    plain = [{**job, "request": old["request"]} for job, old in zip(with_names, jobs, strict=True)]
    expected = slow_easy(slow, plain, backfills=policy == "easy", partitions=drawn)
    assert {job["id"] for job in jobs if found[f"w0!{job['id']}"].final_state != "REJECTED"} == expected.keys()
    assert {job_id: of_job(found[f"w0!{job_id}"]) for job_id in expected} == expected


@settings(max_examples=150)
@given(machines(), crowds(), st.sampled_from(("easy", "fcfs", "conservative")), st.data())
def test_every_job_runs_within_one_of_its_partitions(
    slow: list[SlowNode], jobs: list[dict[str, Any]], policy: str, data: st.DataObject
) -> None:
    drawn, with_names = with_partitions(slow, jobs, data)
    Promising.promised.clear()
    made = Promising if policy == "conservative" else policy
    found = run_policy(made, workload_of(with_names), hosts=hosts_of(slow), node_partitions=described(drawn))
    assert not found.deadlocked
    assert overcommitted(slow, found.jobs.values()) == []
    for job, old in zip(with_names, jobs, strict=True):
        ran = found.jobs[f"w0!{job['id']}"]
        accepted = accepting(slow, {**job, "request": old["request"]})
        assert (ran.final_state == "REJECTED") == (not accepted)
        nodes = {index for index, node in enumerate(slow) if not ran.procs.isdisjoint(IntervalSet(node.procs))}
        assert not accepted or any(nodes <= one.nodes and len(nodes) <= one.max_nodes for one in accepted)
    late = {job_id: at for job_id, at in Promising.promised.items() if (found.jobs[job_id].started_at or 0.0) > at}
    assert late == {}


class PromisingEasy(Easy):
    """EASY that records when heads are expected to start, as long as they are heads."""

    promised: ClassVar[dict[str, float]] = {}

    def decide(self, now: float) -> Iterable[Decision]:
        yield from super().decide(now)
        heads = getattr(self.local, "_heads", None) or {}
        waiting = {job.id for job in self.local.waiting()}
        now_first = {head.entry.job.id: head.at for head in heads.values()}
        for job_id in [one for one in self.promised if one in waiting and one not in now_first]:
            del self.promised[job_id]  # a job with a higher priority came, or groups were joined
        for job_id, at in now_first.items():
            self.promised.setdefault(job_id, at)


@settings(max_examples=200)
@given(machines(), crowds(), st.data())
def test_the_head_of_each_group_starts_when_it_was_expected_to(
    slow: list[SlowNode], jobs: list[dict[str, Any]], data: st.DataObject
) -> None:
    drawn, with_names = with_partitions(slow, jobs, data)
    PromisingEasy.promised.clear()
    workload = workload_of(with_names)
    found = run_policy(PromisingEasy, workload, hosts=hosts_of(slow), node_partitions=described(drawn)).jobs
    late = {job_id: at for job_id, at in PromisingEasy.promised.items() if (found[job_id].started_at or 0.0) > at}
    assert late == {}


def overcommitted(nodes: Sequence[SlowNode], jobs: Iterable[FakeJob]) -> list[str]:
    """Return each instant at which a node holds more than it has, from the results alone."""
    ran = [job for job in jobs if job.started_at is not None and job.ended_at is not None]
    found = []
    for now in sorted({job.started_at or 0.0 for job in ran}):
        for index, node in enumerate(nodes):
            here = [job for job in ran if (job.started_at or 0.0) <= now < (job.ended_at or 0.0)]
            here = [job for job in here if not job.procs.isdisjoint(IntervalSet(node.procs))]
            cores = [len(job.procs & IntervalSet(node.procs)) for job in here]
            memory = sum(
                job.fields.get("node_memory_gb", job.fields.get("memory_gb", 0) * n)
                for job, n in zip(here, cores, strict=True)
            )
            n_gpus = sum(gpus_of(job.fields)[1] for job in here)
            is_shared = len(here) > 1 and any(job.fields.get("exclusive") for job in here)
            if sum(cores) > len(node.procs) or memory > node.memory_gb or n_gpus > sum(node.gpus.values()) or is_shared:
                found.append(f"node {index} at {now}: {[job.id for job in here]}")
    return found


@settings(max_examples=100)
@given(machines(), crowds(), st.sampled_from(("easy", "fcfs", "conservative")), st.data())
def test_nothing_is_overcommitted_while_machines_fail(
    slow: list[SlowNode], jobs: list[dict[str, Any]], policy: str, data: st.DataObject
) -> None:
    workload = Workload()
    for job in jobs:
        workload.job(job["id"], n=job["n"], s=job["s"], at=job["at"], walltime=job["walltime"], **job["request"])
    procs = [proc for node in slow for proc in node.procs]
    lost = data.draw(st.lists(st.sampled_from(procs), min_size=1, unique=True))
    at = data.draw(st.integers(0, 20))
    events = [
        (float(at), e.MACHINES_UNAVAILABLE, str(IntervalSet(lost))),
        (at + 3.0, e.MACHINES_AVAILABLE, str(IntervalSet(lost))),
    ]
    found = run_policy(policy, workload, hosts=hosts_of(slow), machine_events=events)
    assert not found.deadlocked
    assert all(job.final_state for job in found.jobs.values())
    assert overcommitted(slow, found.jobs.values()) == []


def taken_from(nodes: Sequence[SlowNode], jobs: Iterable[FakeJob], tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return where other jobs use processors, or the share of memory and GPUs, that are reserved."""
    found = []
    for table, (index, node) in itertools.product(tables, enumerate(nodes)):
        own, hosts = IntervalSet(node.procs), IntervalSet.parse(table["hosts"])
        n, at, until = len(own & hosts), table["start"], table["start"] + table["duration"]
        others = [job for job in jobs if job.started_at is not None and "reservation" not in job.fields]
        here = [job for job in others if not job.procs.isdisjoint(own)]
        here = [job for job in here if (job.started_at or 0.0) < until and (job.ended_at or 0.0) > at]
        for now in sorted({max(job.started_at or 0.0, at) for job in here} if n else ()):
            running = [job for job in here if (job.started_at or 0.0) <= now < (job.ended_at or 0.0)]
            parts = [len(job.procs & own) for job in running]
            memory = sum(
                job.fields.get("node_memory_gb", job.fields.get("memory_gb", 0) * n_cores)
                for job, n_cores in zip(running, parts, strict=True)
            )
            n_gpus = sum(gpus_of(job.fields)[1] for job in running)
            free_gpus = sum(n_of_type - n_of_type * n // len(own) for n_of_type in node.gpus.values())
            is_whole = any(job.fields.get("exclusive") for job in running)
            if (
                not all(job.procs.isdisjoint(hosts) for job in running)
                or memory > node.memory_gb * (1 - n / len(own)) + 1e-5
                or n_gpus > free_gpus
                or is_whole
            ):
                found.append(f"node {index} at {now}: {[job.id for job in running]}")
    return found


@settings(max_examples=150)
@given(machines(), crowds(), st.sampled_from(("easy", "fcfs", "conservative")), st.data())
def test_reserved_processors_hold_their_share_of_nodes(
    slow: list[SlowNode], jobs: list[dict[str, Any]], policy: str, data: st.DataObject
) -> None:
    tables: list[dict[str, Any]] = []
    for name, start in (("r", 4), ("s", 21)):
        procs = data.draw(st.sets(st.integers(0, max(slow[-1].procs)), min_size=1))
        hosts = IntervalSet(procs & {proc for node in slow for proc in node.procs}) or IntervalSet([0])
        length = data.draw(st.integers(3, 15))
        tables.append({"name": name, "start": start, "duration": length, "hosts": str(hosts), "users": ["u"]})
    workload = Workload()
    for job in jobs:
        own = (
            {"reservation": data.draw(st.sampled_from("rs")), "user": "u"} if data.draw(st.integers(0, 3)) == 3 else {}
        )
        times = {"s": job["s"], "at": job["at"] + 1, "walltime": job["walltime"]}
        workload.job(job["id"], n=job["n"], **times, **{**job["request"], **own})
    workload.job("first", n=1, s=0.25, walltime=0.25, node_memory_gb=0.001)  # nodes are counted from the beginning
    found = run_policy(policy, workload, hosts=hosts_of(slow), host_reservations=tables)
    assert not found.deadlocked
    assert all(job.final_state for job in found.jobs.values())
    assert overcommitted(slow, found.jobs.values()) == []
    assert taken_from(slow, found.jobs.values(), tables) == []


class Promising(Conservative):
    """Conservative backfilling that records the first planned start of each job."""

    promised: ClassVar[dict[str, float]] = {}

    def decide(self, now: float) -> Iterable[Decision]:
        yield from super().decide(now)
        for job in self.local.waiting():
            planned = self.local.planned_start(job, now)
            if job.id not in self.promised and planned is not None:
                self.promised[job.id] = planned


@settings(max_examples=100)
@given(machines(), crowds())
def test_conservative_keeps_planned_starts_and_overcommits_nothing(
    slow: list[SlowNode], jobs: list[dict[str, Any]]
) -> None:
    Promising.promised.clear()
    workload = Workload()
    for job in jobs:
        workload.job(job["id"], n=job["n"], s=job["s"], at=job["at"], walltime=job["walltime"], **job["request"])
    found = run_policy(Promising, workload, hosts=hosts_of(slow))
    assert not found.deadlocked
    assert overcommitted(slow, found.jobs.values()) == []
    late = {job_id: at for job_id, at in Promising.promised.items() if (found.jobs[job_id].started_at or 0.0) > at}
    assert late == {}


#: Four nodes: n0 and n1 have 4 cores and 16 GB, n2 and n3 have 4 cores, 32 GB and two GPUs.
FOUR = [
    {"node": f"n{index}", "memory_gb": memory, **({"gpus": "2"} if memory == "32" else {})}
    for index, memory in enumerate(("16", "16", "32", "32"))
    for _ in range(4)
]


def eight_jobs() -> Workload:
    """The worked example of the documentation."""
    jobs = Workload()
    jobs.job("a", n=4, s=10, walltime=11, memory_gb=4)  # all of n0
    jobs.job("b", n=1, s=20, walltime=21, node_memory_gb=12)  # n1: 3 cores and 4 GB are left
    jobs.job("c", n=2, s=30, walltime=31, gpus_per_node=2)  # n2: no GPU is left
    jobs.job("d", n=2, s=15, walltime=16, gpus_per_node=1, at=1)  # n3
    jobs.job("e", n=4, s=10, walltime=11, n_nodes=2, gpus_per_node=2, at=2)  # waits for n2 and n3
    jobs.job("f", n=1, s=5, walltime=6, memory_gb=8, at=3)  # n2 and n3 have the memory; ends in time
    jobs.job("g", n=2, s=50, walltime=51, gpus_per_node=1, at=4)  # would delay e on n3
    jobs.job("h", n=2, s=50, walltime=51, memory_gb=2, at=5)  # n1, which e does not need
    return jobs


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("easy", {"a": 0, "b": 0, "c": 0, "d": 1, "e": 30, "f": 3, "g": 40, "h": 5}),
        ("conservative", {"a": 0, "b": 0, "c": 0, "d": 1, "e": 30, "f": 3, "g": 40, "h": 5}),
        ("fcfs", {"a": 0, "b": 0, "c": 0, "d": 1, "e": 30, "f": 30, "g": 40, "h": 40}),
    ],
)
def test_the_worked_example(policy: str, expected: Mapping[str, float]) -> None:
    found = run_policy(policy, eight_jobs(), hosts=FOUR).jobs
    assert {job_id.removeprefix("w0!"): job.started_at for job_id, job in found.items()} == expected


def test_a_job_that_no_nodes_can_hold_is_rejected() -> None:
    jobs = Workload().job("a", n=1, s=1, gpus_per_node=3).job("b", n=1, s=1)
    found = run_policy("easy", jobs, hosts=FOUR).jobs
    assert [job.final_state for job in found.values()] == ["REJECTED", "COMPLETED_SUCCESSFULLY"]


class OnLowest(Policy):
    """Starts every job at once on the lowest processors."""

    plans_nodes = True

    def on_begin(self, cluster: Cluster) -> None:
        self.partition = cluster.add_partition("all", cluster.procs)
        self.jobs = list[Job]()

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.jobs.append(job)

    def decide(self, now: float) -> Iterable[Decision]:
        while self.jobs:
            job = self.jobs.pop(0)
            yield ExecuteJob(job.id, self.partition.free.first(job.n_procs))


class Holds(OnLowest):
    """Holds processors for the first job."""

    def decide(self, now: float) -> Iterable[Decision]:
        if now == 0 and self.jobs:
            job = self.jobs.pop(0)
            yield StartAt(job.id, self.partition.free.first(job.n_procs), 10)
        yield from super().decide(now)


def test_a_held_job_holds_its_share() -> None:
    jobs = Workload().job("a", n=1, s=5, memory_gb=10).job("b", n=1, s=1, at=1, memory_gb=7)
    with pytest.raises(PolicyError, match="node n0 has 6 GB of 16 GB free; the job needs 7 GB"):
        run_policy(Holds, jobs, hosts=FOUR)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_half_of_a_node_is_reserved_with_half_of_its_memory_and_gpus(policy: str) -> None:
    node = {"node": "n0", "memory_gb": "32", "gpus": "2"}
    window = {"name": "r", "start": 10, "duration": 10, "hosts": "2-3", "users": ["u"]}
    jobs = Workload().job("a", n=1, s=8, walltime=9, memory_gb=32)  # ends before the window
    jobs.job("own", n=1, s=4, walltime=5, memory_gb=16, gpus_per_node=1, user="u", reservation="r")
    jobs.job("b", n=1, s=30, walltime=30, at=9, memory_gb=16, gpus_per_node=1)  # leaves half of the node
    jobs.job("c", n=1, s=5, walltime=5, at=12, memory_gb=1)  # the memory that is left is reserved
    found = run_policy(policy, jobs, hosts=[node] * 4, host_reservations=[window]).jobs
    assert {job_id: job.started_at for job_id, job in found.items()} == {"w0!a": 0, "w0!own": 10, "w0!b": 9, "w0!c": 20}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"memory_gb": 9}, r"node n0 has 16 GB of 16 GB free; the job needs 18 GB"),
        ({"gpus_per_node": 1}, r"node n0 has 0 of these free; the job needs 1 GPU"),
        ({"n_nodes": 2}, r"requests 2 nodes; the processors are on 1"),
        ({"cores_per_node": 1}, r"node n0 has 2 of the processors; the job requests 1 on each node"),
    ],
)
def test_a_decision_that_overcommits_a_node_is_an_error(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(PolicyError, match=text) as caught:
        run_policy(OnLowest, Workload().job("a", n=2, s=1, **fields), hosts=FOUR)
    assert caught.value.rule == "node resources"
    assert caught.value.job_id == "w0!a"


def test_a_node_that_a_job_has_for_itself_is_closed() -> None:
    jobs = Workload().job("a", n=2, s=9, exclusive=True).job("b", n=1, s=1, at=1)
    with pytest.raises(PolicyError, match="node n0 runs a job that has it for itself"):
        run_policy(OnLowest, jobs, hosts=FOUR)
    found = run_policy("easy", jobs, hosts=FOUR).jobs
    assert [str(job.procs) for job in found.values()] == ["0-1", "4"]


def test_without_requests_nodes_change_nothing() -> None:
    """The usual scheduler runs, whatever the platform says about nodes."""
    jobs = Workload()
    for index in range(20):
        jobs.job(index, n=index % 7 + 1, s=5 + index % 4, at=index, walltime=12)
    for policy in ("fcfs", "easy", "conservative"):
        with_nodes = run_policy(policy, jobs, hosts=FOUR).jobs
        assert with_nodes == run_policy(policy, jobs, n_procs=16).jobs
