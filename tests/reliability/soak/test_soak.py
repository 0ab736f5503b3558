"""Simulated faults: some runs of every policy pass, and broken policies are found and reduced."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest

from pybatsched.core import decisions as d
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.policy import Policy
from pybatsched.policies import registry
from pybatsched.session.journal import JournalWriter
from pybatsched.session.session import Session
from pybatsched.testing import plan_for
from reliability.soak import __main__ as soak, checks, faulty_policies as broken, scene_runs
from reliability.soak.__main__ import drawn, kind, shrunk
from reliability.soak.checks import judge
from reliability.soak.other_programs import Ledger
from reliability.soak.random_scenes import POLICIES, REGISTERING, choices
from reliability.soak.scene_runs import Fate, Played, embedded
from reliability.soak.scenes import ON_NODES, Job, Outage, Scene, scene_in, text_of
from reliability.soak.schedule_rules import schedule_problems

N_RUNS = 20


@pytest.mark.parametrize("policy", POLICIES)
def test_runs_with_faults_have_no_problems(policy: str) -> None:
    row = soak.soak(policy, range(N_RUNS))
    assert row.failures == []
    assert row.counts["runs"] == N_RUNS
    assert all(row.counts[what] for what in ("jobs", "outages", "kills", "messages")), row.counts
    if policy in REGISTERING:
        assert row.counts["segments"]  # the policy registers jobs; in others only failures and reservations do


@cache
def scenes_of(policy: str) -> list[Scene]:
    return [drawn(policy, seed) for seed in range(150)]


def test_a_scene_is_a_function_of_policy_and_seed() -> None:
    assert drawn("dbf", 3) == drawn("dbf", 3)
    assert drawn("dbf", 3) != drawn("dbf", 4)
    scenes = [scene for policy in POLICIES for scene in scenes_of(policy)]
    assert all(scene_in(f"# a comment\n{text_of(scene)}") == scene for scene in scenes[::50])
    # All that is to be tried is.
    assert {scene.batsim for scene in scenes} == {4, 5}
    for flag in ("dynamic", "acknowledged", "reuse", "forward", "outages", "drains", "kills", "late", "others"):
        assert {bool(getattr(scene, flag)) for scene in scenes} == {True, False}
    assert {scene.is_honest for scene in scenes} == {True, False}
    assert any(outage.until is None for scene in scenes for outage in scene.drains)
    assert {table["conflict"] for scene in scenes for table in scene.reservations} == {"wait", "requeue", "kill"}
    assert any("users" in table for scene in scenes for table in scene.reservations)
    fields = {name for scene in scenes for job in scene.jobs for name in job.fields}
    assert {"checkpoint_work_s", "reservation"} <= fields
    assert {"n_nodes", "gpus", "exclusive", "partition"} <= fields
    assert {job.workload for scene in scenes for job in scene.jobs} == {"w0", "w1", "w2", "other"}
    assert any(outage.until is None for scene in scenes for outage in scene.outages)
    assert any(job.at >= 1e9 for scene in scenes for job in scene.jobs)
    assert any(job.s <= 1e-5 for scene in scenes for job in scene.jobs)
    assert max(scene.n_procs for scene in scenes) == 4_000
    assert max(len(scene.jobs) for scene in scenes) >= 30
    assert min(len(scene.jobs) for scene in scenes) == 1


def test_late_drains_and_outages_differ_in_their_offsets() -> None:
    """A job that starts at the end of a drain would end at an outage, except for the last digit of a double."""
    late = [scene for policy in POLICIES for scene in scenes_of(policy) if scene.jobs[0].at >= 1e9]
    both = [scene for scene in late if scene.outages and scene.drains]
    assert both
    for scene in both:
        outages, drains = (
            {at for one in given for at in (one.at, one.until)} for given in (scene.outages, scene.drains)
        )
        assert (outages & drains) <= {None}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_option_of_a_policy_is_drawn_with_all_that_can_be_chosen(policy: str) -> None:
    drawn_values: dict[str, set[str]] = {}
    for scene in scenes_of(policy):
        for name, value in scene.options.items():
            drawn_values.setdefault(name, set()).add(repr(value))
    fields = dict(registry.find(policy).option_fields)
    fields.pop("loads", None)  # transfers need SimGrid's clock, which the soak does not use
    if policy not in ON_NODES:
        del fields["node_partitions"]
    assert drawn_values.keys() == fields.keys()
    for name, one in fields.items():
        assert set(map(repr, choices(one.annotation))) <= drawn_values[name], name


def found(policy: str, cls: type[Policy], first: int) -> tuple[Scene, list[str]]:
    """Look from a seed on for a scene that a broken policy fails on, and let Hypothesis shrink it.

    Scenes on nodes are left out: these policies break the rules of nodes, too.
    """

    def problems(scene: Scene) -> list[str]:
        return [] if scene.has_nodes else judge(scene, cls).problems

    return shrunk(policy, next(seed for seed in range(first, 300) if problems(drawn(policy, seed))), problems, 200)


@pytest.mark.parametrize(
    ("policy", "cls", "first_seed", "message", "n_jobs"),
    [
        ("easy", broken.StartsTwice, 2, "processors free", 2),
        ("fcfs", broken.LosesJobs, 0, "has not come to its end; left over are", 3),
        ("easy", broken.RejectsJobs, 0, "is rejected without need", 2),
        ("easy", broken.CallsForEver, 0, r"endless calls|\d+ messages for \d+ events", 2),
        ("easy", broken.Starves, 95, "first in the queue, was to start by", 4),
        ("conservative", broken.BreaksStarts, 7, "was to start at", 3),
        ("easy", broken.KillsJobs, 0, "was killed by its own scheduler, and never went on", 2),
        ("dbf", broken.HidesBrokenPromises, 8, "and nobody told", 3),
        ("dbf", broken.CriesWolf, 0, "is told to have missed it", 2),
        ("easy", broken.Moody, 0, "differs: embedded", 1),
    ],
)
def test_broken_policies_are_found_and_reduced(
    policy: str, cls: type[Policy], first_seed: int, message: str, n_jobs: int
) -> None:
    """The search begins at a seed, for what few scenes show."""
    scene, problems = found(policy, cls, first_seed)
    assert re.search(message, problems[0]), problems
    assert len(scene.jobs) <= n_jobs, text_of(scene)
    assert len(scene.outages) + len(scene.kills) + len(scene.late) <= 1, text_of(scene)


def test_the_smallest_scene_is_as_plain_as_it_can_be() -> None:
    """A policy that starts its second job on a busy processor fails with two jobs at once, and nothing else."""
    scene, _ = found("easy", broken.StartsTwice, 2)
    jobs = tuple(Job(f"w0!{nth}", at=0.0, n=1, s=1.0, fields={"walltime": 2.0}) for nth in range(2))
    assert scene == Scene("easy", 2, jobs)


def test_a_server_that_omits_decisions_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the wire the last start of every message with two is lost."""

    class Lossy(Session):
        def handle(self, raw: bytes) -> bytes:
            reply = json.loads(super().handle(raw))
            starts = [one for one in reply["events"] if one["type"] == "EXECUTE_JOB"]
            if len(starts) > 1:
                reply["events"].remove(starts[-1])
            return json.dumps(reply).encode()

    monkeypatch.setattr(scene_runs, "Session", Lossy)

    def problems(scene: Scene) -> list[str]:
        return judge(scene).problems

    seed = next(seed for seed in range(100) if (scene := drawn("fcfs", seed)).batsim == 4 and problems(scene))
    scene, _ = shrunk("fcfs", seed, problems, 100)
    assert len(scene.jobs) == 2


