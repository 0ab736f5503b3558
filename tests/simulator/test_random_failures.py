"""Random failures, and failures from a log: their times, their files, and runs with them."""

from __future__ import annotations

import csv
import itertools
import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.process import run_cli

import pybatsched as pb
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.platform import model
from pybatsched.simulator import external_events, failure_events
from pybatsched.simulator.external_events import AVAILABLE, UNAVAILABLE
from pybatsched.simulator.failure_events import FailureModel
from pybatsched.simulator.simulation import SimulatedRun

DAY_S = 86_400.0
HOUR_S = 3_600.0


def model_of(**settings: Any) -> FailureModel:
    return FailureModel.of_settings({"mtbf": "10d", **settings})


@examples(60)
@given(
    st.sampled_from(["node", "system"]),
    st.sampled_from(["exponential", "weibull:0.7", "weibull:2"]),
    st.sampled_from(["1h", "exponential:2h", "lognormal:1h:1"]),
    st.integers(0, 50),
    st.sampled_from(["", "rack"]),
)
def test_events_alternate_and_are_in_order(of: str, law: str, repair: str, seed: int, together: str) -> None:
    """As Batsim requires: no host fails twice without a repair; a longer period adds events and changes none."""
    platform = model.uniform(6, properties=[{"rack": f"r{i // 2}"} for i in range(4)] + [{}, {}])
    drawn = model_of(of=of, law=law, repair=repair, seed=seed, together=together).on(platform)
    events = drawn.until(60 * DAY_S)
    away = IntervalSet()
    for before, event in itertools.pairwise([events[0], *events]):
        assert before.at <= event.at
        if event.kind == UNAVAILABLE:
            assert event.at < 60 * DAY_S
            assert event.procs.isdisjoint(away)
            away = away | event.procs
        else:
            assert event.procs.issubset(away)
            away = away - event.procs
        if together:
            assert str(event.procs) in {"0-1", "2-3", "4", "5"}
    assert not away
    longer = drawn.until(90 * DAY_S)
    assert [event for event in longer if event.at < 60 * DAY_S] == [event for event in events if event.at < 60 * DAY_S]


@pytest.mark.parametrize("law", ["exponential", "weibull:0.7", "weibull:1.5"])
@pytest.mark.parametrize("of", ["node", "system"])
def test_the_mean_is_the_mtbf(law: str, of: str) -> None:
    """Over 20,000 failures the mean time between two is within 3 % of the MTBF (shape 0.7: standard error 1 %)."""
    n = 10
    drawn = model_of(mtbf="10d", of=of, law=law, repair="1h", seed=3).on(model.uniform(n))
    events = list(itertools.islice(drawn, 40_000))
    n_failures = sum(event.kind == UNAVAILABLE for event in events)
    per_unit = events[-1].at / n_failures * (n if of == "node" else 1)
    assert per_unit - (HOUR_S if of == "node" else 0) == pytest.approx(10 * DAY_S, rel=0.03)


@pytest.mark.parametrize(
    ("repair", "mean_s"), [("3h", 3), ("exponential:3h", 3), ("lognormal:3h:0.5", 3 * math.exp(0.125))]
)
def test_the_mean_of_repairs(repair: str, mean_s: float) -> None:
    events = list(itertools.islice(model_of(repair=repair).on(model.uniform(1)), 40_000))
    downs = [up.at - down.at for down, up in zip(events[::2], events[1::2], strict=True)]
    assert sum(downs) / len(downs) == pytest.approx(mean_s * HOUR_S, rel=0.03)


