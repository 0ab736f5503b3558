"""Generate random workloads, the same bytes for the same seed: Lublin and Feitelson, and Poisson arrivals."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pybatsched.errors import InputError
from pybatsched.workload.formats.conversion import profile_of
from pybatsched.workload.generate import lublin
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import check_load
from pybatsched.workload.walltimes import Walltimes, tidy

_LUBLIN: Final[dict[str, tuple[lublin.Population, ...]]] = {
    "lublin": (lublin.BATCH, lublin.INTERACTIVE),
    "lublin-batch": (lublin.BATCH,),
    "lublin-interactive": (lublin.INTERACTIVE,),
    "lublin-all": (lublin.ALL,),
}
#: Names and descriptions of the models.
MODELS: Final = {
    "lublin": "Lublin and Feitelson 2003, batch and interactive jobs together",
    "lublin-batch": "the same, batch jobs only",
    "lublin-interactive": "the same, interactive jobs only",
    "lublin-all": "the same, one kind of jobs for all",
    "poisson": "Poisson arrivals, with laws of run times and of sizes",
}
_DAY_S: Final = 86_400.0
_DEFAULT_LOAD: Final = 0.7
#: A limit against typing errors that would fill the memory.
_MOST_JOBS: Final = 10_000_000
#: Some ten million years: larger times have no precision of a second.
_LONGEST_S: Final = 1e15
_TOO_LONG: Final = f"times: expected all jobs within {_LONGEST_S:g} s; use smaller run times or gaps, or a larger load"

Sampler = Callable[[random.Random], float]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Options of a random workload: a model, either `n_jobs` or `days`, the size of the machine, and a seed.

    `load` is the target of the offered load: the work of all jobs, divided by the capacity of the machine until the
    last arrival (for `days`: in that time). Without it, the model of Lublin and Feitelson keeps its arrivals, and
    Poisson arrivals have a mean gap of `gap_s` seconds, or a load of 0.7. `runtimes` and `sizes` are for Poisson only.
    """

    model: str
    n_procs: int
    seed: int = 0
    n_jobs: int | None = None
    days: float | None = None
    load: float | None = None
    gap_s: float | None = None
    runtimes: str = "exponential:3600"
    sizes: str = "power2"
    walltimes: Walltimes = field(default_factory=lambda: Walltimes("exact"))
    n_users: int = 0

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise InputError(f"model: expected one of {', '.join(MODELS)}, found {self.model}")
        if self.seed < 0:  # Python ignores the sign
            raise InputError(f"seed: expected 0 or more, found {self.seed}")
        if (self.n_jobs is None) == (self.days is None):
            raise InputError("amount: expected either a number of jobs or a number of days")
        for name, value, least in (
            ("jobs", self.n_jobs, 1),
            ("processors", self.n_procs, 1),
            ("users", self.n_users, 0),
        ):
            if value is not None and not least <= value <= _MOST_JOBS:
                raise InputError(f"{name}: expected {least} to {_MOST_JOBS}, found {value}")
        if self.days is not None and not 0.001 <= self.days < math.inf:
            raise InputError(f"days: expected 0.001 or more, found {self.days:g}")
        if self.load is not None:
            check_load(self.load)
        if self.gap_s is not None and not 0 < self.gap_s < math.inf:
            raise InputError(f"mean gap: expected more than 0, found {self.gap_s:g}")
        if self.load is not None and self.gap_s is not None:
            raise InputError("arrivals: expected a load or a mean gap, found both")
        if self.gap_s is not None and self.model != "poisson":
            raise InputError(
                f"mean gap: works only with the model poisson, not with {self.model}, which has its own gaps"
            )
        if self.walltimes.rule in {"requested", "requested-strict"}:
            raise InputError(f"walltimes: expected exact, factor:F, round or none, found {self.walltimes}")

    def as_json(self) -> dict[str, Any]:
        """Return the options for the workload file."""
        options: dict[str, Any] = {"model": self.model, "seed": self.seed, "walltimes": str(self.walltimes)}
        names = {"n_jobs": "jobs", "days": "days", "load": "load", "gap_s": "mean_gap"}
        options |= {name: value for key, name in names.items() if (value := getattr(self, key)) is not None}
        if self.model == "poisson":
            options |= {"runtimes": self.runtimes, "sizes": self.sizes}
        return options


