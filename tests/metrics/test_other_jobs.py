"""Figures over other jobs: a policy that rejects jobs is marked wherever it is compared, and never the best one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import campaigns
from support.picky import Even, Killer, Odd, Picky
from support.places import ROOT
from support.process import run_cli

import pybatsched as pb
from pybatsched.campaign.store import Store
from pybatsched.metrics.compare.bootstrap import against
from pybatsched.metrics.compare.grouped import summary_table, to_text
from pybatsched.report import page

PICKY = f"{ROOT}/tests/support/picky.py"


def summary(n_jobs: int = 10, n_rejected: int = 0, wait_s: float = 100.0, **members: Any) -> str:
    states = {"COMPLETED_SUCCESSFULLY": n_jobs - n_rejected, "REJECTED": n_rejected}
    states["COMPLETED_KILLED"] = members.pop("n_killed", 0)
    figures = {"n_jobs": n_jobs, "n_by_state": states, "mean_wait_s": wait_s, **members.pop("figures", {})}
    about = {"format": "pybatsched-summary", "format_version": 1, "figures": figures, "n_unfinished": 0, **members}
    return json.dumps(about)


def lost(lost_jobs: int) -> str:
    """A run that lost five jobs."""
    return summary(10, 5, figures={"lost_jobs": lost_jobs})


@pytest.mark.parametrize(
    ("before", "after", "condition", "change", "why"),
    [
        (summary(), summary(10, 5, 9.0), "mean_wait_s > +5%", "other jobs", "of different jobs: 10 of 10"),
        (summary(10, 5), summary(10, 0, 999.0), "mean_wait_s < -1", "other jobs", "5 of 10 ran before, 10 of 10"),
        (summary(), summary(n_rejected=5), "n_rejected > +0", "other jobs", "n_rejected was 0, is 5"),
        (summary(), summary(n_unfinished=1), "mean_wait_s > +5%", "other jobs", "10 of 10 ran before, 10 of 11"),
        (summary(), summary(n_rejected=5), "mean_wait_s > 999", "other jobs", ""),  # a bound on the second run alone
        (summary(10, 5), summary(10, 5, 50.0), "mean_wait_s > +5%", "-50.00%", ""),
        (
            summary(),
            summary(n_killed=10),
            "mean_wait_s > +5%",
            "other jobs",
            "10 of 10 ran before, 10 of 10 ran, 10 killed",
        ),
        (lost(3), lost(4), "mean_wait_s > +5%", "other jobs", "5 of 10 ran before, 5 of 10 ran after"),
        (lost(3), lost(3), "mean_wait_s > +5%", "=", ""),
        (lost(3), summary(10, 5), "mean_wait_s > +5%", "=", ""),  # an old summary does not say which jobs
        (summary(10), summary(20, 0, 50.0), "mean_wait_s > +5%", "-50.00%", ""),  # other workloads are another matter
    ],
)
def test_two_runs(before: str, after: str, condition: str, change: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "a_summary.json").write_text(before)
    (tmp_path / "b_summary.json").write_text(after)
    done = run_cli("compare", "a", "b", "--fail-if", condition, cwd=tmp_path)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("mean_wait_s")]
    assert line.endswith(f"  {change}")
    assert done.returncode == (7 if why else 0)
    assert why in done.stderr
    assert ("the two runs have figures of different jobs" in done.stderr) is (change == "other jobs")


def runs(policy: str, wait_s: float, n_rejected: int = 0, n_weeks: int = 8) -> list[dict[str, Any]]:
    figures = {"n_jobs": 30, "n_rejected": n_rejected, "mean_runtime_s": 5.0, "mean_wait_s": wait_s}
    return [{"workload": f"w-week{week:02}", "policy": policy, **figures} for week in range(n_weeks)]


@pytest.mark.parametrize(
    ("other", "wait", "rejected"),
    [
        (runs("x", 9.0), "better", "undecided"),
        (runs("x", 11.0), "worse", "undecided"),
        (runs("x", 9.0, n_weeks=4), "undecided", "undecided"),
        (runs("x", 9.0, n_rejected=19), "other jobs", "worse"),
        ([*runs("x", 9.0)[1:], *runs("x", 9.0, n_rejected=1)[:1]], "other jobs", "undecided"),
    ],
)
def test_verdicts_against_a_baseline(other: list[dict[str, Any]], wait: str, rejected: str) -> None:
    figures = ["mean_wait_s", "n_rejected", "mean_runtime_s"]
    found = against([*runs("easy", 10.0), *other], lambda row: row["policy"] == "easy", ["policy"], figures)
    assert [row["verdict"] for row in found] == [wait, rejected, "other jobs" if wait == "other jobs" else ""]
    ends = [found[0][name] for name in ("low", "high", "p_better", "p", "p_adjusted")]
    assert (ends == [None] * 5) is (wait == "other jobs")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Eight weeks under three policies: picky runs 11 of 30 jobs and has the shortest waits."""
    rows = []
    for policy, wait_s, n_rejected in (("easy", 12_345.67, 0), ("sjf", 9_876.54, 0), ("picky", 1.0, 19)):
        for week in range(8):
            figures = {"n_jobs": 30, "n_rejected": n_rejected, "mean_wait_s": wait_s, "utilisation": 0.5 + week / 1000}
            rows.append(campaigns.Row(f"kth-week{week:02}", policy, figures))
    return campaigns.keep(tmp_path / "study", rows, ["kth"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("--ci", "0.95", "--bold-best", "--by", "policy"),
            ["easy - 8 12,300 ± 0", "sjf - 8 9,880 ± 0 *", "picky 88 of 240 ran 8 1.00 ± 0.00"],
        ),
        (("--by", "family,policy"), ["kth easy - 8 12345.7", "kth sjf - 8 9876.54", "kth picky 88 of 240 ran 8 1"]),
        (("--quantiles", "50", "--by", "policy"), ["easy - 8 12345.7", "sjf - 8 9876.54", "picky 88 of 240 ran 8 1"]),
        ((), ["kth-week00 kth own easy {} 0 0 - 12345.7", "kth-week07 kth own picky {} 0 0 11 of 30 ran 1"]),
    ],
)
def test_tables_of_a_campaign(words: tuple[str, ...], expected: list[str], study: Path) -> None:
    done = run_cli("campaign", "table", str(study), "--figures", "mean_wait_s", *words)
    head, *lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "other_jobs" in head
    assert (lines if words else [lines[0], lines[-1]]) == expected


