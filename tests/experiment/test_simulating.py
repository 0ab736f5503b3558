"""Simulate in Python: the same files and figures as the commands, several runs, and errors of policies."""

from __future__ import annotations

import json
import pickle
import random
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import logs
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT
from support.process import run_cli

import pybatsched as pb
from pybatsched import Decision, InputError
from pybatsched.campaign.execute import figures_of
from pybatsched.campaign.workers import LocalWorkers
from pybatsched.errors import PolicyError
from pybatsched.experiment import arguments, simulating
from pybatsched.experiment.running import run_task
from pybatsched_schedulers.easy import Easy

EXAMPLE = ROOT / "examples" / "workload.json"
NOT_A_POLICY: Any = int
WRONG_LOGS: Any = {"a": 3}
TIME: Any = "10d"
FILES = ("_jobs.csv", "_schedule.csv", "_machine_states.csv")


@pytest.fixture(scope="module")
def log() -> pb.Log:
    return pb.generate_workload("lublin", n_jobs=60, n_procs=16, seed=3, load=1.2, n_users=4)


class Sjbf(Easy):
    """EASY under a name of its own."""


class Broken(pb.Policy):
    """Raises at its first decision."""

    def decide(self, now: float) -> Iterator[Decision]:
        raise RuntimeError(f"no idea at {now:g}")


# ------------------------------------------------------------------------------------------- the same as the commands


@pytest.mark.parametrize(
    ("policy", "options"), [("fcfs", {}), ("easy", {"order": "sjf"}), ("conservative", {"compression": False})]
)
def test_files_and_summary_are_those_of_the_command(policy: str, options: dict[str, Any], tmp_path: Path) -> None:
    parts = [text for name, value in options.items() for text in ("-o", f"{name}={json.dumps(value).strip(chr(34))}")]
    given = ("simulate", "--procs", "32", "-w", str(EXAMPLE), "--policy", policy, *parts, "-e", "cli", "-q")
    assert run_cli(*given, cwd=tmp_path).returncode == 0
    run = pb.simulate(pb.read_workload(EXAMPLE), policy, n_procs=32, progress=False, **options)
    run.save(tmp_path / "api")
    for suffix in FILES:
        assert (tmp_path / f"api{suffix}").read_bytes() == (tmp_path / f"cli{suffix}").read_bytes()
    by_command = json.loads((tmp_path / "cli_summary.json").read_text())
    in_python = json.loads((tmp_path / "api_summary.json").read_text())
    del by_command["command"]
    assert in_python.pop("names") == {"policy": run.policy, "workload": "workload"}
    assert in_python == by_command


@pytest.mark.parametrize("clock", ["auto", "simgrid"])
def test_jobs_that_communicate_are_those_of_the_command(clock: str, tmp_path: Path) -> None:
    """The clock is that of SimGrid, chosen by the jobs or by the user."""
    place = ROOT / "tests" / "conformance" / "recordings" / "v4" / "com-wired-kill"
    given = ("-p", str(place / "platform.xml"), "-w", str(place / "workload.json"), "--policy", "fcfs")
    assert run_cli("simulate", *given, "--clock", clock, "-e", "cli", "-q", cwd=tmp_path).returncode == 0
    run = pb.simulate(place / "workload.json", "fcfs", platform=place / "platform.xml", clock=clock, progress=False)
    run.save(tmp_path / "api")
    assert (tmp_path / "api_jobs.csv").read_bytes() == (tmp_path / "cli_jobs.csv").read_bytes()
    config = json.loads((tmp_path / "cli_summary.json").read_text())["batsim_options"]
    assert config == json.loads((tmp_path / "api_summary.json").read_text())["batsim_options"]
    assert config.get("clock") == (None if clock == "auto" else clock)


def test_a_clock_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="clock: expected one of auto, exact, simgrid, found 'swiss'"):
        pb.simulate(EXAMPLE, "fcfs", n_procs=32, clock="swiss")


