"""Simulate in Python: the same files and figures as the commands, several runs, and errors of policies."""

from __future__ import annotations

import io
import json
import os
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
from pybatsched.campaign.workers import LocalWorkers
from pybatsched.errors import PolicyError
from pybatsched.experiment import simulating
from pybatsched.experiment.one_run import run_one
from pybatsched_schedulers.easy import Easy

EXAMPLE = ROOT / "examples" / "workload.json"
NOT_A_POLICY: Any = int
WRONG_LOGS: Any = {"a": 3}
TIME: Any = "10d"


@pytest.fixture(scope="module")
def log() -> pb.Log:
    return pb.generate_workload("lublin", n_jobs=60, n_procs=16, seed=3, load=1.2, n_users=4)


class Sjbf(Easy):
    """EASY under a name of its own."""


class Broken(pb.Policy):
    """Raises at its first decision."""

    def decide(self, now: float) -> Iterator[Decision]:
        raise RuntimeError(f"no idea at {now:g}")


def test_a_clock_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="clock=: expected one of auto, exact, simgrid, found 'swiss'"):
        pb.simulate(EXAMPLE, "fcfs", n_procs=32, clock="swiss")


def test_a_saved_run_of_a_changed_log_has_its_workload(log: pb.Log, tmp_path: Path) -> None:
    run = pb.simulate(log.scale_load(1.1), "easy", progress=False)
    run.save(tmp_path / "out" / "easy")
    again = pb.read_run(tmp_path / "out" / "easy")
    assert again.figures == run.figures
    assert again.jobs["user"].to_list() == run.jobs["user"].to_list()
    assert run_cli("report", str(tmp_path / "out" / "easy"), "--output", str(tmp_path / "page.html")).returncode == 0


def test_processors_come_from_the_log(log: pb.Log) -> None:
    assert pb.simulate(log, "fcfs", progress=False).about["n_procs"] == 16


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


def renamed(log: pb.Log, number: int) -> pb.Log:
    return log.shake(60, seed=number).scale_load(1 + number / 10).head(40).with_walltimes("exact").named(f"{number}")


@pytest.mark.parametrize(
    ("copy", "n"),
    [
        (lambda log, number: log.shake(60, seed=number), 2),
        (renamed, 2),
        (lambda log, number: log.shake(60, seed=number).window("1d", "8d").where(lambda job: job["n_procs"] < 8), 2),
        (lambda log, number: log.window(f"{number}d", f"{number + 1}d"), 6),
        (lambda log, number: log.resample(seed=number, long_term_weeks=1).shake(60, seed=7), 6),
    ],
)
def test_copies_of_a_workload_are_not_independent_under_other_names(copy: Any, n: int, tmp_path: Path) -> None:
    """Neither if they come from files, nor if the runs are saved."""
    made = [
        pb.generate_workload("lublin", days=14, n_procs=16, seed=seed, n_users=3, load=0.1, name="week")
        for seed in (1, 2)
    ]
    logs = {f"{log.workload.source}, {number}": copy(log, number) for log in made for number in (1, 2, 3)}
    runs = pb.simulate(logs, ["fcfs", "easy"], progress=False)
    prefixes = runs.save(tmp_path / "runs")
    for one in (runs, runs[:], pb.Runs(map(pb.read_run, prefixes))):
        assert one.against("fcfs", figures="mean_wait_s")["n"].to_list() == [n]
        assert one.summary(figures="mean_wait_s")["mean_wait_s_n"].to_list() == [n, n]
    for prefix in prefixes:  # as a run was saved before it had an origin: its name decides
        summary = Path(f"{prefix}_summary.json")
        content = json.loads(summary.read_text())
        assert content["names"].pop("origin")
        summary.write_text(json.dumps(content))
    old = pb.Runs(map(pb.read_run, prefixes))
    assert old.against("fcfs", figures="mean_wait_s")["n"].to_list() == [6]


