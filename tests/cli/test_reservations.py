"""Files of reservations on the command line: their effect, and their errors with file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.platforms import GOOD, text_of
from support.process import run_cli

import pybatsched as pb
from pybatsched.errors import InputError

TABLE = '[[reservation]]\nname = "m"\nstart = "20s"\nduration = 10\nhosts = 2\n'
OTHER = TABLE.replace('"m"', '"n"')
M = "r.toml: line 1: reservation m"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    jobs = [
        {"id": "a", "subtime": 0, "res": 2, "profile": "d50", "walltime": 60, "user": "alice"},
        {"id": "b", "subtime": 1, "res": 1, "profile": "d5", "walltime": 9, "user": "alice", "reservation": "m"},
    ]
    profiles = {"d50": {"type": "delay", "delay": 50}, "d5": {"type": "delay", "delay": 5}}
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": profiles}))
    return tmp_path


def test_a_file_that_is_not_text(folder: Path) -> None:
    (folder / "r.toml").write_bytes(b"name\xff")
    args = ("--procs", "2", "-w", "w.json", "--policy", "easy", "--reservations", "r.toml", "-e", "out")
    done = run_cli("simulate", *args, cwd=folder)
    assert done.returncode == 2
    assert "r.toml: expected text in UTF-8, found the byte 0xff at 4\n" in done.stderr


def simulate(folder: Path, text: str, *more: str) -> tuple[int, str]:
    (folder / "r.toml").write_text(text)
    args = ("--procs", "2", "-w", "w.json", "--policy", "easy", "--reservations", "r.toml", "-e", "out", *more)
    result = run_cli("simulate", *args, cwd=folder)
    return result.returncode, result.stderr


def test_a_run(folder: Path) -> None:
    code, errors = simulate(folder, TABLE + 'users = ["alice"]\n', "--journal", "j.pbj")
    assert code == 0, errors
    rows = [line.split(",") for line in (folder / "out_jobs.csv").read_text().splitlines()]
    starts = {row[rows[0].index("job_id")]: float(row[rows[0].index("starting_time")]) for row in rows[1:]}
    assert starts == {"a": 30, "b": 20}
    summary = json.loads((folder / "out_summary.json").read_text())
    assert summary["reservations"] == [{"name": "m", "start": 20.0, "end": 30.0, "procs": "0-1"}]
    assert b"r.toml" not in (folder / "j.pbj").read_bytes()  # a journal does not depend on the folder
    told = run_cli("explain", "j.pbj", "w0!a", cwd=folder)
    assert "would overlap reservation m from 20.0 to 30.0" in told.stdout
    told = run_cli("explain", "j.pbj", "w0!b", cwd=folder)
    assert "waits for reservation m" in told.stdout
    drawn = run_cli("plot", "gantt", "out", "--output", "g.svg", cwd=folder)
    assert drawn.returncode == 0, drawn.stderr
    assert "hosts reserved" in (folder / "g.svg").read_text()
    assert run_cli("report", "out", cwd=folder).returncode == 0
    assert "hosts reserved" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TABLE + 'users = ["carol"]\n', f"{M}: users: expected users of jobs, found 'carol', which no job has"),
        (TABLE.replace("10", "-1"), "r.toml: line 4: reservation: duration"),
        (TABLE + 'source = "x"\n', "r.toml: line 1: reservation: source: unknown member; expected name, start,"),
        (TABLE.replace('"m"', '"n"'), "w.json: job b, field reservation: expected one of ['n'], found 'm'"),
        (TABLE.replace("hosts = 2", 'hosts = ["h9"]'), f"{M}: hosts: unknown host 'h9'"),
        (TABLE.replace("hosts = 2", 'hosts = "1-2"'), f"{M}: hosts: processors 2 do not exist"),
        (TABLE + OTHER, "r.toml: line 6: reservation n: hosts: expected at most 0, found 2"),
        (
            TABLE + "\n" + OTHER.replace("hosts = 2", 'hosts = "1"'),
            f"r.toml: line 7: reservation n: processors 1 are reserved by {M} in the same",
        ),
        ("name = 1\n", "expected tables [[reservation]] only"),
        (
            'reservation = [{name = "m", start = 20, duration = 10, hosts = 3}]\n',
            "r.toml: reservation m: hosts: expected at most 2, found 3",
        ),
    ],
)
def test_wrong_files(folder: Path, text: str, expected: str) -> None:
    code, errors = simulate(folder, text)
    assert code == 2
    assert expected in errors
    assert not list(folder.glob("out*"))


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [(["h9"], "hosts: unknown host 'h9'; expected names of compute hosts"), (3, "hosts: expected at most 2, found 3")],
)
def test_reservations_of_missing_hosts_are_found_before_the_run(folder: Path, hosts: object, expected: str) -> None:
    table = {"name": "m", "start": 20, "duration": 10, "hosts": hosts, "users": ["alice"]}
    with pytest.raises(InputError, match=f"^reservation m: {expected}$"):
        pb.simulate(folder / "w.json", "easy", host_reservations=[table], progress=False)
    (folder / "p.xml").write_text(text_of(GOOD))
    (folder / "r.toml").write_text(TABLE.replace("hosts = 2", f"hosts = {json.dumps(hosts if hosts != 3 else 99)}"))
    args = ("-p", "p.xml", "-w", "w.json", "--policy", "easy", "--reservations", "r.toml", "-e", "out")
    done = run_cli("run", *args, cwd=folder)  # without a Batsim on the PATH
    assert done.returncode == 2
    assert f"r.toml: line 1: reservation m: {expected.replace('2, found 3', '4, found 99')}\n" in done.stderr
    assert not list(folder.glob("out*"))


def test_the_page_shows_failures(folder: Path) -> None:
    code, errors = simulate(folder, TABLE + 'users = ["alice"]\n', "--mtbf", "1d", "--checkpoint", "20s")
    assert code == 0, errors
    assert run_cli("report", "out", cwd=folder).returncode == 0
    page = (folder / "report.html").read_text()
    assert "<td>MTBF of each host 1 d, exponential\nrepairs 1h\nseed 0</td>" in page
    assert "<td>after every 20s of work\ndumps 5m, reads 5m</td>" in page
    assert "Failures of machines" in page
    assert "kills per job, of all jobs" in page
    assert "application efficiency" in page
