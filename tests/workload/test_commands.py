"""`pybatsched workload …` as users run it."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from support.logs import line, log, real
from support.patience import PATIENCE_S
from support.process import run_cli

from pybatsched.cli.workload import command
from pybatsched.errors import InputError
from pybatsched.workload import load, reading
from pybatsched.workload.formats import batsim4
from pybatsched.workload.weeks import WEEK_S

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; gives exit code and output."""

    def run_it(*args: object) -> tuple[int, str]:
        parser = argparse.ArgumentParser(prog="pybatsched workload", epilog=command.EPILOG)
        command.add_arguments(parser)
        code = command.run(parser.parse_args([str(arg) for arg in args]))
        return code, capsys.readouterr().out

    return run_it


def jobs(path: Path) -> list[Any]:
    return list(batsim4.read(path).jobs)


def test_convert_reports_what_it_did(run: Run, tmp_path: Path) -> None:
    file, out = log(tmp_path, line(1, 5), line(2, run=0), line(3, 9, requested_s=10)), tmp_path / "w.json"
    code, output = run("convert", file, out, "--walltimes", "exact")
    assert code == 0
    assert output.splitlines() == [
        "3 jobs read, 2 kept, 1 dropped",
        "dropped:",
        "        1  run time of 0 or unknown: dropped (line 4)",
        f"wrote {out}: 2 jobs for 8 processors, submitted from 5 s to 9 s",
    ]
    assert [(job["id"], job["walltime"], job["estimate"]) for job in jobs(out)] == [(1, 61, 60), (3, 61, 60)]


def test_convert_is_the_same_each_time(run: Run, tmp_path: Path) -> None:
    file = log(tmp_path, line(1, 5), line(2, 7.5))
    for name in ("a.json.gz", "b.json.gz"):
        run("convert", file, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert str(tmp_path).encode() not in (tmp_path / "a.json.gz").read_bytes()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], [(1, 0, 1), (2, 100, 2), (3, 86_400, 4), (4, 90_000, 8)]),
        (["--shift-to-zero", "--min-size", "2"], [(2, 0, 2), (3, 86_300, 4), (4, 89_900, 8)]),
        (["--from", "1d"], [(3, 0, 4), (4, 3600, 8)]),
        (["--from", "100", "--submitted-before", "24h", "--no-shift"], [(2, 100, 2)]),
        (["--max-size", "4", "--max-jobs", "2"], [(1, 0, 1), (2, 100, 2)]),
    ],
)
@pytest.mark.parametrize("kind", ["log", "Batsim"])
def test_windows_sizes_and_counts(
    run: Run, tmp_path: Path, kind: str, options: list[str], expected: list[tuple[int, float, int]]
) -> None:
    file = log(
        tmp_path, *(line(k, at, allocated=n) for k, at, n in [(1, 0, 1), (2, 100, 2), (3, 86400, 4), (4, 90000, 8)])
    )
    if kind == "Batsim":
        run("convert", file, tmp_path / "whole.json")
        file = tmp_path / "whole.json"
    run("convert", file, tmp_path / "cut.json", *options)
    assert [(job["id"], job["subtime"], job["res"]) for job in jobs(tmp_path / "cut.json")] == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--submitted-before", "1d"], [(2, 0, 2), (3, 86_300, 4)]),
        # The window begins at 0, not the first job.
        (["--from", "86299", "--submitted-before", "25h"], [(3, 1, 4), (4, 3601, 8)]),
        (["--from", "86299", "--shift-to-zero"], [(3, 0, 4), (4, 3600, 8)]),
        (["--from", "86300", "--submitted-before", "86301", "--no-shift"], [(3, 86_400, 4)]),
    ],
)
@pytest.mark.parametrize("kind", ["log", "Batsim"])
def test_windows_from_the_first_submission(
    run: Run, tmp_path: Path, kind: str, options: list[str], expected: list[tuple[int, float, int]]
) -> None:
    """The first submission is that of a job that can run; a log and what was made of it give the same."""
    cases = [(2, 100, 2), (3, 86400, 4), (4, 90000, 8)]
    file = log(tmp_path, line(1, 0, run=0), *(line(k, at, allocated=n) for k, at, n in cases))
    if kind == "Batsim":
        run("convert", file, tmp_path / "whole.json")
        file = tmp_path / "whole.json"
    run("convert", file, tmp_path / "cut.json", "--clock", "first", *options)
    made = batsim4.read(tmp_path / "cut.json")
    assert [(job["id"], job["subtime"], job["res"]) for job in made.jobs] == expected
    assert made.about["selection"]["clock"] == "first"