def test_counts_are_compared_also_over_other_jobs(study: Path) -> None:
    found = pb.read_campaign(study).summary("policy", figures=["n_rejected", "mean_wait_s"])
    assert found["other_jobs"].to_list() == [None, None, "88 of 240 ran"]
    means = summary_table(
        pl.DataFrame(runs("x", 1.0, 5) + runs("y", 2.0, 9)), ["policy"], ["n_rejected", "mean_wait_s"]
    )
    assert means["other_jobs"].to_list() == [None, "168 of 240 ran"]
    first, second = (line.split() for line in to_text(means, bold_best=True).splitlines()[1:])
    assert first[3:] == ["5.00", "±", "0.00", "*", "1.00", "±", "0.00"]  # the fewest rejections are the best ones
    assert "*" not in second


def test_rejections_in_different_weeks_do_not_cancel_out() -> None:
    first, second = ([*runs(name, 1.0, 2)[:1], *runs(name, 1.0, 5)[1:2]] for name in "xy")
    second[0]["n_rejected"], second[1]["n_rejected"] = 5, 2
    found = summary_table(pl.DataFrame(first + second + runs("all", 9.0, 0, 1)), ["policy"], ["mean_wait_s"])
    assert found["other_jobs"].to_list() == ["53 of 60 ran", "53 of 60 ran", None]
    seeds = [{**runs("x", 1.0, 3)[0], "seed": seed} for seed in (1, 2)] + [{**runs("y", 9.0)[0], "seed": None}]
    found = summary_table(pl.DataFrame(seeds), ["policy"], ["mean_wait_s"])
    assert found["other_jobs"].to_list() == ["54 of 60 ran", None], "a run without a seed is that of all seeds"


