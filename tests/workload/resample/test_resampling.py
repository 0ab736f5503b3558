"""Resampled users: known answers, what is kept, the load by the number of users, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError
from scipy import stats
from support.logs import real
from support.process import run_cli

import pybatsched as pb
from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.errors import InputError
from pybatsched.workload.formats.batsim4 import text_of
from pybatsched.workload.model import Workload
from pybatsched.workload.resample.users import Resampling, _distance, checks, resample, resamples
from pybatsched.workload.weeks import WEEK_S


def workload(*jobs: tuple[str | None, float], run_s: float = 60) -> Workload:
    """Return jobs given by user and submission in weeks."""
    rows = [
        {"id": k, "subtime": round(at * WEEK_S), "res": 1, "profile": "p", **({} if user is None else {"user": user})}
        for k, (user, at) in enumerate(sorted(jobs, key=lambda job: job[1]), start=1)
    ]
    return Workload(rows, {"p": {"type": "delay", "delay": run_s}}, 4, "w.json")


#: One user in each of five weeks, with one job more each week, at other times of the week.
STAIRS = workload(*[(f"u{week}", week + (k + 0.5) / 10) for week in range(5) for k in range(week + 1)])


@pytest.mark.parametrize("seed", range(5))
def test_a_log_with_one_user_a_week_gives_one_user_a_week(seed: int) -> None:
    """All users are temporary, and one comes each week: a resample is a sequence of weeks of the log."""
    made = resample(STAIRS, Resampling(weeks=30), seed)
    weeks: list[list[dict[str, Any]]] = [[] for _ in range(30)]
    for job in made.jobs:
        weeks[int(job["subtime"] // WEEK_S)].append(job)
    first_at = STAIRS.jobs[0]["subtime"]
    for number, jobs in enumerate(weeks):
        (user,) = {job["user"].partition(".")[0] for job in jobs}
        own = [job["subtime"] for job in STAIRS.jobs if job["user"] == user]
        week = int(user[1:])
        places = [at - first_at - week * WEEK_S for at in own]
        assert [job["subtime"] - number * WEEK_S for job in jobs] == places
    assert [job["id"] for job in made.jobs] == list(range(1, len(made.jobs) + 1))
    assert len({job["user"] for job in made.jobs}) == 30  # each draw is another user


def test_a_long_term_user_is_shifted_as_a_whole() -> None:
    log = workload(*[("ann", week + 0.1 * (week % 3)) for week in range(15)])
    gaps = [b["subtime"] - a["subtime"] for a, b in zip(log.jobs, log.jobs[1:], strict=False)]
    rotations = {tuple(round(0.1 * ((week + shift) % 15 % 3) * WEEK_S) for week in range(15)) for shift in range(15)}
    found = set()
    for seed in range(40):
        made = resample(log, Resampling(), seed)
        assert len(made.jobs) == 15
        assert {job["user"] for job in made.jobs} == {"ann"}
        found.add(tuple(job["subtime"] - week * WEEK_S for week, job in enumerate(made.jobs)))
    assert found <= rotations
    assert len(found) > 1
    assert len(gaps) == 14


def test_temporary_users_that_came_before_are_still_there() -> None:
    """Each of 20 users stays for 5 weeks, one job a week, and one comes each week: five are active at any time."""
    log = workload(*[(f"u{k}", k + own) for k in range(20) for own in range(5)])
    counts = [0] * 40
    for made in resamples(log, 30, Resampling(weeks=40), seed=1):
        for job in made.jobs:
            counts[int(job["subtime"] // WEEK_S)] += 1
    means = [count / 30 for count in counts]
    assert min(means) > 3  # of 5 · 20/24 = 4.17: no arrivals in four of the 24 weeks of the log
    assert abs(sum(means[:5]) - sum(means[-5:])) < 4  # the first weeks are like the last


def test_the_same_seed_gives_the_same_log_and_other_seeds_others() -> None:
    first, again, other = (text_of(resample(STAIRS, Resampling(), seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len({text_of(made) for made in resamples(STAIRS, 5, Resampling(weeks=20), 3)}) == 5


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", None]), st.floats(0, 20)), min_size=3, max_size=60, unique_by=str
    ),
    st.integers(1, 30),
    st.integers(0, 3),
)
def test_jobs_keep_their_place_in_the_week_and_their_fields(
    jobs: list[tuple[str | None, float]], weeks: int, seed: int
) -> None:
    log = workload(*jobs, ("a", 0.0), ("b", 21.0))
    try:
        made = resample(log, Resampling(weeks, long_term_weeks=5), seed)
    except InputError as error:
        assert "no job is left" in str(error)
        return
    places = {job["subtime"] % WEEK_S for job in log.jobs}  # the first submission is at 0
    times = [job["subtime"] for job in made.jobs]
    assert times == sorted(times)
    assert all(0 <= at < weeks * WEEK_S for at in times)
    assert {at % WEEK_S for at in times} <= places
    assert {str(job.get("user")).partition(".")[0] for job in made.jobs} <= {"a", "b", "c", "None"}


def test_dependencies_stay_within_a_copy_of_a_user() -> None:
    log = workload(*[("ann", week + part) for week in range(3) for part in (0.1, 0.2)], ("bob", 2.9))
    for before, job in zip(log.jobs[::2], log.jobs[1::2], strict=False):
        job |= {"depends_on": before["id"], "think_time": 5}
    made = resample(log, Resampling(weeks=12), 3)
    by_id = {job["id"]: job for job in made.jobs}
    followers = [job for job in made.jobs if "depends_on" in job]
    assert followers
    for job in followers:
        assert by_id[job["depends_on"]]["user"] == job["user"]
        assert job["subtime"] - by_id[job["depends_on"]]["subtime"] == round(0.1 * WEEK_S)
    assert all(("think_time" in job) == ("depends_on" in job) for job in made.jobs)


@pytest.mark.parametrize("seed", range(4))
def test_a_job_depends_on_the_latest_earlier_one(seed: int) -> None:
    """Ann's three weeks come again every three weeks; each week's second job follows the first job of that week."""
    log = workload(*[("ann", week + part) for week in range(3) for part in (0.1, 0.2)])
    for before, job in zip(log.jobs[::2], log.jobs[1::2], strict=True):
        job |= {"depends_on": before["id"], "think_time": 5}
    made = resample(log, Resampling(weeks=12, long_term_weeks=3), seed)
    assert [job.get("depends_on") for job in made.jobs] == [k if k % 2 else None for k in range(24)]


def test_a_job_does_not_depend_on_a_later_one() -> None:
    """The job of the second week depends on that of the first. If the second week comes first, it depends on none."""
    log = workload(("ann", 0.1), ("ann", 1.2))
    log.jobs[1] |= {"depends_on": 1, "think_time": 5}
    found = {
        tuple(job.get("depends_on") for job in resample(log, Resampling(long_term_weeks=2), seed).jobs)
        for seed in range(10)
    }
    assert found == {(None, 1), (None, None)}


def test_the_load_is_that_of_more_users() -> None:
    rng_jobs = [(f"u{k % 40}", (k * 7919 % 30_000) / 1000) for k in range(3000)]
    log = workload(*rng_jobs, run_s=20_000)
    before = pb_load(log)
    for load in (0.5 * before, 1.0 * before, 2.0 * before):
        made = [resample(log, Resampling(weeks=30, load=load), seed) for seed in range(5)]
        assert sum(map(pb_load, made)) / 5 == pytest.approx(load, rel=0.1)
    users = [len({job["user"] for job in resample(log, Resampling(load=f * before), 1).jobs}) for f in (0.5, 1, 2)]
    assert users[0] < users[1] < users[2]


def test_a_load_of_jobs_without_work_is_an_error() -> None:
    with pytest.raises(InputError, match=r"w\.json: load: expected jobs that need processors for some time"):
        resample(workload(("a", 0), ("a", 1.5), run_s=0), Resampling(load=0.5))


def pb_load(log: Workload) -> float:
    return next(one for one in checks(log, log) if one.name == "offered load").log


def test_checks_of_a_log_with_itself_and_distances_as_scipy_has_them() -> None:
    assert all(one.log == one.resample for one in checks(STAIRS, STAIRS))
    a, b = [1.0, 2.0, 2.0, 5.0], [2.0, 5.0, 5.0]
    assert _distance(a, b) == pytest.approx(stats.ks_2samp(a, b).statistic)


@pytest.mark.parametrize(
    ("log", "options", "text"),
    [
        (workload((None, 0.0), (None, 3.0)), {}, "resample: expected jobs with the field user, found none"),
        (workload(("a", 0.0), ("a", 0.5)), {}, "resample: expected a log of 2 weeks or more, found 1"),
        (STAIRS, {"weeks": 0}, "resample: weeks: expected 1 to 10,000, found 0"),
        (STAIRS, {"load": -1.0}, "resample: load: expected an offered load above 0 and at most 10"),
        (STAIRS, {"load": 1e-9}, "no job is left in 5 weeks"),
    ],
)
def test_bad_input(log: Workload, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as error:
        resample(log, Resampling(**options))
    assert text in str(error.value)


def test_the_command_writes_a_log_and_compares_it(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(text_of(STAIRS))
    done = run_cli("workload", "resample", "w.json", "--weeks", "8", "--seed", "1", "--output", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "jobs per week" in done.stdout
    assert "locality of users" in done.stdout
    content = json.loads((tmp_path / "r.json").read_text())
    assert content["resampled"] == {"weeks": 8, "long_term_weeks": 12, "seed": 1}
    (tmp_path / "none.json").write_text(text_of(workload((None, 0.0), (None, 3.0))))
    for words, text in (
        (("none.json",), "none.json: resample: expected jobs with the field user"),
        (("w.json", "--load=-2"), "resample: load: expected an offered load above 0"),
        (("w.json", "--weeks", "0"), "expected a whole number, 1 or more"),
    ):
        done = run_cli("workload", "resample", *words, "--output", "x.json", cwd=tmp_path)
        assert done.returncode == 2
        assert text in done.stderr
        assert not (tmp_path / "x.json").exists()


def test_resamples_of_a_campaign(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(text_of(STAIRS))
    given: dict[str, Any] = {"name": "log", "file": "w.json", "resample": {"n": 3, "weeks": 6}, "shake": {"n": 2}}
    found = Preparer(tmp_path, [tmp_path]).prepare(WorkloadTable.model_validate(given), 1)
    names = [f"log-resample{k:02}-shake{copy:02}" for k in (1, 2, 3) for copy in (1, 2)]
    assert [one.name for one in found] == names
    assert len({one.digest for one in found}) == 6
    for members, text in (
        ({"weeks": "all"}, "resample: cannot be used with weeks or change"),
        ({"warm_up": "1d"}, "resample: cannot be used with warm_up or cool_down"),
        ({"resample": {"load": 0}}, "expected a number above 0, found 0"),
    ):
        with pytest.raises(ValidationError, match=text):
            WorkloadTable.model_validate(given | members)


def test_a_resampled_log_in_python(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(text_of(STAIRS))
    log = pb.read_workload(tmp_path / "w.json")
    made = log.resample(weeks=7, seed=3)
    assert made.name == "w-resample03"
    assert pb.simulate(made, "easy", progress=False).figures["n_jobs"] == len(made)


@pytest.mark.long
def test_resamples_of_a_real_log_keep_what_they_should() -> None:
    log = pb.read_workload(real("KTH-SP2-1996-2.swf.gz"))
    for seed in (1, 2, 3):
        found = {one.name: one for one in checks(log.workload, log.resample(seed=seed).workload)}
        for name in ("jobs per week", "users per week", "offered load", "locality of users"):
            assert found[name].resample == pytest.approx(found[name].log, rel=0.15)
        assert found["difference of sizes"].resample < 0.06
        assert found["difference of run times"].resample < 0.06
        assert found["difference of the daily cycle"].resample < 0.02
        assert found["difference of the weekly cycle"].resample < 0.03


@pytest.mark.long
def test_a_resampled_study_as_a_whole(tmp_path: Path) -> None:
    """From a log to a conclusion: SJBF against EASY on resamples of KTH-SP2, by paired bootstrap."""
    log = real("KTH-SP2-1996-2.swf.gz")
    (tmp_path / "study.toml").write_text(
        f'name = "study"\n[[workload]]\nname = "kth"\nfile = "{log.name}"\nresample = {{ n = 8, weeks = 8 }}\n'
        '[[platform]]\nname = "own"\nof_workload = true\n[[policy]]\nname = "easy"\n'
        '[[policy]]\nname = "easy"\nlabel = "sjbf"\noptions = { backfill_order = "sjf" }\n'
    )
    args = ("--traces", str(log.parent), "--output", "out", "-q")
    assert run_cli("campaign", "run", "study.toml", *args, cwd=tmp_path).returncode == 0
    found = pb.read_campaign(tmp_path / "out").against("easy", figures="mean_bounded_slowdown").to_dicts()
    assert [(row["policy"], row["n"]) for row in found] == [("sjbf", 8)]
    assert found[0]["p_better"] > 0.9