def test_fractions_of_seconds_from_the_first_submission(run: Run, tmp_path: Path) -> None:
    file = log(tmp_path, line(1, 0.1), line(2, 0.3), line(3, 0.4))  # 0.3 - 0.1 is less than 0.2 in floating point
    run("convert", file, tmp_path / "cut.json", "--clock", "first", "--from", "0.2", "--submitted-before", "0.3")
    assert [(job["id"], job["subtime"]) for job in jobs(tmp_path / "cut.json")] == [(2, 0)]


def test_all_the_options_for_logs(run: Run, tmp_path: Path) -> None:
    file = log(tmp_path, line(1, run=0, requested=4, requested_s=30), "bad", line(1, run=7, requested=3))
    out = tmp_path / "w.json"
    options = ["--lenient", "--size", "requested", "--min-runtime", 2, "--profile", "parallel", "--speed", "1e6"]
    options += ["--memory-unit", "GB"]
    code, output = run("convert", file, out, *options, "--procs", 16, "--walltimes", "factor:3")
    assert code == 0
    workload = batsim4.read(out)
    assert workload.n_procs == 16
    assert workload.profiles == {
        "2": {"type": "parallel_homogeneous", "cpu": 2_000_000, "com": 0},
        "7": {"type": "parallel_homogeneous", "cpu": 7_000_000, "com": 0},
    }
    assert [(job["id"], job["res"], job["walltime"]) for job in workload.jobs] == [(1, 4, 6), (2, 3, 21)]
    assert "bad line, expected at least 18 fields, found 1: dropped (line 4)" in output
    assert "job number given before: renumbered (line 5)" in output
    assert workload.about["conversion"] == {
        "walltimes": "factor:3", "size": "requested", "duplicates": "renumber", "memory_unit": "GB", "min_runtime": 2,
        "profile": "parallel", "speed": 1e6,
    }  # fmt: skip
    with pytest.raises(InputError, match="found 1, which is also on line 3"):
        run("convert", file, out, "--lenient", "--min-runtime", 1, "--duplicates", "error")


@pytest.mark.parametrize(("option", "unit", "memory_gb"), [([], "KB", 0.0615), (["--memory-unit", "MB"], "MB", 61.5)])
def test_weeks_keep_the_unit_of_memory(
    run: Run, tmp_path: Path, option: list[str], unit: str, memory_gb: float
) -> None:
    file = log(tmp_path, line(1, 0, requested_kb=61_500), line(2, 2 * WEEK_S))
    run("convert", file, tmp_path / "w.json", "--week", 1, *option)
    made = batsim4.read(tmp_path / "w.json")
    assert (made.jobs[0]["memory_gb"], made.about["conversion"]["memory_unit"]) == (memory_gb, unit)


def weekly(path: Path) -> Path:
    """Four weeks on 8 processors: 100 % in use, 75 %, 25 %, 100 %."""
    sizes = (8, 6, 2, 8)
    return log(path, *(line(k + 1, 50 + k * WEEK_S, 0, WEEK_S, n) for k, n in enumerate(sizes)))


def test_weeks(run: Run, tmp_path: Path) -> None:
    file = weekly(tmp_path)
    code, output = run("convert", file, tmp_path / "w.json.gz", "--weeks")
    assert code == 0
    assert "week 2 of 4: logged utilisation 75.0%" in output
    assert sorted(path.name for path in tmp_path.glob("w*")) == ["w-week02.json.gz"]
    week = batsim4.read(tmp_path / "w-week02.json.gz")
    assert [(job["id"], job["subtime"]) for job in week.jobs] == [(2, 0)]
    assert week.about["week"] == {"number": 2, "logged_utilisation": 0.75}
    assert week.about["report"]["read"] == 4
    run("convert", file, tmp_path / "v.json", "--weeks", "--keep-ends", "--utilisation", "0.2:0.9")
    assert sorted(path.name for path in tmp_path.glob("v*")) == ["v-week02.json", "v-week03.json"]
    run("convert", file, tmp_path / "u.json", "--weeks", "--keep-ends", "--max-weeks", 1)
    assert [path.name for path in tmp_path.glob("u*")] == ["u-week01.json"]


