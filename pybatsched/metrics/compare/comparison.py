"""Compare two runs by their summaries, and check conditions on the second run (``--fail-if``)."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pybatsched.errors import InputError, did_you_mean, setting
from pybatsched.metrics import DEFAULT_TAU_S, Tally, energy, jobs_csv
from pybatsched.metrics.compare.paired import OTHER_JOBS, ran_of
from pybatsched.metrics.figure_names import is_count, resolved
from pybatsched.metrics.logged import LOGGED, logged_run
from pybatsched.metrics.node_use import figures_of_summary
from pybatsched.metrics.outcomes import LOST_JOBS
from pybatsched.metrics.saved_runs import read_options_of, tau_of, workloads_of
from pybatsched.metrics.summary import FORMAT, FORMAT_VERSION, STATE_COUNTS
from pybatsched.metrics.workload_fields import evaluated_ids
from pybatsched.results.run_state import JOBS, SUMMARY, WHOLE, Found, RunState, read_stable
from pybatsched.text_table import aligned

_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_HUGE: Final = 1e300
#: Metrics that depend on the bound τ of bounded slowdowns.
_BY_TAU: Final = frozenset(("mean_bounded_slowdown", "max_bounded_slowdown", "tau_s"))
#: Text in the column of changes where the two runs have different bounds.
_OTHER_TAU: Final = "other tau"
_CONDITION: Final = re.compile(
    r"\s*(?P<metric>\w+)\s*(?P<operator>[<>]=?|[=!]=)\s*"
    r"(?P<sign>[+-]?)\s*(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<percent>%?)\s*"
)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A summary: its metrics by name, digests of inputs by kind, whether the run is complete, and its content."""

    path: str
    metrics: Mapping[str, float | None]
    inputs: Mapping[str, tuple[str, ...]]
    run_state: RunState = WHOLE
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Condition:
    """A bound on the second run: on its value, or with a sign on the change from the first, in units or per cent."""

    text: str
    metric: str
    symbol: str
    amount: float
    kind: str  # "value", "change" or "percent"

    def holds(self, before: float, after: float) -> bool:
        """Return whether the condition is true, up to rounding."""
        found = {"value": after, "change": after - before, "percent": 100 * relative_change(before, after)}[self.kind]
        if math.isclose(found, self.amount, rel_tol=1e-9, abs_tol=1e-12):
            found = self.amount  # from 2.0 to 2.1 is a rise by 5 %, despite rounding of the last bit
        return _OPERATORS[self.symbol](found, self.amount)


def relative_change(before: float, after: float) -> float:
    """Return (after - before) / |before|; infinite if only `before` is 0.

    >>> relative_change(4.0, 5.0), relative_change(0.0, 0.0), relative_change(0.0, 2.0)
    (0.25, 0.0, inf)
    """
    if before == after:
        return 0.0
    if before == 0.0:
        return math.copysign(math.inf, after)
    return (after - before) / abs(before)


