"""The page and the table of a campaign show what is missing and what may mislead."""

from __future__ import annotations

import html
from pathlib import Path

import pytest
from support import logs
from support.campaigns import Row, keep
from support.places import ROOT
from support.process import run_cli

from pybatsched.campaign import table
from pybatsched.campaign.store import Store
from pybatsched.cli.common import campaign_runner
from pybatsched.report import page, provenance


def figures(n_rejected: int = 0) -> dict[str, float | None]:
    return {**dict.fromkeys(table.SHOWN, 2.0), "n_rejected": n_rejected, "n_broken_promises": 0}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    rows = [
        Row("w", "easy", figures()),
        Row("w", "dbf", figures(n_rejected=45) | {"n_left_out": 2}),
        Row("w", "bad", None, error="PolicyError: it <raised>\nsomewhere"),
        Row("w", "bad", None, {"again": 1}, error="PolicyError: twice"),
        Row("w", "late", None),
    ]
    return keep(tmp_path / "study", rows, ["w"])


def test_the_page_lists_failed_points(study: Path) -> None:
    text = page.of_campaign(Store(study))
    assert "2 of 5 points are done." in text
    assert "<h2>Failed</h2>" in text
    assert '<td class="text">bad</td><td>2</td><td class="text">PolicyError: it &lt;raised&gt;</td>' in text
    assert "somewhere" not in text


def test_without_failures_the_page_has_no_section_on_them(tmp_path: Path) -> None:
    folder = keep(tmp_path / "study", [Row("w", "easy", figures()), Row("w", "fcfs", figures())], ["w"])
    text = page.of_campaign(Store(folder))
    assert "<h2>Failed</h2>" not in text
    assert "n rejected" not in text


def test_a_policy_without_baseline_runs_has_no_ratios_and_a_note(tmp_path: Path) -> None:
    rows = [Row("w", "easy", figures())]
    rows += [Row("w", "r", figures(), {"theta": theta}, platform="wider") for theta in (1, 2)]
    text = page.of_campaign(Store(keep(tmp_path / "study", rows, ["w"])))
    assert "No ratios: easy did not run on the same platforms, workloads and seeds." in text


def test_misleading_counts_are_shown_and_missing_points_are_counted(study: Path) -> None:
    done = run_cli("campaign", "table", str(study))
    head = done.stdout.splitlines()[0].split()
    assert {"n_rejected", "n_left_out"} <= set(head)
    assert "n_broken_promises" not in head  # there are none
    assert "3 points not included;" in done.stderr
    chosen = run_cli("campaign", "table", str(study), "--figures", "utilisation").stdout.splitlines()[0].split()
    assert "n_rejected" not in chosen


WARNING = "warning in 1 of 2 cells (w own easy seed 0):"


