"""Queue orders: the value of each name by hand, expressions and their errors, and schedules by a slow twin."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.places import ROOT
from support.process import run_cli
from support.twins import SlowEasy, SlowFcfs

from pybatsched import LocalPolicy, LocalScheduler, Options, Order, QueueOptions
from pybatsched.core.cluster import Cluster, Partition
from pybatsched.core.decisions import Decision
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job
from pybatsched.core.usage import UserUsage
from pybatsched.errors import InputError
from pybatsched.policies.local_scheduler import FRONT
from pybatsched.policies.orders import ALIASES, LOWEST, MAX_DEPTH, MAX_LENGTH, NAMED_ORDERS, parse_order
from pybatsched.policies.registry import local_scheduler
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy

N_PROCS = 8
#: Requests 4 processors for 100 s, was submitted at 1000, and has waited for 50 s at 1050.
JOB = Job("a", 4, submitted_at=1000.0, estimate=100.0, fields={"user": 7, "priority": 2.5, "urgent": True, "name": "x"})
NOW = 1050.0


def value(text: str, job: Job = JOB, now: float = NOW) -> float:
    span_s = math.inf if job.estimate is None else job.estimate
    return parse_order(text).rank_at(job, span_s, now)


def starts(run: FakeBatsim) -> dict[str, float | None]:
    assert not run.deadlocked
    return {job.id.removeprefix("w0!"): job.started_at for job in run.jobs.values()}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fcfs", 0),
        ("sjf", 100),
        ("ljf", -100),
        ("smallest", 4),
        ("largest", -4),
        ("saf", 400),
        ("laf", -400),
        ("wfp3", -0.5),  # (50 / 100)³ · 4
        ("unicep", -0.25),  # 50 / (log2(4) · 100)
        ("f1", 2618),  # log10(100) · 4 + 870 · log10(1000) = 8 + 2610
        ("f2", 76_840),  # √100 · 4 + 25600 · 3 = 40 + 76800
        ("f3", 20_580_400),  # 100 · 4 + 6860000 · 3
        ("f4", 1_590_200),  # 100 · √4 + 530000 · 3
        ("xfactor", -1.5),  # (50 + 100) / 100
        ("urgent_first", 0),
        ("narrowest", 4),
        ("widest", -4),
        ("smallest_area", 400),
        ("largest_area", -400),
    ],
)
def test_the_value_of_each_name(name: str, expected: float) -> None:
    assert value(name) == pytest.approx(expected, rel=1e-14)


def test_all_names_have_an_example() -> None:
    (mark,) = test_the_value_of_each_name.pytestmark  # type: ignore[attr-defined]
    assert {name for name, _ in mark.args[1]} == {*NAMED_ORDERS, *ALIASES}


def test_orders_that_change_while_jobs_wait() -> None:
    assert {name for name in NAMED_ORDERS if parse_order(name).varies} == {"wfp3", "unicep", "xfactor"}
    assert [parse_order(text).varies for text in ("now", "-wait", "sqrt(1 + wait)", "submitted", "max(1, procs)")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_a_submission_at_zero_counts_as_a_tenth_of_a_second() -> None:
    """As in the published program: log10(0.1) is -1."""
    first = Job("a", 4, estimate=100.0)
    assert value("f1", first, 0.0) == 8 - 870
    assert value("f4", first, 0.0) == 200 - 530_000


def test_jobs_without_an_estimate_are_infinitely_long() -> None:
    endless = Job("a", 4, submitted_at=1000.0)
    assert [value(name, endless) for name in ("sjf", "saf", "f1", "f2", "f3", "f4")] == [math.inf] * 6
    assert [value(name, endless) for name in ("wfp3", "unicep", "xfactor")] == [0, 0, -1]  # behind all that have waited
    assert value("ljf", endless) == value("laf", endless) == LOWEST > FRONT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("estimate + procs * 2", 108),
        ("(estimate + procs) * 2", 208),
        ("-procs ** 2", -16),
        ("(-procs) ** 2", 16),
        ("2 * procs ** -1", 0.5),
        ("procs ** 0.5 ** 2", 4**0.25),
        ("estimate - procs - 1", 95),
        ("estimate / procs / 5", 5),
        ("+procs", 4),
        ("log10(estimate) + log2(procs) + sqrt(procs)", 6),
        ("min(wait, estimate, 60) + max(procs, 1e2)", 150),
        ("submitted + wait - now", 0),
        ("user", 7),
        ("(priority)", 2.5),
        ("-priority * 2", -5),
        ("urgent * 1_000", 1000),
        ("  estimate\n\t* 2 ", 200),
        ("procs * (2 ** 3 - 8 / 2)", 16),
        ("procs < 3", 0),
        ("(procs >= 4) * 10 + (procs != 4) + (wait == 50)", 11),
        ("wait if procs > 2 else estimate", 50),
        ("1 if wait > 50 else 2 if wait >= 50 else 3", 2),
        ("not wait or procs == 4 and estimate <= 100", 1),
        ("not sqrt(-procs) and wait", 1),
        ("name == 'x'", 1),
        ("name != \"x\" or 'y z' == name", 0),
        ("user == 7", 1),
        ("user == '7'", 1),
        ("user != 8", 1),
        ("queue == 'debug' or queue == 3", 0),  # a job without the field
        ("queue != 'debug'", 1),
        ("0 if name == 'x' else queue", 0),  # the field of the other case is not needed
        ("name == 'x' or queue * 2", 1),
        ("name == 'y' and queue * 2", 0),
        ("usage + usage('7d')", 0),  # nothing has run
    ],
)
def test_expressions(text: str, expected: float) -> None:
    assert value(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wait / (procs - 4)", math.inf),
        ("-wait / (procs - 4)", LOWEST),
        ("0 * wait / (procs - 4)", 0),
        ("log10(-procs)", -1),
        ("log2(procs - 4)", math.log2(0.1)),
        ("sqrt(-procs)", math.inf),
        ("-sqrt(-procs)", math.inf),
        ("(-procs) ** 0.5", math.inf),
        ("(procs - 4) ** -1", math.inf),
        ("(estimate * 1e300) ** 99", math.inf),
        ("(-estimate * 1e300) ** 99", LOWEST),
        ("1e308 * estimate - 1e308 * estimate", math.inf),
        ("min(sqrt(-procs), 1) + max(1, sqrt(-procs))", math.inf),
        ("log10(sqrt(-procs)) + log2(sqrt(-procs))", math.inf),
    ],
)
def test_every_expression_has_a_value(text: str, expected: float) -> None:
    """A division by zero is infinite, the logarithm of nothing is that of 0.1, and undefined values go last."""
    assert value(text) == expected


def test_a_constant_is_the_order_of_arrival() -> None:
    assert [parse_order(text).rank for text in ("fcfs", "0", "2 ** 3 - 1 / 0")] == [None] * 3


ALLOWED = "expected numbers, names, functions, conditions, + - * / ** and brackets"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("odd", "expected one of fcfs, sjf, .*, or an expression \\(for a field of jobs write '\\(odd\\)'\\)"),
        ("", "expected one of fcfs, sjf, ljf, .*, or an expression"),
        ("(wait +", "expected one of fcfs, .*, or an expression"),
        ("wait wait", "expected one of fcfs, .*, or an expression"),
        ("wait\0", "character '\\\\x00' is not allowed; " + ALLOWED.replace("+", "\\+").replace("*", "\\*")),
        ("'text'", "'text' is not allowed; expected a text only in a comparison"),
        ("wait == 'text'", "is not allowed; expected a text only in a comparison"),
        ("queue < 'text'", "is not allowed; expected a text only in a comparison"),
        ("'a' == 'a'", "is not allowed; expected a text only in a comparison"),
        ("queue == 'debug", 'character "\'" is not allowed'),
        ("queue == 'de\\\\bug'", 'character "\'" is not allowed'),
        ("1 < procs < 3", "'1 < procs < 3': expected one of < <= > >= == != between two values"),
        ("user in (1, 2)", "'user in \\(1, 2\\)': expected one of < <= > >= == != between two values"),
        ("usage('often')", "usage: expected a half-life above 0 in its brackets, such as usage\\(86400\\)"),
        ("usage(0)", "usage: expected a half-life above 0"),
        ("usage(1, 2)", "usage: expected a half-life above 0"),
        ("usage(wait)", "usage: expected a half-life above 0"),
        ("(queue := 2)", "character ':' is not allowed"),
        ("f'{wait}' == queue", "is not allowed"),
        ("procs % 3", "character '%' is not allowed"),
        ("[wait]", "character '\\[' is not allowed"),
        ("lambda: 0", "character ':' is not allowed"),
        ("wait // 2", "unknown operation in 'wait // 2'; expected \\+ - \\* / \\*\\* and brackets"),
        ("job.fields", "'job.fields' is not allowed; expected numbers, names, functions"),
        ("wait.real", "'wait.real' is not allowed"),
        ("(wait, procs)", "'\\(wait, procs\\)' is not allowed"),
        ("abs(wait)", "unknown function 'abs'; expected one of log10, log2, sqrt, min, max, usage"),
        ("__import__(os)", "unknown function '__import__'; expected one of log10"),
        ("max.__call__(1, 2)", "unknown function 'max.__call__'"),
        ("sqrt(1)(2)", "unknown function 'sqrt\\(1\\)'"),
        ("min", "min is a function; expected brackets after it"),
        ("min(wait)", "min: expected two or more values in its brackets"),
        ("log2(wait, procs)", "log2: expected one value in its brackets"),
        ("sqrt()", "sqrt: expected one value in its brackets"),
        ("max(*wait, 1)", "'\\*wait' is not allowed"),
        ("max(**wait)", "max: expected two or more values in its brackets"),
        ("procs ** wait", "exponent 'wait': expected a number from -100 to 100"),
        ("9 ** 9 ** 9 ** 9", "exponent '9 \\*\\* 9': expected a number from -100 to 100"),
        ("procs ** 101", "exponent '101': expected a number from -100 to 100"),
        ("procs ** (0 * (1 / 0))", "exponent '0 \\* \\(1 / 0\\)': expected a number"),
        ("1e999", "inf is not allowed; expected a finite number"),
        ("2j", "2j is not allowed; expected a finite number"),
        ("True * wait", "True is not allowed; expected a finite number"),
        ("1" * (MAX_LENGTH + 1), "expected an order of at most 300 characters, found 301"),
        ("x" * 1_000_000, "expected an order of at most 300 characters, found 1,000,000"),
        ("-" * (MAX_LENGTH - 1) + "1", "the expression is nested too deeply; expected at most 40 levels"),
        ("1 + " * MAX_DEPTH + "1", "the expression is nested too deeply; expected at most 40 levels"),
        ("(" * 150 + "1" + ")" * 149, "expected at most 40 brackets, found 150"),
    ],
)
def test_invalid_orders_are_rejected_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_order(text)


@examples(2000)
@given(
    st.text(st.sampled_from("()+-*/., 019ewaitprocs_\n"), max_size=MAX_LENGTH)
    | st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            [
                "(",
                ")",
                "-",
                "**",
                "/",
                "wait",
                "procs",
                "max(",
                ",",
                "2",
                "sqrt(",
                "if",
                "else",
                "==",
                "<",
                "and",
                "not",
                "'x'",
                "name",
                "user",
                "usage",
                "usage(",
            ]
        ),
        max_size=60,
    ).map(" ".join)
)
def test_any_text_is_an_order_or_an_error(text: str) -> None:
    """It is an order with a value, or an error of the user."""
    try:
        order = parse_order(text)
    except ValueError:
        return
    try:
        found = order.rank_at(JOB, 100.0, NOW)
    except InputError as error:
        assert "unknown name" in str(error) or "expected " in str(error)
        return
    assert LOWEST <= found <= math.inf


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "2 * wiat",
            "job a: unknown name 'wiat' in an expression, and the job has no such field; did you mean 'wait'?",
        ),
        (
            "-prioritaet + 1",
            "job a: unknown name 'prioritaet' in an expression, and the job has no such field; expected one",
        ),
        ("(name)", "job a, field name: expected a number for the expression, found 'x'"),
    ],
)
def test_unknown_names_and_texts_are_errors_of_the_job(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        value(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("bad", [None, [1], 10**400, math.inf, math.nan, {"a": 1}])
def test_fields_must_be_numbers(bad: Any) -> None:
    with pytest.raises(InputError, match="job a, field weight: expected a number for the expression, found"):
        value("weight * 2", Job("a", 1, fields={"weight": bad}))


def test_a_job_without_a_user_has_no_rank_by_user() -> None:
    with pytest.raises(InputError, match="job a: expected the field user with a number, found none"):
        value("2 * user", Job("a", 1))


class SlowOptions(Options):
    order: Order = "fcfs"
    backfill_order: Order | None = None


def in_order(jobs: list[Job], order: str, now: float) -> list[Job]:
    return sorted(jobs, key=lambda job: (value(order, job, now), job.seq))


class SortedFcfs(SlowFcfs):
    """The slow way: all jobs are sorted again in each pass."""

    Options = SlowOptions

    def starts(self, now: float) -> Iterator[Decision]:
        self.queue = in_order(self.queue, self.options.order, now)
        yield from super().starts(now)


class SortedEasy(SlowEasy):
    """The slow way: all jobs are sorted again in each pass, for the head and for backfilling."""

    Options = SlowOptions

    def starts(self, now: float) -> Iterator[Decision]:
        self.queue = in_order(self.queue, self.options.order, now)
        while self.queue and self.queue[0].n_procs <= self.partition.n_free:
            yield self.start(self.queue[0])
        head, backfill_order = self.queue[:1], self.options.backfill_order or self.options.order
        self.queue = head + in_order(self.queue[1:], backfill_order, now)
        yield from super().starts(now)


@st.composite
def workloads(draw: st.DrawFn, least_gap: int = 0) -> Workload:
    workload, at = Workload(), 0
    for index in range(draw(st.integers(1, 25))):
        at += draw(st.integers(least_gap, 4))
        run = draw(st.integers(1, 20))
        fields: dict[str, Any] = {"weight": draw(st.integers(-2, 2)), "urgent": draw(st.booleans())}
        fields["user"] = draw(st.sampled_from("abc"))
        if draw(st.integers(0, 5)):
            fields["estimate"] = run + draw(st.sampled_from([0, 0, 1, 7, -1 if run > 1 else 0]))
            fields["walltime"] = run + 10
        workload.job(f"{index:02}", n=draw(st.integers(1, N_PROCS)), s=run, at=at, **fields)
    return workload


CONDITIONS = [
    "wait if user == 'a' else -estimate",
    "(wait > 9 and procs < 4) - wait / 100",
    "weight if wait > 5 else 1",
]
VARYING = [
    *CONDITIONS,
    "wfp3",
    "unicep",
    "xfactor",
    "wait * weight",
    "min(wait, 10) * procs - estimate",
    "weight * now / procs",
]
FIXED = [*(name for name in NAMED_ORDERS if not parse_order(name).varies), "weight + estimate / procs"]
FIXED += ["estimate if user != 'b' else 0", "urgent or procs > 3"]


@examples(300)
@given(workloads(), st.sampled_from(VARYING + FIXED))
def test_fcfs_as_by_sorting_everything_in_each_pass(workload: Workload, order: str) -> None:
    fast = run_policy("fcfs", workload, N_PROCS, order=order)
    assert starts(fast) == starts(run_policy(SortedFcfs, workload, N_PROCS, order=order))


@pytest.mark.parametrize("long_queue", [2, 64])
@examples(600)
@given(
    workloads(),
    st.tuples(st.sampled_from(VARYING), st.sampled_from([None, "fcfs", *VARYING]))
    | st.tuples(st.sampled_from(FIXED), st.sampled_from(FIXED + VARYING)),
)
def test_easy_as_by_sorting_everything_in_each_pass(
    long_queue: int, workload: Workload, orders: tuple[str, str | None]
) -> None:
    options: dict[str, Any] = dict(zip(("order", "backfill_order"), orders, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pybatsched_schedulers.easy.LONG_QUEUE", long_queue)
        fast = run_policy("easy", workload, N_PROCS, **options)
    assert starts(fast) == starts(run_policy(SortedEasy, workload, N_PROCS, **options))


@examples(200)
@given(workloads(least_gap=1), st.sampled_from(FIXED))
def test_fixed_orders_of_easy_as_by_sorting_everything_in_each_pass(workload: Workload, order: str) -> None:
    """One job comes at a time: jobs of one message are tried as they came if no processor was freed."""
    fast = run_policy("easy", workload, N_PROCS, order=order)
    assert starts(fast) == starts(run_policy(SortedEasy, workload, N_PROCS, order=order))


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "dbf", "ujfb"])
@pytest.mark.parametrize(("alias", "name"), [*ALIASES.items(), ("sjf", "estimate"), ("fcfs", "0")])
def test_another_name_or_the_expression_gives_the_same_schedule(policy: str, alias: str, name: str) -> None:
    jobs = Workload()
    for index in range(40):
        run = 1 + index * 7 % 11
        jobs.job(f"{index:02}", n=1 + index * 5 % 8, s=run, at=index, walltime=run + 5, estimate=run + index % 3)
    config = {"dynamic-jobs-enabled": True}
    one, other = (starts(run_policy(policy, jobs, N_PROCS, config=config, order=order)) for order in (alias, name))
    assert one == other


EXPRESSIONS = [
    *VARYING, "wait / (procs - 3)", "sqrt(wait - 20) * 2", "-(wait * 1e200) ** 3", "(wait - 5) ** -1",
    "log10(wait) + log2(now) / estimate", "max(wait, estimate, procs) - min(now, 7)", "max(sqrt(5 - wait), 1)",
    "1e308 * now - 1e308 * wait", "wait if procs > 2 else -estimate", "(wait > 10 and procs < 4) * wait - procs",
    "not wait - 20 or now", "weight * 2 if user == 'b' else wait / (procs - 3)", "usage + wait",
]  # fmt: skip


@examples(300)
@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.sampled_from([1.0, 2.0, 5.0, math.inf]), st.integers(0, 40), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.integers(0, 30), max_size=3),
    st.sampled_from(EXPRESSIONS),
    st.integers(0, 6),
)
def test_ranks_of_all_jobs_are_those_of_each(
    rows: list[tuple[int, float, int, bool]], removed: list[int], order: str, n_free: int
) -> None:
    """Also with jobs in front, jobs that are removed, and jobs that will be submitted later."""
    ranked, one_by_one = parse_order(order).ranked_jobs(), parse_order(order)
    waiting: list[tuple[int, Job, float]] = []
    for number, (n, span_s, at, front) in enumerate(rows, 1):
        job = Job(str(number), n, submitted_at=float(at), fields={"weight": number - 4})
        arrival = -number if front else number
        ranked.add(job, span_s, arrival)
        waiting.append((arrival, job, span_s))
    waiting.sort(key=lambda entry: entry[0])
    for now in (40.0, 20.0, 20.0, 57.5):
        for index in removed[:1]:
            if len(waiting) > 1:
                ranked.remove(waiting.pop(index % len(waiting))[0])
        removed = removed[1:]
        expected = [FRONT if arrival < 0 else one_by_one.rank_at(job, span_s, now) for arrival, job, span_s in waiting]
        assert ranked.ranks(now) == expected
        in_order = [row for _, row in sorted(zip(expected, waiting, strict=True), key=lambda pair: pair[0])]
        assert ranked.first(now) is in_order[0][1]
        found = ranked.startable(n_free, 2, 2.0, now)
        assert found == [
            job for _, job, span_s in in_order if job.n_procs <= n_free and (span_s <= 2 or job.n_procs <= 2)
        ]


class WithUsage(SlowFcfs):
    """FCFS by an order with the usage of users, which is added up again in each pass."""

    Options = SlowOptions
    RANKS: ClassVar[dict[str, Callable[[float, Job, float], float]]] = {
        "usage": lambda used, _job, _now: used,
        "usage - 20 * wait": lambda used, job, now: used - 20 * (now - job.submitted_at),
        "usage if procs <= 4 or wait > 9 else 1000": lambda used, job, now: (
            used if job.n_procs <= 4 or now - job.submitted_at > 9 else 1000
        ),
    }

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        self.past: list[tuple[str, float]] = []

    def on_job_ended(self, job: Job, now: float) -> None:
        self.past.append(self.used_by(job, now))

    def used_by(self, job: Job, now: float) -> tuple[str, float]:
        assert job.started_at is not None
        return job.fields["user"], job.n_held * (now - job.started_at)

    def rank(self, order: str, job: Job, now: float) -> float:
        pairs = [*self.past, *(self.used_by(other, now) for other in self.partition.running_jobs)]
        used = [work for user, work in pairs if user == job.fields["user"]]
        return self.RANKS[order](sum(used), job, now)

    def starts(self, now: float) -> Iterator[Decision]:
        self.queue.sort(key=lambda job: (self.rank(self.options.order, job, now), job.seq))
        yield from super().starts(now)


class EasyWithUsage(WithUsage):
    """EASY by such an order."""

    def starts(self, now: float) -> Iterator[Decision]:
        self.queue.sort(key=lambda job: (self.rank(self.options.order, job, now), job.seq))
        yield from SlowEasy.starts(self, now)  # type: ignore[arg-type]


@examples(300)
@given(workloads(), st.sampled_from([*WithUsage.RANKS]))
def test_usage_as_by_adding_up_everything_in_each_pass(workload: Workload, order: str) -> None:
    for name, twin in (("fcfs", WithUsage), ("easy", EasyWithUsage)):
        fast = run_policy(name, workload, N_PROCS, order=order)
        assert starts(fast) == starts(run_policy(twin, workload, N_PROCS, order=order))


@examples(300)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 8), st.floats(0, 1e6), st.floats(0, 1e6)), max_size=12),
    st.floats(0, 1e6),
    st.sampled_from([math.inf, 1.0, 3600.0, 1e7]),
)
def test_usage_is_the_integral_of_the_processors(
    rows: list[tuple[str, int, float, float]], now: float, half_life_s: float
) -> None:
    """Of those that have started by now; the weight of an instant halves with each half-life since then."""
    usage = UserUsage(half_life_s)
    events, expected = [], {"a": 0.0, "b": 0.0}
    for number, (user, n, at, span_s) in enumerate(rows):
        job = Job(str(number), n, fields={"user": user})
        job.segment.n_held = n
        if at <= now:
            events.append((at, 0, number, job))
            end = min(at + span_s, now)
            weight = [2 ** ((one - now) / half_life_s) for one in (at, end)]
            held_s = end - at if half_life_s == math.inf else (weight[1] - weight[0]) * half_life_s / math.log(2)
            expected[user] += n * held_s
            if at + span_s <= now:
                events.append((at + span_s, 1, number, job))
    for at, is_end, _, job in sorted(events, key=lambda event: event[:3]):
        (usage.ended if is_end else usage.started)(job, at)
    for user, used in expected.items():
        assert usage.of(user, now) == pytest.approx(used, rel=1e-9, abs=1e-6)


def test_usage_by_hand() -> None:
    """Ann has used 4 · 10 processor-seconds at 10, so Bob's job goes first; then 40 and 40: ties go by arrival.

    With a half-life of 10 s, Ann's 40 count less than Bob's at 20.
    """
    jobs = Workload()
    for number, (user, at) in enumerate([("ann", 0), ("ann", 1), ("bob", 2), ("bob", 3)], 1):
        jobs.job(str(number), n=4, s=10, at=at, walltime=11, user=user)
    assert starts(run_policy("fcfs", jobs, 4)) == {"1": 0, "2": 10, "3": 20, "4": 30}
    for policy in ("fcfs", "easy"):
        assert starts(run_policy(policy, jobs, 4, order="usage")) == {"1": 0, "2": 20, "3": 10, "4": 30}
        assert starts(run_policy(policy, jobs, 4, order="-usage")) == {"1": 0, "2": 10, "3": 20, "4": 30}
    halved = run_policy("fcfs", jobs, 4, order="usage(10)")
    assert starts(halved) == {"1": 0, "2": 20, "3": 10, "4": 30}
    assert starts(run_policy("fcfs", jobs, 4, order="-usage('10s')")) == {"1": 0, "2": 10, "3": 20, "4": 30}


def test_usage_counts_all_partitions_and_restarts() -> None:
    """A redirected job is killed and runs again elsewhere: its user has used both segments."""
    options: dict[str, Any] = {"group_size": 2, "theta": 1, "principal_options": {"order": "usage"}}
    jobs = Workload()
    for index in range(30):
        run = 1 + index * 7 % 9
        jobs.job(f"{index:02}", n=1 + index * 5 % 6, s=run, at=index // 2, walltime=20, estimate=15, user=index % 3)
    found = run_policy("redirection", jobs, N_PROCS, config={"dynamic-jobs-enabled": True}, **options)
    assert None not in starts(found).values()
    plain = {**options, "principal_options": {}}
    assert starts(found) != starts(
        run_policy("redirection", jobs, N_PROCS, config={"dynamic-jobs-enabled": True}, **plain)
    )


def test_wfp3_by_hand() -> None:
    """8 processors until 100. Then `long` has waited 99 s of 200 s, `short` 10 s of 10 s: short goes first, then long.

    By arrival and by size, long would be first.
    """
    jobs = (
        Workload()
        .job("first", n=8, s=100, estimate=100)
        .job("long", n=8, s=200, at=1, estimate=200)
        .job("short", n=8, s=10, at=90, estimate=10)
        .job("late", n=8, s=10, at=105, estimate=10)
    )
    # At 110: long -(109 / 200)³ · 8 = -1.30, late -(5 / 10)³ · 8 = -1.
    assert starts(run_policy("fcfs", jobs, 8, order="wfp3")) == {"first": 0, "short": 100, "long": 110, "late": 310}


def test_easy_sjbf_by_hand() -> None:
    """One of 4 processors is free until 10. Job 3 (8 s) is first in the queue, job 4 (4 s) in backfill order."""
    jobs = (
        Workload()
        .job("1", n=3, s=10, estimate=10)
        .job("2", n=4, s=5, estimate=5, at=1)
        .job("3", n=1, s=8, estimate=8, at=2)
        .job("4", n=1, s=4, estimate=4, at=2)
        .job("5", n=1, s=3, estimate=3, at=3)
    )
    assert starts(run_policy("easy", jobs, 4)) == {"1": 0, "2": 10, "3": 2, "4": 15, "5": 15}
    # 5 ends at 9 after 4, which ends at 6. The head is still job 2.
    sjbf = {"1": 0, "2": 10, "3": 15, "4": 2, "5": 6}
    assert starts(run_policy("easy", jobs, 4, backfill_order="sjf")) == sjbf


def test_a_job_in_front_stays_there_in_an_order_that_varies() -> None:
    class Vips(LocalPolicy):
        Options = QueueOptions

        def on_begin(self, cluster: Any) -> None:
            self.local = local_scheduler("easy", {"order": "wfp3"}, cluster.add_partition("all", cluster.procs))
            self.locals = [self.local]

        def on_job_submitted(self, job: Job, now: float) -> None:
            self.local.submit(job, now, front="vip" in job.id)

    jobs = Workload().job("a", n=8, s=50, estimate=50)
    for name, at in (("b", 1), ("c", 2), ("vip", 49)):
        jobs.job(name, n=8, s=10, at=at, estimate=10)
    assert starts(run_policy(Vips, jobs, 8)) == {"a": 0, "vip": 50, "b": 60, "c": 70}


def test_estimates_use_the_order_at_the_time_of_the_question() -> None:
    """At 12, a has waited 12 s of 100 s and b 2 s of 10 s: b is first. At 10 it is a."""
    partition = Partition("all", IntervalSet.span(0, 4))
    for name, order in (("fcfs", "xfactor"), ("easy", "-wait / estimate")):
        local = local_scheduler(name, {"order": order}, partition)
        one, two = Job("a", 4, estimate=100.0), Job("b", 4, estimate=10.0, submitted_at=10.0)
        local.submit(one, 0.0)
        local.submit(two, 10.0)
        assert (local.planned_start(one, 10.0), local.planned_start(two, 10.0)) == (10, 110)
        version = local.plan_version(12.0)
        assert (local.planned_start(two, 12.0), local.planned_start(one, 12.0)) == (12, 22)
        assert local.plan_version(12.0) != version
        assert local.estimate(4, 5.0, 12.0) == 122
        assert local.waiting() == [two, one]
        local.withdraw(two, 12.0)
        assert (local.waiting(), local.planned_start(one, 12.0)) == ([one], 12)
        local.withdraw(one, 12.0)


def test_the_queue_is_not_sorted_while_the_machine_is_full() -> None:
    partition = Partition("all", IntervalSet.span(0, 4))
    local = local_scheduler("easy", {"order": "-wait / estimate"}, partition)
    one, two = Job("a", 4, estimate=100.0), Job("b", 4, estimate=10.0, submitted_at=10.0)
    local.submit(one, 10.0)
    local.submit(two, 10.0)
    partition.free = IntervalSet()
    partition.n_free = 0
    assert list(local.decide(12.0)) == []
    assert local.waiting() == [one, two]
    assert local.why_waiting(two, 12.0) == ("head of the queue: needs {} processors, {} are free", 4, 0)
    assert local.waiting() == [two, one]


# --- where orders are refused -------------------------------------------------------------------------------------

REFUSED = "the order changes while jobs wait (it uses wait, now or usage), but reservations are guarantees"


@pytest.mark.parametrize(
    ("policy", "options", "where"),
    [
        ("conservative", {"order": "wfp3"}, "policy conservative: option order (from -o): "),
        ("dbf", {"order": "-wait"}, "policy dbf: option order (from -o): "),
        ("ujfb", {"order": "now * procs"}, "policy ujfb: option order (from -o): "),
        ("reallocation", {"local_options": {"order": "xfactor"}},
         "policy reallocation, option local: policy conservative: option order (from its options): "),
        ("redirection", {"principal": "conservative", "principal_options": {"order": "unicep"}},
         "policy redirection, option principal: policy conservative: option order (from its options): "),
    ],
)  # fmt: skip
def test_rules_with_reservations_reject_orders_that_vary(policy: str, options: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as caught:
        run_policy(policy, Workload().job("a", n=1, s=1, walltime=2), 8, **options)
    assert f"{where}{REFUSED}" in str(caught.value)
    assert "expected an order without wait, now and usage, found" in str(caught.value)


def test_a_custom_scheduler_with_reservations_rejects_orders_that_vary() -> None:
    class Reserving(LocalScheduler):
        reserves = True

        def plan(self, now: float) -> Iterator[Decision]:
            return iter(())

    options = QueueOptions.model_validate({"order": "wfp3"})
    with pytest.raises(InputError, match="option order: the order changes while jobs wait"):
        Reserving(Partition("all", IntervalSet.span(0, 4)), options)


def test_reallocation_rejects_fcfs_with_a_varying_order() -> None:
    options: dict[str, Any] = {"local": "fcfs", "local_options": {"order": "wfp3"}}
    with pytest.raises(InputError, match="does not guarantee its planned starts"):
        run_policy("reallocation", Workload().job("a", n=1, s=1, walltime=2), 8, **options)


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("reallocation", {"local_options": {"order": "f1"}}),
        ("redirection", {"group_size": 2, "theta": 1, "principal_options": {"order": "wfp3", "backfill_order": "sjf"}}),
        ("ujf", {"order": "-urgent * 1e6 - wait"}),
        ("conservative", {"order": "f4"}),
    ],
)
def test_other_policies_accept_orders(policy: str, options: dict[str, Any]) -> None:
    jobs = Workload()
    for index in range(30):
        jobs.job(f"{index:02}", n=1 + index * 5 % 6, s=1 + index * 7 % 9, at=index // 2, walltime=20, estimate=15)
    assert (
        None not in starts(run_policy(policy, jobs, N_PROCS, config={"dynamic-jobs-enabled": True}, **options)).values()
    )


def crowd() -> Workload:
    jobs = Workload()
    for index in range(60):
        run = 1 + index * 7 % 23
        jobs.job(f"{index:02}", n=1 + index * 5 % 8, s=run, at=index * 2, estimate=run + index % 4, walltime=run + 9)
    return jobs


@pytest.mark.parametrize(
    "options", [{"order": "wfp3"}, {"order": "-wait ** 2 / estimate"}, {"order": "f1", "backfill_order": "unicep"}]
)
def test_an_order_from_batsims_options_gives_the_schedule_of_the_embedded_run(options: dict[str, Any]) -> None:
    jobs = crowd()
    session = Session(plan_for("easy"), checked=True)
    served = FakeBatsim(jobs, N_PROCS, config={"sched-config": json.dumps(options)}).run(session.handle)
    embedded = starts(run_policy("easy", jobs, N_PROCS, **options))
    assert starts(served) == embedded != starts(run_policy("easy", jobs, N_PROCS))


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("__import__('os').system('true')", "unknown function"),
        ("().__class__.__bases__", "'().__class__.__bases__' is not allowed"),
        ("9 ** 9 ** 9 ** 9 ** 9", "expected a number from -100 to 100"),
        ("(" * 100_000, "expected an order of at most 300 characters, found 100,000"),
        ("-" * 299 + "1", "the expression is nested too deeply"),
        (["sjf"], "expected a text"),
    ],
)
def test_a_hostile_order_from_batsim_is_an_error(order: Any, message: str) -> None:
    session = Session(plan_for("easy"))
    with pytest.raises(InputError) as caught:
        FakeBatsim(crowd(), N_PROCS, config={"sched-config": json.dumps({"order": order})}).run(session.handle)
    assert "policy easy: option order (from Batsim's --sched-cfg): " in str(caught.value)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("piece", ["(", "-", "1+", "2**", "max(", "a,", "not ", "1 if ", "sqrt(-", "*", "a.b.", "~"])
def test_texts_of_maximum_length_are_rejected_quickly(piece: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_order((piece * MAX_LENGTH)[:MAX_LENGTH])


def test_orders_on_the_command_line(tmp_path: Path) -> None:
    args = ("simulate", "--procs", "32", "-w", str(ROOT / "examples" / "workload.json"), "--policy", "easy")
    waits = []
    for order in ("-(wait / estimate) ** 3 * procs", "wfp3", "fcfs"):
        done = run_cli(*args, "-o", f"order={order}", "-o", "backfill_order=sjf", "-e", str(tmp_path / "run"))
        assert done.returncode == 0, done.stderr
        waits.append(json.loads((tmp_path / "run_summary.json").read_text())["figures"]["mean_wait_s"])
    assert waits[0] == waits[1] != waits[2]
    done = run_cli(*args, "-o", "order=wait.real", "-e", str(tmp_path / "run"))
    message = "policy easy: option order (from -o): 'wait.real' is not allowed; expected numbers, names, functions"
    assert (done.returncode, message in done.stderr) == (2, True)
    done = run_cli(*args, "-o", "order=2 * priority", "-e", str(tmp_path / "run"))
    assert (done.returncode, "job w0!00: unknown name 'priority' in an expression" in done.stderr) == (2, True)


def test_a_text_that_is_compared_with_a_field_that_no_job_has_is_a_warning(tmp_path: Path) -> None:
    args = ("simulate", "--procs", "32", "-w", str(ROOT / "examples/workload.json"), "--policy", "easy")
    for order, is_warned in (("0 if usr == 'ann' else 1", True), ("0 if id != '3' else 1", False)):
        done = run_cli(*args, "-e", f"{tmp_path}/out", "-o", f"order={order}")
        assert done.returncode == 0
        assert ("no job of the workloads has the field usr" in done.stderr) == is_warned
