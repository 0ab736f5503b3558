"""The page of runs: what was run, classes side by side, and job histories from journals."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from support.logs import sacct, sacct_line
from support.places import PUSHY, ROOT
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.metrics.saved_runs import SavedRun, read_latest, read_run
from pybatsched.report import page
from pybatsched.report.gantt.chart import data_of, workload_key
from pybatsched.report.run import job_history
from pybatsched.report.run.page import JobHistories
from pybatsched.session.explain import explain, full_histories
from pybatsched.session.journal import JournalReader


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with journals: one beside its files, the other one elsewhere."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "w.json").write_text((ROOT / "examples" / "workload.json").read_text())
    for policy, options, journal in (("fcfs", (), "books.pbj"), ("easy", ("-o", "order=sjf"), "out/easy.pbj")):
        (folder / "out").mkdir(exist_ok=True)
        args = ("--procs", "32", "-w", "w.json", "--policy", policy, *options, "-e", f"out/{policy}", "--journal")
        assert run_cli("simulate", *args, journal, cwd=folder).returncode == 0
    return folder


def cells(text: str, name: str) -> list[list[str]]:
    """The rows of a table of the page, as text."""
    found = re.search(rf'<table[^>]* id="{name}".*?</table>|<table id="{name}".*?</table>', text, re.DOTALL)
    assert found is not None, name
    rows = re.findall(r"<tr.*?</tr>", found[0], re.DOTALL)
    return [[unescape(one) for one in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)] for row in rows]


def test_the_page_shows_what_was_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    runs = [read_run("out/fcfs"), read_run("out/easy")]
    text = page.of_runs(runs, tau_s=60.0)
    head, *rows = cells(text, "what")
    assert head == ["", "fcfs", "easy"]
    shown = {row[0]: row[1:] for row in rows}
    digest = runs[0].summary["inputs"]["workloads"][0]["sha256"][:12]
    versions = runs[0].summary["versions"]
    assert shown["policy"][1] == "easy\n(pybatsched_schedulers.easy:Easy)"
    assert shown["its options"][1] == "order=sjf"
    assert shown["platform"] == ["32 equal processors"] * 2
    assert shown["workload"] == [f"w.json\n(sha256 {digest}…)"] * 2
    assert shown["jobs in it"] == ["30"] * 2
    assert shown["τ of bounded slowdowns"] == ["60 s\n(10 s in its own table)"] * 2
    assert shown["simulator"] == [f"embedded, as Batsim {versions['behaves_as_batsim']}"] * 2
    assert shown["versions"] == [f"pybatsched {versions['pybatsched']}, python {versions['python']}"] * 2
    command = (
        "pybatsched simulate <span>--procs</span> 32 <span>-w</span> w.json <span>--policy</span> easy <span>-o</span>"
    )
    assert shown["command"][1] == f"{command} order=sjf"  # no line ends within an option's name
    assert "seed" not in shown
    differs = re.findall(r'<tr class="differs"><td>(.*?)</td>', text)
    assert differs == ["policy", "its options", "command"]


def test_a_page_without_a_summary_shows_only_what_is_known(place: Path, tmp_path: Path) -> None:
    """As for a run of Batsim alone."""
    (tmp_path / "plain_jobs.csv").write_bytes((place / "out" / "easy_jobs.csv").read_bytes())
    rows = cells(page.of_runs([read_run(str(tmp_path / "plain"), n_procs=32)]), "what")
    assert rows == [["", "plain"], ["platform", "32 processors"], ["τ of bounded slowdowns", "10 s"]]


def test_any_summary_gives_a_page(place: Path, tmp_path: Path) -> None:
    (tmp_path / "odd_jobs.csv").write_bytes((place / "out" / "easy_jobs.csv").read_bytes())
    odd: dict[str, Any] = {"inputs": {"workloads": ["x", {"file": "</td>"}], "platform": 7}, "policy": ["x"]}
    odd |= {"versions": "1", "batsim_options": {"energy": True, "storage-sharing": False}, "command": "<b>&", "seed": 0}
    (tmp_path / "odd_summary.json").write_text(json.dumps(odd))
    text = page.of_runs([read_run(str(tmp_path / "odd"), n_procs=32)])
    shown = {row[0]: row[1] for row in cells(text, "what")[1:]}
    assert shown["workload"] == "</td>\n(sha256 …)"
    assert shown["options of Batsim"] == "energy, no storage-sharing"
    assert (shown["command"], shown["seed"]) == ("<b>&", "0")


def test_classes_are_side_by_side(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    runs = [read_run("out/fcfs"), read_run("out/easy")]
    both = cells(page.of_runs(runs), "classes")
    alone = [cells(page.of_runs([run]), "classes") for run in runs]
    groups = ["jobs", "mean wait (s)", "max wait (s)", "mean bounded slowdown", "max bounded slowdown"]
    assert both[0] == ["", *groups]
    assert both[1] == ["fcfs", "easy"] * 5
    assert alone[0][0] == ["", *groups]
    assert len(both) == len(alone[0]) + 1 >= 6
    for row, one, other in zip(both[2:], *(table[1:] for table in alone), strict=True):
        assert row == [one[0], *(value for pair in zip(one[1:], other[1:], strict=True) for value in pair)]


def test_a_class_that_one_run_lacks(tmp_path: Path) -> None:
    for name, sizes in (("a", (1, 1)), ("b", (16, 2))):
        jobs = [{"id": k, "subtime": 0, "res": n, "walltime": 9, "profile": "d"} for k, n in enumerate(sizes)]
        content = {"nb_res": 16, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 5}}}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
        args = ("--procs", "16", "-w", f"{name}.json", "--policy", "fcfs", "-e", name)
        assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    text = page.of_runs([read_run(str(tmp_path / name)) for name in "ab"])
    rows = {row[0]: row[1:3] for row in cells(text, "classes")[2:]}
    assert rows == {
        "regular": ["2", "2"],
        "1 processor": ["2", "-"],
        "2-3 processors": ["-", "1"],
        "16-31 processors": ["-", "1"],
    }
    assert "Runs with other workloads: b. For these, jobs are paired by their ids." in text


def test_runs_of_the_same_workload_share_their_jobs(place: Path, tmp_path: Path) -> None:
    runs = [read_run(str(place / "out" / name)) for name in ("fcfs", "easy")]
    assert workload_key(runs[0]) == workload_key(runs[1]) == runs[0].summary["inputs"]["workloads"][0]["sha256"][:16]
    assert "Runs with other workloads: " not in page.of_runs(runs)


def many(n: int, step_s: float, prefix: str, place: Path) -> SavedRun:
    """A run of many jobs one after another, each a step of its own up and down."""
    jobs = [{"id": str(i), "subtime": i * step_s, "res": 1 + i % 2, "profile": "d"} for i in range(n)]
    content = {"nb_res": 4, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": step_s / 2}}}
    (place / f"{prefix}.json").write_text(json.dumps(content))
    args = ("--procs", "4", "-w", f"{prefix}.json", "--policy", "fcfs", "-e", prefix)
    assert run_cli("simulate", *args, cwd=place).returncode == 0
    return read_run(str(place / prefix))


def test_all_panels_of_a_quantity_have_the_same_resolution(tmp_path: Path) -> None:
    few, lots = many(3, 9000.0, "few", tmp_path), many(600, 60.0, "lots", tmp_path)
    text = page.of_runs([few, lots])
    assert text.count("A line is the mean over 5 min, the pale area is exact.") == 1  # of processors
    assert text.count("Lines are exact.") == 1  # no job waits
    assert text.count('"area":') == 2
    text = page.of_runs([few])
    assert text.count("Lines are exact.") == 2
    assert '"area":' not in text


def test_full_histories_equal_those_of_explain(place: Path) -> None:
    for name in ("books.pbj", "out/easy.pbj"):
        path = place / name
        found = full_histories(JournalReader(path))
        assert len(found) == 30
        for job_id, lines in found.items():
            history = explain(JournalReader(path), job_id)
            assert history[-1][1] == "(the run ended)"
            assert lines == history[:-1]


@pytest.mark.parametrize("name", ["fcfs", "easy"])
def test_a_journal_is_found_and_reported(name: str, place: Path) -> None:
    run = read_run(str(place / "out" / name))
    histories = job_history.read_histories(run)
    assert histories.note == ""
    assert any("not started: " in text for lines in histories.stories.values() for _, text in lines)
    data = data_of(run, histories.stories)
    number = data["jobs"].index("w0!05")
    assert data["stories"][number] == [(at, text) for at, text in histories.stories["w0!05"]]
    text = page.of_runs([run], [histories])
    assert "not started: " in text
    assert "not started: " not in page.of_runs([run])


def test_a_job_has_one_colour_in_all_runs_of_its_workload(place: Path) -> None:
    data = [data_of(read_run(str(place / "out" / name))) for name in ("fcfs", "easy")]
    assert data[0]["jobs"] != data[1]["jobs"]  # in the order of their ends
    hues = [dict(zip(one["jobs"], base64.b64decode(one["hues"]), strict=True)) for one in data]
    assert hues[0] == hues[1]
    by_submission = sorted(read_run(str(place / "out" / "easy")).records, key=lambda one: (one.submitted_at, one.id))
    assert [hues[0][record.id] for record in by_submission] == [k % 18 for k in range(30)]


def test_a_job_that_one_run_rejected_takes_no_colour_from_others(tmp_path: Path) -> None:
    jobs = [{"id": str(k), "subtime": k, "res": 4 if k == 1 else 1, "walltime": 9, "profile": "d"} for k in range(4)]
    content = {"nb_res": 4, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 5}}}
    (tmp_path / "w.json").write_text(json.dumps(content))
    hues = []
    for n_procs in ("4", "2"):
        args = ("--procs", n_procs, "-w", "w.json", "--policy", "fcfs", "-e", f"on{n_procs}", "-q")
        assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
        data = data_of(read_run(str(tmp_path / f"on{n_procs}")))
        hues.append(dict(zip(data["jobs"], base64.b64decode(data["hues"]), strict=True)))
    assert hues[0] == {"w0!0": 0, "w0!1": 1, "w0!2": 2, "w0!3": 3}
    assert hues[1] == {"w0!0": 0, "w0!2": 2, "w0!3": 3}


def test_long_histories_keep_their_begin_and_end(place: Path) -> None:
    run = read_run(str(place / "out" / "easy"))
    lines = [(float(k), f"line {k}") for k in range(30)]
    data = data_of(run, {"w0!05": lines})
    kept = data["stories"][data["jobs"].index("w0!05")]
    assert kept == [*lines[:10], (10.0, "(… 10 more lines)"), *lines[-10:]]
    page_of_docs = (ROOT / "docs" / "reports.md").read_text()
    assert "For more than 20 lines, the first and the last 10 are shown." in page_of_docs


def test_large_runs_have_no_histories(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = read_run(str(place / "out" / "easy"))
    path = str(place / "out" / "easy.pbj")
    monkeypatch.setattr(job_history, "MAX_JOBS", 29)
    histories = job_history.read_histories(run)
    assert histories.stories == {}
    assert histories.note == (
        f"The journal {path} is not shown: the run has 30 jobs, more than 29; name the journal to show it."
    )
    assert histories.note in unescape(page.of_runs([run], [histories]))
    assert len(job_history.read_histories(run, path).stories) == 30


def test_with_too_many_waiting_jobs_only_decisions_are_shown(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = read_run(str(place / "out" / "easy"))
    n = job_history.n_explanations(run.jobs)
    asked = sum(
        1
        for record in run.records
        for instant in {t for one in run.records for t in (one.submitted_at, one.started_at, one.ended_at)}
        if record.submitted_at <= instant < record.started_at
    )
    assert n == asked > 0
    monkeypatch.setattr(job_history, "MAX_EXPLANATIONS", n - 1)
    histories = job_history.read_histories(run)
    assert histories.note.startswith("Reasons for waiting are not shown: too many jobs waited for too long")
    assert all("not started" not in text for lines in histories.stories.values() for _, text in lines)
    assert any(text.startswith("started on") for _, text in histories.stories["w0!05"])


def test_a_journal_of_another_run_gives_no_histories(place: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}_jobs.csv").write_bytes((place / "out" / "easy_jobs.csv").read_bytes())
        (tmp_path / f"{name}_summary.json").write_bytes((place / "out" / "easy_summary.json").read_bytes())
    (tmp_path / "a.pbj").write_bytes((place / "books.pbj").read_bytes())
    histories = job_history.read_histories(read_run(str(tmp_path / "a")))
    assert histories.stories == {}
    assert f"The journal {tmp_path / 'a.pbj'} is not shown: policy fcfs, but " in histories.note
    run = read_run(str(tmp_path / "b"))
    assert job_history.read_histories(run) == JobHistories()
    with pytest.raises(InputError, match="policy fcfs, but .* has easy; expected the journals of the runs"):
        job_history.read_histories(run, str(tmp_path / "a.pbj"))
    content = (tmp_path / "b_summary.json").read_text().replace('"name": "easy"', '"name": "fcfs"')
    fcfs = json.loads((place / "out" / "fcfs_summary.json").read_text())["policy"]["options"]
    (tmp_path / "b_summary.json").write_text(
        json.dumps(json.loads(content) | {"policy": {"name": "fcfs", "options": fcfs}})
    )
    with pytest.raises(InputError, match=r"job w0!\d+ started at .*, but in .*; expected the journal of this run"):
        job_history.read_histories(read_run(str(tmp_path / "b")), str(tmp_path / "a.pbj"))


def test_no_policy_file_is_run_for_a_history(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text((ROOT / "examples" / "workload.json").read_text())
    (tmp_path / "mine.py").write_text(Path(PUSHY).read_text())
    args = ("--procs", "32", "-w", "w.json", "--policy", "mine.py:Ruthless", "-e", "x", "--journal", "x.pbj")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    (tmp_path / "mine.py").write_text("raise SystemExit('it was run')\n")
    done = run_cli("report", "x", "--output", "x.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = unescape((tmp_path / "x.html").read_text())
    assert "Reasons for waiting are not shown: 'x.pbj' was recorded with the policy 'mine.py:Ruthless'" in text
    assert "started on" in text


@pytest.mark.parametrize(
    "change",
    [
        lambda job, k: job | {"user": k % 3},
        lambda job, k: job | {"user": f"w0 {k % 3}", "id": f"w0!{job['id']}"},
        lambda job, k: job | ({"user": None} if k % 2 else {"user": 1.5}),
        lambda job, k: job | ({} if k % 2 else {"user": "</script>"}),
        lambda job, k: job | {"partition": ["a"] if k % 2 else "b", "gpus": k, "memory_gb": k / 7, "status": k % 2},
        lambda job, k: job,
    ],
)
def test_users_are_the_same_without_loading_the_workload(
    change: Callable[[dict[str, Any], int], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads((ROOT / "examples" / "workload.json").read_text())
    content["jobs"] = [change(job, k) for k, job in enumerate(content["jobs"])]
    (tmp_path / "w.json").write_text(json.dumps(content))
    args = ("--procs", "32", "-w", "w.json", "--policy", "easy", "-e", "x")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    monkeypatch.chdir(tmp_path)
    fast, slow = read_latest("x", all_fields=False), read_run("x")
    assert all(set(record.fields) <= {"user", "partition", "gpus", "memory_gb", "status"} for record in fast.records)
    assert fast.jobs.frame.equals(slow.jobs.frame)
    assert page.of_runs([fast]) == page.of_runs([slow])


def described(folder: Path, name: str, users: Sequence[str | None]) -> SavedRun:
    """Run jobs of these users under FCFS: each takes 10 s on the whole machine of 4, and all come at once."""
    jobs = [
        {"id": f"{k:02}", "subtime": 0, "res": 4, "walltime": 20, "profile": "d"}
        | ({} if user is None else {"user": user, "queue": user[:1]})
        for k, user in enumerate(users)
    ]
    content = {"nb_res": 4, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 10}}}
    (folder / f"{name}.json").write_text(json.dumps(content))
    args = ("--procs", "4", "-w", str(folder / f"{name}.json"), "--policy", "fcfs", "-e", name)
    assert run_cli("simulate", *args, cwd=folder).returncode == 0
    return read_run(str(folder / name))


def test_tables_by_user_and_queue(tmp_path: Path) -> None:
    """Jobs wait for 0, 10, 20 and 30 s."""
    text = page.of_runs([described(tmp_path, "x", ["bo", "<al>", "bo", "bea"])])
    assert cells(text, "by-user") == [
        ["", "jobs", "processor-seconds", "mean wait (s)"],
        ["bo", "2", "50.0%", "10"],
        ["<al>", "1", "25.0%", "10"],
        ["bea", "1", "25.0%", "30"],
    ]
    assert "<al>" not in text
    assert [row[:2] for row in cells(text, "by-queue")[1:]] == [["b", "3"], ["<", "1"]]
    assert 'id="by-partition"' not in text


def test_a_page_lists_ten_users_and_all_others_together(tmp_path: Path) -> None:
    users = [f"u{k:02}" for k in range(30)]
    rows = cells(page.of_runs([described(tmp_path, "x", [*users, "u29", "u29"])]), "by-user")[1:]
    assert [row[0] for row in rows] == ["u29", *users[:9], "20 others"]
    assert (rows[0][1:3], rows[-1][1]) == (["3", "9.4%"], "20")


def test_users_of_several_runs_are_side_by_side(tmp_path: Path) -> None:
    """The first run gives the order. A run of other users has them in the last row."""
    names = [f"u{k:02}" for k in range(12)]
    runs = [
        described(tmp_path, "x", [*names, "u11"]),
        described(tmp_path, "y", ["u11", "z", "z"]),
        described(tmp_path, "z", [None, None]),
    ]
    head, own, *rows = cells(page.of_runs(runs), "by-user")
    assert (head, own) == (["", "jobs", "processor-seconds", "mean wait (s)"], ["x", "y", "z"] * 3)
    assert rows[0][:7] == ["u11", "2", "1", "-", "15.4%", "33.3%", "-"]
    assert rows[1][:7] == ["u00", "1", "0", "-", "7.7%", "0.0%", "-"]
    assert rows[-1][:7] == ["2 others", "2", "2", "-", "15.4%", "66.7%", "-"]


def test_a_page_without_fields_has_no_such_tables(tmp_path: Path) -> None:
    text = page.of_runs([described(tmp_path, "x", [None, None])])
    assert "other fields of jobs" not in text


def test_the_page_and_the_table_have_the_fields_of_a_log_of_slurm(tmp_path: Path) -> None:
    gpu = {"Partition": "gpu", "AllocTRES": "cpu=8,mem=16G,node=1,gres/gpu=2", "User": "bob", "QOS": "high"}
    second = sacct_line("2", 0, 30, 60, 8, Account="bio", State="FAILED", ReqMem="4G", **gpu)
    file = sacct(tmp_path, sacct_line("1", 0, 0, 60, 2), second)
    args = ("--procs", "8", "-w", str(file), "--policy", "fcfs", "-e", "x")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    run = read_run(str(tmp_path / "x"))
    wanted = {"user": "bob", "account": "bio", "partition": "gpu", "qos": "high", "gpus": 2, "exit_state": "FAILED"}
    assert run.jobs.fields[1].items() >= wanted.items()
    text = page.of_runs([run])
    found = {name: cells(text, f"by-{name}")[1] for name in (*wanted, "memory_gb")}
    assert {name: row[:2] for name, row in found.items()} == {
        "user": ["bob", "1"],
        "account": ["bio", "1"],
        "partition": ["gpu", "1"],
        "qos": ["high", "1"],
        "gpus": ["none", "1"],
        "exit_state": ["FAILED", "1"],
        "memory_gb": ["below 1 GB", "1"],
    }
    assert found["user"][2:] == ["80.0%", "60"]