def test_figures_are_those_of_the_command(tmp_path: Path) -> None:
    run = pb.simulate(pb.read_workload(EXAMPLE), "easy", n_procs=32, progress=False)
    run.save(tmp_path / "api")
    rows = json.loads(run_cli("metrics", str(tmp_path / "api"), "--json").stdout)[str(tmp_path / "api")]
    assert run.figures["mean_wait_s"] == rows["wait_s"]["mean"]
    assert run.figures["p95_bounded_slowdown"] == rows["bounded_slowdown"]["p95"]
    assert run.figures["utilisation"] == rows["utilisation"]["mean"]


def test_a_window_is_that_of_the_command(tmp_path: Path) -> None:
    given = (
        "--procs",
        "32",
        "-w",
        str(EXAMPLE),
        "--from",
        "100",
        "--to",
        "2000",
        "--policy",
        "easy",
        "-e",
        "cli",
        "-q",
    )
    assert run_cli("simulate", *given, cwd=tmp_path).returncode == 0
    log = pb.read_workload(EXAMPLE).window(100, 2000)
    pb.simulate(log, "easy", n_procs=32, progress=False).save(tmp_path / "api")
    assert (tmp_path / "api_jobs.csv").read_bytes() == (tmp_path / "cli_jobs.csv").read_bytes()
    summaries = [json.loads((tmp_path / f"{name}_summary.json").read_text()) for name in ("api", "cli")]
    assert summaries[0]["selection"] == summaries[1]["selection"] == {"from": 100, "to": 2000}


@pytest.mark.parametrize(
    "name", ["KTH-SP2-1996-2.swf.gz", "SDSC-SP2-1998-4.2-cln.swf.gz", "CTC-SP2-1996-3.1-cln.swf.gz"]
)
def test_a_week_of_a_log_is_that_of_the_command(name: str, tmp_path: Path) -> None:
    path = logs.real(name)
    given = ("simulate", "-w", str(path), "--from", "30d", "--to", "37d", "--policy", "easy", "-e", "cli", "-q")
    assert run_cli(*given, cwd=tmp_path).returncode == 0
    run = pb.simulate(pb.read_workload(path).window("30d", "37d"), "easy", progress=False)
    run.save(tmp_path / "api")
    for suffix in FILES:
        assert (tmp_path / f"api{suffix}").read_bytes() == (tmp_path / f"cli{suffix}").read_bytes()
    rows = json.loads(run_cli("metrics", str(tmp_path / "cli"), "--json").stdout)[str(tmp_path / "cli")]
    for measure in ("wait_s", "flow_s", "slowdown", "bounded_slowdown"):
        for statistic in ("mean", "p50", "p95", "max"):
            assert run.figures[f"{statistic}_{measure}"] == rows[measure][statistic]
    assert run.figures["utilisation"] == rows["utilisation"]["mean"]


def test_a_saved_run_of_a_changed_log_has_its_workload(log: pb.Log, tmp_path: Path) -> None:
    run = pb.simulate(log.scale_load(1.1), "easy", progress=False)
    run.save(tmp_path / "out" / "easy")
    again = pb.read_run(tmp_path / "out" / "easy")
    assert again.figures == run.figures
    assert again.jobs["user"].to_list() == run.jobs["user"].to_list()
    assert run_cli("report", str(tmp_path / "out" / "easy"), "--output", str(tmp_path / "page.html")).returncode == 0


def test_processors_come_from_the_log(log: pb.Log) -> None:
    assert pb.simulate(log, "fcfs", progress=False).about["n_procs"] == 16


# --------------------------------------------------------------------------------------------------------- many runs