def read_condition(text: str) -> Condition:
    """Parse a condition such as ``mean_wait_s > +5%``, ``n_killed > +0`` or ``max_wait_s >= 3600``."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise InputError(
            f"{setting('fail_if', text)}: expected METRIC, one of < <= > >= == !=, and a number: '> +5%' compares the "
            "change in per cent, '> +5' the change, '> 5' the value"
        )
    amount = float(match["number"]) * (-1.0 if match["sign"] == "-" else 1.0)
    if not abs(amount) < _HUGE:
        raise InputError(f"{setting('fail_if', text)}: expected a number below {_HUGE:g}")
    if match["percent"]:
        kind = "percent"
        if not match["sign"] and amount:
            raise InputError(f"{setting('fail_if', text)}: expected a sign before the per cent, as in '> +5%'")
    else:
        kind = "change" if match["sign"] else "value"
    return Condition(text.strip(), match["metric"], match["operator"], amount, kind)


def read_summary(path: str, *, partial: bool = False) -> RunSummary:
    """Read a ``PREFIX_summary.json``, or the figures of an unfinished run so far. Raises InputError."""
    if not path.endswith(SUMMARY):
        if path.endswith(".json") or Path(path).is_file():
            return _summary_of_complete(path, Path(path), WHOLE)
        path += SUMMARY
    prefix = path.removesuffix(SUMMARY)

    def read(found: Found) -> RunSummary:
        if found.is_whole or found.mark is None:
            return _summary_of_complete(path, found.path(SUMMARY), found.standing(prefix, 0))
        return _summary_of_partial(path, prefix, found, found.mark.about)

    return read_stable(prefix, read, newest=partial)


def read_both(before: str, after: str, *, partial: bool = False) -> tuple[RunSummary, RunSummary]:
    """Read two runs. The name `logged`, if no run has it, is the run that the log of the other one recorded."""
    if LOGGED not in {before, after} or Path(f"{LOGGED}{SUMMARY}").exists() or before == after:
        return read_summary(before, partial=partial), read_summary(after, partial=partial)
    other = read_summary(after if before == LOGGED else before, partial=partial)
    logged = _read_logged(other)
    return (logged, other) if before == LOGGED else (other, logged)


def _read_logged(other: RunSummary) -> RunSummary:
    """Return the run that the log of another run recorded. Raises InputError."""
    prefix, about = other.path.removesuffix(SUMMARY), other.about
    n_procs, tau_s = about.get("n_procs"), other.metrics.get("tau_s")
    workloads = workloads_of(prefix, about)
    if not workloads:
        raise InputError(f"{prefix}: {LOGGED}: expected the workload files of its summary, unchanged")
    known = n_procs if isinstance(n_procs, int) else 0
    result = logged_run(workloads, known or 1, DEFAULT_TAU_S if tau_s is None else tau_s)[1]
    figures = result.figures
    if not known or about.get("units", "core") != "core":  # sizes in the log are cores
        figures = replace(figures, utilisation=None)
    content = {"figures": figures.as_dict(), "n_unfinished": len(result.stuck), "ended_at": result.ended_at}
    return replace(_run_summary(LOGGED, content, WHOLE), inputs=other.inputs)


def read_pairs(before: str, after: str, *, partial: bool = False) -> dict[str, tuple[RunSummary, RunSummary]]:
    """Read two sets of runs, by prefixes with a star each, as pairs by what it stands for. Raises InputError."""
    found = [_matching(pattern) for pattern in (before, after)]
    for pattern, own, others in ((before, found[0], found[1]), (after, found[1], found[0])):
        if missing := sorted(own.keys() - others.keys()):
            raise InputError(
                f"{pattern}: expected a matching run of the other set for each run, found none for {own[missing[0]]}"
            )
    return {
        key: (read_summary(path, partial=partial), read_summary(found[1][key], partial=partial))
        for key, path in sorted(found[0].items())
    }


def _matching(pattern: str) -> dict[str, str]:
    """Return the prefixes of the runs that match a prefix with one star, by what the star stands for."""
    head, star, tail = pattern.removesuffix(SUMMARY).rpartition("*")
    folder, slash, start = head.rpartition("/")
    if not star or "*" in head or "/" in tail:
        expected = "one star in the last part of both names, such as 'out/easy-*' and 'out/sjf-*'"
        raise InputError(f"{pattern}: expected {expected}")
    found = {}
    for path in Path(folder or slash or ".").glob(f"*{SUMMARY}"):
        name = path.name.removesuffix(SUMMARY)
        if name.startswith(start) and name.endswith(tail) and len(name) > len(start) + len(tail):
            found[name[len(start) : len(name) - len(tail)]] = str(path.with_name(name))
    if not found:
        raise InputError(f"{pattern}: no run found; expected files {pattern}{SUMMARY}")
    return found


def _summary_of_partial(path: str, prefix: str, found: Found, about: Mapping[str, Any]) -> RunSummary:
    tau_s = tau_of(path, about)
    tally = Tally(DEFAULT_TAU_S if tau_s is None else tau_s, evaluated_ids(workloads_of(prefix, about)))
    for outcome in jobs_csv.read_partial(found.path(JOBS)):
        tally.add(outcome)
    n_procs = about.get("n_procs")
    figures = tally.figures(n_procs if isinstance(n_procs, int) else 1)
    if not isinstance(n_procs, int):
        figures = replace(figures, utilisation=None)
    content = {**about, "figures": figures.as_dict()}
    return _run_summary(path, content, found.standing(prefix, figures.n_jobs + figures.n_left_out))


def _summary_of_complete(path: str, file: Path, run_state: RunState) -> RunSummary:
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected a summary in JSON; {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(
            f"{path}: expected a JSON object with format {FORMAT!r}, such as the PREFIX_summary.json of a run"
        )
    if content.get("format_version") != FORMAT_VERSION:
        raise InputError(f"{path}: format_version is {content.get('format_version')!r}; expected {FORMAT_VERSION}")
    return _run_summary(path, content, run_state)


def _run_summary(path: str, content: Mapping[str, Any], run_state: RunState) -> RunSummary:
    figures = content.get("figures")
    if not isinstance(figures, dict) or not isinstance(figures.get("n_by_state"), dict):
        raise InputError(f"{path}: expected an object 'figures' with 'n_by_state'")
    found: dict[str, Any] = {name: value for name, value in figures.items() if name != "n_by_state"}
    own = content.get("policy_figures", {})
    if not isinstance(own, dict):
        raise InputError(f"{path}: expected an object 'policy_figures'")
    found = {**own, **found, **figures_of_summary(content), **energy.of_summary(content)}
    found |= {name: figures["n_by_state"].get(state, 0) for state, name in STATE_COUNTS.items()}
    found |= {name: content.get(name) for name in ("n_unfinished", "n_messages", "ended_at")}
    for name, value in found.items():
        if value is not None and not _is_number(value):
            raise InputError(f"{path}: {name} is {value!r:.80}; expected a number")
    return RunSummary(path, found, inputs_of(content), run_state, content)


def inputs_of(summary: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the digests of a run's inputs by kind, and the options they were read with. Accepts any summary."""
    return _digests(summary.get("inputs")) | {name: (str(how),) for name, how in read_options_of(summary).items()}


