"""Deadlines, urgent jobs and moldable types: which jobs get them, seeded random numbers, and no other changes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.workload.formats import batsim4
from pybatsched.workload.inject.steps import Deadlines, Moldable, Step, Urgent, step_of
from pybatsched.workload.inject.urgent import UrgentJob, offered_load
from pybatsched.workload.model import Workload

HOUR = 3600
DAY = 24 * HOUR


def workload(*jobs: tuple[float, int, float], procs: int = 640, queue: tuple[Any, ...] = ()) -> Workload:
    """A workload of jobs submitted at some time, of some processors, for some seconds; exact estimates."""
    rows = [
        {"id": i, "subtime": at, "res": size, "profile": str(run), "walltime": run + 1, "estimate": run}
        for i, (at, size, run) in enumerate(jobs, 1)
    ]
    for row, name in zip(rows, queue, strict=False):
        row["queue"] = name
    profiles = {str(run): {"type": "delay", "delay": run} for _, _, run in jobs}
    return Workload(rows, profiles, procs, "here", {"note": "kept"})


def steady(n: int, gap_s: int = 600) -> Workload:
    return workload(*((i * gap_s, 1 + i % 4, 3000) for i in range(n)))


def places(made: Workload, field: str) -> list[int]:
    return [place for place, job in enumerate(made.jobs) if field in job]


STEPS = [
    Deadlines(every=3),
    Deadlines(share=1 / 3),
    Urgent(every_s=5000),
    Urgent(every_s=5000, busy=0.01),
    Urgent(probability=0.3),
    Urgent(probability=0.3, busy=0.01),
    Urgent(jobs=(UrgentJob(3, 60, 20_000), UrgentJob(640, 0.5, 0), UrgentJob(1, 60, 20_000))),
    Urgent(share=0.4),
    Moldable(),
]


@pytest.mark.parametrize("step", STEPS, ids=repr)
@given(
    jobs=st.lists(st.tuples(st.integers(0, 40_000), st.integers(1, 640), st.integers(1, 9000)), min_size=1),
    seed=st.integers(0, 2**31 - 1),
)
def test_nothing_else_changes(step: Step, jobs: list[tuple[float, int, float]], seed: int) -> None:
    before = workload(*jobs)
    untouched = copy.deepcopy(before)
    made = step.applied(before, seed)
    assert before == untouched
    assert step.applied(before, seed) == made  # the same random numbers
    assert len({str(job["id"]) for job in made.jobs}) == len(made.jobs)
    assert [job["subtime"] for job in made.jobs] == sorted(job["subtime"] for job in made.jobs)
    assert all(job["profile"] in made.profiles for job in made.jobs)
    assert made.profiles.items() >= before.profiles.items()
    new = {"max_stay", "urgent", "moldable"}
    bare = [{key: value for key, value in job.items() if key not in new} for job in made.jobs]
    own = [job for job in bare if not str(job["id"]).startswith("urgent")]
    assert own == sorted(before.jobs, key=lambda job: job["subtime"])
    assert made.about.items() >= before.about.items()
    assert (made.n_procs, made.source) == (before.n_procs, before.source)


def test_the_changed_workload_can_be_read(tmp_path: Path) -> None:
    made = Moldable().applied(Urgent(every_s=5000).applied(Deadlines(every=3).applied(steady(60), 1), 1), 1)
    batsim4.write(made, tmp_path / "w.json")
    assert batsim4.read(tmp_path / "w.json").jobs == made.jobs


def test_every_third_job_case_a_and_case_b() -> None:
    before = workload((0, 1, 60), (1, 1, 60), (2, 1, 20 * HOUR), (3, 1, 60), (4, 1, 60), (5, 1, 60), (6, 1, 60))
    case_a = Deadlines(every=3, first=2, least_s=24 * HOUR).applied(before, 0)
    case_b = Deadlines(every=3, first=2, least_s=72 * HOUR).applied(before, 0)
    assert [(job["id"], job["max_stay"]) for job in case_a.jobs if "max_stay" in job] == [(3, 40 * HOUR), (6, DAY)]
    assert [(job["id"], job["max_stay"]) for job in case_b.jobs if "max_stay" in job] == [(3, 3 * DAY), (6, 3 * DAY)]


@pytest.mark.parametrize(("of", "stay"), [("estimate", 2 * HOUR), ("walltime", 2 * HOUR + 2), ("runtime", HOUR)])
def test_deadlines_are_multiples_of_the_chosen_time(of: str, stay: int) -> None:
    before = workload((0, 1, HOUR))
    before.profiles[str(HOUR)] = {"type": "delay", "delay": HOUR / 2}
    made = step_of(Deadlines, {"every": 1, "least_s": 0, "of": of}).applied(before, 0)
    assert made.jobs[0]["max_stay"] == stay


def test_a_random_third_has_about_a_third_of_jobs_and_depends_on_the_seed() -> None:
    before = steady(3000)
    found = [places(Deadlines(share=1 / 3).applied(before, seed), "max_stay") for seed in (1, 2)]
    assert found[0] != found[1]
    assert all(900 < len(chosen) < 1100 for chosen in found)


def test_an_old_deadline_is_replaced() -> None:
    before = workload((0, 1, 60))
    before.jobs[0]["deadline"] = 100
    (job,) = Deadlines(every=1).applied(before, 0).jobs
    assert ("deadline" in job, job["max_stay"]) == (False, DAY)


def test_an_injected_job() -> None:
    made = Urgent(every_s=DAY, kinds=((256, 390),)).applied(workload((0, 1, 60), (DAY, 2, 60)), 5)
    (job,) = [job for job in made.jobs if "urgent" in job]
    at = job.pop("subtime")
    assert job == {
        "id": "urgent1", "res": 256, "profile": "urgent390", "walltime": 391, "estimate": 390, "urgent": True,
    }  # fmt: skip
    assert made.profiles["urgent390"] == {"type": "delay", "delay": 390}
    assert (0 <= at - DAY < HOUR, at % 60) == (True, 0)
    assert made.about["urgent"] == {"injected": 1, "seed": 5}


def test_one_for_each_period() -> None:
    before = steady(1000)  # almost seven days
    made = Urgent(every_s=DAY).applied(before, 3)
    found = [job for job in made.jobs if "urgent" in job]
    assert [job["subtime"] // DAY for job in found] == [1, 2, 3, 4, 5, 6]
    assert all(job["subtime"] % DAY < HOUR and job["subtime"] % 60 == 0 for job in found)
    other = [job["subtime"] for job in Urgent(every_s=DAY).applied(before, 4).jobs if "urgent" in job]
    assert other != [job["subtime"] for job in found]


def test_kinds_are_equally_likely() -> None:
    made = Urgent(probability=1.0).applied(steady(3000), 1)
    found = [(job["res"], job["estimate"]) for job in made.jobs if "urgent" in job]
    assert len(found) == 3000
    assert {kind: 900 < found.count(kind) < 1100 for kind in set(found)} == {
        (128, 600): True,
        (256, 390): True,
        (512, 240): True,
    }


def test_the_probability_is_that_of_an_arrival() -> None:
    before = steady(5000)
    made = Urgent(probability=0.1).applied(before, 1)
    found = [job["subtime"] for job in made.jobs if "urgent" in job]
    assert 400 < len(found) < 600
    assert set(found) <= {job["subtime"] for job in before.jobs}
    first = places(made, "urgent")[0]
    assert made.jobs[first - 1]["subtime"] == made.jobs[first]["subtime"]  # it comes after the jobs of that instant


def test_offered_load() -> None:
    before = workload((0, 3, 100), (50, 5, 100), (50, 1, 10), (200, 2, 1), procs=10)
    assert offered_load(before, [0, 49, 50, 60, 100, 149, 150, 200, 201]) == [0.3, 0.3, 0.9, 0.8, 0.5, 0.5, 0, 0.2, 0]
    before.jobs[0]["walltime"] = 20  # is killed then
    assert offered_load(before, [19, 20]) == [0.3, 0]
    before.profiles["100"] = {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}
    assert offered_load(before, [150]) == [0.5]  # nothing but the walltime, 101 s, is known
    del before.jobs[1]["walltime"]
    with pytest.raises(
        InputError, match="here: job 2: the offered load needs a profile of delays or a walltime, found neither"
    ):
        offered_load(before, [0])


def test_urgent_jobs_are_added_only_in_busy_periods() -> None:
    before = workload((0, 1, 60), (5000, 9, 60), (9000, 9, 5000), (9500, 1, 60), (30_000, 9, 60), procs=10)
    how = {"every_s": 6000, "kinds": [[10, 60]]}
    made = step_of(Urgent, how | {"busy": 0.85}).applied(before, 1)
    found = [job["subtime"] for job in made.jobs if "urgent" in job]
    assert [at - begin < HOUR for at, begin in zip(found, (9000, 30_000), strict=True)] == [True, True]
    assert not places(step_of(Urgent, how | {"busy": 1.1}).applied(before, 1), "urgent")
    arrivals = step_of(Urgent, {"probability": 1.0, "busy": 0.95, "kinds": [[10, 60]]}).applied(before, 1)
    assert [job["subtime"] for job in arrivals.jobs if "urgent" in job] == [9500]


def test_a_higher_load_limit_adds_fewer_jobs() -> None:
    before = steady(2000)

    def instants(busy: float) -> set[float]:
        made = Urgent(probability=0.2, busy=busy).applied(before, 1)
        return {job["subtime"] for job in made.jobs if "urgent" in job}

    assert instants(0.018) < instants(0.001)


def test_used_ids_and_profile_names_are_avoided() -> None:
    before = workload((0, 1, 60), (DAY, 2, 60))
    before.jobs[0] |= {"id": "urgent1", "profile": "urgent240"}
    before.profiles["urgent240"] = {"type": "delay", "delay": 1}
    made = Urgent(every_s=DAY, kinds=((2, 240),)).applied(before, 0)
    (job,) = [job for job in made.jobs if "urgent" in job]
    assert (job["id"], job["profile"]) == ("urgent2", "urgent240-2")
    assert made.profiles["urgent240"] == {"type": "delay", "delay": 1}


def test_urgent_jobs_that_are_too_large() -> None:
    before = workload((0, 1, 60), procs=300)
    with pytest.raises(
        InputError, match=r"here: urgent jobs of 512 processors: expected at most 300, the size of the machine"
    ):
        Urgent(every_s=DAY).applied(before, 0)


def test_jobs_of_queues_are_marked() -> None:
    before = workload(*((i, 1, 60) for i in range(4)), queue=("sx_rout", 7, "other"))
    assert places(step_of(Urgent, {"queues": ["sx_rout"]}).applied(before, 0), "urgent") == [0]
    made = step_of(Urgent, {"queues": ["sx_rout", 7]}).applied(before, 0)
    assert (places(made, "urgent"), made.jobs[1]["urgent"]) == ([0, 1], True)
    with pytest.raises(InputError, match=r"expected a queue of the jobs \(7, other, sx_rout\), found 'dwd'"):
        step_of(Urgent, {"queues": ["dwd"]}).applied(before, 0)


def test_a_share_is_marked() -> None:
    before = workload(*((i, 1, 60) for i in range(3000)), queue=("a", "b") * 1500)
    assert 500 < len(places(Urgent(share=0.2).applied(before, 1), "urgent")) < 700
    some = places(Urgent(share=0.2, queues=("b",)).applied(before, 1), "urgent")
    assert 250 < len(some) < 350
    assert all(place % 2 for place in some)


def test_jobs_given_explicitly_are_added() -> None:
    """Each at its instant, after the jobs of that instant, and named in the given order."""
    before = workload((0, 1, 60), (7200, 2, 60), (7200, 3, 60))
    given = [[128, 600, 7200], [256, "6.5m", "1h"], [512, 240.5, 7200], [1, "60", 0], [2, "1w", 1e7]]
    made = step_of(Urgent, {"jobs": given}).applied(before, 0)
    assert [(job["id"], job["subtime"], job["res"]) for job in made.jobs] == [
        (1, 0, 1),
        ("urgent4", 0, 1),
        ("urgent2", 3600, 256),
        (2, 7200, 2),
        (3, 7200, 3),
        ("urgent1", 7200, 128),
        ("urgent3", 7200, 512),
        ("urgent5", 10_000_000, 2),
    ]
    assert made.jobs[2] == {
        "id": "urgent2", "subtime": 3600, "res": 256, "profile": "urgent390", "walltime": 391, "estimate": 390,
        "urgent": True,
    }  # fmt: skip
    delays = [made.profiles[job["profile"]] for job in made.jobs if "urgent" in job]
    assert delays == [{"type": "delay", "delay": run_s} for run_s in (60, 390, 600, 240.5, 7 * DAY)]
    assert made.about["urgent"] == {"injected": 5}


def test_jobs_given_explicitly_are_not_random() -> None:
    step = step_of(Urgent, {"jobs": [[128, 600, 7200]]})
    assert not step.is_random
    assert step.applied(steady(20), 1) == step.applied(steady(20), 2)
    again = step_of(Urgent, json.loads(step.model_dump_json(exclude_unset=True)))
    assert again == step


@given(
    jobs=st.lists(st.tuples(st.integers(0, 100), st.integers(1, 640), st.integers(1, 9000)), min_size=1),
    urgent=st.lists(
        st.builds(UrgentJob, st.integers(1, 640), st.integers(1, 10**9), st.integers(0, 120 * 10**6)), min_size=1
    ),
)
def test_jobs_given_explicitly_have_the_given_values(
    jobs: list[tuple[float, int, float]], urgent: list[UrgentJob]
) -> None:
    """Also on Batsim's tick: times of whole microseconds."""
    wanted = [UrgentJob(n_procs, run_s / 1e6, at / 1e6) for n_procs, run_s, at in urgent]
    before = workload(*jobs)
    made = Urgent(jobs=tuple(wanted)).applied(before, 0)
    by_id = {job["id"]: job for job in made.jobs}
    found = [by_id[f"urgent{number}"] for number in range(1, len(wanted) + 1)]
    assert [(job["res"], made.profiles[job["profile"]]["delay"], job["subtime"]) for job in found] == wanted
    assert len(made.jobs) == len(before.jobs) + len(wanted)
    place = {job["id"]: index for index, job in enumerate(made.jobs)}
    order = sorted(range(len(wanted)), key=lambda index: wanted[index].at)  # equal instants: as given
    assert sorted(range(len(wanted)), key=lambda index: place[f"urgent{index + 1}"]) == order