@pytest.mark.parametrize(
    ("lost", "message"),
    [(["request", "reply"], "the journal has 2 of "), (["reply"], "the journal does not say what came of message 3")],
)
def test_a_journal_that_omits_records_is_found(monkeypatch: pytest.MonkeyPatch, lost: list[str], message: str) -> None:
    def write(journal: JournalWriter, *, record: str, n: int = 0, **members: Any) -> None:
        if n < 3 or record not in lost:
            whole(journal, record=record, **({"n": n} if n else {}), **members)

    whole = JournalWriter._write
    monkeypatch.setattr(JournalWriter, "_write", write)
    scene = Scene("fcfs", 2, (Job("w0!a", at=0.0, n=1, s=5.0), Job("w0!b", at=1.0, n=1, s=5.0)))
    (problem,) = judge(scene).problems
    assert problem.startswith(message)


def test_illegal_decisions_are_detected_without_the_engine() -> None:
    """The ledger checks the rules independently of the engine."""
    ledger = Ledger(4)
    ledger.waiting = {"a": 2, "b": 1, "c": 1, "d": 1}
    ledger.away = {3}
    ledger.drained = {2}

    def start(job_id: str, procs: Sequence[int]) -> None:
        ledger.obey([d.ExecuteJob(job_id, IntervalSet(procs))])

    start("a", [0, 1])
    assert ledger.problems == []
    for job_id, procs in (("b", [1]), ("c", [2, 3]), ("a", [2]), ("d", [7])):
        start(job_id, procs)
    ledger.obey(
        [d.RejectJob("a"), d.KillJob(("nobody",)), d.RegisterJob("a", {"res": 1}), d.RegisterJob("new", {"res": 1})]
    )
    assert ledger.problems == [
        "b is started on processors of a", "c asks for 1 processors and is started on 2",
        "c is started on processors that are away", "c is started on drained processors",
        "a is started and does not wait", "d is started on processors that do not exist",
        "a is rejected and does not wait", "nobody is killed and does not run", "a is registered and was there before",
    ]  # fmt: skip


