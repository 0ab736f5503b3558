"""Random workloads: deterministic for a seed, and with the figures of their models."""

from __future__ import annotations

import collections
import itertools
import math
import random
import statistics
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pybatsched.errors import InputError
from pybatsched.workload.formats import batsim4
from pybatsched.workload.generate import lublin
from pybatsched.workload.generate.models import MODELS, Recipe, generate, run_times, sizes
from pybatsched.workload.model import Workload
from pybatsched.workload.walltimes import Walltimes


def runs(workload: Workload) -> list[float]:
    return [workload.profiles[job["profile"]]["delay"] for job in workload.jobs]


def load(workload: Workload) -> float:
    work = sum(job["res"] * run for job, run in zip(workload.jobs, runs(workload), strict=True))
    return float(work / (workload.n_procs * workload.jobs[-1]["subtime"]))


@pytest.mark.parametrize("model", MODELS)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(model: str) -> None:
    random.seed(1)
    first = batsim4.text_of(generate(Recipe(model, 64, 7, n_jobs=300, n_users=5)))
    random.seed(2)  # the global random generator is not used
    assert batsim4.text_of(generate(Recipe(model, 64, 7, n_jobs=300, n_users=5))) == first
    assert batsim4.text_of(generate(Recipe(model, 64, 8, n_jobs=300, n_users=5))) != first


@given(
    st.sampled_from(sorted(MODELS)),
    st.integers(1, 300),
    st.integers(0, 10**6),
    st.integers(1, 60),
    st.none() | st.floats(0.1, 2),
    st.sampled_from(["exact", "factor:2", "factor:0.5", "round", "none"]),
)
def test_generated_workloads_are_valid(
    tmp_path_factory: pytest.TempPathFactory,
    model: str,
    n_procs: int,
    seed: int,
    n_jobs: int,
    load: float | None,
    rule: str,
) -> None:
    workload = generate(Recipe(model, n_procs, seed, n_jobs=n_jobs, load=load, walltimes=Walltimes.parse(rule)))
    file = tmp_path_factory.getbasetemp() / "drawn.json"
    batsim4.write(workload, file)
    assert batsim4.read(file).jobs == workload.jobs
    assert len(workload.jobs) == n_jobs
    assert [job["id"] for job in workload.jobs] == list(range(1, n_jobs + 1))
    times = [job["subtime"] for job in workload.jobs]
    assert times == sorted(times)
    assert all(1 <= job["res"] <= n_procs for job in workload.jobs)
    for job, run_s in zip(workload.jobs, runs(workload), strict=True):
        assert ("walltime" in job) == (rule != "none")
        assert rule == "none" or job["walltime"] > run_s


# ------------------------------------------------------------------------------------------------- Lublin and Feitelson

MANY = 20_000


@pytest.mark.parametrize(
    ("model", "population"),
    [("lublin-batch", lublin.BATCH), ("lublin-interactive", lublin.INTERACTIVE), ("lublin-all", lublin.ALL)],
)
def test_shares_of_serial_and_power_of_two_jobs(model: str, population: lublin.Population) -> None:
    jobs = generate(Recipe(model, 128, 11, n_jobs=MANY)).jobs
    serial = sum(job["res"] == 1 for job in jobs) / MANY
    assert serial == pytest.approx(population.p_serial, abs=0.012)
    power2 = sum(job["res"] > 1 and job["res"] & (job["res"] - 1) == 0 for job in jobs) / MANY
    # Those that are meant to be one, and a few of the rest by chance.
    assert population.p_power2 - 0.012 < power2 < population.p_power2 + 0.08
    assert max(job["res"] for job in jobs) == (128 if model != "lublin-interactive" else 45)
    assert min(job["res"] for job in jobs) == 1


def test_the_two_stages_of_sizes() -> None:
    """Of the parallel batch jobs on 128 processors, 87.5 % are drawn between 2^1.2 and 2^5."""
    rng = random.Random(3)
    parallel = [n for _ in range(MANY) if (n := lublin.BATCH.size(rng, 128)) > 1]
    assert sum(n <= 32 for n in parallel) / len(parallel) == pytest.approx(0.875 + 0.125 * 0.25 * 0.95, abs=0.012)


