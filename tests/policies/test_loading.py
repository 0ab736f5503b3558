"""Policy files run only if the owner names them, never for the peer, a journal, a workload or a summary.

The policy file of these tests leaves a mark when it is run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.process import Peer, Server, run_cli

from pybatsched import Cluster, Options, QueuePolicy
from pybatsched.core import events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.policy import TrustedFiles
from pybatsched.errors import InputError, UntrustedFileError
from pybatsched.policies import registry
from pybatsched.policies.registry import PolicyPlan, PolicySource, Recorded
from pybatsched.session.explain import explain, job_histories
from pybatsched.session.journal import JournalReader, JournalWriter
from pybatsched.session.replay import replay, session_for
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for

CODE = """
from pathlib import Path

from pybatsched import LocalPolicy, LocalScheduler

Path({mark!r}).touch()


class OneByOne(LocalScheduler):
    def plan(self, now):
        for entry in list(self.queue):
            if entry[2].n_procs <= self.partition.n_free:
                yield self.start(entry, "fits")


class Mine(LocalPolicy):
    scheduler = OneByOne
"""
INSTALLED = ", ".join(registry.available())
WORKLOAD = Workload().job("a", n=2, s=5, walltime=9).job("b", n=3, s=5, at=1, walltime=9)


class File(NamedTuple):
    """A policy in a file, which records whether it was run."""

    name: str
    mark: Path

    def was_run(self) -> bool:
        """Return whether it was run since the last call."""
        was_run = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return was_run


@pytest.fixture
def file(tmp_path: Path) -> File:
    mark = tmp_path / "it-was-run"
    (tmp_path / "mine.py").write_text(CODE.format(mark=str(mark)))
    return File(f"{tmp_path}/mine.py:Mine", mark)


def refused(option: str, by: str, name: str, policy: str = "redirection") -> str:
    return (
        f"policy {policy}: option {option} (from {by}): {name!r} is a Python file, which is not accepted from "
        f"there; expected an installed policy: {INSTALLED} (give files with -o)"
    )


def play(plan: PolicyPlan, peer_options: Mapping[str, Any] | None = None, journal: Path | None = None) -> FakeBatsim:
    """Run a plan with options of the peer."""
    writer = None if journal is None else JournalWriter(journal)
    session = Session(plan, journal=writer)
    config = {"dynamic-jobs-enabled": True, "sched-config": json.dumps(peer_options) if peer_options else ""}
    with session.closing_journal():
        return FakeBatsim(WORKLOAD, 4, config=config).run(session.handle)


@pytest.mark.parametrize("option", ["principal", "redirected"])
def test_a_file_may_be_named_by_the_owner_but_not_by_the_peer(option: str, file: File) -> None:
    with pytest.raises(UntrustedFileError) as caught:
        play(plan_for("redirection", alpha=0.5), {option: file.name})
    assert str(caught.value) == refused(option, "Batsim's --sched-cfg", file.name)
    assert not file.was_run()
    play(plan_for("redirection", alpha=0.5, **{option: file.name}))
    assert file.was_run()
    assert not play(plan_for("redirection", alpha=0.5), {option: "fcfs"}).deadlocked


SHAPES: list[Callable[[str], Any]] = [
    lambda name: name,
    lambda name: name.partition(":")[0],
    lambda name: {"principal": name, "scheduler": name, name: name},
    lambda name: [name],
    lambda name: {"principal": "redirection", "principal_options": {"principal": name}},
]


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
@pytest.mark.parametrize("policy", registry.available())
def test_no_option_of_any_policy_runs_a_file_for_the_peer(policy: str, shape: Callable[[str], Any], file: File) -> None:
    source = registry.find(policy)
    for option in (*source.option_fields, "policy", "no_such_option"):
        with suppress(InputError):  # an option that the policy ignores is not an error
            play(PolicyPlan(source), {option: shape(file.name)})
        assert not file.was_run(), option


def test_options_of_owner_and_peer_are_checked_separately(file: File) -> None:
    other = file.name.replace("Mine", "Other")
    with pytest.raises(UntrustedFileError) as caught:  # each option has its own source
        play(plan_for("redirection", alpha=0.5, principal=file.name), {"redirected": other})
    assert str(caught.value) == refused("redirected", "Batsim's --sched-cfg", other)
    assert file.was_run()
    with pytest.raises(UntrustedFileError) as caught:  # also if it is the owner's file that the peer names
        play(plan_for("redirection", alpha=0.5, principal=file.name), {"redirected": file.name})
    assert str(caught.value) == refused("redirected", "Batsim's --sched-cfg", file.name)
    assert not file.was_run()
    play(plan_for("redirection", principal="easy"), {"principal": file.name})  # the option of the owner counts
    assert not file.was_run()
    play(plan_for("redirection", principal=file.name), {"principal": file.name})
    assert file.was_run()
    source = registry.find("redirection")
    from_file = PolicyPlan(source, from_file={"principal": file.name}, file_name="run.toml", trusted=True)
    play(from_file, {"principal": "easy"})
    assert not file.was_run()
    with pytest.raises(UntrustedFileError):
        play(from_file, {"principal": file.name})  # the option of the peer counts now
    assert not file.was_run()
    play(from_file)
    assert file.was_run()


def test_without_trust_only_installed_policies_are_found(file: File) -> None:
    with pytest.raises(UntrustedFileError) as caught:
        registry.find(file.name)
    expected = (
        f"policy {file.name!r} is a Python file, which is accepted only from your own options; expected an installed "
        f"policy: {INSTALLED}"
    )
    assert str(caught.value) == expected
    partition = Cluster(IntervalSet.parse("0-3")).add_partition("all", IntervalSet.parse("0-3"))
    with pytest.raises(UntrustedFileError) as caught:
        registry.local_scheduler(file.name, {}, partition)
    assert str(caught.value) == expected
    with pytest.raises(UntrustedFileError) as caught:
        play(PolicyPlan(registry.find("redirection"), {"principal": file.name}))
    assert str(caught.value) == refused("principal", "-o", file.name)
    assert not file.was_run()
    registry.local_scheduler(file.name, {}, partition, files=TrustedFiles(frozenset({file.name})))
    assert file.was_run()


class Parts(Options):
    """Names of local schedulers in nested options, and a text that is not such a name."""

    parts: tuple[dict[str, Any], ...] = ()
    note: str = ""


class Parted(QueuePolicy):
    """A policy as a user may write it."""

    Options = Parts

    def on_begin(self, cluster: Cluster) -> None:
        n = cluster.n_procs // max(len(self.options.parts), 1)
        for i, part in enumerate(self.options.parts):
            procs = IntervalSet.parse(f"{i * n}-{(i + 1) * n - 1}")
            partition = cluster.add_partition(f"part {i}", procs)
            self.locals.append(registry.local_scheduler(part["by"].strip(), {}, partition, files=self.trusted_files))

    def on_job_submitted(self, job: Any, now: float) -> None:
        self.submit_to(self.locals[0], job, now)


class Careless(Parted):
    """A policy that trusts any text of Batsim."""

    reads_sched_config = True

    def on_begin(self, cluster: Cluster) -> None:
        name = json.loads(cluster.sched_config)["by"]
        partition = cluster.add_partition("all", cluster.procs)
        self.locals = [registry.local_scheduler(name, {}, partition, files=self.trusted_files)]


def test_plugin_policies_cannot_load_files_named_by_the_peer(file: File) -> None:
    parts = [{"by": file.name}]
    play(plan_for(Parted, parts=parts, note="as in mine.py"), {"note": "see mine.py:Mine"})
    assert file.was_run()
    with pytest.raises(UntrustedFileError) as caught:
        play(plan_for(Parted), {"parts": parts})
    assert str(caught.value) == refused("parts", "Batsim's --sched-cfg", file.name, "Parted")
    for text in (f" {file.name}", f"{file.name}\n"):  # a name that the policy derives from an option
        with pytest.raises(UntrustedFileError):
            play(plan_for(Parted), {"parts": [{"by": text}]})
    with pytest.raises(UntrustedFileError):
        play(plan_for(Careless), {"by": file.name})
    assert not file.was_run()


def test_deeply_nested_options_are_checked_for_file_names() -> None:
    message = '{"parts": [{"by": ' + "[" * 400 + '"x.py:X"' + "]" * 400 + "}]}"
    begins = e.SimulationBegins(config={"sched-config": message}, timestamp=0.0)
    assert list(plan_for(Parted).trusted_files(begins).others) == ["x.py:X"]


NAMES = ["easy", "a.py:A", "b.py", "c.py:C"]
VALUES = st.recursive(
    st.sampled_from(NAMES), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner)
)
OPTIONS = st.dictionaries(st.sampled_from(["x", "y", "z"]), VALUES, max_size=3)


@examples(300)
@given(OPTIONS, OPTIONS, OPTIONS, OPTIONS, OPTIONS)
def test_a_file_is_trusted_only_if_the_user_alone_names_it(
    own: dict[str, Any],
    own_file: dict[str, Any],
    peer_options: dict[str, Any],
    recorded: dict[str, Any],
    recorded_file: dict[str, Any],
) -> None:
    source = PolicySource("parted", Parted, "a test")
    plan = PolicyPlan(source, own, own_file, trusted=True, recorded=Recorded(recorded, recorded_file))
    files = plan.trusted_files(e.SimulationBegins(config={"sched-config": json.dumps(peer_options)}, timestamp=0.0))
    strongest_first = [(own, True), (recorded, False), (peer_options, False), (own_file, True), (recorded_file, False)]
    texts = {True: "", False: ""}
    for key in "xyz":
        for options, is_owners in strongest_first:
            if key in options:
                texts[is_owners] += json.dumps(options[key])
                break
    named_by_others = {name for name in NAMES[1:] if f'"{name}"' in texts[False]}
    assert set(files.others) == named_by_others
    assert files.names == {name for name in NAMES[1:] if f'"{name}"' in texts[True]} - named_by_others
    assert not PolicyPlan(source, own, own_file).trusted_files(None).names


def begin(peer_options: str) -> bytes:
    """Write the first message of a Batsim that was started with --sched-cfg."""
    resources = [{"id": i, "name": f"n{i}", "state": "idle", "properties": {}} for i in range(4)]
    config = {"dynamic-jobs-enabled": True, "sched-config": peer_options, "redis-enabled": False}
    data = {"nb_resources": 4, "nb_compute_resources": 4, "config": config, "compute_resources": resources}
    event = {"timestamp": 0.0, "type": "SIMULATION_BEGINS", "data": data | {"workloads": {"w0": "w.json"}}}
    return json.dumps({"now": 0.0, "events": [event]}).encode()


@pytest.mark.parametrize("option", ["principal", "redirected"])
def test_a_file_named_by_the_peer_over_a_socket_is_rejected(option: str, file: File, tmp_path: Path) -> None:
    options = json.dumps({option: file.name, "alpha": 0.5})
    journal = str(tmp_path / "run.pbj")
    with Server("--policy", "redirection", "--journal", journal) as server, Peer(server.wait_ready()) as peer:
        error_reply = json.loads(peer.ask(begin(options)))
        assert server.finish() == 2
    expected = refused(option, "Batsim's --sched-cfg", file.name)
    assert expected in server.errors
    assert error_reply == {"error": f"UntrustedFileError: {expected}"}
    assert "Traceback" not in server.errors
    assert run_cli("replay", journal).stdout.endswith("identical: 1 message answered as recorded\n")
    assert not file.was_run()
    arguments = ("--policy", "redirection", "-o", f"{option}={file.name}", "-o", "alpha=0.5")
    with Server(*arguments) as server, Peer(server.wait_ready()) as peer:
        peer.ask(begin(""))
        peer.vanish()
        server.finish()
    assert file.was_run()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a workload whose jobs and profiles name the file wherever a text can be."""
    text = f"{tmp_path}/mine.py:Mine"
    more = dict.fromkeys(["policy", "scheduler", "queue", "user", "principal", "module", "class"], text)
    jobs = [{"id": f"j{i}", "subtime": i, "res": 2, "profile": "p", "walltime": 20, **more} for i in range(4)]
    content = {"nb_res": 4, "policy": text, "jobs": jobs, "profiles": {"p": {"type": "delay", "delay": 9, **more}}}
    (tmp_path / "w.json").write_text(json.dumps(content))
    return tmp_path


