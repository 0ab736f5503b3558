"""Decisions in unusual forms: the embedded simulator accepts those that Batsim accepts, and no others."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_OF_WORK_S
from support.places import RECORDED
from support.replying import DROP_IN, Scheduler

import pybatsched
from pybatsched import BatsimFeature, Cluster, Job, Policy
from pybatsched.cli import build_parser
from pybatsched.cli.simulate import spec_of
from pybatsched.core import decisions as d, events as e
from pybatsched.errors import NotSimulatedError
from pybatsched.protocol import v4
from pybatsched.runs.build import build
from pybatsched.simulator.simulation import SimulatedRun
from pybatsched.simulator.world import Refusal
from pybatsched.workload.model import Workload

PLATFORM = RECORDED / "energy" / "platform.xml"
ABORTED = -6
Decided = tuple[str, dict[str, Any]]


def start(alloc: str = "0-1", **more: Any) -> Decided:
    return "EXECUTE_JOB", {"job_id": "w0!a", "alloc": alloc} | more


#: Decisions about a waiting job of two processors, and the error if they abort Batsim.
ODD: list[tuple[list[Decided], str]] = [
    ([start("0 1", mapping={"0": "0", "1": "1"})], ""),
    ([start("0 1", note=1)], ""),
    ([start(note=1, other=2)], "EXECUTE_JOB of w0!a: expected at most three members, found more"),
    ([start(mapping={"0": "0", "1": "1"}, note=1)], "EXECUTE_JOB of w0!a: expected at most three members, found more"),
    ([start(mapping=None)], "EXECUTE_JOB of w0!a: mapping is null; expected an object, or no such member"),
    ([start(mapping={})], "EXECUTE_JOB of w0!a: the mapping is empty"),
    ([start(storage_mapping={"pfs": 2})], ""),
    ([start(storage_mapping={"pfs": "2"})], "expected a storage_mapping from names to host numbers, found {'pfs': '2"),
    ([start(storage_mapping={})], "expected a storage_mapping from names to host numbers, found {}"),
    ([("REJECT_JOB", {"job_id": "w0!a", "why": "x"})], "REJECT_JOB: expected only job_id, found the member 'why'"),
    ([start(), ("KILL_JOB", {"job_ids": []})], "KILL_JOB has no jobs"),
    ([start(), ("KILL_JOB", {"job_ids": ["w0!a"], "why": None})],
     "KILL_JOB: expected only job_ids, found the member 'why'"),
    ([start(), ("CALL_ME_LATER", {"timestamp": 9, "id": 1})],
     "CALL_ME_LATER: expected only timestamp, found the member 'id'"),
    ([start(), ("CALL_ME_LATER", {"timestamp": 9})], ""),
    ([start(), ("SET_RESOURCE_STATE", {"resources": "2", "state": "0", "x": 1})],
     "SET_RESOURCE_STATE: expected only resources and state, found the member 'x'"),
    ([start(), ("SET_RESOURCE_STATE", {"resources": "2", "state": 0})],
     "expected a pstate (a number as text), found 0"),
    ([start(), ("SET_RESOURCE_STATE", {"resources": "2-2", "state": "0"})], ""),
    ([start(), ("SET_JOB_METADATA", {"job_id": "w0!a", "metadata": "m", "x": 1})],
     "SET_JOB_METADATA: expected only job_id and metadata, found the member 'x'"),
    ([start(), ("QUERY", {"requests": {"consumed_energy": {}}, "x": 1})],
     "QUERY: expected only requests, found the member 'x'"),
    ([start(), ("ANSWER", {})], "Batsim accepts only the answer estimate_waiting_time"),
    ([start(), ("ANSWER", {"other": {}})], "Batsim accepts only the answer estimate_waiting_time"),
    ([start(), ("ANSWER", {"estimate_waiting_time": {"job_id": "a"}})], "answer estimate_waiting_time: expected a"),
    ([start(), ("ANSWER", {"estimate_waiting_time": {"job_id": "a", "estimated_waiting_time": 5}})], ""),
    ([start(), ("NOTIFY", {"type": "registration_finished", "x": 1})], ""),
]  # fmt: skip


def reply_to(request: dict[str, Any], decided: Sequence[Decided]) -> bytes:
    """Decide when the job is submitted, and reply nothing otherwise."""
    now = request["now"]
    comes = any(event["type"] == "JOB_SUBMITTED" for event in request["events"])
    events = [{"timestamp": now, "type": kind, "data": data} for kind, data in (decided if comes else ())]
    return json.dumps({"now": now, "events": events}).encode()


def workload(folder: Path) -> Path:
    job = {"id": "a", "subtime": 1, "res": 2, "profile": "d"}
    path = folder / "w.json"
    path.write_text(json.dumps({"nb_res": 4, "jobs": [job], "profiles": {"d": {"type": "delay", "delay": 10}}}))
    return path


def simulated(
    decided: Sequence[Decided], folder: Path, *options: str, called: Sequence[Decided] = (), energy: bool = True
) -> bool:
    """Run to the end, with more decisions when the scheduler is called. Return whether all jobs are finished."""
    arguments = ["-p", str(PLATFORM), "-w", str(workload(folder)), *["-E"][:energy], *options]
    args = build_parser().parse_args(["simulate", *arguments, "--external", "--quiet"])

    def scheduler(now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
        kinds = {type(event) for event in events}
        comes = e.JobSubmitted in kinds or e.RequestedCall in kinds
        reply = {"now": now, "events": [{"type": "JOB_SUBMITTED"}] if comes else []}
        message = v4.decode_decisions(reply_to(reply, called if e.RequestedCall in kinds else decided))
        return message.now, message.items

    return SimulatedRun(build(spec_of(args)).scenario, scheduler).run()


@pytest.mark.parametrize(("decided", "message"), ODD)
def test_decisions_are_accepted_if_batsim_accepts_them(decided: list[Decided], message: str, tmp_path: Path) -> None:
    if not message:
        assert simulated(decided, tmp_path)
        return
    with pytest.raises(Refusal) as caught:
        simulated(decided, tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize("options", [(), ("--enable-dynamic-jobs",)])
@pytest.mark.parametrize(
    ("job_id", "why"),
    [
        ("w0!a", "it has ended and was removed"),
        ("w0!b", "it does not exist"),
        ("w1!a", "it does not exist"),
        ("a", "it does not exist"),
    ],
)
def test_a_finished_job_is_not_an_unknown_job(job_id: str, why: str, options: tuple[str, ...], tmp_path: Path) -> None:
    late = "EXECUTE_JOB", {"job_id": job_id, "alloc": "0-1"}
    with pytest.raises(Refusal) as caught:
        simulated([start(), ("CALL_ME_LATER", {"timestamp": 60})], tmp_path, *options, called=[late])
    assert f"cannot execute job '{job_id}': {why}" in str(caught.value)


PROFILE = {"workload_name": "x", "profile_name": "p", "profile": {"type": "parallel_homogeneous", "cpu": 1, "com": 1}}


@pytest.mark.parametrize(
    ("decided", "message"),
    [
        (
            [start(additional_io_job={"alloc": "2", "profile_name": "d"})],
            r"additional_io_job is not simulated with clock exact \(use clock simgrid\)",
        ),
        ([start(), ("REGISTER_PROFILE", PROFILE)], "registered profile p .*communicates"),
    ],
)
def test_features_of_batsim_only_are_named_in_the_error(decided: list[Decided], message: str, tmp_path: Path) -> None:
    """Batsim accepts both, so it is not an error of the scheduler."""
    with pytest.raises(NotSimulatedError, match=message):
        simulated(decided, tmp_path, "--enable-dynamic-jobs", energy=False)
    assert run(DROP_IN, decided, tmp_path, "--enable-dynamic-jobs", energy=False) == 2


@pytest.mark.parametrize("kind", [["delay"], {"a": 1}, None])
def test_the_type_of_a_registered_profile_is_a_text(kind: Any, tmp_path: Path) -> None:
    profile = PROFILE | {"profile": {"type": kind, "delay": 1}}
    with pytest.raises(Refusal, match='REGISTER_PROFILE into x: profile "p", field type: expected'):
        simulated([start(), ("REGISTER_PROFILE", profile)], tmp_path, "--enable-dynamic-jobs")


class _ReusesItsList(Policy):
    """Registers a profile with a list, and changes the list before the job starts."""

    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def on_begin(self, cluster: Cluster) -> None:
        self.flops = [1e9]
        self.is_registered = False
        self.partition = cluster.add_partition("all", cluster.procs)
        self.waiting = ["w1!1"]

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.waiting.append(job.id)

    def decide(self, now: float) -> Iterator[d.Decision]:
        if not self.is_registered:
            self.is_registered = True
            yield d.RegisterProfile("w1", "p", {"type": "parallel", "cpu": self.flops, "com": [0.0]})
            yield d.RegisterJob("w1!1", {"id": "w1!1", "subtime": now, "res": 1, "profile": "p", "walltime": 1000})
        if now >= 5.0:
            self.flops[0] = 50e9
            for job_id in self.waiting:
                yield d.ExecuteJob(job_id, self.partition.free.first(1))
            self.waiting = []


@pytest.mark.parametrize("journal", [False, True])
def test_a_policy_may_change_its_lists_after_a_decision(journal: bool) -> None:
    """As with Batsim, which gets a text."""
    jobs = [{"id": k, "subtime": 5 * k, "res": 1, "walltime": 60, "profile": "d"} for k in (0, 1)]
    log = pybatsched.Log(Workload(jobs, {"d": {"type": "delay", "delay": 10}}, n_procs=4), "two jobs")
    run = pybatsched.simulate(log, _ReusesItsList, journal=journal, progress=False)
    assert dict(run.jobs.select("id", "runtime_s").rows())["w1!1"] == 1.0


@pytest.mark.batsim
@pytest.mark.parametrize(("decided", "message"), ODD)
def test_batsim_accepts_the_same_decisions(decided: list[Decided], message: str, tmp_path: Path) -> None:
    assert run(("batsim",), decided, tmp_path) == (ABORTED if message else 0)


def run(program: Sequence[str], decided: Sequence[Decided], folder: Path, *options: str, energy: bool = True) -> int:
    scheduler = Scheduler([])
    command = [*program, "-p", str(PLATFORM), "-w", str(workload(folder)), *["-E"][:energy], "-q", *options]
    with scheduler.listening() as endpoint:
        process = subprocess.Popen(
            [*command, "-s", endpoint], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        message = b""
        while process.poll() is None and b"SIMULATION_ENDS" not in message:
            if scheduler.waits():
                message = scheduler.receive()
                scheduler.send(reply_to(json.loads(message), decided))
        return process.wait(PATIENCE_OF_WORK_S)