def test_a_baseline_without_figures(tmp_path: Path) -> None:
    rows = [campaigns.Row("w", name, {"n_jobs": 3, "mean_wait_s": x}) for name, x in (("easy", None), ("sjf", 1.0))]
    study = campaigns.keep(tmp_path / "study", rows, ["w"])
    done = run_cli("campaign", "table", str(study), "--against", "easy", "--figures", "mean_wait_s")
    assert "no figure has a value under easy and another policy; did any job run?" in done.stderr


def test_the_page_of_a_campaign(study: Path) -> None:
    text = page.of_campaign(Store(study))
    assert text.count("picky<br><b>(other jobs: 88 of 240 ran)</b>") == 2  # means, and ratios
    assert "<b>(other jobs: 88 of 240 ran under the baseline)</b>" in page.of_campaign(Store(study), baseline="picky")
    heads, rows = text.partition('<table id="differences">')[2].split("<tbody>", 1)
    names = ["policy", "figure", "verdict", "difference", "low", "high", "p", "p_adjusted"]
    assert re.findall(r">(\w+)</th>", heads)[:8] == names
    first, second = rows.split("<tr>")[1:3]
    assert "mean_wait_s" in first
    for shown in (">better<", ">9,877<", ">12,350<", ">-2,469<", ">0.0078"):
        assert shown in first
    assert ">other jobs<" in second


def test_policies_that_lose_different_jobs_or_kill_jobs(tmp_path: Path) -> None:
    log = pb.read_workload(str(ROOT / "examples" / "workload.json"))
    with pytest.warns(UserWarning, match="15 jobs rejected|30 jobs killed, which did not run again"):
        found = pb.simulate(log, ["easy", Odd, Even, Killer], n_procs=32, progress=False)
    assert found.summary()["other_jobs"].to_list() == [None, *["15 of 30 ran"] * 2, "30 of 30 ran, 30 killed"]
    assert found[1:3].summary()["other_jobs"].to_list() == ["15 of 30 ran"] * 2
    for run in found:
        run.save(tmp_path / f"{run.policy}-1")
    for pair in (("Odd-1", "Even-1"), ("easy-*", "Killer-*")):
        done = run_cli("compare", *pair, "--fail-if", "mean_wait_s > +999%", cwd=tmp_path)
        assert (done.returncode, "lost_jobs" in done.stdout) == (7, False)


def test_runs_in_python_and_their_page(tmp_path: Path) -> None:
    log = pb.read_workload(str(ROOT / "examples" / "workload.json"))
    with pytest.warns(UserWarning, match="19 jobs rejected"):
        found = pb.simulate(log, ["easy", Picky], n_procs=32, progress=False)
    assert found.summary()["other_jobs"].to_list() == [None, "11 of 30 ran"]
    assert "<td>11 of 30 ran</td>" in found._repr_html_()
    found.report(tmp_path / "page.html")
    notice = "11 of 30 ran, fewer or others than in another run. Its figures are over other jobs.</p>"
    assert notice in (tmp_path / "page.html").read_text()
    assert "other_jobs" not in found[:1].summary().columns


@pytest.mark.parametrize(("policy", "code"), [("Picky", 0), ("Refusing", 8)])
def test_a_run_in_which_no_job_completed_has_its_own_exit_code(policy: str, code: int, tmp_path: Path) -> None:
    args = ("-w", f"{ROOT}/examples/workload.json", "--procs", "32", "--policy", f"{PICKY}:{policy}", "-e", "out", "-q")
    done = run_cli("simulate", *args, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        code,
        "pybatsched: none of 30 jobs completed: 30 rejected\n" * (code == 8),
    )
    assert (tmp_path / "out_summary.json").exists()
