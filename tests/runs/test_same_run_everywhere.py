"""The same run has the same jobs, figures and warnings as a command, in Python, and as a campaign of one cell."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given, strategies as st
from support import logs
from support.episodes import played
from support.examples import examples

import pybatsched as pb
from pybatsched.campaign.all_cells import points_of
from pybatsched.campaign.one_cell import run_cell
from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.spec import spec_of
from pybatsched.campaign.store import Store
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.cli import main
from pybatsched.gym import SchedulingEnv, in_queue_order
from pybatsched.metrics.saved_runs import READ_OPTIONS, workloads_of
from pybatsched.runs import workloads
from pybatsched.runs.policies import PolicySpec
from pybatsched.runs.spec import MachineSpec, RunSpec, WorkloadSpec
from pybatsched.settings import Checked
from pybatsched.simulator.failure_events import FailureModel
from pybatsched.workload.formats import batsim4
from pybatsched.workload.inject.checkpoints import Checkpointing

#: Nodes of 4 cores, one of them in another rack.
NODES: Final = (
    """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
 <zone id="site" routing="None">
"""
    + "".join(
        f'  <host id="n{n}" speed="1Gf"><prop id="cores" value="4"/><prop id="rack" value="r{n // 7}"/>'
        '<prop id="wattage_per_state" value="95:170:170"/><prop id="wattage_off" value="10"/></host>\n'
        for n in range(8)
    )
    + """  <host id="head" speed="1Gf"><prop id="role" value="master"/></host>
 </zone>
</platform>
"""
)
EVENTS: Final = (
    '{"type": "event_resource_unavailable", "resources": "0-1", "timestamp": 300}\n'
    '{"type": "event_resource_available", "resources": "0-1", "timestamp": 900}\n'
)
CONFIG: Final = "config.toml"
RESERVATIONS: Final = '[[reservation]]\nname = "upgrade"\nstart = 400\nduration = 300\nhosts = "0-1"\n'


@dataclass(frozen=True)
class Described:
    """A run: its settings by name, for each record, and the lines of its log."""

    lines: list[str]
    header: str
    workload: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    policy: str = "easy"
    options: dict[str, Any] = field(default_factory=dict)
    reservations: bool = False
    seed: int | None = 0
    config: bool = False  # a file with the seed of the policy

    def spec(self) -> PolicySpec:
        """The policy, with its files."""
        reservations = "r.toml" if self.reservations else None
        return PolicySpec(self.policy, self.options, CONFIG if self.config else None, reservations)


def some(**kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these settings: few at a time."""
    return st.lists(st.sampled_from(sorted(kinds)), max_size=3, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: kinds[name] for name in names})
    )


TIMES: Final = st.sampled_from([0, 60, 300.5, "10m", "0.5h"])
WORKLOADS: Final = some(
    walltimes=st.sampled_from(["exact", "requested-strict", "factor:2", "round", "none"]),
    size=st.sampled_from(["allocated", "requested", "larger"]),
    run_times=st.just("cut"),
    memory_unit=st.sampled_from(["KB", "MB"]),
    min_runtime=st.just(5),
    unknown_runtime=st.just(7.5),
    partitions=st.sampled_from([["1"], ["1", "2"]]),
    max_jobs=st.integers(3, 30),
    load=st.sampled_from([0.5, 0.9, 1.2]),
    scale_load=st.sampled_from([0.8, 2]),
    feedback=st.just(True),
    lenient=st.just(True),
)
WINDOWS: Final = some(
    begin=TIMES,
    end=st.sampled_from([1500, "40m"]),
    warm_up=st.sampled_from([200, "5m"]),
    cool_down=st.just(250),
    window_clock=st.sampled_from(["first", "log"]),
)
MACHINES: Final[st.SearchStrategy[dict[str, Any]]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"n_procs": st.integers(6, 40)}, optional={"mmax": st.integers(4, 6)}),
    st.fixed_dictionaries(
        {"platform": st.just("nodes.xml")},
        optional={"units": st.sampled_from(["core", "node"]), "energy": st.just(True)},
    ),
    st.fixed_dictionaries(
        {"platform": st.sampled_from(["ricc-node@0.01", "curie-node@0.002"])},
        optional={"units": st.sampled_from(["core", "node"])},
    ),
)
FAULTS: Final = some(
    failures=st.fixed_dictionaries(
        {"mtbf": st.sampled_from(["2h", 20_000])},
        optional={
            "repair": st.sampled_from(["3m", "exponential:5m"]),
            "law": st.just("weibull:0.8"),
            "of": st.just("system"),
            "seed": st.integers(0, 3),
        },
    ),
    checkpoint=st.sampled_from(["2m", {"interval": "3m", "dump": "10"}]),
)
RUNS: Final = some(
    stop_at=st.sampled_from([800, "20m"]),
    clock=st.sampled_from(["exact", "simgrid"]),
    tau_s=st.sampled_from([1, 60.0]),
    compute_sharing=st.just(True),
    dynamic_jobs=st.just(True),
)
POLICIES: Final[list[tuple[str, dict[str, Any]]]] = [
    ("easy", {}),
    ("easy", {"order": "sjf"}),
    ("easy", {"order": "usage('1h') if procs < 4 and user != 'u' else -wait", "predict": "0.5 * estimate"}),
    ("fcfs", {}),
    ("conservative", {}),
    ("conservative", {"compression": False}),
    ("redirection", {"theta": 2}),
    ("ujfb", {}),
]


