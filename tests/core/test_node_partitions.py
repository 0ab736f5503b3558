"""Partitions of nodes as Slurm has them: their description, which jobs they accept, and rules for policies."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import pybatsched as pb
from pybatsched import Cluster, Decision, ExecuteJob, Job, Policy, PolicyError
from pybatsched.cli import main
from pybatsched.core.node_partitions import PartitionSpec, parse_partitions, places_of
from pybatsched.errors import InputError
from pybatsched.testing import Workload, run_policy

#: Six nodes of 4 cores; the last two have a GPU.
HOSTS = [{"node": f"n{i // 4}", **({"gpus": "1"} if i >= 16 else {})} for i in range(24)]
PARTITIONS = "batch: n[0-3], max_time 1h, default; gpu: n2-n5, max_nodes 2, priority 10"


def states(jobs: Workload, policy: str = "easy", partitions: str = PARTITIONS) -> dict[str, Any]:
    """Return start and processors of each job; None for a rejected one."""
    found = run_policy(policy, jobs, hosts=HOSTS, node_partitions=partitions).jobs
    return {
        name.removeprefix("w0!"): None if job.started_at is None else (job.started_at, str(job.procs))
        for name, job in found.items()
    }


def simulate(jobs: Workload, folder: Path, *more: str) -> int:
    """Simulate these jobs on the same machine, and return the exit code."""
    (folder / "w.json").write_text(json.dumps({"nb_res": 24, "jobs": jobs.jobs, "profiles": jobs.profiles}))
    partitions = "batch: 0-3, max_time 1h, default; gpu: 2-5, max_nodes 2, priority 10"
    args = ["--nodes", "4 x 4 cores, 2 x 4 cores 1 gpu", "--partitions", partitions, "-e", str(folder / "out"), *more]
    return main(["simulate", "-w", str(folder / "w.json"), "--policy", "easy", *args])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"expected partitions such as 'batch: n\[1-6\], max_time 24h, default; gpu: n5-n6', found none"),
        ("batch", r"expected a name, a colon and nodes, such as 'batch: n\[1-6\]', found 'batch'"),
        ("a b: all", "expected a name, a colon and nodes"),
        ("a: default", r"partition a: expected its nodes, such as n\[1-6\] or all, found none"),
        ("a: all, max_time 1x", "partition a: max_time: expected seconds, or a number with m, h, d or w"),
        ("a: all, max_nodes 0", "partition a: max_nodes: expected a number of nodes from 1 once, found 'max_nodes 0'"),
        ("a: all, priority 1, priority 2", "partition a: priority: expected a whole number from 0 once"),
        ("a: all, default yes", "partition a: default: expected the word alone once, found 'default yes'"),
        ("a: all, nodes 3", "partition a: expected nodes, max_time, max_nodes, priority, default, separated by commas"),
        ("a: all; a: n1", "partition a: another partition has this name; expected unique names"),
        ("a: all, default; b: n1, default", "partitions a and b are the default; expected one at most"),
    ],
)
def test_an_invalid_description_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_partitions(text)
    with pytest.raises(InputError, match=f"option node_partitions .*{message}"):
        pb.policy("easy", node_partitions=text)


def test_descriptions_may_have_lines() -> None:
    found = parse_partitions("\n batch: n1,\tn2 , default;\n\n gpu : n[3,5-6]\n")
    assert found == (PartitionSpec("batch", "n1,n2", is_default=True), PartitionSpec("gpu", "n[3,5-6]"))


@pytest.mark.parametrize(
    ("nodes", "places"), [("n[1-2]", [1, 2]), ("n1-n3", [1, 2, 3]), ("n-4,n0", [0, 4]), ("all", [0, 1, 2, 3, 4])]
)
def test_nodes_are_names_lists_and_ranges(nodes: str, places: list[int]) -> None:
    assert places_of(PartitionSpec("p", nodes), ["n0", "n1", "n2", "n3", "n-4"]) == places


@pytest.mark.parametrize("nodes", ["n9", "n[0-9]", "n3-n1", "n[", "-", "n1-"])
def test_unknown_nodes_are_an_error(nodes: str) -> None:
    with pytest.raises(InputError, match=r"partition p: expected nodes of the machine \(n0, n1, n2, …\), found"):
        places_of(PartitionSpec("p", nodes), ["n0", "n1", "n2", "n3"])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"partition": "gpus"}, "field partition: expected one or some of batch, gpu, found 'gpus'"),
        ({"walltime": 3601}, "walltime 3601.0 is over max_time 3600.0 of partition batch"),
        ({"partition": "gpu", "n_nodes": 3}, "requests 3 nodes, which is over max_nodes 2 of partition gpu"),
        ({"gpus": 1}, "can never fit: requests 1 GPU on a node; no node in partition batch has that"),
        ({"partition": "gpu,batch", "n_nodes": 5}, "requests 5 nodes, which is over max_nodes 2 of partition gpu"),
        (
            {"partition": "gpu", "n": 9},
            "can never fit: requests 9 processors on 1 to 2 nodes; the 4 nodes that it can ",
        ),
    ],
)
def test_a_job_that_no_partition_accepts_is_rejected(
    fields: dict[str, Any], reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    n = fields.pop("n", 5)
    jobs = Workload().job("a", n=n, s=1, **{"walltime": 9, **fields}).job("b", n=1, s=1, partition=" gpu , batch ")
    assert states(jobs) == {"a": None, "b": (0, "8")}
    assert simulate(jobs, tmp_path) == (2 if "expected one or some" in reason else 0)  # unknown names: before the run
    assert reason in "".join(capfd.readouterr())


def test_all_gpus_are_counted_in_each_partition() -> None:
    """In batch a job with two GPUs gets them on two nodes, in fat on one."""
    hosts = [{"node": f"n{i // 4}", "gpus": "2" if i >= 8 else "1"} for i in range(12)]
    jobs = Workload().job("a", n=2, s=9, gpus=2, partition="thin").job("b", n=2, s=9, gpus=2, partition="fat,thin")
    jobs.job("c", n=2, s=9, gpus=2, partition="fat,thin", at=1)
    found = run_policy("easy", jobs, hosts=hosts, node_partitions="thin: n0-n1; fat: n2, priority 1")
    assert [(job.started_at, str(job.procs)) for job in found.jobs.values()] == [(0, "0 4"), (0, "8-9"), (9, "8-9")]


def test_groups_of_partitions_do_not_wait_for_each_other() -> None:
    jobs = Workload().job("a", n=8, s=10, walltime=10, partition="p").job("b", n=12, s=10, walltime=10, partition="p")
    jobs.job("c", n=8, s=10, walltime=10, at=1, partition="q").job("d", n=12, s=5, walltime=5, at=2, partition="q")
    jobs.job("e", n=4, s=50, walltime=50, at=3, partition="q")  # would delay d
    apart = "p: n[0-2]; q: n[3-5]"
    assert states(jobs, "fcfs", apart)["c"] == (1, "12-19")
    found = states(jobs, "easy", apart)
    assert [found[name][0] for name in "abcde"] == [0, 10, 1, 11, 16]
    # A job that names both makes them one group.
    jobs.job("f", n=4, s=1, walltime=1, at=0.5, partition="p,q")
    assert states(jobs, "fcfs", apart)["c"] == (10, "16-23")


def test_priority_comes_before_the_order_of_the_policy() -> None:
    jobs = Workload().job("a", n=24, s=10, walltime=10, partition="x")
    for index, partition in enumerate("xyxy"):
        jobs.job(f"{index}", n=24, s=9 - index, walltime=10 - index, at=1, partition=partition)
    partitions = "x: all; y: all, priority 1"
    for order, expected in (("fcfs", "1302"), ("sjf", "3120")):
        found = run_policy("fcfs", jobs, hosts=HOSTS, node_partitions=partitions, order=order).jobs
        starts = {name.removeprefix("w0!"): job.started_at or 0.0 for name, job in found.items()}
        assert "".join(sorted("0123", key=starts.__getitem__)) == expected


class OnLowest(Policy):
    """Starts every job at once on the lowest processors."""

    plans_nodes = True

    def on_begin(self, cluster: Cluster) -> None:
        self.partition = cluster.add_partition("all", cluster.procs)
        self.jobs = list[Job]()

    def on_requests(self, nodes: pb.Nodes, now: float) -> None:
        assert now == 0
        self.nodes = nodes

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.allowed = [f"{one.name}: {one.procs}" for one in self.nodes.partitions_of(job)]
        self.jobs.append(job)

    def decide(self, now: float) -> Iterable[Decision]:
        while self.jobs:
            job = self.jobs.pop(0)
            yield ExecuteJob(job.id, self.partition.free.first(job.n_procs), reason="; ".join(self.allowed))


@pytest.mark.parametrize(
    ("partition", "n", "nodes", "allowed"),
    [("gpu", 3, "n0", "gpu"), ("batch,gpu", 8, "n0, n1", "batch, gpu")],
)
def test_a_start_outside_of_all_partitions_is_an_error(partition: str, n: int, nodes: str, allowed: str) -> None:
    jobs = Workload().job("a", n=n, s=1, partition=partition)
    text = f"its nodes {nodes} do not lie within one of its partitions: {allowed}"
    with pytest.raises(PolicyError, match=text) as caught:
        run_policy(OnLowest, jobs, hosts=HOSTS, node_partitions="batch: n0, n2; gpu: n1, n3")
    assert caught.value.rule == "inside the partition"
    assert caught.value.job_id == "w0!a"


def test_other_policies_and_sharing_are_errors(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    jobs = Workload().job("a", n=1, s=1)
    with pytest.raises(InputError, match="option node_partitions: policy dbf does not plan nodes; expected fcfs, easy"):
        run_policy("dbf", jobs, hosts=HOSTS, node_partitions=PARTITIONS)
    assert simulate(jobs, tmp_path, "--enable-compute-sharing") == 2
    assert "option node_partitions is set; expected a Batsim that is started without" in capfd.readouterr().err


def test_partitions_work_in_python_campaigns_and_replays(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    jobs = Workload().job("a", n=8, s=5, walltime=9, partition="p").job("b", n=8, s=5, walltime=9, partition="p,q")
    journal = ["--journal", str(tmp_path / "run.pbj")]
    partitions = "p: 0-1; q: 4-5"
    assert simulate(jobs, tmp_path, *journal, "--partitions", partitions) == 0
    assert [line.split(",")[14] for line in (tmp_path / "out_jobs.csv").read_text().splitlines()[1:]] == [
        "0-7",
        "16-23",
    ]
    assert main(["replay", journal[1]]) == 0
    result = pb.simulate(tmp_path / "w.json", pb.policy("easy", node_partitions=partitions), nodes="6 x 4 cores")
    assert result.jobs["wait_s"].to_list() == [0, 0]
    assert result.jobs["policy"][0] == "easy(node_partitions=p+q)"
    (tmp_path / "study.toml").write_text(
        f"""
        name = "study"
        [[workload]]
        name = "w"
        file = "w.json"
        [[platform]]
        name = "nodes"
        nodes = "6 x 4 cores"
        [[policy]]
        name = "easy"
        [policy.options]
        node_partitions = ["{partitions}", "p: 0-1; q: all", "p: all; q: 0"]
        """
    )
    assert main(["campaign", "run", str(tmp_path / "study.toml"), "--output", str(tmp_path / "study"), "--quiet"]) == 0
    assert pb.read_campaign(tmp_path / "study").figures["max_wait_s"].to_list() == [0, 0, 0]


def test_a_policy_may_be_replaced_by_one_with_other_partitions(tmp_path: Path) -> None:
    jobs = Workload().job("a", n=8, s=5, walltime=9, partition="p").job("b", n=24, s=5, walltime=9, partition="q")
    jobs.job("c", n=8, s=5, walltime=5, at=1, partition="p")
    simulate(jobs, tmp_path)  # writes the file
    sim = pb.Simulation(
        pb.read_workload(tmp_path / "w.json"), "easy", node_partitions="p: 0-1; q: all", nodes="6 x 4 cores"
    )
    sim.run(until=2)
    with pytest.raises(InputError, match="partition p: expected nodes of the machine"):
        sim.replace_policy("fcfs", node_partitions="p: 9; q: all")
    sim.replace_policy("conservative", node_partitions="p: 4-5; q: all")
    sim.run(until=3)
    sim.replace_policy("dbf")
    sim.run()
    assert sim.result().figures.mean_wait_s == (0 + 6 + 0) / 3  # c starts on its new nodes at once


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
def test_one_partition_of_all_nodes_changes_nothing(policy: str) -> None:
    jobs = Workload()
    for index in range(60):
        jobs.job(index, n=index * 7 % 23 + 1, s=5 + index % 4, at=index // 2, walltime=12 + index % 5)
    plain = run_policy(policy, jobs, hosts=HOSTS).jobs
    found = run_policy(policy, jobs, hosts=HOSTS, node_partitions="all: all, default").jobs
    assert [job.started_at for job in found.values()] == [job.started_at for job in plain.values()]
