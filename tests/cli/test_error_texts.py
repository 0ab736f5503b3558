"""Texts for users: errors name the option, notes help, and numbers are readable."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import zmq
from support import logs
from support.patience import PATIENCE_MS, PATIENCE_S
from support.process import run_cli

from pybatsched.workload.generate.models import MODELS

LOG = [logs.line(number, 60 * number, run=50, allocated=5, requested_s=60) for number in range(1, 11)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    logs.log(tmp_path, *LOG)
    return tmp_path


def simulate_errors(place: Path, *args: str, code: int = 2) -> str:
    done = run_cli("simulate", "-w", "log.swf", "--policy", "easy", *args, cwd=place)
    assert done.returncode == code, done.stderr
    return done.stderr


def test_energy_needs_a_platform_with_power_values(place: Path) -> None:
    expected = "pybatsched: --energy: expected --platform with watts; equal processors have none\n"
    assert simulate_errors(place, "--procs", "8", "-E") == expected


def test_delays_put_no_load_on_hosts_and_what_does_is_named(place: Path) -> None:
    platform = "rackham-128gb-core-energy@0.002"
    hint = "all profiles are delays, which put no load on hosts"
    output = simulate_errors(place, "-p", platform, "-E", code=0)
    assert hint in output
    assert "use `pybatsched workload convert --cpu-load` to write profiles that do" in output
    assert hint not in simulate_errors(place, "-p", platform, code=0)


def test_an_empty_selection_is_described_with_a_hint(place: Path) -> None:
    text = simulate_errors(place, "--procs", "8", "--from", "9000d")
    assert text.endswith("the selection is: from 777600000; expected at least one job, or --allow-empty\n")
    assert "{" not in text
    assert "from 777600000; expected" not in simulate_errors(
        place, "--procs", "8", "--from", "9000d", "--allow-empty", code=0
    )
    done = run_cli("workload", "convert", "log.swf", "w.json", "--from", "9000d", cwd=place)
    assert done.stderr.endswith("and the selection is: from 777600000\n")


def test_impossible_times_name_their_options_before_reading(place: Path) -> None:
    (place / "log.swf").unlink()
    assert "--submitted-before 604800: expected a time after --from 691200\n" in simulate_errors(
        place, "--procs", "8", "--from", "8d", "--submitted-before", "7d"
    )
    assert "--stop-at: expected seconds" in simulate_errors(place, "--procs", "8", "--stop-at=-5")


def test_a_policy_without_a_queue_is_rejected_before_the_run(place: Path) -> None:
    (place / "c.toml").write_text('[policy.redirection]\nprincipal = "ujfb"\n')
    done = run_cli(
        *("simulate", "--procs", "8", "-w", "log.swf", "--policy", "redirection", "--config", "c.toml"),
        *("-e", "out/x", "--journal", "out/x.pbj"),
        cwd=place,
    )
    text = (
        "policy 'ujfb' cannot be used as a local scheduler: it has no single queue; expected one such as fcfs or easy"
    )
    assert (done.returncode, done.stderr) == (2, f"pybatsched: policy redirection, option principal: {text}\n")
    assert not (place / "out").exists()


def test_errors_name_files_as_the_user_gave_them(place: Path) -> None:
    job: dict[str, Any] = {"id": "a", "subtime": 0, "res": 1, "profile": "p"}
    profiles = {"p": {"type": "delay", "delay": 5}}
    for wrong in ({"walltime": "long"}, {"estimate": -1}):
        (place / "w.json").write_text(json.dumps({"nb_res": 2, "jobs": [job | wrong], "profiles": profiles}))
        done = run_cli("simulate", "--procs", "2", "-w", "w.json", "--policy", "easy", cwd=place)
        assert (done.returncode, done.stderr.startswith("pybatsched: w.json: ")) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b'{"error": 5}', "5"),
        (b'{"error": {}}', "{}"),
        (b'{"error": {"why": "no"}}', '{"why":"no"}'),
        (b'{"error": "red \\u001b[31m\\u0007"}', "red \\x1b[31m\\x07"),
    ],
)
def test_error_texts_of_a_scheduler_are_shown_and_escaped(answer: bytes, message: str, place: Path) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    socket.setsockopt(zmq.LINGER, PATIENCE_MS)
    socket.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
    port = socket.bind_to_random_port("tcp://127.0.0.1")

    def scheduler() -> None:
        socket.recv()
        socket.send(answer)

    thread = threading.Thread(target=scheduler)
    thread.start()
    done = run_cli(
        "simulate", "--procs", "8", "-w", "log.swf", "--external", "-s", f"tcp://127.0.0.1:{port}", cwd=place
    )
    thread.join(PATIENCE_S)
    socket.close()
    context.term()
    assert done.returncode == 3
    assert f"the scheduler stopped with an error: {message}" in done.stderr
    assert "\x1b" not in done.stderr


def test_numbers_in_tables_have_no_exponent(place: Path) -> None:
    far = [logs.line(number, 10_000_000_000 + 60 * number, run=50, allocated=5) for number in range(1, 4)]
    logs.log(place, *far)
    simulate_errors(place, "--procs", "8", "-e", "far", code=0)
    rows = {line.split()[0]: line.split() for line in run_cli("metrics", "far", cwd=place).stdout.splitlines()}
    assert rows["makespan_s"][-1] == "10,000,000,230.0"


def test_compare_explains_a_difference_in_ended_at_alone(place: Path) -> None:
    simulate_errors(place, "--procs", "8", "-e", "a", code=0)
    summary = json.loads((place / "a_summary.json").read_text())
    (place / "b_summary.json").write_text(json.dumps(summary | {"ended_at": summary["ended_at"] + 10}))
    why = "ended_at is the last reply of the scheduler, makespan_s the last end of a job"
    assert why in run_cli("compare", "a_summary.json", "b_summary.json", cwd=place).stderr
    assert why not in run_cli("compare", "a_summary.json", "a_summary.json", cwd=place).stderr
    figures = {**summary["figures"], "n_by_state": {"REJECTED": summary["figures"]["n_jobs"]}}
    (place / "c_summary.json").write_text(json.dumps(summary | {"ended_at": 0, "figures": figures}))
    done = run_cli("compare", "a_summary.json", "c_summary.json", cwd=place)
    assert "figures of different jobs" in done.stderr
    assert why not in done.stderr
    assert next(line.split() for line in done.stdout.splitlines() if line.startswith("tau_s")) == [
        *("tau_s", "10", "10", "="),
    ]


def test_notes_of_a_run_name_options(place: Path) -> None:
    slurm = "JobID|Submit|Start|End|NCPUS\n1|2024-01-01T00:00:00|2024-01-01T00:00:01|2024-01-01T00:01:00|4\n"
    (place / "log.swf").write_text(slurm)
    notes = simulate_errors(place, "-e", "a", code=0)
    assert "the most cores in use at one time, 4 (or --procs)" in notes
    assert "wrong by an hour (--timezone Europe/Paris)" in notes


def test_wrong_roles_are_named(place: Path) -> None:
    assert "--add-role-to-hosts: role 'h1': expected" in simulate_errors(place, "-p", "kth-sp2", "-r", "h1", code=2)


def test_studies_are_listed_by_an_option_too() -> None:
    assert run_cli("reproduce", "--list").stdout == run_cli("reproduce").stdout != ""


def failure(place: Path, *args: str) -> str:
    done = run_cli(*args, cwd=place)
    assert done.returncode == 2, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ("conservative -o compression=maybe", "(from -o): expected true or false, found 'maybe'\n"),
        ("rl -o order=best", "option order (from -o): expected one of fcfs, sjf, ljf, smallest,"),
        ("easy -o assume_walltime=-1", "(from -o): expected more than 0, found -1\n"),
        ("easy --mmax x", "--mmax: expected a whole number, 0 or more, found 'x'\n"),
        ("easy --procs four", "--procs: expected a whole number from 1 to 10,000,000, found 'four'\n"),
        ("easy --procs 10000001", "--procs: expected a whole number from 1 to 10,000,000, found 10000001\n"),
        ("easy --config no.toml", "--config no.toml: cannot be read: No such file or directory\n"),
        ("easy --config bad.toml", "--config bad.toml: line 1:8: expected TOML: invalid value\n"),
        ("easy -m nohost", "--master-host: works only with --platform; equal processors have no master\n"),
        ("easy -r a:storage", "--add-role-to-hosts: works only with --platform; equal processors have no roles\n"),
        ("easy --timeout 0", "--timeout: works only with --external; a policy in this process has no"),
        ("none.py", "policy 'none.py': expected none.py:CLASS with one class; it defines no policy (expec"),
        ("none.py:X", "none.py does not define X; it defines no policy (expected a subclass of pybatsched."),
        ("syntax.py", "syntax.py: line 2:5)\n"),
        ("syntax.py", "cannot be loaded: SyntaxError: '(' was never closed (/"),
        ("locality", "has no property node; policy locality expects it on all hosts (use a platform of cor"),
    ],
)
def test_simulate_names_the_option_and_the_expected_value(policy: str, text: str, place: Path) -> None:
    (place / "bad.toml").write_text("policy=?\n")
    (place / "none.py").write_text("x = 1\n")
    (place / "syntax.py").write_text("\nx = (\n")
    assert text in failure(place, "simulate", "--procs", "8", "-w", "log.swf", "--policy", *policy.split())


CAMPAIGN = """
name = "c"
[[workload]]
name = "w"
file = "log.swf"
[[platform]]
name = "p"
procs = 8
[[policy]]
name = "fcfs"
[[policy]]
"""


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ('"conservatve"', "unknown policy 'conservatve'; did you mean 'conservative'? Installed: "),
        ('"rl"\noptions = {order = "best"}', "policy rl: option order (from the campaign): expected one of fcfs, "),
    ],
)
def test_a_campaign_names_its_file_and_the_policy(policy: str, text: str, place: Path) -> None:
    (place / "c.toml").write_text(f"{CAMPAIGN}name = {policy}")
    expected = f"pybatsched: c.toml: policy 2: {text}"
    assert failure(place, "campaign", "run", "c.toml", "--quiet").startswith(expected)


def test_a_campaign_lists_all_problems(place: Path) -> None:
    (place / "c.toml").write_text('name = "c"\nseeds = "three"\n[[workload]]\ngenerate = {model = "x", procs = 4}\n')
    assert failure(place, "campaign", "run", "c.toml").splitlines() == [
        "pybatsched: c.toml: workload 1: name is missing; expected a text",
        f"c.toml: workload 1: generate.model: expected one of {', '.join(MODELS)}, found 'x'",
        "c.toml: platform is missing; expected a list of tables",
        "c.toml: policy is missing; expected a list of tables",
        "c.toml: seeds: expected a list of whole numbers such as [1, 2, 3], found 'three'",
    ]


def test_missing_results_are_named(place: Path) -> None:
    expected = "pybatsched: no run 'nosuch': nosuch_jobs.csv does not exist; expected PREFIX of `simulate -e PREFIX`\n"
    assert failure(place, "metrics", "nosuch") == expected
    expected = (
        "pybatsched: none: no campaign here (no manifest.json); expected the directory of a `pybatsched campaign run`\n"
    )
    assert failure(place, "campaign", "status", "none") == expected


def test_a_job_class_without_jobs_is_an_error(place: Path) -> None:
    simulate_errors(place, "--procs", "8", "-e", "ok", code=0)
    text = failure(place, "metrics", "ok", "--by", "colour")
    assert text.startswith("pybatsched: --by colour: no job has this field; expected kind, size, state or one of ")


def test_explain_lists_the_jobs_of_the_journal(place: Path) -> None:
    simulate_errors(place, "--procs", "8", "--journal", "ok.pbj", code=0)
    expected = "pybatsched: ok.pbj: unknown job 'w0!99'; the journal has 10 jobs, w0!1 to w0!10\n"
    assert failure(place, "explain", "ok.pbj", "w0!99") == expected


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('<zone id="a" routing="Full"></zone></platform>', "no hosts; expected a master host an"),
        ('\n<zone id="a" routing="Full">\n', "line 3: the file ends inside <zone id=a> (line 2)"),
    ],
)
def test_platforms_without_hosts(content: str, text: str, place: Path) -> None:
    (place / "p.xml").write_text(f'<platform version="4.1">{content}')
    given = ("simulate", "-p", "p.xml", "-w", "log.swf", "--policy", "easy", "-q")
    assert f"pybatsched: p.xml: {text}" in failure(place, *given)


def test_a_profile_that_is_not_in_the_file(place: Path) -> None:
    job = {"id": "a", "subtime": 0, "res": 1, "profile": "nope"}
    for n, names in ((1, "d0"), (7, "d0, d1, d2, d3, d4, …")):
        profiles = {f"d{k}": {"type": "delay", "delay": 5} for k in range(n)}
        (place / "w.json").write_text(json.dumps({"nb_res": 2, "jobs": [job], "profiles": profiles}))
        text = failure(place, "simulate", "--procs", "2", "-w", "w.json", "--policy", "easy")
        assert f'expected a profile of the file ({names}), found "nope"' in text


def test_a_job_without_processors_is_rejected_with_the_reason(place: Path) -> None:
    job = {"id": "a", "subtime": 0, "res": 0, "profile": "d"}
    content = {"nb_res": 2, "jobs": [job], "profiles": {"d": {"type": "delay", "delay": 5}}}
    (place / "w.json").write_text(json.dumps(content))
    run_cli("simulate", "--procs", "2", "-w", "w.json", "--policy", "easy", "--journal", "j.pbj", cwd=place)
    assert "asks for 0 processors; expected at least 1" in run_cli("explain", "j.pbj", "w0!a", cwd=place).stdout


def test_a_run_that_fails_at_the_start_leaves_no_partial_files(place: Path) -> None:
    simulate_errors(place, "--procs", "8", "-e", "fresh", code=0)
    before = (place / "fresh_jobs.csv").read_bytes()
    text = failure(place, "simulate", "--procs", "8", "-w", "log.swf", "--policy", "locality", "-e", "fresh")
    assert "fresh.part" not in text
    assert not list(place.glob("fresh.part_*"))
    assert (place / "fresh_jobs.csv").read_bytes() == before
    assert json.loads((place / "fresh_state.json").read_text())["state"] == "failed"


def test_walltimes_name_the_option(place: Path) -> None:
    text = failure(place, "workload", "convert", "log.swf", "w.json", "--walltimes", "factor:x")
    rules = "exact, requested, requested-strict, factor:F, round, none"
    assert text == f"pybatsched: --walltimes: expected one of {rules}, with a factor above 0, found 'factor:x'\n"
    text = failure(place, "workload", "generate", "lublin", "--procs", "4", "--jobs", "3", "--load", "much")
    assert "argument --load: expected a number, found 'much'" in text