def test_files_of_shaken_copies_have_the_origin_of_their_log(log: pb.Log, tmp_path: Path) -> None:
    """Other files of the same name are other logs."""
    paths = [tmp_path / place / f"{name}.json" for place in ("a", "b") for name in ("w", "w-shake01", "w-shake02")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        log.write(path)
    runs = pb.simulate({str(path): str(path) for path in paths}, ["fcfs", "easy"], progress=False)
    assert runs.against("fcfs", figures="mean_wait_s")["n"].to_list() == [2]


def test_explain_repeats_the_run_with_a_journal(log: pb.Log) -> None:
    run = pb.simulate(log, Sjbf, progress=False)
    job = run.jobs.filter(state="COMPLETED_SUCCESSFULLY").sort("wait_s", descending=True)["id"][0]
    history = [text for _, text in run.explain(job)]
    assert history[0].startswith("submitted: ")
    assert any(text.startswith("started on ") for text in history)


def test_ctrl_c_keeps_finished_runs(log: pb.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = run_one, []

    def interrupted(*args: Any, **how: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*args, **how)

    monkeypatch.setattr(simulating, "run_one", interrupted)
    with pytest.warns(UserWarning, match="interrupted: 2 of 3 runs are finished"):
        runs = pb.simulate(log, ["fcfs", "easy", "conservative"], progress=False)
    assert [run.policy for run in runs] == ["fcfs", "easy"]


def test_short_work_shows_no_progress_bar_and_a_notebook_keeps_it(log: pb.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(simulating, "_BAR_AFTER_S", 1e9)  # however slow the machine is
    pb.simulate(log, ["fcfs", "easy"])
    assert terminal.getvalue() == ""
    monkeypatch.setattr(simulating, "_BAR_AFTER_S", 0)
    pb.simulate(log, ["fcfs", "easy"])
    assert terminal.getvalue().endswith(" \r")  # the bar is erased at its end
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    pb.simulate(log, ["fcfs", "easy"])
    assert "100%|##########| 120/120 [" in terminal.getvalue()  # it stays in a notebook


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


class Exiting(pb.Policy):
    """Ends its process."""

    def decide(self, now: float) -> Iterator[Decision]:
        print("on the way", flush=True)
        os._exit(7)


def test_finished_runs_are_kept_if_a_worker_dies(log: pb.Log) -> None:
    policies: list[Any] = ["fcfs", Exiting, "easy"]
    with pytest.raises(pb.WorkerDiedError) as caught:
        pb.simulate({"one": log}, policies, workers=2, progress=False)
    assert str(caught.value) == (
        "policy Exiting on one: its process ended with exit code 7; its last output:\non the way\n"
        "expected processes that end after their runs; SIGKILL often means too little memory: use fewer workers. "
        "2 of 3 runs finished: see `runs` of this error"
    )
    assert caught.value.runs.jobs.equals(pb.simulate({"one": log}, ["fcfs", "easy"], progress=False).jobs)


def test_a_worker_of_dask_dies(log: pb.Log) -> None:
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(pb.WorkerDiedError, match=r"^policy Exiting on lublin: (.|\n)* 0 of 1 run finished"),
    ):
        pb.simulate(log, [Exiting], client=client, progress=False)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda log: pb.simulate(log, "easi"), "unknown policy 'easi'"),
        (lambda log: pb.simulate(log, "easy", ordr="sjf"), "unknown option 'ordr'"),
        (lambda log: pb.simulate(log, "easy", n_proc=4), "simulate: unknown keyword 'n_proc'; did you mean n_procs=…"),
        (lambda log: pb.simulate(log, "easy", mtbf="30d"), r'did you mean failures=\{"mtbf": …\}'),
        (lambda log: pb.simulate(log, "easy", seed=3), "did you mean seeds=…"),
        (lambda log: pb.simulate(log, "easy", procs=3), "simulate: unknown keyword 'procs'; did you mean n_procs=…"),
        (lambda log: pb.simulate(log, "easy", walltimes="exact"), r"did you mean read_workload\(…, walltimes=…\)"),
        (lambda log: pb.Simulation(log, "easy", n_proc=4), "Simulation: unknown keyword 'n_proc'; .* n_procs=…"),
        (lambda log: pb.simulate(log, "easy", orders="sjf"), "did you mean 'order'"),
        (lambda log: pb.simulate(log, "easy", on_failures="kill"), "did you mean 'on_failure'"),
        (lambda log: pb.simulate(log, "easy", options={}), "unknown option 'options' .from Python.; "),
        (lambda log: pb.simulate(log, "easi", seed=3), "unknown policy 'easi'"),
        (lambda log: pb.simulate(log, ["easy", "fcfs"], order="sjf"), "works only with one policy"),
        (lambda log: pb.simulate(log, ["easy", "easy"]), "expected different labels"),
        (lambda log: pb.simulate(log, []), "expected at least one workload and one policy"),
        (lambda log: pb.simulate(log, "easy", n_procs=4, platform="rackham"), "expected only one of them"),
        (lambda log: pb.simulate(log, NOT_A_POLICY), "expected a subclass of pybatsched.Policy"),
        (lambda log: pb.simulate(lambda seed: log, "easy"), "seeds: needed by a workload that is a function"),
        (lambda log: pb.simulate(log, ["fcfs"]).compare("easy"), "'easy': expected the label of a policy"),
        (lambda log: pb.simulate(log, "easy", workers=0), "workers=: expected a whole number, 1 or more, found 0"),
        (lambda log: log.write("w.swf"), r"w.swf: expected a file name that ends in .json or .json.gz"),
        (lambda log: pb.simulate(log, "easy", units="node"), "units=: works only with platform="),
        (lambda log: pb.simulate(log, "easy", tau_s=-5), "tau_s=: expected seconds, 0 or more, found -5"),
        (lambda log: pb.simulate(WRONG_LOGS, "easy"), "log: expected a Log, .* or a dictionary of Logs, found {'a'"),
        (lambda log: pb.simulate(log, "easy", failures=TIME), "failures=: expected settings such as {'mtbf': '30d'}"),
        (lambda log: pb.simulate(log, ["easy"])[:0].jobs, "expected at least one run, found none"),
        (lambda log: pb.simulate(log, "easy").plot.gantt(color="red"), "color: expected one of auto, job, wait"),
        (lambda log: pb.simulate(log, "easy").plot.cdf(scale="ln"), "scale: expected one of auto, log, linear"),
        (lambda log: pb.simulate(log, "easy").plot.cdf("wai"), r"measure 'wai'; did you mean 'wait_s'\? Expected"),
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


@pytest.mark.parametrize(
    ("command", "policy"),
    [
        (["own.py"], '"own.py:Own"'),  # the script names its own file
        (["-m", "pybatsched", "simulate", "-w", str(EXAMPLE), "--policy", "own.py:Own", "-e", "out"], "Own"),
        (["-c", "import own"], "Own"),
        (["-c", "import own"], '"easy"'),
    ],
)
def test_a_file_of_policies_does_not_simulate_when_it_is_imported(
    command: list[str], policy: str, tmp_path: Path
) -> None:
    """Each worker would import the file, and start workers again."""
    (tmp_path / "own.py").write_text(
        "import pybatsched as pb\nfrom pybatsched_schedulers.easy import Easy\n\n\n"
        f"class Own(Easy):\n    'My own.'\n\n\npb.simulate({str(EXAMPLE)!r}, [{policy}], workers=2)\n"
    )
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_OF_WORK_S,
        cwd=tmp_path,
    )
    assert done.returncode != 0
    assert done.stderr.endswith(
        "own.py: line 9: `simulate` with workers or a client is called while this file is imported, and each worker "
        'imports it again; expected the call under `if __name__ == "__main__":`\n'
    )