class _RandomJob(NamedTuple):
    """A random job: its arrival on a clock without daily cycle, size, run time, and its population, if any."""

    even_at: float
    size: int
    run_s: float
    population: lublin.Population | None = None

    def arrives_at(self, stretch: float = 1.0) -> float:
        """Return the arrival, with all gaps scaled by a factor."""
        even_at = self.even_at * stretch
        return even_at if self.population is None else self.population.time_of_day(even_at)


def generate(recipe: Recipe) -> Workload:
    """Generate a workload. About 15 µs per job. Raises InputError, also if times become too large."""
    try:
        workload = _generated(recipe)
    except OverflowError:
        raise InputError(_TOO_LONG) from None
    if any(not job["subtime"] + float(job["profile"]) < _LONGEST_S for job in workload.jobs):
        raise InputError(_TOO_LONG)
    return workload


def _generated(recipe: Recipe) -> Workload:
    rng = random.Random(recipe.seed)  # noqa: S311  no secret
    stream = _lublin(recipe, rng) if recipe.model in _LUBLIN else _poisson(recipe, rng)
    load = recipe.load
    if load is None and recipe.model == "poisson" and recipe.gap_s is None:
        load = _DEFAULT_LOAD
    generated, stretch = _select_jobs(stream, recipe, load)
    users = _users(rng, recipe.n_users)
    jobs: list[dict[str, Any]] = []
    profiles: dict[str, dict[str, Any]] = {}
    for number, one in enumerate(generated, 1):
        run_s = tidy(one.run_s)
        name = str(run_s)
        profiles.setdefault(name, profile_of(run_s, "delay", 1.0))
        times = recipe.walltimes.of(run_s, None)
        job: dict[str, Any] = {
            "id": number,
            "subtime": tidy(round(one.arrives_at(stretch), 3)),
            "res": one.size,
            "profile": name,
        }
        if times.walltime_s is not None:
            job["walltime"] = times.walltime_s
        if times.estimate_s is not None:
            job["estimate"] = times.estimate_s
        if one.population is not None and one.population.queue:
            job["queue"] = one.population.queue
        if recipe.n_users:
            job["user"] = next(users)
        jobs.append(job)
    # Populations have different daily cycles, so scaling may change the order of some jobs.
    jobs.sort(key=lambda job: job["subtime"])
    for number, job in enumerate(jobs, 1):
        job["id"] = number
    about = {"description": f"generated by pybatsched: {MODELS[recipe.model]}", "generated": recipe.as_json()}
    return Workload(jobs, profiles, recipe.n_procs, f"{recipe.model}, seed {recipe.seed}", about)


def _select_jobs(
    stream: Iterator[_RandomJob], recipe: Recipe, load: float | None
) -> tuple[Sequence[_RandomJob], float]:
    """Return the requested number of jobs, and the factor for their arrivals."""
    if load is None:
        if recipe.n_jobs is not None:
            return list(itertools.islice(stream, recipe.n_jobs)), 1.0
        assert recipe.days is not None
        ends_at = recipe.days * _DAY_S
        midnight = math.ceil(recipe.days) * _DAY_S  # where the clocks of all populations agree
        until = itertools.takewhile(lambda job: job.even_at < midnight, _bounded(stream))
        return [job for job in until if job.arrives_at() < ends_at], 1.0
    jobs: list[_RandomJob] = []
    work = 0.0
    span_s = recipe.days * _DAY_S if recipe.days is not None else math.inf
    wanted = load * recipe.n_procs * span_s
    for job in itertools.islice(_bounded(stream), recipe.n_jobs):
        more = job.size * job.run_s
        if jobs and work + more - wanted > wanted - work:
            break  # without this job the load is closer to the target
        jobs.append(job)
        work += more
        if work >= wanted:
            break
    last = jobs[-1]
    if recipe.days is None:
        span_s = work / (load * recipe.n_procs)
    else:
        span_s -= 1.0  # before the end of the last day
    return jobs, (span_s if last.population is None else last.population.even_clock(span_s)) / last.even_at


