"""Published studies: judged claims, a study that is run, and logs that are downloaded and verified."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError
from support.places import TRACES
from support.predictsim_twin import ROWS, PredictsimTwin, TwinJob
from support.process import run_cli

from pybatsched.campaign import studies
from pybatsched.campaign.all_cells import points_of
from pybatsched.campaign.measures import evaluate
from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.store import Store
from pybatsched.campaign.studies import Claim, judge
from pybatsched.campaign.workloads import MergedLog, WorkloadTable
from pybatsched.errors import InputError
from pybatsched.workload import archive
from pybatsched_studies.locality import areas

TABLE = pl.DataFrame({"workload": ["a", "a", "b"], "policy": ["x", "y", "x"], "wait": [10.0, 20.0, 40.0]})

KTH = "KTH-SP2-1996-2.swf.gz"
CTC = "CTC-SP2-1996-3.1-cln.swf.gz"

FIGURES_OF_LOCALITY = (
    *("mean_queue_time_s", "max_queue_time_s", "mean_flow_s", "total_load_s", "total_load_wait_s", "mean_stretch"),
    *("mean_bounded_stretch", "total_reused"),
)


def claim(**members: Any) -> Claim:
    return Claim.model_validate(
        {"id": "c", "says": "s", "source": "here", "measured": "mean(wait)", "status": "exact"} | members
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mean(wait)", 70 / 3),
        ("mean(wait, workload = 'a')", 15.0),
        ("mean(wait, workload = 'a', policy = 'y') / mean(wait, policy = 'x')", 0.8),
        ("(mean(wait, workload = 'b') - 10) * 2 + 0.5", 60.5),
        ("mean(wait, workload = 'c') / 2", None),
    ],
)
def test_measured_values(text: str, value: float | None) -> None:
    assert evaluate(text, TABLE) == (None if value is None else pytest.approx(value))


GRID = pl.DataFrame(
    [
        {
            "workload": f"log-week{week}",
            "platform": "p",
            "policy": policy,
            "options": options,
            "seed": 0,
            "repeat": 0,
            "wait": wait,
        }
        for week, waits in enumerate(
            [(10.0, 5.0, 8.0, None), (10.0, 20.0, 9.0, 1.0), (20.0, 4.0, 40.0, 1.0), (0.0, 1.0, 1.0, 1.0)]
        )
        for policy, options, wait in zip(
            ("easy", "r", "r", "r"),
            ("{}", '{"theta": 2}', '{"theta": 10, "filter": "q"}', '{"theta": 25}'),
            waits,
            strict=True,
        )
    ]
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("median(wait, policy = 'easy')", 10.0),
        ("total(wait, theta = 2)", 30.0),
        ("mean(wait, workload = '*-week1', policy = 'r')", 10.0),
        (
            "median_ratio(wait, 'easy', policy = 'r', theta = 2)",
            0.5,
        ),  # of 0.5, 2 and 0.2: nothing is measured against 0
        ("mean_ratio(wait, 'easy', theta = 10)", (0.8 + 0.9 + 2) / 3),
        ("greatest_ratio(wait, 'easy', filter = 'q')", 2.0),
        ("median_ratio(wait, 'easy', theta = 25)", (0.1 + 0.05) / 2),
        ("least_median_ratio(wait, 'easy', workload = 'log-*')", (0.1 + 0.05) / 2),
        ("least_median_ratio(wait, 'easy', workload = '*0')", 0.5),
        ("median_of_workloads(wait)", (8 + 9.5) / 2),  # of 8, 9.5, 12 and 1
        ("median_of_workloads(wait, workload = 'x*')", None),
        ("min(median(wait, policy = 'easy'), 3 * 4, total(wait, theta = 2))", 10.0),
        ("max(2, least(wait, workload = 'x*'))", None),
        ("best(theta, wait, 'easy', policy = 'r')", 25.0),
        ("best(theta, wait, 'easy', workload = 'log-week0')", 2.0),
        ("-median_ratio(wait, 'easy', workload = 'x*')", None),
    ],
)
def test_measures_of_a_grid(text: str, value: float | None) -> None:
    assert evaluate(text, GRID) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "wait",
        "mean()",
        "mean('wait')",
        "max(wait)",
        "max()",
        "min(1, 2, policy = 'easy')",
        "median_of_workloads(wait, 'easy')",
        "__import__('os')",
        "mean(wait) ** 2",
        "1 / 0",
        "mean(beauty)",
        "mean(wait, colour = 'a')",
        "mean(wait, workload = x)",
        "mean(policy)",
        "mean(wait, **{'workload': 'a'})",
        "median_ratio(wait)",
        "best(theta, wait)",
        "True",
        "1e308 * 10 ** 5",
        "mean(wait, workload = 'a', workload = 'b')",
    ],
)
def test_invalid_measures_are_rejected(text: str) -> None:
    with pytest.raises(InputError):
        evaluate(text, TABLE)


@pytest.mark.parametrize(
    ("members", "holds"),
    [
        ({"published": 70 / 3}, True),
        ({"published": 23.0}, False),
        ({"published": 23.0, "tolerance": 0.05}, True),
        ({"published": 20.0, "tolerance": 0.05}, False),
        ({"published": 23.0, "within": 0.4}, True),
        ({"published": 23.0, "within": 0.3}, False),
        ({"least": 10, "most": 23.34}, True),
        ({"least": 24}, False),
        ({"most": 23}, False),
        ({"below": 24.0}, True),
        ({"below": 23.0}, False),
        ({"above": 23.0}, True),
        ({"above": 24.0}, False),
        ({"published": 1.0, "status": "not reproducible", "why": "lost"}, True),
        ({"below": 1.0, "measured": "mean(wait, workload = 'none')"}, False),
    ],
)
def test_verdicts(members: dict[str, Any], holds: bool) -> None:
    assert judge(claim(**members), TABLE).holds is holds


@pytest.mark.parametrize(
    ("members", "measured", "shown"),
    [
        ({"published": "19753.53", "within": 0.005}, 19753.5312, "19753.53 ± 0.005 19753.53 holds"),
        ({"published": "1.40", "tolerance": 0.05}, 1.42, "1.40 ± 5% 1.42 holds"),
        ({"published": "92.5765", "within": 0.00005}, 92.57654, "92.5765 ± 0.00005 92.5765 holds"),
        ({"published": "28481"}, 28481.25, "28481 28481.25 DOES NOT HOLD"),  # more digits: 28481 would seem to hold
        ({"published": "0.60", "within": 0.001}, 0.6009, "0.60 ± 0.001 0.60 holds"),
        ({"below": 1}, 0.51234567, "< 1 0.512346 holds"),
    ],
)
def test_numbers_have_the_published_digits(members: dict[str, Any], measured: float, shown: str) -> None:
    if "published" in members:
        members["published"] = Decimal(members["published"])
    verdict = judge(claim(**members), pl.DataFrame({"wait": [measured]}))
    assert f"{verdict.claim.expected} {verdict.measured} {verdict.word}" == shown


def test_the_digits_of_a_study_file_are_kept() -> None:
    shown = [one.expected for one in studies.read_study("backfilling").claims]
    assert shown == ["1.40 ± 5%", "3.28 ± 5%", "2.35 ± 5%", "< 1"]


@pytest.mark.parametrize(
    ("where", "needed"),
    [
        ("", {"sdsc-ds", "hpc2n", "sdsc-blue"}),
        (", workload = 'hpc2n'", {"hpc2n"}),
        (", workload = 'hpc2n-week07', policy = 'easy'", {"hpc2n"}),
        (", workload = 'sdsc-*-week*', policy = 'fc*'", {"sdsc-ds", "sdsc-blue"}),
        (", family = 'hpc*', policy = 'sjf'", set()),
    ],
)
def test_workloads_that_a_claim_needs(where: str, needed: set[str]) -> None:
    campaign = studies.read_study("backfilling").campaign
    assert studies.needed(claim(below=1, measured=f"2 * mean(wait{where})"), campaign) == needed


def test_a_study_without_a_log_runs_the_rest_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = studies.read_study("backfilling")
    random = study.quick_campaign.workload[0]
    parts = (
        random,
        WorkloadTable.model_validate({"name": "ctc", "file": CTC}),
        WorkloadTable.model_validate({"name": "own", "file": "own.swf"}),
    )
    claims = tuple(
        claim(says=name, measured=f"mean(n_jobs, workload = '{name}')", published=published)
        for name, published in ((random.name, 1500), ("ctc", 28481), ("own", 1))
    )

    def outcome(*claims: Claim) -> tuple[int, str, str]:
        campaign = study.quick_campaign.model_copy(
            update={"workload": parts, "policy": study.quick_campaign.policy[:1], "seeds": (1,)}
        )
        monkeypatch.setattr(studies, "read_study", lambda _name: replace(study, campaign=campaign, claims=claims))
        done = run_cli("reproduce", "backfilling", "--traces", str(tmp_path), "--output", str(tmp_path / "out"))
        return done.returncode, done.stdout, done.stderr

    code, out, err = outcome(*claims)
    assert code == 0
    assert f"left out: ctc, own; 2 logs missing: {CTC} own.swf. Use --traces DIR" in err
    assert f"To download: pybatsched traces get {CTC} --output DIR. To run without logs: --quick\n" in err
    rows = [line.split() for line in out.splitlines()[1:5]]
    assert rows == [
        ["claim", "published", "measured", "verdict"],
        [random.name, "1500", "1500", "holds"],
        ["ctc", "28481", "-", "not", "measured"],
        ["own", "1", "-", "not", "measured"],
    ]
    assert f"not measured (1): missing {CTC}\nnot measured (1): missing own.swf\n" in out
    assert "2 of 3 claims could not be checked, because logs are missing\n" in out
    page = (tmp_path / "out" / "report.html").read_text()
    for text in ("<h2>Claims</h2>", "<td>28481</td><td>-</td>", "not measured", "<td>1500</td><td>1500</td>", "holds"):
        assert text in page
    code, out, _ = outcome(claims[0].model_copy(update={"published": 1499.0}), claims[1])
    assert code == 7
    assert "DOES NOT HOLD" in out
    assert "DOES NOT HOLD" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("best(filter, wait, 'easy')", "an option whose values are numbers"),
        ("best(nope, wait, 'easy')", "no point has this option"),
        ("median_ratio(wait, 'eazy')", "'eazy': unknown policy; expected one of easy, r"),
        ("median_ratio(wait, 'r')", "'r': expected one setting on log-week0, p"),
        ("mean(wait, colour = 1)", "colour: unknown column or option; expected one of workload, platform, policy"),
    ],
)
def test_measures_with_unknown_names_are_rejected_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        judge(claim(measured=text, below=1), GRID)
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"claim c: {text}: ")


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"published": 1.4}, "1.4"),
        ({"published": 1.4, "tolerance": 0.05}, "1.4 ± 5%"),
        ({"published": 515584, "tolerance": 1e-5}, "515584 ± 0.001%"),
        ({"published": -32.86, "within": 4}, "-32.86 ± 4"),
        ({"below": 1}, "< 1"),
        ({"above": 0}, "> 0"),
        ({"least": 10, "most": 50}, "10 to 50"),
        ({"least": 10, "below": 50}, "< 50, ≥ 10"),
    ],
)
def test_published_values_are_formatted_in_short_form(members: dict[str, Any], text: str) -> None:
    assert claim(**members).expected == text


@pytest.mark.parametrize(
    "members", [{}, {"published": 1.0, "status": "not reproducible"}, {"published": 1, "status": "fine"}]
)
def test_claims_without_a_consistent_value_are_rejected(members: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        claim(**members)


@pytest.mark.parametrize("name", studies.names())
def test_every_study_file_is_valid(name: str) -> None:
    study = studies.read_study(name)
    assert study.claims
    assert study.quick_claims
    wanted = [file for part in study.campaign.workload if not part.optional for file in part.sources]
    assert all(file in archive.LOGS for file in wanted)


#: Half a minute or more each, even in the quick version; and two of a kind that other studies cover.
TAKE_LONG = {"reallocation", "locality", "dbf", "backfilling", "ujfb"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in TAKE_LONG else name for name in studies.names()]
)
def test_every_quick_study_holds(name: str, tmp_path: Path) -> None:
    done = run_cli("reproduce", name, "--quick", "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DOES NOT HOLD" not in done.stdout
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Nothing to show" not in page
    for chart in studies.read_study(name).quick_campaign.chart:
        assert f"<h3>{chart.title}</h3>" in page


def test_the_page_of_the_urgent_study_has_its_main_charts() -> None:
    """U_L by policy on a logarithmic axis, its cost for regular jobs, and U_L over swap times; in both versions."""
    study = studies.read_study("ujfb")
    for campaign in (study.campaign, study.quick_campaign):
        shown = [(chart.figure, chart.by, chart.scale) for chart in campaign.chart]
        assert shown[:3] == [
            ("urgent_max_slowdown", "policy", "log"),
            ("regular_mean_slowdown", "policy", "auto"),
            ("urgent_max_slowdown", "swap_out", "auto"),
        ]


def test_the_page_of_the_locality_study_has_its_main_charts() -> None:
    """Transfers, waits for them, queue times and stretches by score, with and without backfilling, and by user."""
    study = studies.read_study("locality")
    for campaign in (study.campaign, study.quick_campaign):
        shown = [(chart.figure, chart.by, chart.each) for chart in campaign.chart]
        assert shown[:5] == [
            ("total_load_s", "score", ""),
            ("total_load_wait_s", "score", ""),
            ("mean_queue_time_s", "score", ""),
            ("mean_stretch", "score", ""),
            ("mean_stretch", "score", "user"),
        ]
        (scores,) = (policy for policy in campaign.policy if not policy.spec.label)
        assert scores.options["backfill"] == [False, True]


def test_the_locality_study_has_every_number_of_the_programs_output() -> None:
    """Ten rows of eight numbers: the five without backfilling should be reproduced, the five with it cannot be."""
    claims = studies.read_study("locality").claims
    numbers = [one for one in claims if one.published is not None]
    exact, lost = ([one for one in numbers if one.status == status] for status in ("exact", "not reproducible"))
    assert len(exact) == len(lost) == 5 * 8
    for one in exact:
        assert one.tolerance == (1e-5 if "(mean_" in one.measured else 0)
    assert [one.published for one in exact[:8]] == [
        15717.51, 23322.99, 515584, 24448, 21.2866, 19.2119, 117558, 399,
    ]  # fmt: skip
    assert [one.published for one in lost[-8:]] == [
        16380.31, 23982.06, 506496, 27904, 24.2814, 22.2466, 87378, 412,
    ]  # fmt: skip


def test_the_study_of_predictions_has_every_published_row_twice() -> None:
    """Twelve rows of four logs under the program's passes, to be met, and the same under `easy`, beside them."""
    claims = [one for one in studies.read_study("predictions").claims if "linear" not in one.id]
    by_policy: dict[str, list[Claim]] = {
        label: [one for one in claims if f"policy = '{label}'" in one.measured] for label in ("program", "one pass")
    }
    assert [len(found) for found in by_policy.values()] == [48, 48]
    for ours, theirs in zip(by_policy["one pass"], by_policy["program"], strict=True):
        assert ours.measured == theirs.measured.replace("'program'", "'one pass'")
        assert (ours.published, ours.status) == (theirs.published, "variant")
    for one in by_policy["program"]:
        is_whole = "kth" in one.measured or "ctc" in one.measured  # no job of the published log is missing
        assert (one.within, one.tolerance) == ((0.00005, 0) if is_whole else (0, 0.002))
    assert [one.published for one in by_policy["program"][:12]] == [
        92.5765, 71.7224, 79.9303, 69.4054, 49.8477, 58.9125, 85.4429, 65.7236, 76.9224, 63.5007, 62.8569, 64.5275,
    ]  # fmt: skip


