"""Interrupted runs in real processes: their files, their messages, and their readers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.patience import PATIENCE_S, wait_until
from support.places import PUSHY, ROOT
from support.process import run_cli

from pybatsched import __version__, cli
from pybatsched.errors import BrokenPromiseError, InputError, PolicyError
from pybatsched.metrics.saved_runs import read_latest, read_run
from pybatsched.platform.model import uniform
from pybatsched.policies import registry
from pybatsched.report import page
from pybatsched.results import run_state
from pybatsched.results.run_state import SUFFIXES, State
from pybatsched.results.writing import Results
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.outputs.files import ResultFiles, batsim_files
from pybatsched.simulator.run import run_policy, tally_of
from pybatsched.workload import load

HALTING = f"{ROOT / 'tests' / 'support' / 'halting.py'}:Halting"
N_JOBS, N_OVER = 1200, 40


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a workload of 1,200 jobs that run one after the other."""
    jobs = [{"id": str(i), "subtime": 0, "res": 1, "profile": "d", "walltime": 3, "user": i % 2} for i in range(N_JOBS)]
    content = {"nb_res": 1, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 2}}}
    (tmp_path / "w.json").write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simulate(*more: str, policy: str = HALTING) -> tuple[str, ...]:
    return ("simulate", "--procs", "1", "-w", "w.json", "--policy", policy, "-e", "out/a", *more)


def whole_run() -> dict[str, bytes]:
    """Make a whole run, in this process; give its files."""
    before = [(one, signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM)]
    assert cli.main(list(simulate("-q", policy="fcfs"))) == 0
    for one, handler in before:
        signal.signal(one, handler)
    return results()


def results() -> dict[str, bytes]:
    found = {suffix: Path(f"out/a{suffix}") for suffix in SUFFIXES}
    return {suffix: path.read_bytes() for suffix, path in found.items() if path.exists()}


def names() -> set[str]:
    return {path.name for path in Path("out").iterdir()}


WHOLE = {f"a_{name}" for name in ("jobs.csv", "schedule.csv", "machine_states.csv", "summary.json", "state.json")}


@contextlib.contextmanager
def halted(*more: str) -> Iterator[subprocess.Popen[str]]:
    """A run that pauses after a given number of ended jobs."""
    command = [sys.executable, "-m", "pybatsched", *simulate(*more)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        await_file(Path("halted"), process)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)
        Path("halted").unlink(missing_ok=True)


def await_file(path: Path, process: subprocess.Popen[str]) -> None:
    wait_until(path.exists, by=process)


def n_rows() -> int:
    """Count the complete rows of a partial run."""
    return max(Path("out/a.part_jobs.csv").read_text().count("\n") - 1, 0)


