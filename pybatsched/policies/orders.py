"""Orders of a queue: a name, or an expression such as ``-(wait / estimate) ** 3 * procs``.

An expression gives a number for each waiting job. The lowest number goes first, ties go by arrival in the queue. Texts
may come from Batsim's options, so they are parsed once, checked and never run as Python: the only operations are those
of `_BINARY` and `_FUNCTIONS`, on floating-point numbers, and conditions. Length, depth and exponents are limited, so
that parsing takes less than a millisecond and one evaluation has a bounded cost.

Every expression has a value for every job:

* a job without estimate has an infinite `estimate`;
* the logarithm of a number that is not positive is that of 0.1;
* ``x / 0`` is infinite with the sign of ``x``, and ``0 / 0`` is 0;
* a value that is not defined, for example the root of a negative number, puts the job last.

A comparison is 1 if it holds, else 0. A value is true if it is neither 0 nor undefined. ``A if C else B``, `and` and
`or` compute only the values that they need.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import sys
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybatsched.core.events import NOTHING
from pybatsched.core.instants import span_of
from pybatsched.core.jobs import Job, user_of
from pybatsched.core.usage import UserUsage
from pybatsched.errors import InputError

if TYPE_CHECKING:
    from pybatsched.core.cluster import Partition

#: Returns the use of processors by users, with a half-life if one is given.
Usages = Callable[..., UserUsage]
#: The rank of a job with its planned duration, at a time. The lowest rank goes first.
Rank = Callable[[Job, float, float], float]

#: The named orders, each with its expression.
NAMED_ORDERS: Final[dict[str, str]] = {
    "fcfs": "0",
    "sjf": "estimate",
    "ljf": "-estimate",
    "smallest": "procs",
    "largest": "-procs",
    "saf": "procs * estimate",
    "laf": "-procs * estimate",
    "wfp3": "-(wait / estimate) ** 3 * procs",
    "unicep": "-(wait + 1e-15) / (log2(procs + 1e-15) * estimate)",
    "f1": "log10(estimate) * procs + 870 * log10(submitted)",
    "f2": "sqrt(estimate) * procs + 25600 * log10(submitted)",
    "f3": "estimate * procs + 6860000 * log10(submitted)",
    "f4": "estimate * sqrt(procs) + 530000 * log10(submitted)",
    "xfactor": "-(1 + wait / estimate)",
    "urgent_first": "1 - urgent",
}
#: Other names of some orders.
ALIASES: Final[dict[str, str]] = {
    "narrowest": "smallest",
    "widest": "largest",
    "smallest_area": "saf",
    "largest_area": "laf",
}

MAX_LENGTH: Final = 300
MAX_DEPTH: Final = 40
MAX_EXPONENT: Final = 100.0
#: The least rank of an order; rank `FRONT` is lower.
LOWEST: Final = -sys.float_info.max

_OPERATIONS: Final = "+ - * / ** and brackets"
_ALLOWED: Final = f"numbers, names, functions, conditions, {_OPERATIONS}"
_COMPARED: Final = "expected a text only in a comparison with a field of jobs, such as queue == 'debug'"
#: A text in quotes.
_QUOTED: Final = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"")
#: A field that is compared with a text: before or after it.
_COMPARED_FIELD: Final = re.compile(r"([A-Za-z_]\w*)\s*[!=]=\s*['\"]|['\"]\s*[!=]=\s*([A-Za-z_]\w*)")
#: The characters that no expression has outside of quotes. Python's parser gets no text with them.
_OTHERS: Final = re.compile(r"[^\w .+*/(),<>=!-]")


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """A parsed order. `rank` is None for the order of arrival; if it `varies`, ranks change while jobs wait."""

    text: str
    rank: Rank | None
    varies: bool
    _part: _Part | None = field(default=None, repr=False, compare=False)

    def ranked_jobs(self) -> RankedJobs:
        """Return an empty collection of jobs that are ranked together by this order."""
        return RankedJobs(self._part or _constant(0.0))

    def rank_at(self, job: Job, span_s: float, now: float) -> float:
        """Return the rank of a job with a planned duration, at a time."""
        return 0.0 if self.rank is None else self.rank(job, span_s, now)

    def check_fixed(self) -> None:
        """Raise ValueError if the order varies, for rules that keep reservations in queue order."""
        if self.varies:
            raise ValueError(
                "the order changes while jobs wait (it uses wait, now or usage), but reservations are guarantees that "
                "are kept in the order of the queue; expected an order without wait, now and usage, found "
                f"{self.text!r:.80}"
            )


def parse_order(text: str, partition: Partition | None = None) -> QueueOrder:
    """Parse a name or an expression. Raises ValueError with what is wrong and what was expected. O(length).

    The usage of users is that of the cluster of `partition`; without one it is 0.

    >>> order = parse_order("estimate * procs")
    >>> order.varies, order.rank_at(Job("a", 4), 10.0, 0.0)
    (False, 40.0)
    """
    name = ALIASES.get(text, text)
    if name.isidentifier() and name not in NAMED_ORDERS and name not in _NAMES and len(name) <= MAX_LENGTH:
        hint = f"for a field of jobs write '({name:.60})'"
        raise ValueError(f"expected one of {', '.join(NAMED_ORDERS)}, or an expression ({hint})")
    part = _parsed(NAMED_ORDERS.get(name, name), UserUsage if partition is None else partition.usage)
    if part.value is not None:
        return QueueOrder(text, None, varies=False)
    return QueueOrder(text, part.rank if part.is_total else _total(part.rank), part.varies, part)


def parse_expression(text: str, usage: Usages, variables: Mapping[str, Rank]) -> Rank:
    """Parse an expression with more names than those of orders. Its value may be undefined. Raises ValueError."""
    return _parsed(text, usage, {name: _Part(rank, varies=True) for name, rank in variables.items()}).rank


def compared_fields(text: str) -> list[str]:
    """Return the fields of jobs that an expression compares with a text, in their order.

    >>> compared_fields("0 if queue == 'debug' else 1 if 'ann' != user else 2")
    ['queue', 'user']
    """
    return [one or other for one, other in _COMPARED_FIELD.findall(text)]


class _Part(NamedTuple):
    """A constant `value`, a variable, or an `operation` on `parts`; if it `is_total`, never NaN or -infinity.

    A variable has no operation, and neither has a part that computes only some of its parts.
    """

    rank: Rank
    varies: bool = False
    value: float | None = None
    is_total: bool = False
    operation: Callable[..., float] | None = None
    parts: tuple[Any, ...] = ()


def _total(rank: Rank) -> Rank:
    """Return a rank that is never NaN, which counts as infinity, and never as low as `FRONT`."""

    def total(job: Job, span_s: float, now: float) -> float:
        value = rank(job, span_s, now)
        return max(value, LOWEST) if value == value else math.inf  # noqa: PLR0124  NaN differs from itself

    return total


def _divided(x: float, y: float) -> float:
    if y:
        return x / y
    return x * math.inf if x else 0.0


def _power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:  # 0 ** -1, or a root of a negative number
        return math.nan if x else math.inf


def _for_all_numbers(logarithm: Callable[[float], float]) -> Callable[[float], float]:
    """Return a logarithm that takes numbers up to 0 as 0.1, and returns NaN for NaN."""
    return lambda x: logarithm(x if x > 0 else 0.1) if x == x else x  # noqa: PLR0124


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def _is_true(value: float) -> bool:
    return value != 0 and value == value  # noqa: PLR0124


_Binary = Callable[[float, float], float]
_BINARY: Final[dict[type[ast.operator], _Binary]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divided,
    ast.Pow: _power,
}
_COMPARISONS: Final[dict[type[ast.cmpop], _Binary]] = {
    ast.Lt: lambda x, y: float(x < y),
    ast.LtE: lambda x, y: float(x <= y),
    ast.Gt: lambda x, y: float(x > y),
    ast.GtE: lambda x, y: float(x >= y),
    ast.Eq: lambda x, y: float(x == y),
    ast.NotEq: lambda x, y: float(x != y),
}
#: The functions of one argument, and those of two or more.
_FUNCTIONS: Final[dict[str, Callable[[float], float]]] = {
    "log10": _for_all_numbers(math.log10),
    "log2": _for_all_numbers(math.log2),
    "sqrt": _sqrt,
}
_OF_MANY: Final[dict[str, Callable[[list[float]], float]]] = {"min": min, "max": max}

_VARIABLES: Final[dict[str, _Part]] = {
    "wait": _Part(lambda job, _span_s, now: max(now - job.submitted_at, 0.0), varies=True, is_total=True),
    "estimate": _Part(lambda _job, span_s, _now: span_s, is_total=True),
    "procs": _Part(lambda job, _span_s, _now: float(job.n_procs), is_total=True),
    "submitted": _Part(lambda job, _span_s, _now: job.submitted_at, is_total=True),
    "now": _Part(lambda _job, _span_s, now: now, varies=True, is_total=True),
    "user": _Part(lambda job, _span_s, _now: _field(job, "user"), is_total=True),
    "urgent": _Part(lambda job, _span_s, _now: 1.0 if job.is_urgent() else 0.0, is_total=True),
}
#: The names that no field of a job has in an expression.
_NAMES: Final = frozenset((*_VARIABLES, *_FUNCTIONS, *_OF_MANY, "usage"))


def _parsed(text: str, usage: Usages, more: Mapping[str, _Part] = NOTHING) -> _Part:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"expected an order of at most {MAX_LENGTH} characters, found {len(text):,}")
    line = re.sub(r"\s", " ", text).strip()
    other = _OTHERS.search(_QUOTED.sub("", line))
    if other is not None:
        raise ValueError(f"character {other[0]!r} is not allowed; expected {_ALLOWED}")
    if line.count("(") > MAX_DEPTH:
        raise ValueError(f"expected at most {MAX_DEPTH} brackets, found {line.count('('):,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about texts such as `1if`, which are errors below
            body = ast.parse(line, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"expected one of {', '.join(NAMED_ORDERS)}, or an expression") from None
    return _Parser(line, usage, more).part(body, 1)


class _Parser:
    """Makes a checked expression from a syntax tree. Recursion ends at `MAX_DEPTH`."""

    def __init__(self, line: str, usage: Usages, more: Mapping[str, _Part]) -> None:
        self._line = line.encode()
        self._usage = usage
        self._more = more

    def part(self, node: ast.expr, depth: int) -> _Part:
        if depth > MAX_DEPTH:
            raise ValueError(f"the expression is nested too deeply; expected at most {MAX_DEPTH} levels")
        inner = [self.part(one, depth + 1) for one in _inner(node)]
        match node:
            case ast.Constant():
                found = _constant(_number(node.value))
            case ast.Name():
                found = self._named(node.id)
            case ast.UnaryOp(op=ast.UAdd()):
                (found,) = inner
            case ast.UnaryOp(op=ast.USub()):
                found = _unary(operator.neg, *inner)
            case ast.UnaryOp(op=ast.Not()):
                found = _unary(lambda value: float(not _is_true(value)), *inner)
            case ast.BinOp():
                found = self._operation(node, depth)
            case ast.Compare():
                found = self._comparison(node, depth)
            case ast.BoolOp():
                found = _all_or_any(inner, are_all=isinstance(node.op, ast.And))
            case ast.IfExp():
                found = _choice(*inner)
            case ast.Call():
                found = self._call(node, depth)
            case _:
                raise ValueError(f"{self._excerpt(node)} is not allowed; expected {_ALLOWED}")
        return found

    def _operation(self, node: ast.BinOp, depth: int) -> _Part:
        operation = _BINARY.get(type(node.op))
        if operation is None:
            raise ValueError(f"unknown operation in {self._excerpt(node)}; expected {_OPERATIONS}")
        left, right = self.part(node.left, depth + 1), self.part(node.right, depth + 1)
        if operation is _power and (right.value is None or not abs(right.value) <= MAX_EXPONENT):
            expected = f"a number from {-MAX_EXPONENT:g} to {MAX_EXPONENT:g}"
            raise ValueError(f"exponent {self._excerpt(node.right)}: expected {expected}")
        return _binary(operation, left, right)

    def _named(self, name: str) -> _Part:
        if name in self._more:
            return self._more[name]
        return _usage(self._usage()) if name == "usage" else _named(name)

    def _is_field(self, name: str) -> bool:
        return name == "user" or (name not in _NAMES and name not in self._more)

    def _comparison(self, node: ast.Compare, depth: int) -> _Part:
        """Return a comparison of two numbers, or of a field with a number or a text."""
        comparison = _COMPARISONS.get(type(node.ops[0]))
        if comparison is None or len(node.ops) > 1:
            raise ValueError(f"{self._excerpt(node)}: expected one of < <= > >= == != between two values")
        left, right = node.left, node.comparators[0]
        name, value = (left, right) if isinstance(left, ast.Name) else (right, left)
        is_equality = isinstance(node.ops[0], ast.Eq | ast.NotEq)
        if is_equality and isinstance(name, ast.Name) and isinstance(value, ast.Constant) and self._is_field(name.id):
            wanted = value.value if isinstance(value.value, str) else _number(value.value)
            return _field_is(name.id, wanted, is_equal=isinstance(node.ops[0], ast.Eq))
        if any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in (left, right)):
            raise ValueError(f"{self._excerpt(node)} is not allowed; {_COMPARED}")
        return _binary(comparison, self.part(left, depth + 1), self.part(right, depth + 1))

    def _call(self, node: ast.Call, depth: int) -> _Part:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "usage":
            return _usage(self._usage(_half_life(node)))
        if name not in _FUNCTIONS and name not in _OF_MANY:
            known = ", ".join((*_FUNCTIONS, *_OF_MANY, "usage"))
            raise ValueError(f"unknown function {self._excerpt(node.func)}; expected one of {known}")
        if node.keywords or (len(node.args) != 1 if name in _FUNCTIONS else len(node.args) < 2):
            expected = "one value" if name in _FUNCTIONS else "two or more values"
            raise ValueError(f"{name}: expected {expected} in its brackets")
        parts = [self.part(arg, depth + 1) for arg in node.args]
        return _unary(_FUNCTIONS[name], parts[0]) if name in _FUNCTIONS else _extreme(_OF_MANY[name], parts)

    def _excerpt(self, node: ast.expr) -> str:
        text = self._line[node.col_offset : node.end_col_offset].decode(errors="replace")
        return repr(text[:40])


def _number(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    expected = _COMPARED if isinstance(value, str) else "expected a finite number"
    raise ValueError(f"{value!r:.40} is not allowed; {expected}")


def _inner(node: ast.expr) -> Sequence[ast.expr]:
    """Return the parts of a node whose parts are any expressions, in the order of their use."""
    match node:
        case ast.UnaryOp():
            return [node.operand]
        case ast.BoolOp():
            return node.values
        case ast.IfExp():
            return [node.test, node.body, node.orelse]
        case _:
            return ()


def _half_life(node: ast.Call) -> float:
    """Return the argument of `usage`: a number of seconds, or a text such as '7d'."""
    values = [one.value for one in node.args if isinstance(one, ast.Constant)]
    if len(node.args) == len(values) == 1 and not node.keywords:
        found = span_of(values[0]) if isinstance(values[0], str) else _number(values[0])
        if found is not None and found > 0:
            return found
    raise ValueError("usage: expected a half-life above 0 in its brackets, such as usage(86400) or usage('7d')")


def _usage(usage: UserUsage) -> _Part:
    """Return the use of processors by the user of a job, up to now."""
    return _Part(lambda job, _span_s, now: usage.of(user_of(job), now), varies=True, is_total=True)


def _field_is(name: str, wanted: float | str, *, is_equal: bool) -> _Part:
    """Return whether a field of a job is equal to a text or a number. A job without the field has no equal value."""

    def rank(job: Job, _span_s: float, _now: float) -> float:
        found = job.fields.get(name)
        same = found == wanted or (found is not None and isinstance(wanted, str) and str(found) == wanted)
        return float(same is is_equal)

    return _Part(rank, is_total=True)


def _choice(condition: _Part, then: _Part, other: _Part) -> _Part:
    """Return one of two parts by a condition. The other one is not computed."""
    is_so, first, second = condition.rank, then.rank, other.rank

    def rank(job: Job, span_s: float, now: float) -> float:
        return (first if _is_true(is_so(job, span_s, now)) else second)(job, span_s, now)

    return _Part(rank, any(part.varies for part in (condition, then, other)))


def _all_or_any(parts: list[_Part], *, are_all: bool) -> _Part:
    """Return 1 if all parts, or any of them, are true. Those after the first that decides are not computed."""
    ranks, decides = [part.rank for part in parts], all if are_all else any

    def rank(job: Job, span_s: float, now: float) -> float:
        return float(decides(_is_true(one(job, span_s, now)) for one in ranks))

    return _Part(rank, any(part.varies for part in parts), is_total=True)


def _named(name: str) -> _Part:
    if name in _VARIABLES:
        return _VARIABLES[name]
    if name in _NAMES:
        raise ValueError(f"{name} is a function; expected brackets after it")
    return _Part(lambda job, _span_s, _now: _field(job, name), is_total=True)


def _field(job: Job, name: str) -> float:
    """Return a field of a job as a number; true is 1. Raises InputError if it is missing or no number."""
    try:
        value = job.fields[name]
    except KeyError:
        if name in _VARIABLES:
            raise InputError(f"job {job.id}: expected the field {name} with a number, found none") from None
        from pybatsched.pydantic_errors import close_to  # noqa: PLC0415  imports pydantic

        hint = close_to(name, (*_VARIABLES, "usage", *NAMED_ORDERS, *ALIASES))
        raise InputError(
            f"job {job.id}: unknown name {name!r} in an expression, and the job has no such field; {hint}"
        ) from None
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"job {job.id}, field {name}: expected a number for the expression, found {value!r:.60}")
    return number


def _constant(value: float) -> _Part:
    return _Part(lambda _job, _span_s, _now: value, value=value)


def _unary(function: Callable[[float], float], part: _Part) -> _Part:
    if part.value is not None:
        return _constant(function(part.value))
    rank = part.rank
    return _Part(
        lambda job, span_s, now: function(rank(job, span_s, now)), part.varies, operation=function, parts=(part,)
    )


def _extreme(function: Callable[[list[float]], float], parts: list[_Part]) -> _Part:
    """Return the least or the greatest of several parts; not defined if one of them is not."""
    ranks = [part.rank for part in parts]

    def extreme(*values: float) -> float:
        return math.nan if any(map(math.isnan, values)) else function(list(values))

    return _Part(
        lambda job, span_s, now: extreme(*(rank(job, span_s, now) for rank in ranks)),
        any(part.varies for part in parts),
        operation=extreme,
        parts=tuple(parts),
    )


def _binary(operation: _Binary, left: _Part, right: _Part) -> _Part:
    """Return an operation on two parts. Constants are computed once."""
    if left.value is not None and right.value is not None:
        return _constant(operation(left.value, right.value))
    x, y = left.rank, right.rank
    varies = left.varies or right.varies
    rank: Rank
    if left.value is not None:
        first = left.value
        rank = lambda job, span_s, now: operation(first, y(job, span_s, now))  # noqa: E731
    elif right.value is not None:
        second = right.value
        rank = lambda job, span_s, now: operation(x(job, span_s, now), second)  # noqa: E731
    else:
        rank = lambda job, span_s, now: operation(x(job, span_s, now), y(job, span_s, now))  # noqa: E731
    return _Part(rank, varies, operation=operation, parts=(left, right))


# --- many jobs at once --------------------------------------------------------------------------------------------

#: Values of all jobs at a time.
_Column = Callable[[float], Iterable[float]]
#: Quick versions of operations; where these raise an exception, all values are computed one by one.
_QUICK: Final[dict[Any, Callable[[float, float], float]]] = {_divided: operator.truediv, _power: math.pow}


class RankedJobs:
    """Waiting jobs in order of arrival, with their ranks by an order that changes while they wait.

    Parts of the expression that do not change are computed once for each job. The others are computed for all jobs at
    once, with the same results as one by one. `add` and `remove` are O(jobs) with a small constant.

    >>> ranked = parse_order("-wait / estimate").ranked_jobs()
    >>> ranked.add(Job("long", 1), 100.0, 1)
    >>> ranked.add(Job("short", 1, submitted_at=40.0), 10.0, 2)
    >>> ranked.ranks(50.0), ranked.first(50.0).id
    ([-0.5, -1.0], 'short')
    """

    def __init__(self, part: _Part) -> None:
        self._rank = _total(part.rank)
        self._jobs: list[Job] = []
        self._spans: list[float] = []
        self._arrivals: list[int] = []  # negative for jobs in front of the queue
        self._n_procs: list[int] = []
        self._fixed: list[tuple[Rank, list[float]]] = []
        self._submitted: list[float] = []
        self._column = self._column_of(part)
        self._ranks: list[float] = []
        self._ranked_at = math.nan

    def add(self, job: Job, span_s: float, arrival: int) -> None:
        """Add a job with its planned duration. Arrival numbers below 0 are those of jobs in front of all others."""
        i = bisect_left(self._arrivals, arrival)
        self._arrivals.insert(i, arrival)
        self._jobs.insert(i, job)
        self._spans.insert(i, span_s)
        self._n_procs.insert(i, job.n_procs)
        self._submitted.insert(i, job.submitted_at)
        for rank, column in self._fixed:
            column.insert(i, rank(job, span_s, 0.0))
        self._ranked_at = math.nan

    def remove(self, arrival: int) -> None:
        """Remove a job by its arrival number."""
        i = bisect_left(self._arrivals, arrival)
        for values in (self._arrivals, self._jobs, self._spans, self._n_procs, self._submitted):
            del values[i]
        for _, column in self._fixed:
            del column[i]
        if not math.isnan(self._ranked_at):
            del self._ranks[i]

    def ranks(self, now: float) -> list[float]:
        """Return the ranks of all jobs, in order of arrival. O(jobs) once for each time, about 0.2 µs each."""
        if now != self._ranked_at:
            try:
                ranks = list(self._column(now))
            except (ArithmeticError, ValueError):
                ranks = [self._rank(job, span_s, now) for job, span_s in zip(self._jobs, self._spans, strict=True)]
            if not math.isfinite(sum(ranks)):
                ranks = [max(rank, LOWEST) if rank == rank else math.inf for rank in ranks]  # noqa: PLR0124
            n_front = bisect_left(self._arrivals, 0)
            ranks[:n_front] = [-math.inf] * n_front
            self._ranks, self._ranked_at = ranks, now
        return self._ranks

    def first(self, now: float) -> Job:
        """Return the job of the lowest rank, of several the one that arrived first. O(jobs). There must be one."""
        ranks = self.ranks(now)
        return self._jobs[ranks.index(min(ranks))]

    def startable(self, n_free: int, n_extra: int, longest_s: float, now: float) -> list[Job]:
        """Return the jobs that may be backfilled by size or duration, by rank. O(jobs + found log found)."""
        ranks, n_procs, spans = self.ranks(now), self._n_procs, self._spans
        found = [
            i
            for i in compress(range(len(ranks)), map(n_free.__ge__, n_procs))
            if spans[i] <= longest_s or n_procs[i] <= n_extra
        ]
        found.sort(key=ranks.__getitem__)
        return [self._jobs[i] for i in found]

    def _column_of(self, part: _Part) -> _Column:
        jobs, value = self._jobs, part.value
        if value is not None:
            constant = value
            return lambda _now: repeat(constant, len(jobs))
        if not part.varies:
            column: list[float] = []
            self._fixed.append((part.rank, column))
            return lambda _now: column
        if part is _VARIABLES["now"]:
            return lambda now: repeat(now, len(jobs))
        if part is _VARIABLES["wait"]:
            return self._waits
        if part.operation is None:
            rank, spans = part.rank, self._spans
            return lambda now: [rank(job, span_s, now) for job, span_s in zip(jobs, spans, strict=True)]
        operation: Any = _QUICK.get(part.operation, part.operation)
        columns = [self._column_of(one) for one in part.parts]
        return lambda now: map(operation, *[one(now) for one in columns])

    def _waits(self, now: float) -> Iterable[float]:
        waits = map(operator.sub, repeat(now), self._submitted)
        is_late = not self._submitted or max(self._submitted) <= now
        return waits if is_late else map(max, waits, repeat(0.0))