def test_seeds_give_other_failures() -> None:
    platform = model.uniform(4)
    first, again, other = (model_of(seed=seed).on(platform).until(100 * DAY_S) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"mtbf": "0"}, "^failures: mtbf: expected a time above 0, such as 30d, found '0'$"),
        ({"mtbf": "soon"}, "^failures: mtbf: expected a time above 0, such as 30d, found 'soon'$"),
        ({}, "^failures: mtbf: is missing; expected a time such as 30d$"),
        ({"mtbf": "1d", "repair": "0"}, "repair: expected a time"),
        ({"mtbf": "1d", "repair": "exponential:0"}, "repair: expected a time"),
        ({"mtbf": "1d", "repair": "lognormal:1h"}, "repair: expected a time"),
        ({"mtbf": "1d", "law": "weibull:0"}, "law: expected exponential"),
        ({"mtbf": "1d", "law": "weibull:0.005"}, "with a shape of 0.01 or more, found 'weibull:0.005'"),
        ({"mtbf": "1d", "law": "normal"}, "law: expected exponential"),
        ({"mtbf": "1d", "of": "rack"}, "of: expected one of node, system, found 'rack'"),
        ({"mtbf": "1d", "seed": "x"}, "seed: expected a whole number, found 'x'"),
        ({"mtbf": "1d", "mttr": "1h"}, "unknown setting 'mttr'"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        FailureModel.of_settings(settings)


def test_an_mtbf_that_leaves_no_machine() -> None:
    with pytest.raises(InputError, match=r"^failures: mtbf: 3600 s .* leaves hardly any machine: 0.4 of 4"):
        FailureModel.of_settings({"mtbf": "1h", "repair": "9h"}).on(model.uniform(4))
    with pytest.raises(InputError, match="leaves hardly any machine: 0 of 4"):
        FailureModel.of_settings({"mtbf": "1h", "of": "system", "repair": "4h"}).on(model.uniform(4))
    expected = r"^failures: together: expected a property of hosts of .*, found 'rack', which no host has$"
    with pytest.raises(InputError, match=expected):
        FailureModel.of_settings({"mtbf": "1d", "together": "rack"}).on(model.uniform(4))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (("--mtbf", "1d", "--fail-together", "rack"), "--fail-together: expected a property of hosts of "),
        (("--mtbf", "1h", "--repair", "9h"), "--mtbf: 3600 s with repairs of 32400 s leaves hardly any machine: "),
    ],
)
def test_mistakes_against_the_machine_name_the_option(wrong: tuple[str, ...], text: str, tmp_path: Path) -> None:
    content = {
        "nb_res": 4,
        "jobs": [{"id": "1", "subtime": 0, "res": 1, "profile": "d"}],
        "profiles": {"d": {"type": "delay", "delay": 1}},
    }
    (tmp_path / "w.json").write_text(json.dumps(content))
    simulated = ("simulate", "-w", "w.json", "--policy", "fcfs", "-e", "o", *wrong)
    written = ("workload", "failures", "--procs", "4", "--until", "9d", "--output", "o.txt", *wrong)
    for args in (simulated, written):
        done = run_cli(*args, cwd=tmp_path)
        assert done.returncode == 2
        assert f"\npybatsched: {text}" in f"\n{done.stderr}"
        assert [path.name for path in tmp_path.iterdir()] == ["w.json"]


def test_a_log_in_seconds(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("node,down,up\n3,50,60\n0,10,20\n1,10,20\n0,20,30.5\n")
    events = failure_events.events_of(failure_events.read_log(log, 4))
    assert [(event.at, event.kind, str(event.procs)) for event in events] == [
        (10, UNAVAILABLE, "0-1"),
        (20, AVAILABLE, "0-1"),
        (20, UNAVAILABLE, "0"),
        (30.5, AVAILABLE, "0"),
        (50, UNAVAILABLE, "3"),
        (60, AVAILABLE, "3"),
    ]


def test_a_log_of_lanl(tmp_path: Path) -> None:
    log = tmp_path / "lanl.csv"
    log.write_text(
        "System,nodenum,Prob Started (mm/dd/yy hh:mm),Prob Fixed (mm/dd/yy hh:mm),Down Time\n"
        "2,1,06/27/2003 14:00,06/27/2003 15:30,90\n2,0,6/28/2003 00:10,6/28/2003 00:20,10\n"
    )
    assert failure_events.read_log(log, 2) == [(1, 14 * HOUR_S, 15.5 * HOUR_S), (0, 87_000.0, 87_600.0)]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("node,down\n0,1\n", "line 1: expected a column up"),
        ("", "line 1: expected a column node"),
        ("node,down,up\n4,1,2\n", "line 2: node: expected a number below 4"),
        ("node,down,up\n0,5,5\n", "line 2: node 0 is repaired at 5, before it fails"),
        ("node,down,up\n0,1,9\n\n0,4,10\n", "line 4: node 0 fails at 4, but is down until 9"),
        ("node,down,up\n0,1\n", "line 2: expected 3 cells, found 2"),
        ("node,down,up\n0,-1,4\n", "line 2: expected seconds, 0 or more"),
        ("node,down,up\n0,never,4\n", "line 2: expected seconds or a date"),
        (f"node,down,up\n0,1,4\n1,{'9' * 200_000},4\n", "log.csv: line 3: field larger than field limit"),
        (f"node,down,{'u' * 200_000}\n", "log.csv: line 1: field larger than field limit"),
        ("node,down,up\n0,1,4\n1,06/27/2003 14:00,06/27/2003 15:00\n", "line 2: expected either dates or seconds"),
    ],
)
def test_wrong_logs(tmp_path: Path, content: str, text: str) -> None:
    log = tmp_path / "log.csv"
    log.write_text(content)
    before = csv.field_size_limit(2**17)  # other readers may have raised it
    try:
        with pytest.raises(InputError, match=text):
            failure_events.read_log(log, 4)
    finally:
        csv.field_size_limit(before)


# --- commands and runs --------------------------------------------------------------------------------------------

LOG = pb.generate_workload("lublin", n_jobs=120, n_procs=16, seed=2)
FAILING = {"mtbf": "2d", "repair": "1h", "seed": 5}