def test_the_quick_study_of_predictions_has_the_values_of_the_twin(tmp_path: Path) -> None:
    study = studies.read_study("predictions")
    (ready,) = Preparer(tmp_path, []).prepare(study.quick_campaign.workload[0], seed=1)
    content = json.loads(Path(ready.path).read_text())
    delays = {name: profile["delay"] for name, profile in content["profiles"].items()}
    jobs = [
        TwinJob(job["subtime"], delays[job["profile"]], job["res"], job["walltime"], str(job["user"]))
        for job in content["jobs"]
    ]
    found = [PredictsimTwin(jobs, content["nb_res"], *row).run().mean_bounded_slowdown() for row in ROWS]
    assert [one.published for one in study.quick_claims[:12]] == [pytest.approx(value, abs=0.00005) for value in found]
    assert len({round(value, 4) for value in found}) == 12  # each row is another schedule


@pytest.mark.long
@pytest.mark.skipif(not (TRACES / KTH).exists(), reason=f"{KTH} is not in {TRACES}")
def test_all_rows_of_kth_under_the_passes_of_predictsim_have_the_published_digits(tmp_path: Path) -> None:
    study = studies.read_study("predictions")
    small = study.campaign.model_copy(
        update={
            "workload": study.campaign.workload[:1],
            "policy": tuple(policy for policy in study.campaign.policy if policy.title == "program"),
        }
    )
    claims = tuple(one for one in study.claims if "'kth-sp2'" in one.measured and one.status == "exact")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studies, "read_study", lambda _name: replace(study, campaign=small, claims=claims))
        done = run_cli("reproduce", "predictions", "--traces", str(TRACES), "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" holds") == 13


def test_areas_of_the_locality_study_are_those_of_its_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = studies.read_study("locality").campaign
    (policy,) = (policy for policy in campaign.policy if policy.spec.label == "area")
    (drawn,) = (workload for workload in campaign.workload if workload.name in policy.workloads)
    (platform,) = (platform for platform in campaign.platform if platform.name in policy.platforms)
    (ready,) = Preparer(tmp_path, []).prepare(drawn, seed=1)
    assert areas.main(ready.path, str(platform.machine.platform)) == 0
    assert json.loads(capsys.readouterr().out) == policy.options["areas"]


def test_claims_without_the_locality_logs_are_still_judged(tmp_path: Path) -> None:
    """Claims on missing days have no value; they are not errors."""
    study = studies.read_study("locality")
    with Store(tmp_path / "out") as store:
        points = points_of(study.campaign, store, [])
    rows = [
        {**point, "options": json.dumps(point["options"])} | dict.fromkeys(FIGURES_OF_LOCALITY, 1.0)
        for point, _ in points
    ]
    verdicts = {claim.id: judge(claim, pl.DataFrame(rows)) for claim in study.claims}
    assert {name for name, verdict in verdicts.items() if verdict.value is not None} == {
        "keep-transfer",
        "idle-queue",
        "area-queue",
    }


@pytest.mark.long
def test_a_study_resumes_in_its_own_directory_only(tmp_path: Path) -> None:
    args = ("reproduce", "backfilling", "--quick", "--output", str(tmp_path / "out"), "--workers", "1")
    first = run_cli(*args)
    assert "9 of 9 cells done (0 before), 0 failed" in first.stderr
    cells = sorted((tmp_path / "out" / "cells").iterdir())
    cells[0].unlink()
    failed = {"address": cells[1].stem, "error": "WorkerDied: long ago"}
    cells[1].write_text(json.dumps(failed))
    again = run_cli(*args)
    assert again.returncode == 7
    assert "8 of 9 cells done (7 before), 1 failed" in again.stderr
    assert f"pybatsched campaign status {tmp_path / 'out'} shows the errors; --retry-failed" in again.stderr
    repaired = run_cli(*args, "--retry-failed")
    assert (repaired.returncode, repaired.stdout) == (0, first.stdout)
    assert "9 of 9 cells done (8 before), 0 failed" in repaired.stderr
    quiet = run_cli(*args, "--quiet")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    manifest = tmp_path / "out" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"backfilling-quick"', '"mine"'))
    refused = run_cli(*args)
    assert refused.returncode == 2
    assert "expected results of backfilling-quick, found those of the campaign 'mine'" in refused.stderr


def test_a_false_claim_changes_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pybatsched.cli import main

    study = studies.read_study("backfilling")
    wrong = study.quick_claims[0].model_copy(update={"below": 0.0})
    monkeypatch.setattr(
        studies,
        "read_study",
        lambda _name: studies.Study(
            study.name, study.title, study.about, study.claims, (wrong,), study.campaign, study.quick_campaign
        ),
    )
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert main(["reproduce", "backfilling", "--quick", "--output", str(tmp_path / "out")]) == 7


def test_logs_merged_by_a_study_are_also_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = studies.read_study("backfilling")
    logs = [MergedLog(name="a", file="a.swf"), MergedLog(name="b", file=CTC)]
    merging = study.campaign.model_copy(update={"workload": (WorkloadTable(name="grid", merge=tuple(logs)),)})
    monkeypatch.setattr(studies, "read_study", lambda _name: replace(study, campaign=merging))
    (tmp_path / "a.swf").touch()
    done = run_cli("reproduce", "backfilling", "--traces", str(tmp_path), "--output", str(tmp_path / "out"))
    assert done.returncode == 2
    message = (
        f"1 log missing: {CTC}. Use --traces DIR or set PYBATSCHED_TRACES. To download: pybatsched traces get {CTC} "
    )
    assert f"{message}--output DIR. To run without logs: --quick\n" in done.stderr


def test_missing_logs_are_named_with_what_to_do(tmp_path: Path) -> None:
    done = run_cli("reproduce", "backfilling", "--traces", str(tmp_path), "--output", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "3 logs missing: SDSC-DS-2004-2.1-cln.swf.gz" in done.stderr
    assert "pybatsched traces get" in done.stderr
    unknown = run_cli("reproduce", "atlantis")
    assert (unknown.returncode, "expected one of backfilling" in unknown.stderr) == (2, True)


@pytest.mark.long
@pytest.mark.skipif(not (TRACES / CTC).exists(), reason=f"{CTC} is not in {TRACES}")
def test_easy_with_exact_run_times_gives_all_published_digits(tmp_path: Path) -> None:
    """A missing log is reported and is not a failure: KTH-SP2 here."""
    (tmp_path / CTC).symlink_to(TRACES / CTC)
    study = studies.read_study("easy")
    small = study.campaign.model_copy(
        update={"workload": tuple(part for part in study.campaign.workload if part.name in {"ctc-sp2", "kth-sp2"})}
    )
    claims = tuple(claim for claim in study.claims if claim.id.endswith(("ctc-sp2", "kth-sp2")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studies, "read_study", lambda _name: replace(study, campaign=small, claims=claims))
        done = run_cli("reproduce", "easy", "--traces", str(tmp_path), "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert [line.split()[-3:] for line in done.stdout.splitlines()[2:6]] == [
        ["-", "not", "measured"],
        ["-", "not", "measured"],
        ["77199", "77199", "holds"],
        ["5e-05", "37.1654", "holds"],
    ]
    assert "not measured (2): KTH-SP2-1996-2.swf.gz is missing" in done.stdout


def test_all_studies_in_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies without any of their logs are left out, with the reason."""
    monkeypatch.setattr(studies, "names", lambda: ["easy", "redirection"])
    done = run_cli("reproduce", "--all", "--traces", str(tmp_path), "--output", str(tmp_path / "out"))
    assert (done.returncode, "easy: study easy: 4 logs missing" in done.stderr) == (2, True)
    monkeypatch.setattr(studies, "names", lambda: ["easy"])
    done = run_cli("reproduce", "--all", "--quick", "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "easy             Confirmed: the claim holds.\n" in done.stdout
    page = (tmp_path / "out" / "studies-quick.html").read_text()
    assert '<a href="reproduce-easy-quick/report.html">easy</a>' in page
    assert "Quick version on random workloads" in page
    assert (tmp_path / "out" / "reproduce-easy-quick" / "report.html").exists()
    assert run_cli("reproduce", "easy", "--all").returncode == 2