def simulate(place: Path, *more: str, policy: str = "redirection") -> Any:
    return run_cli("simulate", "--procs", "4", "-w", "w.json", "--policy", policy, "-e", "out", *more, cwd=place)


@pytest.mark.parametrize("how", ["--sched-cfg", "--sched-cfg-file"])
def test_simulate_treats_sched_cfg_as_options_of_the_peer(how: str, file: File, place: Path) -> None:
    text = json.dumps({"principal": file.name})
    (place / "cfg.json").write_text(text)
    done = simulate(place, how, text if how == "--sched-cfg" else "cfg.json")
    assert done.returncode == 2
    assert refused("principal", "Batsim's --sched-cfg", file.name) in done.stderr
    assert not file.was_run()
    assert simulate(place, "-o", f"principal={file.name}").returncode == 0
    assert file.was_run()


def test_configuration_files_of_the_owner_may_name_files(file: File, place: Path) -> None:
    (place / "run.toml").write_text(f'[policy.redirection]\nprincipal = "{file.name}"\n')
    assert simulate(place, "--config", "run.toml").returncode == 0
    assert file.was_run()
    (place / "study.toml").write_text(
        'name = "study"\nworkload = [{name = "w", file = "w.json"}]\nplatform = [{name = "p", procs = 4}]\n'
        f'[[policy]]\nname = "redirection"\noptions = {{principal = "{file.name}"}}\n'
    )
    done = run_cli("campaign", "run", "study.toml", "--output", "study", "--workers", "1", cwd=place)
    assert done.returncode == 0, done.stderr
    assert file.was_run()