def fates_in(text: str) -> dict[str, Fate]:
    """Read the parts of jobs, in order: a name, start, end, processors, and perhaps a note on a later part.

    An end with ! means that the part was killed, and ? that it is not over.
    """
    found: dict[str, Fate] = {}
    for name, start, end, procs, *note in map(str.split, text.split(", ")):
        nth = sum(one.split(".")[1:2] == [name] or one == f"w0!{name}" for one in found)
        state = "" if end == "?" else f"COMPLETED_{'KILLED' if end.endswith('!') else 'SUCCESSFULLY'}"
        times = float(start), -1.0 if end == "?" else float(end.strip("!"))
        lineage = ";".join([f"parent=w0!{name};segment={nth}", *note]) if nth else ""
        found[f"dyn!w0.{name}.{nth}" if nth else f"w0!{name}"] = Fate(state, *times, procs, lineage)
    return found


TWO = Scene("easy", 2, (Job("w0!a", at=0.0, n=1, s=5.0), Job("w0!b", at=1.0, n=1, s=5.0)))
AWAY = replace(TWO, outages=(Outage(10.0, 20.0, "1"),))
CHECKPOINTS = {f"checkpoint_{name}_s": s for name, s in (("interval", 2), ("dump", 1), ("read", 1), ("work", 6))}
ONE = Scene("easy", 1, (Job("w0!a", at=0.0, n=1, s=8.0, fields={"estimate": 8.0, **CHECKPOINTS}),))
DRAINED = replace(ONE, drains=(Outage(3.0, 9.0, "0"),))
FAILED = replace(ONE, options={"on_failure": "kill"}, outages=(Outage(5.0, 6.0, "0"),))


def reserved(conflict: str, **more: float) -> Scene:
    """Return the scene of one job with a reservation."""
    window = {"name": "r", "start": 10.0, "duration": 5.0, "hosts": "0", "conflict": conflict, **more}
    return replace(ONE, options={"host_reservations": [window]})