@st.composite
def described(draw: st.DrawFn) -> Described:
    """A run with settings that fit each other."""
    at = draw(st.sampled_from([0, 5_000]))
    lines = []
    for number in range(1, draw(st.integers(5, 30)) + 1):
        at += draw(st.integers(0, 120))
        run_s = draw(st.sampled_from([-1, 0, 30, 200, 900]))
        requested_s = draw(st.sampled_from([-1, 60, 600, 1000]))
        size, more = draw(st.integers(1, 12)), draw(st.integers(-1, 12))
        lines.append(
            logs.line(
                number,
                at,
                wait=draw(st.integers(0, 50)),
                run=run_s,
                allocated=size,
                requested=more,
                requested_s=requested_s,
                user=number % 3,
                partition=1 + number % 2,
            )
        )
    machine = draw(MACHINES) | draw(FAULTS)
    if "failures" not in machine and draw(st.booleans()):
        machine |= {"events": ["events.txt"]}
    workload = draw(WORKLOADS) | draw(WINDOWS)
    if "load" in workload:
        workload.pop("scale_load", None)
    policy, options = draw(st.sampled_from(POLICIES))
    config = policy == "ujfb" and draw(st.booleans())
    return Described(
        lines,
        draw(st.sampled_from(["; MaxProcs: 32\n", "; MaxProcs: 8\n", "; \n"])),
        workload,
        machine,
        draw(RUNS),
        policy,
        options,
        draw(st.integers(0, 3)) == 0,
        None if config and "failures" not in machine and draw(st.booleans()) else draw(st.integers(0, 3)),
        config,
    )


@dataclass(frozen=True)
class Outcome:
    """What a run has given: its jobs, figures and warnings, or its error."""

    jobs: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    warnings: frozenset[str] = frozenset()
    policy: Any = None
    error: str = ""