def test_workloads_and_summaries_run_nothing(file: File, place: Path) -> None:
    for policy in registry.available():
        if "locality" not in policy and policy != "slurm":  # these need a machine with nodes
            agent = ("-o", "agent=pybatsched.gym:in_queue_order") if policy == "rl" else ()
            assert simulate(place, "-e", policy, *agent, policy=policy).returncode == 0
    summary = json.loads((place / "easy_summary.json").read_text())
    summary["policy"] = {"name": file.name, "origin": file.name, "options": {"principal": file.name}}
    (place / "easy_summary.json").write_text(json.dumps(summary))
    for command in (
        ["workload", "lint", "w.json"],
        ["workload", "stats", "w.json"],
        ["compare", "easy_summary.json", "fcfs_summary.json"],
        ["metrics", "easy", "fcfs"],
        ["report", "easy", "fcfs", "-w", "w.json"],
    ):
        done = run_cli(*command, cwd=place)
        assert done.returncode == 0, done.stderr
    assert not file.was_run()


def test_a_journal_does_not_run_the_policy_it_was_recorded_with(file: File, tmp_path: Path) -> None:
    journal = tmp_path / "run.pbj"
    play(plan_for(file.name), journal=journal)
    assert file.was_run()
    done = run_cli("replay", str(journal))
    assert done.returncode == 2
    why = (
        f"{str(journal)!r} was recorded with the policy {file.name!r}, a Python file, which is not run from a "
        "journal: give it with --policy, or use --trust if the journal is your own"
    )
    assert why in done.stderr
    story = run_cli("explain", str(journal), "w0!b")
    assert story.returncode == 0
    assert f"(why the job waited is unknown: {why})" in story.stdout
    assert "started on 0-2: fits" in story.stdout
    assert job_histories(JournalReader(journal))["w0!b"] == [(5.0, "started on 0-2: fits")]
    assert not file.was_run()
    assert run_cli("replay", str(journal), "--policy", file.name).returncode == 0
    assert file.was_run()
    story = run_cli("explain", str(journal), "w0!b", "--policy", file.name)
    assert "not started: " in story.stdout
    assert "is not known" not in story.stdout
    assert file.was_run()