@pytest.mark.parametrize(
    ("scene", "fates", "message"),
    [
        (AWAY, "a 0 5 0, b 3 8 0", "processor 0 is used twice"),
        (AWAY, "a 0 5 0", "w0!b is lost"),
        (AWAY, "a 0 5 0, b 11 16 1", "which is away"),
        (AWAY, "a 0 5 0, b 5 ? 0", "w0!b has no end"),
        (AWAY, "a 0 5 0, b 0 5 1", "starts at 0.0, before"),
        (AWAY, "a 0 4 0, b 5 10 0", "has done 4.0 s of work"),
        (AWAY, "a 0 5 0, b 5 10 0, b 10 15 0", "w0!b goes on after its part 0, which is COMPLETED_SUCCESSFULLY"),
        (AWAY, "a 0 5 0, b 5 10 0", ""),
        (DRAINED, "a 4 12 0", "processor 0, which is drained from 3.0"),
        (DRAINED, "a 2 10 0", ""),
        (reserved("wait"), "a 11 19 0", "which is reserved from"),
        (reserved("wait"), "a 3 11 0", "in the way of r at 10.0"),
        (reserved("wait", notice=2.0), "a 3 11 0", ""),
        (reserved("kill"), "a 3 11 0", "a runs on after 10.0"),
        (reserved("kill"), "a 3 10! 0", ""),
        (reserved("kill"), "a 3 9! 0", "its own"),
        (FAILED, "a 1 9 0", "which has failed"),
        (FAILED, "a 1 5! 0", ""),
        # At 5 one checkpoint is complete, at 3 s of its run time; the rest takes 1 + 5 s.
        (ONE, "a 0 5! 0, a 5 11 0 kept_s=3;extra_s=1", ""),
        (ONE, "a 0 5! 0, a 5 8 0 kept_s=6;extra_s=1", "a goes on from 6.0 s in its part 1, after 5"),
        (ONE, "a 0 5! 0, a 5 13 0 extra_s=0", "a goes on from 0.0 s in its part 1, after 5"),
        (ONE, "a 0 5! 0, a 5 12 0 kept_s=3;extra_s=1", "a has done 9.0 s of work"),
        # What each policy promises.
        (replace(TWO, policy="fcfs"), "a 7 12 0, b 2 7 1", "w0!b starts at 2.0, before w0!a"),
        (replace(TWO, policy="redirection"), "a 0 3! 1, a 3 8 0, b 8 13 1", "w0!a is redirected from 1 to 0"),
        (replace(TWO, policy="ujfb"), "a 0 3! 1, a 3 5 0 work=rest, b 8 13 1", "w0!a resumes on other processors"),
    ],
)  # fmt: skip
def test_a_wrong_schedule_is_detected(scene: Scene, fates: str, message: str) -> None:
    problems = schedule_problems(scene, fates_in(fates))
    assert bool(problems) == bool(message), problems
    assert not message or message in problems[0]