def test_a_file_gives_the_same_run_as_inline_failures(tmp_path: Path) -> None:
    inline = pb.simulate(LOG, "easy", n_procs=16, failures=FAILING, progress=False)
    figures: dict[str, Any] = dict(inline.figures)
    end = f"{2 * figures['makespan_s']:.0f}"
    options = ("--procs", "16", "--mtbf", "2d", "--repair", "1h", "--failure-seed", "5", "--until", end)
    result = run_cli("workload", "failures", *options, "--output", "f.txt", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "wrote f.txt" in result.stdout
    external_events.read(tmp_path / "f.txt", n_hosts=16)
    run = pb.simulate(LOG, "easy", n_procs=16, events=tmp_path / "f.txt", on_failure="requeue_first", progress=False)
    assert figures["n_failure_kills"] > 0
    assert figures["n_failure_kills"] == run.figures["n_failure_kills"]
    assert inline.jobs.drop("policy").equals(run.jobs.drop("policy"))


def test_simulate_from_the_command_line(tmp_path: Path) -> None:
    pb.generate_workload("lublin", n_jobs=40, n_procs=16, seed=2).write(tmp_path / "w.json")
    args = ("simulate", "--procs", "16", "-w", "w.json", "--policy", "easy", "--mtbf", "1d", "--repair", "30m")
    result = run_cli(*args, "-e", "out/f", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "n_failure_kills" in result.stdout
    summary = json.loads((tmp_path / "out/f_summary.json").read_text())
    assert summary["policy"]["options"]["on_failure"] == "requeue_first"
    assert summary["failures"]["mtbf_s"] == DAY_S
    assert "--mtbf 1d" in summary["command"]
    for wrong, text in (
        (("--repair", "1h"), "--repair: works only with --mtbf"),
        (("--mtbf", "-1"), "pybatsched: --mtbf: expected a time above 0, such as 30d, found '-1'"),
        (("--mtbf", "1d", "--failure-law", "gamma"), "pybatsched: --failure-law: expected exponential"),
        (("--checkpoint", "dally"), "pybatsched: --checkpoint: expected daly, or more than 0 seconds"),
        (("--checkpoint", "1h", "--checkpoint-dump", "0"), "pybatsched: --checkpoint-dump: expected more than 0"),
    ):
        result = run_cli(*args[:7], *wrong, "-e", "out/g", cwd=tmp_path)
        assert result.returncode == 2
        assert text in result.stderr


def test_jobs_that_never_end_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of 20 days on 16 processors with an MTBF of one day each never ends, until failures stop."""
    monkeypatch.setattr(SimulatedRun, "MAX_FAILURES_AT_REST", 50)
    job = {"id": "a", "subtime": 0, "res": 16, "profile": "d", "walltime": 2e6}
    content = {"nb_res": 16, "jobs": [job], "profiles": {"d": {"type": "delay", "delay": 20 * DAY_S}}}
    (tmp_path / "w.json").write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="no job had ended during 50 failures and repairs"):
        run = pb.simulate(tmp_path / "w.json", "fcfs", failures={"mtbf": "1d"}, progress=False)
    assert run.figures["n_completed"] == 1
    assert run.figures["n_failures"] == pytest.approx(25, abs=2)


def test_failures_go_on_after_a_time_without_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second job comes after 40 days in which 16 processors fail some 640 times."""
    monkeypatch.setattr(SimulatedRun, "MAX_FAILURES_AT_REST", 50)
    jobs = [{"id": str(at), "subtime": at * DAY_S, "res": 1, "profile": "d", "walltime": 9 * DAY_S} for at in (0, 40)]
    content = {"nb_res": 16, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": DAY_S / 4}}}
    (tmp_path / "w.json").write_text(json.dumps(content))
    run = pb.simulate(tmp_path / "w.json", "fcfs", failures={"mtbf": "1d"}, progress=False)
    assert run.figures["n_completed"] == 2
    assert (run.figures["n_failures"] or 0) > 500


def test_campaigns_draw_failures_by_seed(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        'name = "c"\nseeds = [1, 2]\n[[workload]]\nname = "w"\ngenerate = { model = "lublin", jobs = 60, procs = 16 }\n'
        '[[platform]]\nname = "solid"\nprocs = 16\n[[platform]]\nname = "weak"\nprocs = 16\n'
        'failures = { mtbf = "2d", repair = "1h" }\n[[policy]]\nname = "easy"\n'
    )
    result = run_cli("campaign", "run", "c.toml", "--output", "out", "--workers", "1", cwd=tmp_path)
    assert result.returncode == 0, result.stderr + result.stdout
    table = pl.read_parquet(tmp_path / "out/results.parquet").sort("platform", "seed")
    assert table["platform"].to_list() == ["solid", "solid", "weak", "weak"]
    kills = table["n_failure_kills"].to_list()
    assert kills[:2] == [None, None]
    assert kills[2] != kills[3]
    (tmp_path / "wrong.toml").write_text((tmp_path / "c.toml").read_text().replace('"2d"', '"0"'))
    result = run_cli("campaign", "run", "wrong.toml", "--output", "o2", cwd=tmp_path)
    assert result.returncode == 2
    assert "failures: mtbf: expected a time above 0, such as 30d, found '0'" in result.stderr


def test_a_log_without_failures(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("node,down,up\n\n", encoding="utf-8")
    done = run_cli("workload", "failures", "--procs", "4", "--log", "log.csv", "--output", "f.txt", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "f.txt").exists()) == (2, False)
    assert "log.csv: expected a table with failures, found a header alone" in done.stderr