@pytest.mark.parametrize(
    ("row", "lines", "code"),
    [
        (Row("w", "easy", figures()), [], 0),
        (Row("w", "easy", figures() | {"n_rejected": 1}), ["1 of 4 jobs rejected, in 1 of 2 cells"], 0),
        (
            Row("w", "easy", figures(), warnings=["5 <hosts> have no route", "5 <hosts> have no route", "late\x1b"]),
            [f"{WARNING} 5 <hosts> have no route", f"{WARNING} late\\x1b"],
            0,
        ),
        (
            Row("w", "easy", figures() | {"n_rejected": 1, "n_killed": 1}),
            ["1 of 4 jobs rejected, in 1 of 2 cells", f"{WARNING} {table.NOTHING_COMPLETED}"],
            8,
        ),
        (Row("w", "easy", figures(), warnings=7), [], 0),  # not the program's own store
    ],
)
def test_losses_are_listed_at_the_end_and_on_the_page(
    row: Row, lines: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = keep(tmp_path / "study", [Row("w", "fcfs", figures()), row], ["w"])
    done = run_cli("campaign", "status", str(folder))
    assert (done.returncode, done.stdout.splitlines()[2:]) == (code, lines)
    assert campaign_runner.say_losses(Store(folder)) == code
    assert [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()] == lines
    text = page.of_campaign(Store(folder))
    warnings = [line.partition(": ")[2] for line in lines if line.startswith("warning")]
    assert ("<h2>Warnings</h2>" in text) is bool(warnings)
    for warning in warnings:
        assert f"{html.escape(warning)}</td><td>1</td>" in text


def test_a_campaign_that_rejects_all_jobs_says_so(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'name = "refused"\n[[workload]]\nname = "d"\ngenerate = {procs = 16, jobs = 30}\n'
        '[[platform]]\nname = "own"\nof_workload = true\n[[policy]]\n'
        f'name = "{ROOT}/tests/support/picky.py:Refusing"\nlabel = "refusing"\n'
    )
    done = run_cli("campaign", "run", "s.toml", "--quiet", cwd=tmp_path)
    assert done.returncode == 8
    assert [line.partition(": ")[2] for line in done.stderr.splitlines()] == [
        "30 of 30 jobs rejected, in 1 of 1 cell",
        f"warning in 1 of 1 cell: {table.NOTHING_COMPLETED}",
        "warning in 1 of 1 cell: 30 jobs rejected, first reason: too many jobs",
    ]


def test_a_campaign_counts_the_jobs_that_are_left_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'name = "cut"\nstop_at = 420\n[[platform]]\nname = "own"\nof_workload = true\n[[policy]]\nname = "fcfs"\n'
        + "".join(f'[[workload]]\nname = "{name}"\nfile = "{name}.swf"\n' for name in ("some", "none", "more"))
    )
    for name, n in {"some": 3, "none": 1, "more": 5}.items():
        rows = [logs.line(k + 1, 200 * k, run=300, allocated=1) for k in range(n)]
        logs.log(tmp_path, *rows, name=f"{name}.swf")
    done = run_cli("campaign", "run", "s.toml", "--quiet", "--output", "out", cwd=tmp_path)
    text = "6 jobs unfinished or not submitted at stop_at"
    assert done.returncode == 0
    line = f"warning in 2 of 3 cells (some own fcfs seed 0, …): {text}"
    assert done.stderr.partition(": ")[2] == f"{line}\n"
    status = run_cli("campaign", "status", "out", cwd=tmp_path)
    assert (status.returncode, status.stdout.splitlines()[2:]) == (0, [line])
    assert f"{table.CUT}</td><td>2</td>" in page.of_campaign(Store(tmp_path / "out"))


STUDY = """
format = 1
name = "two-orders"
seeds = [1, 2]
tau_s = 10.0
baseline = "EASY"
where = { user = ["1", "2"] }

[[workload]]
name = "drawn"
generate = { model = "poisson", jobs = 6, procs = 4 }
walltimes = "factor:2"

[[platform]]
name = "m"
procs = 4

[[policy]]
name = "easy"
label = "EASY"

[[policy]]
name = "fcfs"
options = { order = ["fcfs", "sjf"] }
"""


def test_the_page_shows_what_was_run(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    assert run_cli("campaign", "run", "study.toml", "--workers", "1", "-q", cwd=tmp_path).returncode == 0
    shown = dict(provenance.of_campaign(Store(tmp_path / "out" / "two-orders").manifest()))
    assert shown["policies"] == "EASY: easy\nfcfs (order=[fcfs, sjf])"
    assert shown["platforms"] == "m: procs=4"
    assert shown["workloads"].startswith("drawn: generate={model=poisson, procs=4, jobs=6,")
    assert shown["workloads"].endswith("}, walltimes=factor:2")
    assert (shown["seeds"], shown["τ of bounded slowdowns"]) == ("1, 2", "10 s")
    assert shown["baseline"] == 'EASY, jobs with user=["1", "2"]'
    assert shown["command"] == "pybatsched campaign run study.toml"
    text = page.of_campaign(Store(tmp_path / "out" / "two-orders"))
    assert text.index("<h2>Means</h2>") < text.index("<h2>What was run</h2>")
    assert '<td class="code">pybatsched campaign run study.toml</td>' in text