@pytest.mark.parametrize(
    ("population", "size", "p_first"),
    [
        (lublin.BATCH, 1, 0.6956),
        (lublin.BATCH, 128, 0.3146),
        (lublin.INTERACTIVE, 45, 0.3846),
        (lublin.ALL, 128, 0.0888),
    ],
)
def test_run_times_are_a_mixture_that_grows_with_the_size(
    population: lublin.Population, size: int, p_first: float
) -> None:
    rng = random.Random(5)
    logs = [math.log(population.run_s(rng, size)) for _ in range(MANY)]
    (a1, b1), (a2, b2) = population.run_1, population.run_2
    # The mean of the mixture, less a little for what is cut off (above e^12) and rounded down (below 10 s).
    mean = p_first * a1 * b1 + (1 - p_first) * a2 * b2
    assert statistics.fmean(logs) == pytest.approx(mean, rel=0.045)
    assert max(logs) <= 12


def test_large_jobs_run_longer() -> None:
    workload = generate(Recipe("lublin-batch", 128, 2, n_jobs=MANY))
    by_size: dict[bool, list[float]] = collections.defaultdict(list)
    for job, run in zip(workload.jobs, runs(workload), strict=True):
        by_size[job["res"] > 32].append(run)
    assert statistics.fmean(by_size[True]) > 1.15 * statistics.fmean(by_size[False])


def test_the_gamma_distribution_function() -> None:
    for x in (0.1, 1.0, 5.0, 30.0):
        assert lublin.gamma_cdf(x, 1, 2.0) == pytest.approx(1 - math.exp(-x / 2))  # the exponential one
        z = x / 3.0
        assert lublin.gamma_cdf(x, 3, 3.0) == pytest.approx(1 - math.exp(-z) * (1 + z + z * z / 2))
    assert lublin.gamma_cdf(0, 2, 1) == 0
    assert lublin.gamma_cdf(1000, 8, 4) == pytest.approx(1)


@pytest.mark.parametrize(("population", "peak"), [(lublin.BATCH, 26), (lublin.INTERACTIVE, 28), (lublin.ALL, 27)])
def test_the_day_has_its_peak_after_noon(population: lublin.Population, peak: int) -> None:
    """The busiest half hour is the mode of the gamma distribution over the day, (shape - 1) times scale."""
    day = population.busyness
    assert sum(day) / 48 == pytest.approx(1)
    assert max(range(48), key=day.__getitem__) == peak == round((population.day[0] - 1) * population.day[1]) - 1
    assert min(range(48), key=day.__getitem__) in range(5, 14)  # before the morning
    assert max(day) > 5 * min(day)