def words(record: type[Checked], given: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The options of the command line for settings."""
    found: list[str] = []
    for name, value in given.items():
        kind = {"failures": FailureModel, "checkpoint": Checkpointing}.get(name)
        if kind is not None:
            own = value if isinstance(value, Mapping) else {"interval": value}
            found += words(kind, own)
            continue
        option = record.settings()[name].options[-1]
        if isinstance(value, bool):
            found += [option] if value else []
        else:
            for one in value if isinstance(value, list) else [value]:
                found += [option, str(one)]
    return found


def as_command(run: Described) -> tuple[Outcome, str]:
    given = [*words(WorkloadSpec, run.workload), *words(MachineSpec, run.machine), *words(RunSpec, run.run)]
    for key, value in run.options.items():
        given += ["-o", f"{key}={json.dumps(value)}"]
    given += ["--reservations", "r.toml"] if run.reservations else []
    errors = io.StringIO()
    given += [] if run.seed is None else ["--seed", str(run.seed)]
    given += [*(["--config", CONFIG] if run.config else []), "-e", "command/run"]
    command = ["simulate", "-w", "log.swf", "--policy", run.policy, *given]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(errors):
        code = main(command)
    printed = out.getvalue() + errors.getvalue()
    if code not in {0, 5, 8}:
        return Outcome(error=errors.getvalue().strip().splitlines()[-1].removeprefix("pybatsched: ")), printed
    return read("command/run"), printed


def read(prefix: str) -> Outcome:
    run = pb.read_run(prefix)
    jobs = Path(f"{prefix}_jobs.csv").read_text()
    in_summary = {name: run.about["figures"].get(name, run.figures.get(name)) for name in run.figures}
    assert in_summary == run.figures
    return Outcome(jobs, run.figures, frozenset(run.about.get("warnings", ())), run.about["policy"])


def in_python(run: Described) -> tuple[Outcome, frozenset[str]]:
    of_log = {name: value for name, value in run.workload.items() if name not in {"load", "scale_load"}}
    of_run = {name: value for name, value in run.workload.items() if name not in of_log} | run.machine | run.run
    seeds = None if run.seed is None else [run.seed]
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        try:
            log = pb.read_workload("log.swf", **of_log)
            (made,) = pb.simulate(log, [run.spec()], seeds=seeds, progress=False, **of_run)
        except pb.InputError as error:
            return Outcome(error=str(error)), frozenset()
        made.save("python/run")
    return read("python/run"), frozenset(str(one.message) for one in shown)


def with_agent(run: Described, *, in_gym: bool) -> tuple[dict[str, Any], frozenset[str], str]:
    """The figures, warnings and error of the run with an agent: in the environment, or of the policy `rl`."""
    settings: dict[str, Any] = run.machine | {name: value for name, value in run.run.items() if name != "stop_at"}
    options = {"order": run.options.get("order", "fcfs")} | (
        {"host_reservations": "r.toml"} if run.reservations else {}
    )
    of_run = {name: value for name, value in run.workload.items() if name in {"load", "scale_load"}}
    of_log = {name: value for name, value in run.workload.items() if name not in of_run}
    figures: dict[str, Any] = {}
    error = ""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        try:
            if in_gym:
                figures = played(
                    SchedulingEnv("log.swf", **options, **run.workload, **settings), in_queue_order
                ).figures
            else:
                log = pb.read_workload("log.swf", **of_log)
                rl = pb.policy("rl", agent="pybatsched.gym:in_queue_order", label="rl", **options)
                figures = pb.simulate(log, rl, progress=False, **of_run, **settings).figures
        except pb.InputError as problem:
            error = str(problem)
    return figures, frozenset(str(one.message).removeprefix("rl: ") for one in shown), error


def check_environment(run: Described) -> None:
    """Play it in the environment, and simulate it with the same agent."""
    played, warned, error = with_agent(run, in_gym=True)
    if "expected jobs that fit the machine" in error:
        return  # there is nothing to choose; a simulation rejects all jobs
    simulated, shown, problem = with_agent(run, in_gym=False)
    assert bool(error) == bool(problem), (error, problem)
    both = played.keys() & simulated.keys()
    assert bool(error) or {"n_jobs", "mean_wait_s", "max_bounded_slowdown", "utilisation", "makespan_s"} <= both
    assert {name: played[name] for name in both} == {name: simulated[name] for name in both}
    assert error or warned == shown


def as_campaign(run: Described) -> Outcome:
    platform = run.machine if {"n_procs", "platform"} & run.machine.keys() else {"of_workload": True, **run.machine}
    content = {
        "name": "one",
        "keep": "files",
        **({} if run.seed is None else {"seeds": [run.seed]}),
        **run.run,
        "workload": [{"name": "log", "file": "log.swf", **run.workload}],
        "platform": [{"name": "machine", **platform}],
        "policy": [run.spec().as_json()],
    }
    try:
        spec = spec_of(content, "one.toml")
        with Store("campaign") as store:
            ((_, cell),) = points_of(spec, store, [Path.cwd()])
            result = run_cell(cell.as_dict(), "campaign/files")
    except pb.InputError as error:
        return Outcome(error=str(error))
    found = read("campaign/files/run")
    assert found.figures == result["figures"]
    assert {text[:40] for text in result["warnings"]} == {text[:40] for text in found.warnings}
    failures = run.machine.get("failures", {"seed": 0})
    is_used = "seed" not in failures or run.policy == "ujfb"
    assert json.loads(Path("campaign/files/run_summary.json").read_text())["seed"] == (run.seed if is_used else None)
    return replace(found, figures=result["figures"])


def check(run: Described) -> None:
    """Run it in three ways, and compare."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in ("command", "python"):
            Path(name).mkdir()
        logs.log(Path(), *run.lines, header=run.header)
        Path("nodes.xml").write_text(NODES)
        Path("events.txt").write_text(EVENTS)
        Path("r.toml").write_text(RESERVATIONS)
        Path(CONFIG).write_text("[policy.ujfb]\nseed = 7\n")
        if run.machine.get("platform") == "nodes.xml":  # campaigns name it by its whole path
            run = replace(run, machine=run.machine | {"platform": str(Path("nodes.xml").resolve())})
        command, printed = as_command(run)
        python, shown = in_python(run)
        campaign = as_campaign(run)
        assert bool(command.error) == bool(python.error) == bool(campaign.error), (command, python, campaign)
        check_environment(run)
        if command.error:
            return
        assert python.jobs == command.jobs
        assert campaign.jobs == command.jobs
        assert python.policy == command.policy == campaign.policy
        assert python.figures == command.figures
        assert campaign.figures == command.figures
        assert python.warnings == command.warnings
        for suffix in ("_schedule.csv", "_machine_states.csv"):
            assert Path(f"python/run{suffix}").read_text() == Path(f"command/run{suffix}").read_text()
        summaries = [json.loads(Path(f"{name}/run_summary.json").read_text()) for name in ("command", "python")]
        del summaries[0]["command"], summaries[1]["names"], summaries[0]["seed"], summaries[1]["seed"]
        assert summaries[0] == summaries[1]
        assert campaign.warnings == command.warnings
        for text in command.warnings:  # each form spells settings in its own way
            assert text[:40] in printed
            assert any(text[:40] in one for one in shown)


#: A value of each setting of workloads that changes the jobs of a log in SWF.
OF_JOBS: Final[dict[str, Any]] = {
    "walltimes": "exact",
    "format": "swf",
    "size": "larger",
    "run_times": "cut",
    "memory_unit": "MB",
    "min_runtime": 5,
    "unknown_runtime": 7,
    "lenient": True,
    "n_procs": 9,
    "partitions": ["2"],
    "begin": 15,
    "end": 50,
    "warm_up": 20,
    "cool_down": 20,
    "window_clock": "log",
    "max_jobs": 2,
    "feedback": True,
    "running_at_start": True,
    "ignore_eligibility": True,
}
#: Settings of tables, and those that the machine of a run is needed for.
OF_OTHERS: Final = {"file", "mapping", "size_in", "timezone", "load", "scale_load"}


def test_all_settings_of_workloads_are_listed() -> None:
    assert WorkloadSpec.settings().keys() - OF_OTHERS == OF_JOBS.keys(), "add the setting to OF_JOBS"


@pytest.mark.parametrize("name", OF_JOBS)
def test_each_setting_gives_a_campaign_the_jobs_of_a_run(name: str, tmp_path: Path) -> None:
    """Also when the run is read again by its summary; and other jobs than without it, where the log shows that."""
    rows = [
        logs.line(n, 10 * n, wait=n % 3, run=(-1, 0, 30)[n % 3], allocated=2, requested=3, requested_s=20, user=n % 2,
                  requested_kb=5000, partition=1 + n % 2, preceding=2 if n == 8 else -1)
        for n in range(1, 13)
    ]  # fmt: skip
    log = logs.log(tmp_path, *rows, "x" if name == "lenient" else "", header="; MaxProcs: 8\n")
    if name == "ignore_eligibility":
        log = logs.sacct(tmp_path, logs.sacct_line(Eligible=str(logs.SACCT_ZERO + 9), Start=str(logs.SACCT_ZERO + 9)))
    needs: dict[str, Any] = {"begin": 15} if name in {"window_clock", "running_at_start"} else {}
    given = needs | {name: OF_JOBS[name]}
    table = WorkloadTable.model_validate({"name": "log", "file": log.name, **given})
    (ready,) = Preparer(tmp_path / "prepared", [tmp_path]).prepare(table, seed=0)
    prepared = batsim4.read(ready.path)
    found = workloads.read(WorkloadSpec(**given, file=str(log)))
    read, how = found.workload, dict(found.how or {})
    assert (list(prepared.jobs), prepared.n_procs) == (list(read.jobs), read.n_procs)
    assert how.keys() <= {*READ_OPTIONS, "n_procs_of_workload"}
    inputs = {"workloads": [{"file": str(log), "sha256": found.digest}]}
    (again,) = workloads_of("", json.loads(json.dumps({**how, "inputs": inputs}))).values()
    assert list(again.jobs) == list(read.jobs)
    if name not in {"lenient", "format"}:
        usual = workloads.read(WorkloadSpec(**needs, file=str(log))).workload
        assert (list(usual.jobs), usual.n_procs) != (list(read.jobs), read.n_procs)


@examples(20)
@example(Described([logs.line(1, 0, run=30, allocated=2)], "; MaxProcs: 8\n", policy="ujfb", seed=None, config=True))
@given(described())
def test_a_run_is_the_same_as_a_command_in_python_and_in_a_campaign(run: Described) -> None:
    check(run)


@pytest.mark.long
@examples(200)
@given(described())
def test_many_runs_are_the_same_in_all_forms(run: Described) -> None:
    check(run)