def test_one_week(run: Run, tmp_path: Path) -> None:
    run("convert", weekly(tmp_path), tmp_path / "w.json", "--week", 3, "--no-shift")
    assert [(job["id"], job["subtime"]) for job in jobs(tmp_path / "w.json")] == [(3, 50 + 2 * WEEK_S)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--week", 5], "week 5: expected 1 to 4"),
        (["--weeks", "--utilisation", "0.1:0.2"], "utilisation of 0.1 to 0.2, .* found 100%, 75%, 25%, 100%"),
        (["--utilisation", "0.7:"], "work only with --weeks"),
        (["--weeks", "--from", "3d"], "cannot be used with --weeks"),
        (["--week", 1, "--clock", "first"], "^--from, .* and --window-clock: cannot be used with --weeks or --week"),
        (["--weeks", "--utilisation", "x"], "expected a range"),
        (["--walltimes", "factor:1e300"], "^walltimes: expected one of exact, requested"),
        (["--from", "yesterday"], "^begin: expected seconds"),
        (["--from", "9w"], "no job is left"),
        (["--speed", "1e9"], "--speed: works only with --profile parallel"),
        (["--speed", "0", "--profile", "parallel"], "speed: expected more than 0"),
        (["--min-runtime", "-3"], "min_runtime: expected a number above 0"),
    ],
)
def test_invalid_arguments_of_convert_are_rejected(
    run: Run, tmp_path: Path, options: list[object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run("convert", weekly(tmp_path), tmp_path / "w.json", *options)
    assert not list(tmp_path.glob("w*"))


@pytest.mark.parametrize("window", [(), ("--from", "1h")])
@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("x y", "z"), "1 job: bad line, expected at least 18 fields, found 2: dropped, 1 job: bad line, "),
        (("x y", "a b"), "2 jobs: bad line, expected at least 18 fields, found 2: dropped"),
        ((line(run=0),), "1 job: run time of 0 or unknown: dropped"),
    ],
)
def test_convert_writes_nothing_when_every_line_is_dropped(
    run: Run, tmp_path: Path, lines: tuple[str, ...], why: str, window: tuple[object, ...]
) -> None:
    file = log(tmp_path, *lines)
    with pytest.raises(InputError) as error:
        run("convert", file, tmp_path / "w.json", "--lenient", *window)
    assert str(error.value).startswith(f"{file}: no job is left ({why}")
    assert str(error.value).endswith("); expected at least one")
    assert not list(tmp_path.glob("w*"))