def run_command(*args: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code, output and errors."""
    capsys.readouterr()
    code = cli.main(list(args))
    return code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("signum", "message"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "interrupted"), (signal.SIGKILL, "broke off")],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_stopped_run_is_marked_and_keeps_its_files(
    is_first: bool, signum: int, message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = {} if is_first else whole_run()
    with halted() as process:
        mark = run_state.read("out/a")
        assert mark is not None
        assert (mark.state, mark.is_alive, mark.n_jobs, mark.about["pid"]) == ("running", True, N_JOBS, process.pid)
        assert results() == earlier
        notice = f"still running, {n_rows()} of 1,200 jobs so far"
        assert read_latest("out/a", newest=True).run_state.notice == notice
        code, out, err = run_command("metrics", "out/a", capsys=capsys)
        if is_first:
            assert (code, out.splitlines()[0]) == (7, f"out/a: {notice}")
            assert err == f"pybatsched: out/a: {notice} (expected complete runs, or --partial)\n"
        else:
            assert (code, "still running" in out) == (0, False)
            assert "out/a: results of an earlier run; the last one: still running (out/a.part_*, shown by" in err
        process.send_signal(signum)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == (-signum if signum == signal.SIGKILL else 128 + signum)
    assert results() == earlier
    assert names() == ({*WHOLE} if earlier else {"a_state.json"}) | {"a.part_jobs.csv", "a.part_machine_states.csv"}
    if signum == signal.SIGKILL:
        n_over = n_rows()
        assert n_over <= N_OVER
    else:
        n_over = N_OVER
        assert n_rows() == N_OVER
        where = ", the results of an earlier run stay in out/a_*" if earlier else ""
        how = f"interrupted by signal {signum}; interrupted after 40 of 1,200 jobs"
        assert errors == f"pybatsched: {how}; its files are out/a.part_*{where} (pybatsched metrics out/a --partial)\n"
    notice = f"{message} after {n_over} of 1,200 jobs"
    code, out, err = run_command("metrics", "out/a", capsys=capsys)
    if is_first:
        assert (code, out.splitlines()[0]) == (7, f"out/a: {notice}")
    else:
        assert (code, out.splitlines()[1].split()[:2]) == (0, ["wait_s", "1200"])
        assert f"out/a: results of an earlier run; the last one: {message}" in err
    code, out, err = run_command("metrics", "out/a", "--partial", capsys=capsys)
    assert (code, out.splitlines()[0], err) == (0, f"out/a: {notice}", "")
    assert out.splitlines()[2].split()[:2] == ["wait_s", str(n_over)]
    # The machine's size and the jobs' fields are known, too.
    assert read_run("out/a", partial=True).n_procs == 1
    if n_over > 1:
        code, out, err = run_command("metrics", "out/a", "--partial", "--by", "user", capsys=capsys)
        assert [line.split()[0] for line in out.splitlines()[2:]] == ["0", "1"]
    # The next run that comes to its end leaves nothing of it.
    whole = whole_run()
    assert whole == (earlier or whole)
    assert names() == WHOLE
    code, out, err = run_command("metrics", "out/a", capsys=capsys)
    assert (code, err) == (0, "")


def test_a_resumed_process_finishes_its_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with halted() as process:
        Path("go").touch()
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    assert "jobs completed" in out
    assert names() == WHOLE
    assert run_command("metrics", "out/a", capsys=capsys)[0] == 0
    assert json.loads(Path("out/a_state.json").read_text())["state"] == "finished"


def test_two_runs_with_one_prefix_are_rejected(place: Path) -> None:
    earlier = whole_run()
    with halted() as process:
        mark, part = Path("out/a_state.json").read_bytes(), Path("out/a.part_jobs.csv").read_bytes()
        second = run_cli(*simulate(policy="fcfs"), cwd=place)
        assert second.returncode == 2
        assert "-e out/a: another run is writing out/a.part_*; wait for its end" in second.stderr
        assert (Path("out/a_state.json").read_bytes(), results()) == (mark, earlier)
        assert Path("out/a.part_jobs.csv").read_bytes() == part
        Path("go").touch()
        assert process.wait(timeout=PATIENCE_S) == 0
    assert results().keys() == earlier.keys()
    assert b"halting.py" in results()["_summary.json"]


def test_replaced_results_are_reported(tmp_path: Path) -> None:
    """Nothing is reported if the same run is repeated from equal files at any path."""
    content = {"nb_res": 4, "jobs": [{"id": "1", "subtime": 0, "res": 1, "profile": "d"}]}
    for name, delay in (("a.json", 1), ("b.json", 2), ("copy.json", 1)):
        text = json.dumps(content | {"profiles": {"d": {"type": "delay", "delay": delay}}})
        (tmp_path / name).write_text(text)

    def replaced_notes(*args: str, procs: str = "4", file: str = "a.json", policy: str = "easy", code: int = 0) -> str:
        arguments = ("--procs", procs, "-w", file, "--policy", policy, "-e", "out/x", *args)
        done = run_cli("simulate", *arguments, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return "".join(line for line in done.stderr.splitlines(keepends=True) if "replaced" in line)

    def replaced(before: str, after: str, what: str) -> str:
        text = f"replaced the results of {before} with those of {after} (different: {what})"
        return f"pybatsched {__version__}: out/x: {text}\n"

    easy, fcfs = "policy easy on a.json", "policy fcfs on a.json"
    assert [replaced_notes(), replaced_notes(), replaced_notes(file="copy.json"), replaced_notes()] == [""] * 4
    assert replaced_notes(policy="fcfs") == replaced(easy, fcfs, "policy")
    assert replaced_notes("-q") == ""
    assert replaced_notes("-o", "order=sjf") == replaced(easy, easy, "options")
    assert replaced_notes("-o", "order=sjf", file="b.json") == replaced(easy, "policy easy on b.json", "workloads")
    assert replaced_notes(policy="fcfs") == replaced("policy easy on b.json", fcfs, "policy, workloads")
    assert replaced_notes("--walltimes", "exact", procs="8", policy="fcfs") == replaced(
        fcfs, fcfs, "walltimes, processors"
    )
    assert replaced_notes("-q") == ""
    assert replaced_notes("--stop-at", "0.5", code=5) == replaced(easy, easy, "cut_at")
    assert replaced_notes("--stop-at", "0.5", code=5) == ""
    assert replaced_notes("--stop-at", "0.25", code=5) == replaced_notes() == replaced(easy, easy, "cut_at")
    for damaged in ("{", "[]", '{"format": "pybatsched-summary", "inputs": 3, "policy": [4]}'):
        (tmp_path / "out" / "x_summary.json").write_text(damaged)
        assert ("replaced the results of an external scheduler with " in replaced_notes()) == ("inputs" in damaged)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_policy_that_raises_leaves_a_failed_run(
    is_first: bool, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = {} if is_first else whole_run()
    done = run_cli(*simulate("-o", "then=raise", "--journal", "a.pbj"), cwd=place)
    assert done.returncode == 6
    assert "failed after 40 of 1,200 jobs; its files are out/a.part_*" in done.stderr
    assert results() == earlier
    content = json.loads(Path("out/a_state.json").read_text())
    assert (content["state"], content["n_over"], content["exit_code"]) == ("failed", N_OVER, 6)
    code, out, _ = run_command("metrics", "out/a", "--partial", capsys=capsys)
    lines = out.splitlines()
    assert (code, lines[0]) == (0, "out/a: failed after 40 of 1,200 jobs")
    assert re.fullmatch(r"  policy .* broke the rule 'no exception': decide raised ValueError: that is .*", lines[1])
    code, out, _ = run_command("explain", "a.pbj", "w0!0", capsys=capsys)
    assert (code, "ended: COMPLETED_SUCCESSFULLY" in out) == (0, True)


def limit_files(n_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_full_disk_leaves_a_failed_run(is_first: bool, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that must not grow any more, as on a full disk: what fitted is there, and the run has failed."""
    earlier = {} if is_first else whole_run()
    # -B: no bytecode, of which Python would write a part only, without an error.
    command = [sys.executable, "-B", "-m", "pybatsched", *simulate(policy="fcfs")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_S, preexec_fn=lambda: limit_files(20_000)
    )
    assert done.returncode == 2, done.stderr
    assert "cannot write the outputs out/a.part_*: File too large" in done.stderr
    assert results() == earlier
    n_over = n_rows()
    assert 100 < n_over < N_JOBS
    code, out, _ = run_command("metrics", "out/a", "--partial", capsys=capsys)
    assert (code, out.splitlines()[0]) == (0, f"out/a: failed after {n_over} of 1,200 jobs")
    assert out.splitlines()[1] == "  cannot write the outputs out/a.part_*: File too large"


def test_a_run_with_a_deadlock_is_finished(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such a run has finished; its exit code and its summary report the unfinished jobs."""
    whole_run()
    done = run_cli(*simulate(policy=f"{PUSHY}:Lazy"), cwd=place)
    assert done.returncode == 5
    assert names() == WHOLE
    content = json.loads(Path("out/a_state.json").read_text())
    assert (content["state"], content["n_jobs"], content["n_over"]) == ("finished", N_JOBS, 0)
    assert json.loads(Path("out/a_summary.json").read_text())["n_unfinished"] == N_JOBS
    code, _, err = run_command("metrics", "out/a", capsys=capsys)
    assert (code, err) == (0, "")


def test_a_signal_during_the_final_rename_does_not_stop_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = Path.replace
    n_moved = 0

    def replace(self: Path, target: Path) -> Path:
        nonlocal n_moved
        n_moved += 1
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    whole_run()
    assert n_moved == len(WHOLE) - 1
    assert names() == WHOLE
    assert "jobs completed" not in capsys.readouterr().err


@pytest.fixture
def broken(place: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The prefix of an interrupted run; out/b is a complete one."""
    run_run("out/b", "fcfs")
    with pytest.raises(PolicyError):
        run_run("out/a", HALTING, then="raise")
    return "out/a"


def run_run(prefix: str, policy: str, **options: str) -> None:
    """Run a policy as a library does."""
    plan = registry.PolicyPlan(registry.find(policy, trusted=True), options)
    scenario = Scenario(uniform(1), {"w0": load("w.json")})
    tally = tally_of(scenario)
    with Results(prefix) as results:
        run_policy(scenario, plan, [ResultFiles(results, tally), *batsim_files(results.part)], tally=tally)
        results.finish()


NOTICE = "failed after 40 of 1,200 jobs"


def test_the_library_rejects_incomplete_runs_by_default(broken: str) -> None:
    with pytest.raises(BrokenPromiseError, match=f"^out/a: {NOTICE}; expected a finished run, or partial=True$"):
        read_run(broken)
    run = read_run(broken, partial=True)
    assert (len(run.records), run.run_state.notice, run.label) == (N_OVER, NOTICE, "a")
    with pytest.raises(BrokenPromiseError, match=NOTICE):
        read_run("out/a.part")  # by the name of its files it is no more whole
    assert (read_run("out/b").run_state.notice, len(read_run("out/b").records)) == ("", N_JOBS)
    assert {path.name for path in Path("out").glob("b*")} == {
        "b_jobs.csv",
        "b_machine_states.csv",
        "b_schedule.csv",
        "b_state.json",
    }


def test_files_without_a_state_file_are_read(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("out/a.part_jobs.csv").replace("batsim_jobs.csv")
    assert len(read_run("batsim").records) == N_OVER
    code, out, err = run_command("metrics", "batsim", capsys=capsys)
    assert (code, out.splitlines()[1].split()[:2], err) == (0, ["wait_s", "40"], "")


@pytest.mark.parametrize("partial", [False, True])
def test_metrics_of_a_partial_run_against_a_complete_one(
    partial: bool, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--partial"] if partial else []
    for runs in (("out/b", "--against", broken), (broken, "--against", "out/b"), ("out/b", broken)):
        code, out, err = run_command("metrics", *runs, *flags, capsys=capsys)
        assert (code, out.splitlines()[0]) == (0 if partial else 7, f"out/a: {NOTICE}")
        assert (f"out/a: {NOTICE} (expected" in err) is not partial


def test_metrics_of_a_partial_run_as_json(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_command("metrics", broken, "out/b", "--json", capsys=capsys)
    tables = json.loads(out)
    assert code == 7
    assert tables["out/a"]["(run)"] == {"state": "failed", "is_alive": False, "n_over": N_OVER, "n_jobs": N_JOBS}
    assert tables["out/a"]["wait_s"]["n"] == N_OVER
    assert "(run)" not in tables["out/b"]
    assert err.startswith(f"out/a: {NOTICE}\n")


@pytest.mark.parametrize("partial", [False, True])
def test_the_page_has_a_notice_of_partial_runs_at_the_top(
    partial: bool, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--partial"] if partial else []
    code, out, _ = run_command("report", "out/b", broken, "--output", "x.html", *flags, capsys=capsys)
    assert (code, out.splitlines()[0]) == (0 if partial else 7, f"out/a: {NOTICE}")
    text = Path("x.html").read_text()
    shown = re.findall(r'<p class="broken" role="alert">(.*?)</p>', text)
    assert len(shown) == 1
    assert re.fullmatch(rf"a: {NOTICE}<small>policy .*halting.py:Halting broke the rule &#x27;no.*</small>", shown[0])
    assert text.index("<h1>") < text.index('<p class="broken"') < text.index("<h2>Summary")
    code, out, _ = run_command("report", "out/b", "--output", "y.html", capsys=capsys)
    assert code == 0
    assert '<p class="broken"' not in Path("y.html").read_text()


def test_names_and_reasons_are_escaped_on_the_page(broken: str) -> None:
    state = Path("out/a_state.json")
    state.write_text(json.dumps(json.loads(state.read_text()) | {"reason": "<script>alert(1)</script>"}))
    text = page.of_runs([read_run(broken, partial=True)])
    assert "<script>alert(1)" not in text
    assert "<small>&lt;script&gt;alert(1)&lt;/script&gt;</small>" in text


@pytest.mark.parametrize("kind", ["gantt", "utilisation", "queue", "cdf", "boxes"])
def test_figures_have_a_notice_of_partial_runs_at_the_top(
    kind: str, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = json.loads(Path("out/a_state.json").read_text())["reason"]
    for run, flags, code in ((broken, (), 7), (broken, ("--partial",), 0), ("out/b", (), 0)):
        found, out, _ = run_command("plot", kind, run, "--output", "x.svg", *flags, capsys=capsys)
        notice = f"out/a: {NOTICE}\n  {reason}\n" if run == broken else ""
        assert (found, out.startswith(f"{notice}x.svg: "), out.count("\n")) == (code, True, notice.count("\n") + 1)
        assert (f"a: {NOTICE}" in Path("x.svg").read_text()) is (run == broken)


@pytest.mark.parametrize("after", ["0", "1"])
def test_a_partial_run_with_at_most_one_job(after: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PolicyError):
        run_run("out/a", HALTING, then="raise", after=after)
    line = f"out/a: failed after {after} of 1,200 jobs"
    commands = [
        ("metrics", "out/a"),
        ("report", "out/a"),
        *(("plot", kind, "out/a") for kind in ("gantt", "cdf", "boxes")),
    ]
    for command in commands:
        files = () if command[0] == "metrics" else ("--output", "x.svg" if command[0] == "plot" else "x.html")
        code, out, _ = run_command(*command, *files, capsys=capsys)
        has_nothing = after == "0" and command[1] in {"cdf", "boxes"}  # no value to draw
        assert (code, out.splitlines()[0]) == (2 if has_nothing else 7, line), command
    Path("out/a.part_jobs.csv").unlink(missing_ok=True)  # killed before it had made any file
    code, out, _ = run_command("metrics", "out/a", "--partial", capsys=capsys)
    assert (code, out.splitlines()[0]) == (0, "out/a: failed after 0 of 1,200 jobs")


def test_compare_of_a_partial_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole_run()
    for suffix in ("_jobs.csv", "_summary.json", "_state.json"):
        Path(f"out/a{suffix}").rename(f"out/b{suffix}")
    assert run_cli(*simulate("-o", "then=raise"), cwd=place).returncode == 6
    summaries = ("compare", "out/b_summary.json", "out/a_summary.json")
    code, out, err = run_command(*summaries, capsys=capsys)
    lines = out.splitlines()
    assert (code, lines[0]) == (7, f"out/a: {NOTICE}")
    assert err == f"pybatsched: out/a: {NOTICE} (expected complete runs, or --partial)\n"
    assert ["n_completed", "1,200", "40", "-96.67%"] in [line.split() for line in lines]
    assert ["utilisation", "1", "1", "="] in [line.split() for line in lines]
    code, out, err = run_command(*summaries, "--partial", capsys=capsys)
    assert (code, out.splitlines(), err) == (0, lines, "")
    # A condition on what is not known of it fails, as ever.
    code, _, err = run_command(*summaries, "--partial", "--fail-if", "n_unfinished > 0", capsys=capsys)
    assert (code, "n_unfinished has no value in out/a_summary.json" in err) == (7, True)
    # Earlier results are compared, unless the last run is asked for.
    whole_run()
    assert run_cli(*simulate("-o", "then=raise"), cwd=place).returncode == 6
    code, out, err = run_command(*summaries, capsys=capsys)
    assert (code, NOTICE in out) == (0, False)
    assert f"out/a: results of an earlier run; the last one: {NOTICE} (out/a.part_*, shown by --partial)" in err
    assert run_command(*summaries, "--partial", capsys=capsys)[1].splitlines() == lines


def test_results_in_two_places_are_read_as_one_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was killed while its files were renamed counts as finished; the next run renames the rest."""
    whole_run()
    _, expected, _ = run_command("metrics", "out/a", "--json", capsys=capsys)
    moving = sorted(results(), key=SUFFIXES.index)
    content = json.loads(Path("out/a_state.json").read_text()) | {"moving": moving}
    Path("out/a_state.json").write_text(json.dumps(content))
    for suffix in moving[1:]:
        Path(f"out/a{suffix}").rename(f"out/a.part{suffix}")
        Path(f"out/a{suffix}").write_text("old")
    code, out, err = run_command("metrics", "out/a", "--json", capsys=capsys)
    assert (code, out, err) == (0, expected, "")
    code, out, err = run_command("compare", "out/a_summary.json", "out/a_summary.json", capsys=capsys)
    assert (code, err) == (0, "")
    assert run_cli(*simulate("-o", "then=raise"), cwd=place).returncode == 6
    assert b"old" not in b"".join(results().values())
    assert run_command("metrics", "out/a", "--json", capsys=capsys)[:2] == (0, expected)


def test_a_truncated_table_is_read_up_to_its_last_complete_row(broken: str) -> None:
    path = Path("out/a.part_jobs.csv")
    data = path.read_bytes()
    n_head = data.index(b"\n") + 1
    for size in (*range(n_head + 300), *range(len(data) - 300, len(data) + 1)):
        path.write_bytes(data[:size])
        run = read_latest(broken)
        assert len(run.records) == max(data[:size].count(b"\n") - 1, 0)
        assert run.run_state.notice == f"failed after {len(run.records)} of 1,200 jobs"
    lines = data.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"1,w0,d\n", *lines[3:]]))
    damage = "a.part_jobs.csv: line 4: the row is truncated; expected 17 fields, found 3$"
    with pytest.raises(InputError, match=damage):
        read_latest(broken)


def test_a_truncated_row_with_line_ends_is_skipped(broken: str) -> None:
    path = Path("out/a.part_jobs.csv")
    text = path.read_text()
    path.write_text(text + text.splitlines()[-1].removesuffix('""') + '"a note\nof two')
    assert len(read_latest(broken).records) == N_OVER
    path.write_text(text + text.splitlines()[-1].removesuffix('""') + '"a note\n')
    assert len(read_latest(broken).records) == N_OVER


def test_all_states_are_in_the_documentation() -> None:
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("simulator.md", "metrics.md", "reports.md"))
    for state in State:
        assert f"`{state}`" in pages