@pytest.mark.parametrize(
    ("policy", "options", "n", "fields", "is_needless"),
    [
        ("redirection", {"group_size": 1}, 3, {}, True),
        ("redirection", {"group_size": 2}, 3, {}, False),
        ("redirection", {"group_size": 1, "principal": "conservative"}, 3, {}, False),
        ("locality", {}, 2, {"walltime": 9.0}, True),
        ("locality", {}, 3, {"walltime": 9.0}, False),
        ("locality", {}, 2, {}, False),
        ("reallocation", {}, 3, {"walltime": 9.0}, True),
        ("reallocation", {}, 3, {"walltime": 9.0, "external": True, "cluster": "b"}, False),
        ("ujfb", {}, 4, {"estimate": 9.0}, True),
        ("dbf", {"infeasible": "reject"}, 4, {"estimate": 9.0, "max_stay": 5.0}, False),
    ],
)
def test_a_needless_rejection_is_found(
    policy: str, options: dict[str, Any], n: int, fields: dict[str, Any], is_needless: bool
) -> None:
    nodes = [{"node": name, "cluster": name, "memory_gb": "16"} for name in ("a", "a", "b", "b")]
    nodes[2]["cluster"] = "a"
    hosts = tuple(nodes) if policy in {"locality", "reallocation"} else ()
    scene = Scene(policy, 4, (Job("w0!a", at=0.0, n=n, s=5.0, fields=fields),), options, hosts)
    problems = schedule_problems(scene, {"w0!a": Fate("REJECTED", -1, -1, "", "")})
    assert problems == (["w0!a is rejected without need"] if is_needless else [])


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of scenes that failed."""
    monkeypatch.setattr(soak, "KEPT", tmp_path / "soak")
    return tmp_path / "soak"


def test_a_failing_seed_is_kept_and_replayed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kept: Path
) -> None:
    """The scene in the file fails with the policy that loses jobs, and passes with others."""
    again = ["--replay", str(kept / "fcfs-3.txt")]
    with monkeypatch.context() as patch:
        patch.setattr(checks, "plan_for", lambda _name, **options: plan_for(broken.LosesJobs, **options))
        assert soak.main(["--policy", "fcfs", "--one", "3"]) == 1
        assert soak.main(again) == 1
    assert capsys.readouterr().out.count("left over are") >= 3
    assert soak.main(again) == 0
    assert capsys.readouterr().out.endswith("nothing is wrong with it\n")
    assert soak.main(["--policy", "fcfs", "--one", "0"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Scene(policy='fcfs',\n")
    assert shown.endswith("nothing is wrong with it\n")


def test_failures_over_a_socket_are_reduced_over_the_socket(monkeypatch: pytest.MonkeyPatch, kept: Path) -> None:
    def lossy(scene: Scene, plan: registry.PolicyPlan) -> Played:
        played = embedded(scene, plan)
        played.fates.popitem()
        return played

    monkeypatch.setattr(checks, "over_a_socket", lossy)
    text = soak.report("fcfs", 7, [])
    assert text.startswith("# found by --policy fcfs --one 7\n")
    assert text.count("Job(") == 1
    assert "differs: embedded Fate(" in text
    assert [path.name for path in kept.iterdir()] == ["fcfs-7.txt"]


@pytest.mark.usefixtures("kept")
def test_failures_that_do_not_repeat_are_printed_unchanged() -> None:
    text = soak.report("fcfs", 7, ["TimeoutError in select: it has not ended"])
    assert "TimeoutError in select: it has not ended" in text
    assert text_of(drawn("fcfs", 7)) in text


@pytest.mark.parametrize("n", ["0", "-1", "x", "1.5"])
def test_no_runs_are_not_a_success(n: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        soak.main(["--runs", n])
    assert ended.value.code == 2
    assert f"argument --runs: expected a whole number, 1 or more, found '{n}'" in capsys.readouterr().err


@pytest.mark.usefixtures("kept")
def test_the_command_prints_a_table_and_scenes_that_fail(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Workers in this process, so that patches apply to them.
    pool = SimpleNamespace(map=map)
    monkeypatch.setattr(soak, "ProcessPoolExecutor", lambda _n: nullcontext(pool))
    assert soak.main(["--runs", "2", "--policy", "ujf", "fcfs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    cells = [line.split()[1:6:2] for line in lines]
    assert [cells[0], *cells[2:]] == [["policy", "runs", "jobs"], ["ujf", "2", ANY], ["fcfs", "2", ANY]]
    monkeypatch.setattr(soak, "judge", lambda scene, socket=False: judge(scene, broken.LosesJobs))
    assert soak.main(["--runs", "3", "--policy", "fcfs"]) == 1
    assert "\nScene(policy='fcfs',\n" in capsys.readouterr().out


def test_problems_that_differ_only_in_job_ids_are_of_one_kind() -> None:
    assert kind("w0!3 is started on processors of w1!7") == kind("w0!31 is started on processors of other!2")