def test_other_collections_than_lists(log: pb.Log) -> None:
    """Columns of tables and the keys and values of dictionaries work as lists do."""
    names: Any = {"fcfs": "FCFS", "easy": "EASY"}.keys()
    logs: Any = {"a": log.named("a"), "b": log.named("b")}.values()
    runs = pb.simulate(logs, names, progress=False)
    assert [(run.workload, run.policy) for run in runs] == [("a", "fcfs"), ("a", "easy"), ("b", "fcfs"), ("b", "easy")]
    column: Any = pb.available_policies()["policy"].sort().head(1)
    assert [run.policy for run in pb.simulate(log, column, progress=False)] == ["conservative"]


def test_each_workload_runs_under_each_policy(log: pb.Log) -> None:
    runs = pb.simulate({"all": log, "half": log.head(30)}, ["fcfs", pb.policy("easy", order="sjf"), Sjbf])
    assert [(run.workload, run.policy) for run in runs] == [
        ("all", "fcfs"),
        ("all", "easy(order=sjf)"),
        ("all", "Sjbf"),
        ("half", "fcfs"),
        ("half", "easy(order=sjf)"),
        ("half", "Sjbf"),
    ]
    assert runs.jobs.columns[:4] == ["workload", "policy", "seed", "id"]
    assert runs.jobs.height == 3 * 60 + 3 * 30
    assert len(runs.where(workload="half", policy="fcfs")) == 1
    assert isinstance(runs[:2], pb.Runs)


def test_workers_give_the_same_runs(log: pb.Log) -> None:
    policies: list[Any] = ["easy", Sjbf, pb.policy(Sjbf, label="SJBF", order="sjf")]
    alone = pb.simulate(log, policies, progress=False)
    together = pb.simulate(log, policies, progress=False, workers=2)
    assert together.jobs.equals(alone.jobs)
    assert together.figures.equals(alone.figures)


def test_seeds_of_generated_workloads() -> None:
    runs = pb.simulate(
        lambda seed: pb.generate_workload("lublin", n_jobs=20, n_procs=8, seed=seed), ["fcfs", "easy"], seeds=range(3)
    )
    assert [(run.policy, run.seed) for run in runs] == [(name, seed) for name in ("fcfs", "easy") for seed in range(3)]
    summary = runs.summary(by="policy", figures=["mean_wait_s"], ci=0.95)
    assert summary["policy"].to_list() == ["fcfs", "easy"]
    values = runs.figures.filter(policy="fcfs")["mean_wait_s"].to_list()
    assert summary["mean_wait_s"][0] == pytest.approx(sum(values) / 3)
    assert summary["mean_wait_s_low"][0] < summary["mean_wait_s"][0] < summary["mean_wait_s_high"][0]


def test_a_policy_without_random_numbers_runs_once(log: pb.Log) -> None:
    runs = pb.simulate(log, ["easy"], seeds=range(5), progress=False)
    assert [run.seed for run in runs] == [None]


def test_comparison_job_by_job(log: pb.Log) -> None:
    runs = pb.simulate(log, ["fcfs", "easy"], progress=False)
    row = runs.compare("fcfs", "wait_s").row(0, named=True)
    waits = {run.policy: run.figures["mean_wait_s"] for run in runs}
    assert row["policy"] == "easy"
    assert row["n_pairs"] == 60
    assert row["ratio_of_means"] == pytest.approx((waits["easy"] or 0) / (waits["fcfs"] or 1))


def test_explain_repeats_the_run_with_a_journal(log: pb.Log) -> None:
    run = pb.simulate(log, Sjbf, progress=False)
    job = run.jobs.filter(state="COMPLETED_SUCCESSFULLY").sort("wait_s", descending=True)["id"][0]
    history = [text for _, text in run.explain(job)]
    assert history[0].startswith("submitted: ")
    assert any(text.startswith("started on ") for text in history)