def test_arrivals_follow_the_day() -> None:
    jobs = generate(Recipe("lublin", 128, 4, n_jobs=MANY)).jobs
    hours = collections.Counter(int(job["subtime"] % 86_400 // 3600) for job in jobs)
    afternoon = sum(hours[hour] for hour in range(12, 17))
    night = sum(hours[hour] for hour in range(1, 6))
    assert afternoon > 3 * night
    assert hours.most_common(1)[0][0] in range(11, 17)


def test_the_time_of_day_is_increasing_and_periodic() -> None:
    for population in (lublin.BATCH, lublin.INTERACTIVE):
        times = [population.time_of_day(minute * 60.0) for minute in range(3 * 1440 + 1)]
        assert all(before < after for before, after in itertools.pairwise(times))
        assert times[0] == 0
        assert times[1440] == pytest.approx(86_400)
        assert times[-1] == pytest.approx(3 * 86_400)
        assert [population.even_clock(at) for at in times] == pytest.approx([60.0 * k for k in range(len(times))])


@pytest.mark.parametrize(("population", "mean"), [(lublin.BATCH, 5.42), (lublin.INTERACTIVE, 4.25), (lublin.ALL, 5.10)])
def test_gaps_are_exponentials_of_gamma_draws(population: lublin.Population, mean: float) -> None:
    stream = population.even_arrivals(random.Random(9))
    times = [0.0, *(next(stream) for _ in range(MANY))]
    logs = [math.log(after - before) for before, after in itertools.pairwise(times)]
    shape, scale = population.gap
    assert statistics.fmean(logs) == pytest.approx(shape * scale, rel=0.02) == pytest.approx(mean, rel=0.02)
    assert statistics.stdev(logs) == pytest.approx(math.sqrt(shape) * scale, rel=0.05)


@pytest.mark.parametrize("model", ["lublin", "lublin-batch", "lublin-interactive", "lublin-all", "poisson"])
@pytest.mark.parametrize("wanted", [0.3, 0.9])
def test_a_target_load_is_met_and_days_stay_days(model: str, wanted: float) -> None:
    workload = generate(Recipe(model, 128, 6, n_jobs=5000, load=wanted))
    assert load(workload) == pytest.approx(wanted, rel=0.01)
    days = generate(Recipe(model, 128, 6, days=20, load=wanted))
    work = sum(job["res"] * run for job, run in zip(days.jobs, runs(days), strict=True))
    assert work / (128 * 20 * 86_400) == pytest.approx(wanted, abs=0.05)  # half of a very large job
    assert 19 * 86_400 < days.jobs[-1]["subtime"] < 20 * 86_400
    if model != "poisson":
        hours = collections.Counter(int(job["subtime"] % 86_400 // 3600) for job in workload.jobs)
        assert sum(hours[hour] for hour in range(12, 17)) > 2 * sum(hours[hour] for hour in range(1, 6))


#: Measured once on 2,000,000 jobs of the authors' own program (the Parallel Workloads Archive's m_lublin99.c).
THEIRS = {
    "interactive": {"serial": 0.1546, "power2": 0.846, "size": 8.05, "log run": 2.876, "gap": 619},
    "batch": {"serial": 0.2934, "power2": 0.968, "size": 13.83, "log run": 6.944, "gap": 3525},
}
#: Shares of arrivals in each three hours of the day, on 60 times 3,000 jobs. (Not on one long run: the program cuts off
#: fractions of seconds at each arrival, so that its day moves by half a second a job.)
THEIR_DAY = {
    "interactive": [0.053, 0.026, 0.077, 0.177, 0.226, 0.210, 0.142, 0.089],
    "batch": [0.060, 0.039, 0.107, 0.191, 0.207, 0.177, 0.136, 0.082],
}


@pytest.mark.parametrize("kind", ["interactive", "batch"])
def test_the_figures_are_those_of_the_authors_program(kind: str) -> None:
    n = 60_000
    workload = generate(Recipe(f"lublin-{kind}", 128, 21, n_jobs=n))
    drawn = [job["res"] for job in workload.jobs]
    theirs = THEIRS[kind]
    assert sum(size == 1 for size in drawn) / n == pytest.approx(theirs["serial"], abs=0.008)
    assert sum(size & (size - 1) == 0 for size in drawn) / n == pytest.approx(theirs["power2"], abs=0.008)
    assert statistics.fmean(drawn) == pytest.approx(theirs["size"], rel=0.02)
    assert statistics.fmean(map(math.log, runs(workload))) == pytest.approx(theirs["log run"], rel=0.01)
    assert workload.jobs[-1]["subtime"] / n == pytest.approx(theirs["gap"], rel=0.05)  # a few long ones count much
    hours = collections.Counter(int(job["subtime"] % 86_400 // 10_800) for job in workload.jobs)
    assert [hours[k] / n for k in range(8)] == pytest.approx(THEIR_DAY[kind], abs=0.025)


def test_both_kinds_of_jobs_come_with_their_names() -> None:
    jobs = generate(Recipe("lublin", 128, 4, n_jobs=2000)).jobs
    kinds = collections.Counter(job["queue"] for job in jobs)
    assert kinds["interactive"] > 3 * kinds["batch"] > 0


def test_small_machines() -> None:
    for n_procs in (1, 2, 3, 5, 8, 100):
        drawn = {job["res"] for job in generate(Recipe("lublin", n_procs, 1, n_jobs=2000)).jobs}
        assert drawn <= set(range(1, n_procs + 1))
        assert n_procs < 2 or max(drawn) > 1


def test_poisson_arrivals() -> None:
    times = [job["subtime"] for job in generate(Recipe("poisson", 8, 1, n_jobs=MANY, gap_s=50)).jobs]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert statistics.fmean(gaps) == pytest.approx(50, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(50, rel=0.05)  # as large as the mean: memoryless


@pytest.mark.parametrize(
    ("text", "mean", "least", "most"),
    [
        ("exponential:100", 100, 0, math.inf),
        ("uniform:10:30", 20, 10, 30),
        ("lognormal:100:0.5", 100 * math.exp(0.125), 0, math.inf),
        ("fixed:7", 7, 7, 7),
    ],
)
def test_run_times(text: str, mean: float, least: float, most: float) -> None:
    rng = random.Random(1)
    draw = run_times(text)
    values = [draw(rng) for _ in range(MANY)]
    assert statistics.fmean(values) == pytest.approx(mean, rel=0.03)
    assert least <= min(values) <= max(values) <= most


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("power2", {1, 2, 4, 8}),
        ("power2:2:5", {2, 4}),
        ("uniform", set(range(1, 11))),
        ("uniform:3:5", {3, 4, 5}),
        ("fixed:6", {6}),
    ],
)
def test_sizes(text: str, values: set[int]) -> None:
    rng = random.Random(1)
    draw = sizes(text, 10)
    counted = collections.Counter(draw(rng) for _ in range(2000))
    assert set(counted) == values
    assert min(counted.values()) > 0.7 * 2000 / len(values)


@pytest.mark.parametrize(
    "text", ["", "gauss:1:2", "exponential", "exponential:0", "exponential:x", "uniform:5:1", "fixed:inf", "fixed:1:2"]
)
def test_other_run_times_are_rejected(text: str) -> None:
    with pytest.raises(InputError):
        run_times(text)


@pytest.mark.parametrize("text", ["", "big", "fixed:11", "fixed:0", "uniform:1:2.5", "uniform:5:1", "power2:5:7"])
def test_other_sizes_are_rejected(text: str) -> None:
    with pytest.raises(InputError):
        sizes(text, 10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "lublin99"}, "model: expected one of lublin"),
        ({"n_jobs": None}, "expected either a number of jobs or a number of days"),
        ({"days": 3}, "expected either a number of jobs or a number of days"),
        ({"seed": -1}, "seed: expected 0 or more"),
        ({"n_jobs": 0}, "jobs: expected 1"),
        ({"n_procs": 0}, "processors: expected 1"),
        ({"load": 0}, "load: expected an offered load above 0"),
        ({"load": math.nan}, "load: expected an offered load above 0"),
        ({"gap_s": math.nan}, "mean gap: expected more than 0"),
        ({"load": 1, "gap_s": 1}, "expected a load or a mean gap, found both"),
        ({"model": "lublin", "gap_s": 1}, "mean gap: works only with the model poisson"),
        ({"walltimes": Walltimes("requested")}, "walltimes: expected exact"),
    ],
)
def test_impossible_recipes(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Recipe(**{"model": "poisson", "n_procs": 8, "n_jobs": 5, **changes})


def test_days_set_the_length_without_a_target_load(tmp_path: object) -> None:
    jobs = generate(Recipe("lublin", 128, 3, days=2.5)).jobs
    assert 2.3 * 86_400 < jobs[-1]["subtime"] < 2.5 * 86_400


def test_users() -> None:
    jobs = generate(Recipe("poisson", 8, 3, n_jobs=4000, n_users=4)).jobs
    counted = collections.Counter(job["user"] for job in jobs)
    assert [user for user, _ in counted.most_common()] == [1, 2, 3, 4]
    assert counted[1] / counted[2] == pytest.approx(2, rel=0.15)
    assert "user" not in generate(Recipe("poisson", 8, 3, n_jobs=1)).jobs[0]


@pytest.mark.parametrize(
    "figures", [{"runtimes": "lognormal:1:1000"}, {"runtimes": "fixed:1e308"}, {"gap_s": 1e308}, {"load": 1e-320}]
)
def test_times_without_bounds_are_rejected(figures: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="times: expected all jobs within"):
        generate(Recipe("poisson", 4, n_jobs=10, **figures))