def test_dask_gives_the_same_runs(log: pb.Log) -> None:
    distributed = pytest.importorskip("distributed")
    policies: list[Any] = ["fcfs", Sjbf]
    alone = pb.simulate(log, policies, progress=False)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        runs = pb.simulate(log, policies, client=client, progress=False)
        with pytest.raises(PolicyError, match="no idea at 0"):
            pb.simulate(log, [Broken], client=client, progress=False)
    assert runs.jobs.equals(alone.jobs)


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
    assert pb.policy(pb.policy("easy", order="sjf"), order="ljf").title == "easy(order=ljf)"
    assert pb.policy(pb.policy("easy", order="sjf", label="SJF"), order="ljf").title == "SJF"
    tables = [{"name": name, "start": 0, "duration": "1h", "hosts": 2} for name in ("upgrade", "b", "c")]
    assert pb.policy("easy", host_reservations=tables[:1]).title == "easy(host_reservations=upgrade)"
    assert pb.policy("easy", host_reservations=tables).title == "easy(host_reservations=upgrade and 2 more)"
    with pytest.raises(InputError, match="^host_reservations='upgrade': cannot be read: "):
        pb.policy("easy", host_reservations="upgrade")


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
    with pytest.warns(UserWarning, match="^CEA-Curie-2011-2.1-cln: converted sizes from cores to nodes of 16 cores"):
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