@pytest.mark.parametrize("where", ["given", "from_file"])
def test_a_journal_does_not_run_what_its_options_name(where: str, file: File, tmp_path: Path) -> None:
    journal = tmp_path / "run.pbj"
    options: dict[str, Any] = {where: {"principal": file.name, "alpha": 0.5}}
    play(PolicyPlan(registry.find("redirection"), **options, trusted=True), journal=journal)
    assert file.was_run()
    done = run_cli("replay", str(journal))
    assert done.returncode == 2
    assert refused("principal", "the journal", file.name) in done.stderr
    assert "first difference" not in done.stderr
    for policy, own in (("redirection", {}), (None, {"redirected": "easy"}), (None, {"redirected": file.name})):
        with pytest.raises(UntrustedFileError) as caught:
            replay(JournalReader(journal), policy, own)
        assert str(caught.value) == refused("principal", "the journal", file.name)
    history = [text for _, text in explain(JournalReader(journal), "w0!a")]
    assert f"(why the job waited is unknown: {refused('principal', 'the journal', file.name)})" in history
    assert "started on 0-1: fits" in history
    assert not file.was_run()
    assert run_cli("replay", str(journal), "-o", f"principal={file.name}").returncode == 0
    assert file.was_run()
    story = run_cli("explain", str(journal), "w0!a", "-o", f"principal={file.name}")
    assert (story.returncode, "is not known" in story.stdout) == (0, False)
    assert file.was_run()


def test_recorded_options_are_used_for_a_moved_policy_file(file: File, tmp_path: Path) -> None:
    journal = tmp_path / "run.pbj"
    play(plan_for(file.name, order="ljf"), journal=journal)
    (tmp_path / "elsewhere").mkdir()
    for name, order in (("mine.py", "ljf"), ("other.py", "fcfs")):
        shutil.copy(tmp_path / "mine.py", tmp_path / "elsewhere" / name)
        plan = session_for(JournalReader(journal), f"{tmp_path}/elsewhere/{name}:Mine").plan
        assert plan.options_for(None).model_dump()["order"] == order


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["-o", "ordre=sjf"], "policy easy: unknown option 'ordre' (from -o)"),
        (["-o", "order"], "-o 'order': expected KEY=VALUE"),
        (["--policy", "gone.py:X"], "policy 'gone.py:X': file gone.py not found"),
    ],
)
@pytest.mark.parametrize("command", [["replay"], ["explain", "w0!a"]], ids=lambda command: command[0])
def test_wrong_options_of_replay_are_input_errors(
    command: list[str], given: list[str], message: str, tmp_path: Path
) -> None:
    journal = tmp_path / "run.pbj"
    play(plan_for("easy"), journal=journal)
    done = run_cli(command[0], str(journal), *command[1:], *given)
    assert (done.returncode, message in done.stderr) == (2, True)