def test_a_file_without_jobs_can_be_converted(run: Run, tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text('{"nb_res": 4, "jobs": [], "profiles": {}}')
    assert run("convert", tmp_path / "none.json", tmp_path / "w.json") == (
        0,
        f"0 jobs read, 0 kept, 0 dropped\nwrote {tmp_path / 'w.json'}: 0 jobs for 4 processors\n",
    )


def test_convert_rejects_other_names_and_options_of_logs_for_batsim_files(run: Run, tmp_path: Path) -> None:
    file = log(tmp_path, line())
    with pytest.raises(InputError, match="expected a file name that ends in .json or .json.gz"):
        run("convert", file, tmp_path / "w.swf")
    run("convert", file, tmp_path / "w.json")
    for option, expected in (
        ("--size requested", "size requested: expected a log"),
        ("--speed 0", "--speed: expected a log"),
        ("--lenient", "lenient.*: expected a log"),
    ):
        with pytest.raises(InputError, match=f"^{expected}, found a Batsim file"):
            run("convert", tmp_path / "w.json", tmp_path / "v.json", *option.split())


def test_a_batsim_file_with_other_walltimes_and_machine(run: Run, tmp_path: Path) -> None:
    run("convert", log(tmp_path, line(requested_s=500)), tmp_path / "w.json")
    run("convert", tmp_path / "w.json", tmp_path / "v.json", "--walltimes", "exact", "--procs", 32)
    made = batsim4.read(tmp_path / "v.json")
    assert (made.n_procs, made.jobs[0]["walltime"], made.jobs[0]["estimate"]) == (32, 61, 60)
    run("convert", tmp_path / "w.json", tmp_path / "same.json")
    assert jobs(tmp_path / "same.json") == jobs(tmp_path / "w.json")


def test_lint(run: Run, tmp_path: Path) -> None:
    file = log(tmp_path, *(line(k, run=0) for k in range(1, 8)))
    code, output = run("lint", file)
    assert code == 0
    assert output.splitlines()[:5] == [
        f"{file}: SWF, 7 jobs, 8 processors",
        "odd:",
        "        7  run time 0",
        "           lines 3, 4, 5, 6, 7, ...",
        "           convert: dropped (or --min-runtime)",
    ]
    assert run("lint", file, "--strict")[0] == 7
    found = json.loads(run("lint", file, "--json", "--procs", "1")[1])
    assert (found["version"], found["odd"], found["processors"]) == (1, True, 1)
    assert found["findings"][0] == {
        "level": "odd",
        "what": "run time 0",
        "count": 7,
        "first_lines": [3, 4, 5, 6, 7],
        "remedy": "dropped (or --min-runtime)",
    }


def test_lint_of_a_clean_file(run: Run, tmp_path: Path) -> None:
    run("generate", "poisson", "--jobs", 5, "--procs", 4, "--output", tmp_path / "w.json")
    code, output = run("lint", tmp_path / "w.json", "--strict")
    assert (code, output.splitlines()[1:]) == (0, ["no problems found"])


def test_convert_lints_what_it_has_read(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The findings are those of lint, and the workload is that of convert. The file is read once."""
    file = log(tmp_path, line(1), line(2, run=0), line(3))
    _, findings = run("lint", file, "--procs", 6)
    _, converted = run("convert", file, tmp_path / "a.json")
    read_file = Mock(wraps=reading.read_file)
    monkeypatch.setattr(reading, "read_file", read_file)
    code, output = run("convert", file, tmp_path / "b.json", "--lint", "--procs", 6)
    assert (code, read_file.call_count) == (0, 1)
    assert output == findings + converted.replace("a.json", "b.json").replace("8 processors", "6 processors")
    with pytest.raises(InputError, match="--lint: cannot be used with --weeks or --week; use"):
        run("convert", file, tmp_path / "c.json", "--lint", "--week", 1)


def test_generate(run: Run, tmp_path: Path) -> None:
    options = ["--jobs", 200, "--procs", 32, "--seed", 5, "--load", 0.8, "--walltimes", "round", "--users", 3]
    for name in ("a.json", "b.json"):
        code, output = run("generate", "lublin", *options, "--output", tmp_path / name)
        assert code == 0
    assert output.startswith("lublin, seed 5: offered load 0.8")
    assert f"wrote {tmp_path / 'b.json'}: 200 jobs for 32 processors" in output
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    made = load(tmp_path / "a.json")
    assert made.about["generated"] == {"model": "lublin", "seed": 5, "walltimes": "round", "jobs": 200, "load": 0.8}
    assert {job["walltime"] % 60 for job in made.jobs} == {0}


def test_generate_poisson(run: Run, tmp_path: Path) -> None:
    options = ["--days", 1, "--procs", 8, "--gap", 600, "--runtimes", "fixed:60", "--sizes", "fixed:2"]
    run("generate", "poisson", *options, "--output", tmp_path / "w.json")
    made = load(tmp_path / "w.json")
    assert {(job["res"], job["profile"]) for job in made.jobs} == {(2, "60")}
    assert 100 < len(made.jobs) < 190
    with pytest.raises(InputError, match="^--sizes: works only with the model poisson"):
        run("generate", "lublin", "--jobs", 1, "--procs", 1, "--sizes", "power2", "--output", tmp_path / "w.json")


def test_stats(run: Run, tmp_path: Path) -> None:
    file = log(tmp_path, line(1), line(2, 86_400))
    code, output = run("stats", file)
    assert code == 0
    assert output.startswith("log.swf\n  jobs               2\n  processors         8\n")
    assert json.loads(run("stats", file, "--json", "--procs", 4)[1])["processors"] == 4
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    assert run("stats", file, "--plot", tmp_path / "w.svg")[1].endswith(f"wrote {tmp_path / 'w.svg'}\n")
    assert (tmp_path / "w.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["lint"],
        ["convert", "x"],
        ["convert", "x", "y.json", "--weeks", "--week", "1"],
        ["generate", "lublin", "--procs", "4", "--output", "x.json"],
        ["generate", "lublin", "--jobs", "4", "--days", "2", "--procs", "4", "--output", "x.json"],
        ["generate", "gauss", "--jobs", "4", "--procs", "4", "--output", "x.json"],
        ["stats"],
    ],
)
def test_usage_errors(run: Run, args: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*args)
    assert caught.value.code == 2


@pytest.mark.parametrize("name", ["lint", "convert", "generate", "stats"])
def test_help(run: Run, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(name, "--help")
    assert caught.value.code == 0
    assert "usage: pybatsched workload" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["lint", "stats"])
@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08", b"{", b"\0" * 100, b"no log at all\n"])
def test_files_that_cannot_be_read(run: Run, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(InputError, match=str(tmp_path / "w")) as caught:
        run(name, tmp_path / "w")
    assert caught.value.exit_code == 2


def test_importing_the_package_loads_no_large_library() -> None:
    """`simulate` loads it at each start: nothing that draws, and no arrays of others."""
    code = "import sys, pybatsched.workload; print([m for m in ('matplotlib', 'numpy', 'zmq') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("name", "n_read", "n_kept", "n_procs"),
    [
        ("SDSC-DS-2004-2.1-cln.swf.gz", 96_069, 84_893, 1664),
        ("ANL-Intrepid-2009-1.first1200.swf.gz", 1200, 1200, 163_840),
        ("DWD-SXO-2020-urgentq.swf.gz", 13_806, 13_806, 1_391),
    ],
)
def test_real_logs(run: Run, tmp_path: Path, name: str, n_read: int, n_kept: int, n_procs: int) -> None:
    """The counts of jobs are those of the studies (84,893 of SDSC-DS), and every kept job runs as long as logged."""
    out = tmp_path / "w.json.gz"
    code, output = run("convert", real(name), out, "--walltimes", "exact")
    assert code == 0
    assert output.startswith(f"{n_read:,} jobs read, {n_kept:,} kept, {n_read - n_kept:,} dropped\n")
    made = batsim4.read(out)
    assert (len(made.jobs), made.n_procs) == (n_kept, n_procs)
    delays = {name: profile["delay"] for name, profile in made.profiles.items()}
    assert all(job["estimate"] == delays[job["profile"]] == job["walltime"] - 1 for job in made.jobs)
    if name.startswith("DWD"):
        assert sum(job["queue"] == "sx_rout" for job in made.jobs) == 8313


@pytest.mark.parametrize(
    ("name", "unit", "most_gb"),
    [("SX-ACE-2019.swf.gz", "MB", 61.497), ("DWD-SXO-2020-urgentq.swf.gz", "KB", 27.911092)],
)
def test_the_memory_of_real_logs_fits_their_machines(
    run: Run, tmp_path: Path, name: str, unit: str, most_gb: float
) -> None:
    """Nodes of SX-ACE have 64 GB, engines of SX-Aurora 48."""
    out = tmp_path / "w.json.gz"
    run("convert", real(name), out, "--memory-unit", unit)
    made = batsim4.read(out)
    assert made.about["conversion"]["memory_unit"] == unit
    assert max(job.get("memory_gb", 0) for job in made.jobs) == most_gb


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_lines_may_end_in_a_carriage_return(end: str, tmp_path: Path) -> None:
    plain = log(tmp_path, line(1, 0), line(2, 5))
    odd = tmp_path / "odd.swf"
    odd.write_bytes(plain.read_bytes().replace(b"\n", end.encode()))
    for path in (plain, odd):
        done = run_cli("workload", "convert", path.name, f"{path.name}.json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    made, expected = (json.loads((tmp_path / f"{path.name}.json").read_text()) for path in (odd, plain))
    assert made["jobs"] == expected["jobs"]
    assert made["nb_res"] == expected["nb_res"]
    outputs = [run_cli("workload", "lint", path.name, cwd=tmp_path).stdout for path in (odd, plain)]
    assert outputs[0].replace(odd.name, plain.name) == outputs[1]


def test_a_log_without_a_job_is_an_error_and_a_finding(tmp_path: Path) -> None:
    file = log(tmp_path)
    done = run_cli("workload", "convert", file.name, "w.json", cwd=tmp_path)
    assert done.stderr == "pybatsched: log.swf: no job is left (the file has no jobs); expected at least one\n"
    assert (done.returncode, (tmp_path / "w.json").exists()) == (2, False)
    done = run_cli("workload", "lint", file.name, "--strict", cwd=tmp_path)
    assert "1  no line is a job" in done.stdout
    assert (done.returncode, "no problems found" in done.stdout) == (7, False)


def test_an_empty_workload_of_batsim_is_converted(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text('{"nb_res": 4, "jobs": [], "profiles": {}}')
    assert run_cli("workload", "convert", "w.json", "v.json", cwd=tmp_path).returncode == 0