def different_inputs(before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the kinds of inputs in which two runs differ."""
    return sorted(kind for kind in {*before, *after} if before.get(kind, ()) != after.get(kind, ()))


def _is_number(value: Any) -> bool:
    """Return whether a metric is a number that can be compared."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_HUGE < value < _HUGE


def _digests(inputs: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(inputs, dict):
        return {}
    return {
        str(kind): tuple(str(file.get("sha256")) for file in files if isinstance(file, dict))
        for kind, files in inputs.items()
        if isinstance(files, list)
    }


def broken(condition: Condition, before: RunSummary, after: RunSummary, others: str) -> str:
    """Return why a ``--fail-if`` condition applies to the second run; else nothing. For `others` see `other_jobs`."""
    known = before.metrics.keys() & after.metrics.keys()
    condition = replace(condition, metric=resolved(condition.metric, known))
    if condition.metric not in known:
        names = did_you_mean(condition.metric, sorted(known), f"; expected one of {', '.join(sorted(known))}")
        raise InputError(f"{setting('fail_if', condition.text)}: no metric {condition.metric!r} in both runs{names}")
    if condition.metric in _BY_TAU and condition.kind != "value" and (why := other_tau(before, after)):
        raise InputError(f"{setting('fail_if', condition.text)}: {why}")
    if condition.kind != "value" and not is_count(condition.metric) and others:
        return f"{condition.text}: {others}"
    a, b = before.metrics[condition.metric], after.metrics[condition.metric]
    if b is None or (a is None and condition.kind != "value"):
        where = after.path if b is None else before.path
        return f"{condition.text}: {condition.metric} has no value in {where} (did any job run?)"
    if not condition.holds(a if a is not None else 0.0, b):
        return ""
    return f"{condition.text}: {condition.metric} was {shown(a)}, is {shown(b)} ({change(a, b)})"


def other_tau(before: RunSummary, after: RunSummary) -> str:
    """Return why the bounded slowdowns of two runs cannot be compared (different bounds); empty if they can."""
    a, b = before.metrics.get("tau_s"), after.metrics.get("tau_s")
    if a is None or b is None or a == b:
        return ""
    bounds = f"{setting('tau_s')} ({a:g} s and {b:g} s)"
    return f"the two runs have different {bounds}: their bounded slowdowns cannot be compared"


def other_jobs(before: RunSummary, after: RunSummary) -> str:
    """Return why the figures of two runs are over different jobs; empty if the same jobs ran, as far as is known."""
    a, b = ran_of(before.metrics), ran_of(after.metrics)
    return f"the two runs have figures of different jobs: {a} before, {b} after" if a.differs(b) else ""


def differs(metric: str, before: RunSummary, after: RunSummary) -> bool:
    """Return whether both runs have a metric, with different values."""
    a, b = before.metrics.get(metric), after.metrics.get(metric)
    return a is not None and b is not None and a != b


def table(before: RunSummary, after: RunSummary) -> list[str]:
    """Return the lines of a table: each metric of both runs, and its change."""
    names = [name for name in before.metrics if name in after.metrics and name != LOST_JOBS]
    rows = [("metric", "before", "after", "change")]
    others = other_jobs(before, after)
    marks = {name: OTHER_JOBS for name in names if others and not is_count(name) and name != "tau_s"}
    marks |= dict.fromkeys(_BY_TAU, _OTHER_TAU) if other_tau(before, after) else {}
    rows += [
        (name, shown(a), shown(b), marks.get(name) or change(a, b))
        for name, a, b in ((name, before.metrics[name], after.metrics[name]) for name in names)
    ]
    return aligned(rows, "lr")


def shown(value: float | None) -> str:
    """Return a metric as text."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.1f}"


def change(before: float | None, after: float | None) -> str:
    """Return the change of a metric as text."""
    if before is None or after is None:
        return "" if before == after else "?"
    part = relative_change(before, after)
    return "=" if part == 0 else f"{part:+.2%}" if math.isfinite(part) else f"{after - before:+,.6g}"