def test_ctrl_c_keeps_finished_runs(log: pb.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = run_task, []

    def interrupted(*args: Any, **how: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*args, **how)

    monkeypatch.setattr(simulating, "run_task", interrupted)
    with pytest.warns(UserWarning, match="interrupted: 2 of 3 runs are finished"):
        runs = pb.simulate(log, ["fcfs", "easy", "conservative"], progress=False)
    assert [run.policy for run in runs] == ["fcfs", "easy"]


# ------------------------------------------------------------------------------------------------------------ errors


def test_an_error_of_a_policy_has_its_cause(log: pb.Log) -> None:
    with pytest.raises(PolicyError, match="no idea at 0") as caught:
        pb.simulate(log, Broken, progress=False)
    assert isinstance(caught.value.__cause__, RuntimeError)


class Talking(Easy):
    """Prints the time of its decisions."""

    def decide(self, now: float) -> Iterator[Decision]:
        print(f"decides at {now:g}")
        yield from super().decide(now)


def test_output_of_workers_appears(log: pb.Log, capfd: pytest.CaptureFixture[str]) -> None:
    pb.simulate(log, Talking, progress=False)
    alone = capfd.readouterr().out
    assert alone.startswith("decides at 0\n")
    pb.simulate(log, [Talking, pb.policy(Talking, label="again")], workers=2, progress=False)
    assert capfd.readouterr().out == 2 * alone


class Failing(pb.Policy):
    """Prints, and fails."""

    def decide(self, now: float) -> Iterator[Decision]:
        print("on the way")
        print("in trouble", file=sys.stderr)
        raise RuntimeError("no idea")


def test_output_before_an_error_appears(log: pb.Log, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PolicyError, match="no idea"):
        pb.simulate(log, [Failing], workers=2, progress=False)
    assert capfd.readouterr() == ("on the way\n", "in trouble\n")


def test_an_error_in_a_worker_shows_the_line(log: pb.Log) -> None:
    """Also if the file is in a directory called pybatsched, as a clone may be."""
    with pytest.raises(PolicyError, match=r"no idea at 0(.|\n)*in decide: raise RuntimeError"):
        pb.simulate(log, ["fcfs", Broken], workers=2, progress=False)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda log: pb.simulate(log, "easi"), "unknown policy 'easi'"),
        (lambda log: pb.simulate(log, "easy", ordr="sjf"), "unknown option 'ordr'"),
        (lambda log: pb.simulate(log, "easy", n_proc=4), "simulate: unknown keyword 'n_proc'; did you mean n_procs=…"),
        (lambda log: pb.simulate(log, "easy", mtbf="30d"), r'did you mean failures=\{"mtbf": …\}'),
        (lambda log: pb.simulate(log, "easy", seed=3), "did you mean seeds=…"),
        (lambda log: pb.simulate(log, "easy", orders="sjf"), "did you mean 'order'"),
        (lambda log: pb.simulate(log, "easy", on_failures="kill"), "did you mean 'on_failure'"),
        (lambda log: pb.simulate(log, "easy", options={}), "unknown option 'options' .from Python.; expected one of"),
        (lambda log: pb.simulate(log, "easi", seed=3), "unknown policy 'easi'"),
        (lambda log: pb.simulate(log, ["easy", "fcfs"], order="sjf"), "works only with one policy"),
        (lambda log: pb.simulate(log, ["easy", "easy"]), "expected different labels"),
        (lambda log: pb.simulate(log, []), "expected at least one workload and one policy"),
        (lambda log: pb.simulate(log, "easy", n_procs=4, platform="rackham"), "expected only one of them"),
        (lambda log: pb.simulate(log, NOT_A_POLICY), "expected a subclass of pybatsched.Policy"),
        (lambda log: pb.simulate(lambda seed: log, "easy"), "seeds: needed by a workload that is a function"),
        (lambda log: pb.simulate(log, ["fcfs"]).compare("easy"), "'easy': expected the label of a policy"),
        (lambda log: pb.simulate(log, "easy", n_procs=0), "n_procs: expected a whole number, 1 or more, found 0"),
        (lambda log: pb.simulate(log, "easy", workers=0), "workers: expected a whole number, 1 or more, found 0"),
        (lambda log: log.write("w.swf"), r"w.swf: expected a file name that ends in .json or .json.gz"),
        (lambda log: pb.simulate(log, "easy", units="node"), "units node: works only with a platform"),
        (lambda log: pb.simulate(log, "easy", tau_s=-5), "tau_s: expected 0 seconds or more, found -5"),
        (lambda log: pb.simulate(log, "easy", stop_at=-1), "stop_at: expected 0 seconds or more, found -1"),
        (
            lambda log: pb.simulate(WRONG_LOGS, "easy"),
            "log: expected a Log, .* or a dictionary of Logs, found {'a': 3}",
        ),
        (lambda log: pb.simulate(log, "easy", failures=TIME), "failures: expected a dictionary or None, found '10d'"),
        (lambda log: pb.simulate(log, ["easy"])[:0].jobs, "expected at least one run, found none"),
        (lambda log: pb.simulate(log, "easy").plot.gantt(color="red"), "color: expected one of auto, job, wait"),
        (lambda log: pb.simulate(log, "easy").plot.cdf(scale="ln"), "scale: expected one of auto, log, linear"),
        (
            lambda log: pb.simulate(log, "easy").plot.cdf("wai"),
            r"measure 'wai'; did you mean 'wait_s'\? Expected one of",
        ),
        (lambda log: pb.simulate(log, "easy").plot.cdf(begin_s=3), "begin_s: unknown argument; expected one of labels"),
        (lambda _log: pb.read_run("nothing/here"), "nothing/here"),
        (lambda _log: pb.read_campaign("nothing"), "nothing"),
    ],
)
def test_errors(log: pb.Log, call: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        call(log)


def test_a_warning_for_rejected_jobs(log: pb.Log) -> None:
    with pytest.warns(UserWarning, match="reject") as found:
        pb.simulate(log, "easy", n_procs=4, progress=False)
    assert any(re.match(r"easy: \d+ jobs? rejected, first reason: ", str(one.message)) for one in found)


def test_no_main_guard_is_needed(tmp_path: Path) -> None:
    """Worker processes do not import the script of the user again."""
    script = tmp_path / "study.py"
    script.write_text(
        textwrap.dedent(
            """
            import pybatsched as pb
            from pybatsched_schedulers.easy import Easy

            class Own(Easy):
                "My own."

            log = pb.generate_workload("lublin", n_jobs=10, n_procs=8, seed=1)
            print(len(pb.simulate(log, ["easy", Own], workers=2)))
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=PATIENCE_OF_WORK_S
    )
    assert (done.stdout, done.returncode) == ("2\n", 0), done.stderr


def test_dask_gives_the_same_runs(log: pb.Log) -> None:
    distributed = pytest.importorskip("distributed")
    policies: list[Any] = ["fcfs", Sjbf]
    alone = pb.simulate(log, policies, progress=False)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        runs = pb.simulate(log, policies, client=client, progress=False)
        with pytest.raises(PolicyError, match="no idea at 0"):
            pb.simulate(log, [Broken], client=client, progress=False)
    assert runs.jobs.equals(alone.jobs)


# ------------------------------------------------------------------------------------------------- files and workloads


def test_figures_of_a_stopped_run_are_those_of_the_command(log: pb.Log, tmp_path: Path) -> None:
    last_at = float(log.jobs["submitted_at"].max())  # type: ignore[arg-type]
    run = pb.simulate(log, "easy", stop_at=last_at / 2, progress=False)
    run.save(tmp_path / "cut")
    rows = json.loads(run_cli("metrics", str(tmp_path / "cut"), "--json").stdout)[str(tmp_path / "cut")]
    assert run.figures["mean_queue_length"] == rows["queue_length"]["mean"]
    assert run.figures["max_queue_length"] == rows["queue_length"]["max"]
    assert run.figures["utilisation"] == rows["utilisation"]["mean"]
    assert run.figures["mean_wait_s"] == rows["wait_s"]["mean"]


def test_a_saved_run_replaces_the_workload_of_another(log: pb.Log, tmp_path: Path) -> None:
    middle = float(log.jobs["submitted_at"].median())  # type: ignore[arg-type]
    pb.simulate(log.window(middle, warm_up=middle / 2), "easy", progress=False).save(tmp_path / "run")
    assert (tmp_path / "run_workload.json").exists()
    run = pb.simulate(pb.read_workload(EXAMPLE), "easy", progress=False)
    run.save(tmp_path / "run")
    assert not (tmp_path / "run_workload.json").exists()
    assert pb.read_run(tmp_path / "run").figures == run.figures
    pb.read_run(tmp_path / "run").save(tmp_path / "run")  # onto itself
    assert pb.read_run(tmp_path / "run").figures == run.figures


def test_fields_do_not_depend_on_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pb.generate_workload("lublin", n_jobs=20, n_procs=8, seed=1, n_users=3).write("w.json")
    run = pb.simulate("w.json", "easy", progress=False)
    run.save("out")
    again = pb.read_run("out")
    monkeypatch.chdir("/")
    assert run.jobs["user"].n_unique() == 3
    assert again.jobs["user"].to_list() == run.jobs["user"].to_list()


def test_names_of_saved_runs_are_read_again(log: pb.Log, tmp_path: Path) -> None:
    runs = pb.simulate(log, ["fcfs", pb.policy("easy", order="sjf")], progress=False)
    again = pb.Runs(pb.read_run(prefix) for prefix in runs.save(tmp_path))
    assert [(run.workload, run.policy) for run in again] == [("lublin", "fcfs"), ("lublin", "easy(order=sjf)")]
    assert again.compare("fcfs").equals(runs.compare("fcfs"))


def test_pages_and_summaries_contain_no_temporary_paths(log: pb.Log, tmp_path: Path) -> None:
    run = pb.simulate(log, "easy", progress=False)
    run.report(tmp_path / "page.html")
    assert tempfile.gettempdir() not in json.dumps(run.about)
    assert tempfile.gettempdir() + "/pybatsched-" not in (tmp_path / "page.html").read_text()


def test_seeds_may_come_from_a_generator() -> None:
    made: list[int] = []

    def workload(seed: int) -> pb.Log:
        made.append(seed)
        return pb.generate_workload("lublin", n_jobs=5, n_procs=8, seed=seed)

    runs = pb.simulate(workload, ["fcfs", "easy"], seeds=(seed for seed in (1, 2)), progress=False)
    assert len(runs) == 4
    assert made == [1, 2]  # both policies get the same workloads


def test_a_policy_file_works_in_workers_and_is_explained(log: pb.Log, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("from pybatsched_schedulers.easy import Easy\n\n\nclass Own(Easy):\n    'My own.'\n")
    runs = pb.simulate(log, ["easy", f"{path}:Own"], workers=2, progress=False)
    assert runs[0].figures == runs[1].figures
    assert runs[1].explain(runs[1].jobs["id"][0])[0][1].startswith("submitted: ")


def test_workers_end_with_an_error(log: pb.Log) -> None:
    with pytest.raises(PolicyError) as caught:
        pb.simulate(log, [Broken, "easy"], workers=2, progress=False)
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children if Path(f"/proc/{pid}").exists()]
    assert caught.value is not None
    assert not [command for command in commands if b"pybatsched.campaign.worker" in command]


# --------------------------------------------------------------------------------------------------- step by step


def test_simulation_takes_the_arguments_of_simulate(log: pb.Log) -> None:
    sim = pb.Simulation(log, "easy", order="sjf", n_procs=20)
    sim.run()
    run = pb.simulate(log, "easy", order="sjf", n_procs=20, progress=False)
    assert sim.result().figures.mean_wait_s == pytest.approx(run.figures["mean_wait_s"])
    assert pb.Simulation(EXAMPLE, "easy").n_free == 32
    cut = pb.Simulation(log, "easy", stop_at="1h")
    cut.run()
    assert cut.result().cut_at == 3600


def test_features_of_a_simulation(log: pb.Log) -> None:
    sim = pb.Simulation(log, "easy", features={"dynamic_jobs"})
    sim.step()
    sim.replace_policy("redirection", group_size=8)
    with pytest.raises(InputError, match="features: sched_config: expected some of acknowledge_dynamic_jobs"):
        pb.Simulation(log, "easy", features={"sched_config"})


# ------------------------------------------------------------------------------------------------------ surprises


class Dice(Easy):
    """Starts jobs in a random order, different in each run."""

    class Options(pb.QueueOptions):
        """Its options."""

        seed: int = 0

    def on_job_submitted(self, job: pb.Job, now: float) -> None:
        job.estimate = random.uniform(1, 1000)
        super().on_job_submitted(job, now)


def test_explain_needs_a_deterministic_policy(log: pb.Log) -> None:
    run = pb.simulate(log, Dice, order="sjf", progress=False)
    with pytest.raises(InputError, match="its schedule differs when the run is repeated"):
        run.explain(run.jobs["id"][0])


def test_labels_follow_the_options() -> None:
    assert pb.policy(pb.policy("easy", order="sjf"), order="ljf").label == "easy(order=ljf)"
    assert pb.policy(pb.policy("easy", order="sjf", label="SJF"), order="ljf").label == "SJF"


def test_a_given_seed_is_not_repeated(log: pb.Log) -> None:
    runs = pb.simulate(log, [pb.policy(Dice, seed=7)], seeds=range(3), progress=False)
    assert [run.seed for run in runs] == [None]


def test_a_moved_run_finds_its_workload(log: pb.Log, tmp_path: Path) -> None:
    middle = float(log.jobs["submitted_at"].median())  # type: ignore[arg-type]
    run = pb.simulate(log.window(middle, warm_up=middle / 2), "easy", progress=False)
    run.save(tmp_path / "old" / "run")
    (tmp_path / "old").rename(tmp_path / "new")
    assert pb.read_run(tmp_path / "new" / "run").figures == run.figures
    assert run_cli("metrics", str(tmp_path / "new" / "run")).returncode == 0


def test_unfinished_jobs_are_a_figure(log: pb.Log) -> None:
    class Small(Easy):
        """Starts only small jobs."""

        def decide(self, now: float) -> Iterator[Decision]:
            return (one for one in super().decide(now) if not isinstance(one, pb.ExecuteJob) or len(one.procs) < 4)

    with pytest.warns(UserWarning, match="unfinished"):
        runs = pb.simulate(log, [Small], progress=False)
    assert runs[0].figures["n_unfinished"]
    assert "n_unfinished" in runs.summary().columns


def test_ids_of_logs_and_runs_can_be_joined(log: pb.Log) -> None:
    run = pb.simulate(log, "easy", progress=False)
    assert run.jobs.join(log.jobs, on="id").height == len(log)


def test_sizes_in_nodes_are_saved_as_they_were_simulated(tmp_path: Path) -> None:
    log = pb.read_workload(logs.real("CEA-Curie-2011-2.1-cln.swf.gz")).head(60)
    run = pb.simulate(log.scale_load(1), "easy", platform="curie-node", progress=False)
    run.save(tmp_path / "run")
    args = ("simulate", "-p", "curie-node", "-w", str(tmp_path / "run_workload.json"), "--policy", "easy")
    assert run_cli(*args, "-e", str(tmp_path / "again"), "-q").returncode == 0
    assert (tmp_path / "again_jobs.csv").read_bytes() == (tmp_path / "run_jobs.csv").read_bytes()


def test_a_run_in_a_temporary_directory_is_not_pickled(log: pb.Log, tmp_path: Path) -> None:
    run = pb.simulate(log, "easy", progress=False)
    with pytest.raises(TypeError, match=r"use run\.save"):
        pickle.dumps(run)
    run.save(tmp_path / "run")
    assert pickle.loads(pickle.dumps(pb.read_run(tmp_path / "run"))).figures == run.figures


def test_policy_classes_are_not_registered_globally(log: pb.Log, tmp_path: Path) -> None:
    """No class stays registered by its name: another class of the same name, or another test, does not see it."""

    class Ours(Easy):
        """EASY under a name of its own."""

    run = pb.simulate(log, Ours, journal=True, progress=False)
    last = run.jobs.sort("wait_s")["id"][-1]
    assert not any("not known" in text for _, text in run.explain(last))
    run.report(tmp_path / "page.html")
    assert "unknown policy" not in (tmp_path / "page.html").read_text()
    with pytest.raises(InputError, match="unknown policy 'Ours'"):
        pb.simulate(log, "Ours")


def test_there_are_no_more_workers_than_runs(log: pb.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[LocalWorkers] = []
    start = LocalWorkers._start

    def counted(workers: LocalWorkers) -> Any:
        started.append(workers)
        if len(started) > 2:
            raise AssertionError("more workers than runs")
        return start(workers)

    monkeypatch.setattr(LocalWorkers, "_start", counted)
    assert len(pb.simulate(log, ["fcfs", "easy"], workers=50, progress=False)) == 2
    assert len(started) == 2


#: Two clusters, with a network and a property that Batsim rejects.
_TWO_CLUSTERS = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="z" routing="Full">
    <host id="master_host" speed="1Gf"/>
    <host id="a0" speed="1Gf"><prop id="cluster" value="a"/></host>
    <host id="b0" speed="1Gf"><prop id="cluster" value="b"/></host>
    <link id="l" bandwidth="1Gbps" latency="1ms"/>
    <route src="master_host" dst="a0"><link_ctn id="l"/></route>
    <route src="master_host" dst="b0"><link_ctn id="l"/></route>
    <route src="a0" dst="b0"><link_ctn id="l"/></route>
  </zone>
</platform>
"""


def test_warnings_and_summary_on_a_platform_are_those_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "two.xml").write_text(_TWO_CLUSTERS)
    platform, workload = str(tmp_path / "two.xml"), str(tmp_path / "w.json")
    pb.generate_workload("lublin", n_jobs=12, n_procs=2, seed=1).write(workload)
    done = run_cli("simulate", "-p", platform, "-w", workload, "--policy", "easy", "-e", str(tmp_path / "cli"))
    assert done.returncode == 0
    with pytest.warns(UserWarning, match="in Batsim, messages take time") as found:
        run = pb.simulate(workload, "easy", platform=platform, progress=False)
    assert [str(one.message) for one in found if str(one.message) not in arguments.in_python(done.stderr)] == []
    run.save(tmp_path / "api")
    by_command, in_python = (json.loads((tmp_path / f"{name}_summary.json").read_text()) for name in ("cli", "api"))
    del by_command["command"], in_python["names"]
    assert in_python == by_command
    for suffix in FILES:
        assert (tmp_path / f"api{suffix}").read_bytes() == (tmp_path / f"cli{suffix}").read_bytes()


@pytest.mark.parametrize("part", [None, 0.3, 0.5, 0.8])
def test_campaigns_metrics_and_python_have_the_same_utilisation(part: float | None) -> None:
    """Campaigns, `metrics` and Python compute it from the area under the processors in use."""
    for seed in range(6):
        log = pb.generate_workload("lublin", n_jobs=40, n_procs=16, seed=seed, load=0.9)
        last_at = float(log.jobs["submitted_at"].max())  # type: ignore[arg-type]
        record = pb.simulate(log, "easy", stop_at=None if part is None else part * last_at, progress=False).record
        figures = figures_of(record.jobs, record.n_procs, 10.0, record.cut)
        area = record.usage.integral(*record.span)
        assert figures["utilisation"] == record.utilisation() == area / (16 * (record.span[1] - record.span[0]))
        assert figures["mean_queue_length"] == record.queue_length.mean(*record.span)