def _bounded(stream: Iterator[_RandomJob]) -> Iterator[_RandomJob]:
    for n, job in enumerate(stream):
        if n >= _MOST_JOBS:
            raise InputError(f"amount: expected at most {_MOST_JOBS:,} jobs, found more")
        yield job


def _users(rng: random.Random, n_users: int) -> Iterator[int]:
    """Yield random users without end. User k has the weight 1/k."""
    weights = list(itertools.accumulate(1 / k for k in range(1, n_users + 1)))
    while n_users:
        yield rng.choices(range(1, n_users + 1), cum_weights=weights)[0]


def _lublin(recipe: Recipe, rng: random.Random) -> Iterator[_RandomJob]:
    streams = [_arrivals(population, rng) for population in _LUBLIN[recipe.model]]
    for even_at, _, population in heapq.merge(*streams):
        size = population.size(rng, recipe.n_procs)
        yield _RandomJob(even_at, size, population.run_s(rng, size), population)


def _arrivals(population: lublin.Population, rng: random.Random) -> Iterator[tuple[float, str, lublin.Population]]:
    return ((even_at, population.queue, population) for even_at in population.even_arrivals(rng))


def _poisson(recipe: Recipe, rng: random.Random) -> Iterator[_RandomJob]:
    random_run_s, random_size = run_times(recipe.runtimes), sizes(recipe.sizes, recipe.n_procs)
    gap_s = recipe.gap_s or 1.0  # a target load scales the gaps
    at = 0.0
    while True:
        at += rng.expovariate(1 / gap_s)
        yield _RandomJob(at, int(random_size(rng)), max(round(random_run_s(rng), 3), 0.001))


def run_times(text: str) -> Sampler:
    """Read a distribution of run times in seconds. Raises InputError.

    `exponential:MEAN`, `lognormal:MEDIAN:SIGMA` (sigma of the natural logarithm), `uniform:LOW:HIGH`, `fixed:S`.
    """
    kind, figures = _parsed("run times", text, {"exponential": 1, "lognormal": 2, "uniform": 2, "fixed": 1})
    if min(figures) <= 0:
        raise InputError(f"run times {text}: expected numbers above 0")
    if kind == "exponential":
        return lambda rng: rng.expovariate(1 / figures[0])
    if kind == "lognormal":
        return lambda rng: rng.lognormvariate(math.log(figures[0]), figures[1])
    if kind == "uniform":
        low, high = _ordered(text, figures)
        return lambda rng: rng.uniform(low, high)
    return lambda _: figures[0]


def sizes(text: str, n_procs: int) -> Sampler:
    """Read a distribution of sizes: `uniform`, `power2`, each also with :LOW:HIGH, or `fixed:N`. Raises InputError."""
    named = f"{text}:1:{n_procs}" if text in {"uniform", "power2"} else text
    kind, figures = _parsed("sizes", named, {"uniform": 2, "power2": 2, "fixed": 1})
    if min(figures) < 1 or max(figures) > n_procs or any(figure != int(figure) for figure in figures):
        raise InputError(f"sizes {text}: expected whole numbers from 1 to {n_procs}, the processors of the machine")
    low, high = (int(figure) for figure in _ordered(text, (figures[0], figures[-1])))
    if kind == "power2":
        powers = [1 << power for power in range(high.bit_length()) if low <= 1 << power <= high]
        if not powers:
            raise InputError(f"sizes {text}: expected a power of two between {low} and {high}")
        return lambda rng: rng.choice(powers)
    return lambda rng: rng.randint(low, high)


def _parsed(what: str, text: str, kinds: dict[str, int]) -> tuple[str, list[float]]:
    kind, *rest = text.split(":")
    try:
        figures = [float(figure) for figure in rest]
    except ValueError:
        figures = []
    if kind not in kinds or len(figures) != kinds[kind] or not all(map(math.isfinite, figures)):
        known = ", ".join(name + ":NUMBER" * n for name, n in kinds.items())
        raise InputError(f"{what}: expected one of {known}, found {text}")
    return kind, figures


def _ordered(text: str, figures: Sequence[float]) -> tuple[float, float]:
    low, high = figures
    if low > high:
        raise InputError(f"{text}: expected the lower number first")
    return low, high