def test_a_job_given_explicitly_that_is_too_large_is_rejected() -> None:
    step = step_of(Urgent, {"jobs": [[300, 60, 0], [301, 60, "2h"]]})
    message = (
        r"^here: urgent job 2 of 2, at 7,200 s, has 301 processors: expected at most 300, the size of the machine$"
    )
    with pytest.raises(InputError, match=message):
        step.applied(workload((0, 1, 60), procs=300), 0)


def test_types_are_drawn_and_sequential_jobs_stay() -> None:
    before = steady(8000)
    made = Moldable().applied(before, 1)
    found = [(job["moldable"]["fraction"], job["moldable"]["limit"]) for job in made.jobs if "moldable" in job]
    assert all(("moldable" in job) == (job["res"] > 1) for job in made.jobs)
    shares = {kind: found.count(kind) / len(found) for kind in set(found)}
    wanted = {(0.8, 32): 0.5, (0.9, 96): 0.3, (0.99, 256): 0.15, (0.999, 650): 0.05}
    assert shares == pytest.approx(wanted, abs=0.02)
    assert sum(kind["n"] for kind in made.about["moldable"]["types"]) == 6000
    assert Moldable().applied(before, 2).jobs != made.jobs


def test_own_moldable_types_are_used() -> None:
    half = step_of(Moldable, {"types": [{"fraction": 0.5, "limit": 4, "share": 0.5}]})
    made = half.applied(steady(4000), 1)
    assert 1400 < len(places(made, "moldable")) < 1600  # of 3,000 that are parallel
    assert {json.dumps(job["moldable"]) for job in made.jobs if "moldable" in job} == {'{"fraction": 0.5, "limit": 4}'}


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (Deadlines, {}, "expected either every or share"),
        (Deadlines, {"share": 0.5, "first": 2}, "first: works only with every"),
        (Deadlines, {"every": 3, "of": "luck"}, "of: expected one of estimate, walltime, runtime"),
        (Urgent, {}, "expected exactly one of: every_s; probability; jobs; queues and share"),
        (Urgent, {"every_s": 60, "share": 0.1},
         "expected exactly one of: every_s; probability; jobs; queues and share"),
        (Urgent, {"every_s": 60, "jobs": [[1, 1, 1]]},
         "expected exactly one of: every_s; probability; jobs; queues and share"),
        (Urgent, {"probability": 0.1, "jobs": [[1, 1, 1]]},
         "expected exactly one of: every_s; probability; jobs; queues and share"),
        (Urgent, {"queues": ["a"], "jobs": [[1, 1, 1]]},
         "expected exactly one of: every_s; probability; jobs; queues and share"),
        (Urgent, {"share": 0.1, "jobs": [[1, 1, 1]]},
         "expected exactly one of: every_s; probability; jobs; queues and share"),
        (Urgent, {"jobs": [[1, 1, 1]], "busy": 0.5}, "busy: works only with every_s or probability"),
        (Urgent, {"jobs": [[1, 1, 1]], "kinds": [[1, 1]]}, "kinds: works only with every_s or probability"),
        (Urgent, {"jobs": []}, "jobs: expected a list of at least 1 value, found []"),
        (Urgent, {"jobs": 5}, "jobs: expected a list, found 5"),
        (Urgent, {"jobs": [5, 60, 0]},
         "jobs 1: expected [processors, seconds, instant], such as [256, 390, 86400], found 5"),
        (Urgent, {"jobs": [[1, 1, 1, 1]]}, "jobs 1: expected [processors, seconds, instant]"),
        (Urgent, {"jobs": ["256:390:1d"]},
         'jobs 1: expected [processors, seconds, instant], such as [256, 390, 86400], found "256'),
        (Urgent, {"jobs": [[1, 1, 1], [0, 60, 0]]},
         "jobs 2: processors: expected a whole number from 1 to 2,147,483,647, found 0"),
        (Urgent, {"jobs": [[-4, 60, 0]]}, "jobs 1: processors: expected a whole number from 1"),
        (Urgent, {"jobs": [[True, 60, 0]]}, "processors: expected a whole number from 1 to 2,147,483,647, found true"),
        (Urgent, {"jobs": [["4", 60, 0]]}, 'processors: expected a whole number from 1 to 2,147,483,647, found "4"'),
        (Urgent, {"jobs": [[4.5, 60, 0]]}, "processors: expected a whole number from 1 to 2,147,483,647, found 4.5"),
        (Urgent, {"jobs": [[10**20, 60, 0]]},
         "processors: expected a whole number from 1 to 2,147,483,647, found 1000"),
        (Urgent, {"jobs": [[4, 0, 0]]}, "jobs 1: run time: expected seconds, 1e-06 or more and below 2^53, found 0"),
        (Urgent, {"jobs": [[4, "0m", 0]]}, "run time: expected seconds, 1e-06 or more"),
        (Urgent, {"jobs": [[4, 1e-9, 0]]}, "run time: expected seconds, 1e-06 or more and below 2^53, found 1e-09"),
        (Urgent, {"jobs": [[4, False, 0]]}, "run time: expected seconds, 1e-06 or more and below 2^53, found false"),
        (Urgent, {"jobs": [[4, None, 0]]}, "run time: expected seconds, 1e-06 or more and below 2^53, found null"),
        (Urgent, {"jobs": [[4, float("nan"), 0]]}, "run time: expected seconds"),
        (Urgent, {"jobs": [[4, 60, -1]]}, "jobs 1: instant: expected seconds, 0 or more and below 2^53, found -1"),
        (Urgent, {"jobs": [[4, 60, "-1h"]]},
         "instant: expected seconds, or a number with m, h, d or w as in 12h, found -1h"),
        (Urgent, {"jobs": [[4, 60, [5]]]}, "instant: expected seconds, 0 or more and below 2^53, found [5]"),
        (Urgent, {"jobs": [[4, 60, 2**53]]},
         "instant: expected seconds, 0 or more and below 2^53, found 9007199254740992"),
        (Urgent, {"jobs": [[4, 60, 10**30]]}, "instant: expected seconds, 0 or more and below 2^53, found 1000"),
        (Urgent, {"jobs": [[4, "1e300w", 0]]}, "run time: expected seconds, 1e-06 or more and below 2^53"),
        (Urgent, {"jobs": [[4, "1e999", 0]]}, "run time: expected seconds, or a number with m, h, d or w"),
        (Urgent, {"queues": ["a"], "busy": 0.5}, "busy: works only with every_s or probability"),
        (Urgent, {"every_s": 60, "kinds": []}, "kinds: expected a list of at least 1 value, found []"),
        (Urgent, {"every_s": 60, "kinds": [[0, 5]]}, "kinds 1.1: expected more than 0"),
        (Urgent, {"probability": 1.5}, "probability: expected at most 1"),
        (Moldable, {"types": [{"fraction": 0.5, "limit": 4, "share": 0.6}] * 2}, "a sum of shares of at most 1"),
        (Moldable, {"colour": 1}, "unknown key 'colour'; expected one of types"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_named(kind: type[Step], given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        step_of(kind, given)
    assert message in str(error.value)


def inject(place: Path, *args: str) -> tuple[int, str, str]:
    done = run_cli("workload", "inject", str(place / "w.json"), *args)
    return done.returncode, done.stdout, done.stderr


def test_the_command_is_the_step(tmp_path: Path) -> None:
    batsim4.write(workload(*((i * 900, 2, 600) for i in range(300)), queue=("a", "b") * 150), tmp_path / "w.json")
    before = batsim4.read(tmp_path / "w.json")
    out = tmp_path / "o.json"
    for args, step, seed in (
        (
            ("deadlines", "--every", "3", "--first", "3", "--least", "72h"),
            Deadlines(every=3, first=2, least_s=3 * DAY),
            0,
        ),
        (("deadlines", "--share", "0.3", "--of", "walltime", "--seed", "4"), Deadlines(share=0.3, of="walltime"), 4),
        (("urgent", "--every", "12h", "--busy", "0.001", "--seed", "2"), Urgent(every_s=DAY / 2, busy=0.001), 2),
        (("urgent", "--probability", "0.1", "--kind", "2:10m"), Urgent(probability=0.1, kinds=((2, 600),)), 0),
        (
            ("urgent", "--at", "2:6.5m:12h", "--at", "4:390s:100", "--at", "0640:60:3d"),
            Urgent(jobs=(UrgentJob(2, 390, DAY / 2), UrgentJob(4, 390, 100), UrgentJob(640, 60, 3 * DAY))),
            0,
        ),
        (("urgent", "--queue", "b", "--share", "0.5", "--seed", "9"), Urgent(queues=("b",), share=0.5), 9),
        (("moldable", "--seed", "3"), Moldable(), 3),
    ):
        code, output, errors = inject(tmp_path, *args, "--output", str(out))
        assert code == 0, errors
        assert f"wrote {out}" in output
        assert out.read_text() == batsim4.text_of(step.applied(before, seed))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("deadlines", "--every", "3", "--output", "o.xml"), "expected a file name that ends in .json"),
        (
            ("urgent", "--output", "o.json"),
            "urgent: expected exactly one of: every_s; probability; jobs; queues and share",
        ),
        (("urgent", "--every", "soon", "--output", "o.json"), "--every: expected seconds"),
        (("urgent", "--every", "1h", "--kind", "big", "--output", "o.json"), "--kind big: expected PROCESSORS:SECONDS"),
        (("urgent", "--every", "1h", "--kind", "999:1", "--output", "o.json"), "urgent jobs of 999 processors"),
        (("urgent", "--every", "1h", "--kind", f"{'9' * 5000}:1", "--output", "o.json"), "expected PROCESSORS:SECONDS"),
        (("urgent", "--at", "8:60", "--output", "o.json"), "urgent: --at 8:60: expected PROCESSORS:SECONDS:INSTANT"),
        (("urgent", "--at", "8:60:1:2", "--output", "o.json"), "--at 8:60:1:2: expected PROCESSORS:SECONDS:INSTANT"),
        (("urgent", "--at=-8:60:1", "--output", "o.json"), "--at -8:60:1: expected PROCESSORS:SECONDS:INSTANT"),
        (("urgent", "--at", f"{'9' * 5000}:60:1", "--output", "o.json"), "expected PROCESSORS:SECONDS:INSTANT"),
        (("urgent", "--at", "0:60:1", "--output", "o.json"), "--at 0:60:1: processors: expected a whole number from 1"),
        (("urgent", "--at", "8:0:1", "--output", "o.json"), "--at 8:0:1: run time: expected seconds, 1e-06 or more"),
        (("urgent", "--at", "8:60:-1", "--output", "o.json"), "--at 8:60:-1: instant: expected seconds, or a number"),
        (("urgent", "--at", "8::1", "--output", "o.json"), "--at 8::1: run time: expected seconds"),
        (("urgent", "--at", "8:60:1e99", "--output", "o.json"), "--at 8:60:1e99: instant: expected seconds, 0 or more"),
        (("urgent", "--at", "999:60:5", "--output", "o.json"), "w.json: urgent job 1 of 1, at 5 s, has 999 processors"),
        (("moldable", "--type", "1:2", "--output", "o.json"), "--type 1:2: expected FRACTION:LIMIT:SHARE"),
        (("moldable", "--seed", "-1", "--output", "o.json"), "a whole number, 0 or more"),
    ],
)
def test_invalid_arguments_are_rejected(args: tuple[str, ...], message: str, tmp_path: Path) -> None:
    batsim4.write(steady(10), tmp_path / "w.json")
    code, _, errors = inject(tmp_path, *args)
    assert (code, message in errors) == (2, True), errors
    code, _, errors = inject(tmp_path, "moldable", "--output", str(tmp_path / "w.json"))
    assert (code, "is an input of this command; expected another output file" in errors) == (2, True)


@pytest.mark.parametrize(
    "other",
    [
        ("--every", "1h"),
        ("--probability", "0.1"),
        ("--busy", "0.5"),
        ("--kind", "2:60"),
        ("--queue", "a"),
        ("--share", "0.5"),
    ],
)
def test_jobs_given_explicitly_exclude_other_options(other: tuple[str, str], tmp_path: Path) -> None:
    batsim4.write(steady(10), tmp_path / "w.json")
    code, _, errors = inject(tmp_path, "urgent", "--at", "8:60:5", *other, "--output", str(tmp_path / "o.json"))
    assert (code, f"urgent: {other[0]}: cannot be used with --at" in errors) == (2, True), errors
    assert not (tmp_path / "o.json").exists()


def test_jobs_given_explicitly_need_no_seed(tmp_path: Path) -> None:
    batsim4.write(steady(10), tmp_path / "w.json")
    _, output, _ = inject(tmp_path, "urgent", "--at", "8:60:5", "--seed", "7", "--output", str(tmp_path / "o.json"))
    assert output.splitlines()[0] == "urgent: 1 job urgent"
