"""Define the names of all figures, with units, titles and definitions: one name per figure, in every file and table.

A *measure* is a number of one job (`wait_s`). A figure of many jobs is a statistic of a measure: `mean_wait_s`,
`p95_wait_s`, `max_bounded_slowdown`. A figure of the jobs of one kind has that kind in front: `urgent_max_slowdown`.
docs/metrics.md shows these tables, and a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from pybatsched.deprecations import deprecated
from pybatsched.metrics.outcomes import LOST_JOBS


class Figure(NamedTuple):
    """A figure: its name, unit (empty for plain numbers), title on pages, definition, and `better` direction."""

    name: str
    unit: str
    title: str
    definition: str
    better: Literal["lower", "higher", ""] = ""


def _by_name(figures: Iterable[Figure]) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures}


#: Kinds of jobs.
KINDS: Final = ("urgent", "deadline", "regular")
#: Measures of every job that ran.
MEASURES: Final = _by_name(
    (
        Figure("wait_s", "s", "wait (s)", "flow - run time; with one segment, start - submission", "lower"),
        Figure(
            "flow_s", "s", "flow (s)", "last end - first submission; also called response or turnaround time", "lower"
        ),
        Figure("slowdown", "", "slowdown", "max(1, flow / run time); Batsim calls it stretch", "lower"),
        Figure(
            "bounded_slowdown", "", "bounded slowdown", "max(1, flow / max(run time, τ)); τ is 10 s by default", "lower"
        ),
        Figure("runtime_s", "s", "runtime (s)", "the work that counts, see below"),
        Figure("queue_time_s", "s", "queue time (s)", "first start - first submission", "lower"),
    )
)
#: Measures of jobs with the field `alone_s` in their workload.
STRETCHES: Final = _by_name(
    (
        Figure("stretch", "", "stretch", "flow / `alone_s`", "lower"),
        Figure("bounded_stretch", "", "bounded stretch", "flow / max(`alone_s`, 300 s)", "lower"),
    )
)
#: Measures of jobs of a log, which are no figures of a run.
OF_LOGS: Final = _by_name(
    (Figure("logged_wait_s", "s", "logged wait (s)", "field `logged_wait_s`: the wait in the log; no figure of runs"),)
)
#: Statistics of a measure over many jobs, by the first word of a figure's name. The last two exist for facts only.
STATISTICS: Final = {
    "mean": "arithmetic mean",
    "std": "standard deviation, divided by n",
    **{f"p{p}": f"percentile {p}, by linear interpolation" for p in (5, 25, 50, 75, 95, 99)},
    "max": "largest value",
    "total": "sum (of facts)",
    "n_jobs_with": "number of jobs that have the fact",
}
#: Figures of a whole run.
OF_RUNS: Final = _by_name(
    (
        Figure("n_jobs", "", "n jobs", "jobs of users that are evaluated"),
        Figure("n_left_out", "", "n left out", "jobs that are not evaluated"),
        Figure("n_ran", "", "n ran", "jobs that ran at all"),
        Figure("n_requeued", "", "n requeued", "jobs that ran in several segments"),
        Figure("n_completed", "", "n completed", "jobs that ended with success", "higher"),
        Figure("n_failed", "", "n failed", "jobs that ended with a failure", "lower"),
        Figure("n_walltime_reached", "", "n walltime reached", "jobs that were ended at their walltime", "lower"),
        Figure("n_killed", "", "n killed", "jobs that were killed", "lower"),
        Figure("n_rejected", "", "n rejected", "jobs that were rejected", "lower"),
        Figure(
            "n_late",
            "",
            "n late",
            "jobs of a kind that missed their deadline, promised or not, as in `deadline_n_late`",
            "lower",
        ),
        Figure("n_unfinished", "", "n unfinished", "jobs that were left when the run ended", "lower"),
        Figure(
            LOST_JOBS,
            "",
            "lost jobs",
            "a number for the set of jobs that were rejected, killed or left, if there are any; equal sets are equal",
        ),
        Figure("utilisation", "", "utilisation", "share of all processors' time that jobs held, see below", "higher"),
        Figure("memory_utilisation", "", "memory utilisation", "share of all memory that jobs held", "higher"),
        Figure("gpu_utilisation", "", "GPU utilisation", "share of all GPUs' time that jobs held", "higher"),
        Figure("gpu_utilisation_TYPE", "", "GPU utilisation TYPE", "that of GPUs of one type, if there are several"),
        Figure(
            "stranded",
            "",
            "stranded processors",
            "share of all processors' time: free, but on nodes with [nothing else left](nodes.md#figures)",
            "lower",
        ),
        Figure(
            "utilisation_of_PARTITION",
            "",
            "utilisation of PARTITION",
            "share of its processors' time that its jobs held; without `--partitions` of all processors",
        ),
        Figure("makespan_s", "s", "makespan (s)", "last end, counted from 0", "lower"),
        Figure("mean_queue_length", "", "mean queue length", "waiting jobs, mean over time", "lower"),
        Figure("max_queue_length", "", "max queue length", "waiting jobs, largest number", "lower"),
        Figure("tau_s", "s", "tau (s)", "the bound τ of the bounded slowdowns"),
        Figure("energy_j", "J", "energy (J)", "energy of all hosts", "lower"),
        Figure(
            "energy_jobs_j", "J", "energy of hosts that jobs held (J)", "energy of the hosts that jobs held", "lower"
        ),
        Figure("energy_rest_j", "J", "energy of hosts without jobs (J)", "energy of the hosts without jobs", "lower"),
        Figure("n_messages", "", "n messages", "messages between simulator and scheduler"),
        Figure("n_broken_promises", "", "n broken promises", "promises of the policy that it broke", "lower"),
        Figure("ended_at", "s", "ended at", "simulated time at which the run ended", "lower"),
    )
)
#: Figures of a run against a baseline.
AGAINST: Final = _by_name(
    (
        Figure("n_pairs", "", "jobs that ran here and in the baseline", "jobs that ran in both runs"),
        Figure("impacted", "", "share of jobs that end at another time", "share of the pairs"),
        Figure("early", "", "share of the impacted that end earlier", "share of the impacted jobs", "higher"),
        Figure("late", "", "share of the impacted that end later", "share of the impacted jobs", "lower"),
        Figure(
            "response_ratio",
            "",
            "response of the impacted, over the baseline's",
            "mean flow of the impacted jobs, over that of the same jobs in the baseline",
            "lower",
        ),
    )
)
_TITLES: Final = {
    one.name: one.title for table in (MEASURES, STRETCHES, OF_LOGS, OF_RUNS, AGAINST) for one in table.values()
} | {
    "lost_s": "run time lost by kills (s)"  # a fact of jobs on machines that fail
}
_BETTER: Final = {one.name: one.better for table in (MEASURES, STRETCHES, OF_RUNS, AGAINST) for one in table.values()}
#: Statistics of a measure that are better in the same direction as the measure.
_RANKED: Final = tuple(name for name in STATISTICS if name.startswith(("mean", "max", "p")))
_WITH: Final = "n_jobs_with"
_NAME: Final = re.compile(rf"(?:({'|'.join(KINDS)})_)?(?:({'|'.join(STATISTICS)})_)?(\w+)")
#: Deprecated names, those of version 0.2: the statistic came last.
_OLD_NAME: Final = re.compile(rf"((?:(?:{'|'.join(KINDS)})_)?)(\w+)_({'|'.join([*STATISTICS, 'n'])})")
_OLD_NAMES: Final = {"n_successfully": "n_completed"}
_MARK_OF_OLD: Final = "wait_s_mean"


def title_of(measure: str) -> str:
    """Return the title of a measure, or of a figure without a statistic.

    >>> title_of("wait_s"), title_of("load_wait_s")
    ('wait (s)', 'load wait (s)')
    """
    if measure in _TITLES:
        return _TITLES[measure]
    name = f"{measure.removesuffix('_s')} (s)" if measure.endswith("_s") else measure
    return name.replace("_", " ")


def figure_title(figure: str) -> str:
    """Return the title of a figure.

    >>> figure_title("mean_wait_s"), figure_title("utilisation"), figure_title("regular_mean_wait_s")
    ('mean wait (s)', 'utilisation', 'mean wait of regular jobs (s)')
    >>> figure_title("total_load_s"), figure_title("n_jobs_with_load_s"), figure_title("early")
    ('total load (s)', 'jobs with load', 'share of the impacted that end earlier')
    """
    if figure in _TITLES:
        return _TITLES[figure]
    match = _NAME.fullmatch(figure)
    if match is None:
        return title_of(figure)
    kind, statistic, measure = match.groups()
    if kind:
        counts = {"n_jobs": f"{kind} jobs", "n_late": f"late {kind} jobs"}
        rest = figure.removeprefix(f"{kind}_")
        name, unit = name_and_unit(rest)
        return counts.get(rest, f"{name} of {kind} jobs{unit}")
    if statistic == _WITH:
        return f"jobs with {title_of(measure).removesuffix(' (s)')}"
    return f"{statistic} {title_of(measure)}" if statistic else title_of(figure)


def better_of(figure: str) -> Literal["lower", "higher", ""]:
    """Return the direction of better values of a figure; empty if neither is better, or it is unknown.

    >>> better_of("mean_wait_s"), better_of("utilisation"), better_of("deadline_n_late"), better_of("std_wait_s")
    ('lower', 'higher', 'lower', '')
    """
    match = _NAME.fullmatch(figure)
    if figure in _BETTER or match is None:
        return _BETTER.get(figure, "")
    kind, statistic, measure = match.groups()
    if statistic is None:
        return _BETTER.get(figure.removeprefix(f"{kind}_"), "")
    return _BETTER.get(measure, "") if statistic in _RANKED and measure in (*MEASURES, *STRETCHES) else ""


def is_count(figure: str) -> bool:
    """Return whether a figure is a count, such as that of rejected jobs. Other figures depend on which jobs ran.

    >>> is_count("n_rejected"), is_count("deadline_n_late"), is_count("mean_wait_s"), is_count("makespan_s")
    (True, True, False, False)
    """
    kind, _, rest = figure.partition("_")
    return (rest if kind in KINDS else figure).startswith("n_")


def name_and_unit(figure: str) -> tuple[str, str]:
    """Return the title of a figure without its unit, and the unit as it follows the title. Ratios have no unit.

    >>> name_and_unit("mean_wait_s"), name_and_unit("utilisation")
    (('mean wait', ' (s)'), ('utilisation', ''))
    """
    name, unit, _ = figure_title(figure).partition(" (s)")
    return name, unit


def current_name(name: str) -> str:
    """Return the current name of a figure that has its name of version 0.2; other names are unchanged.

    >>> current_name("wait_s_mean"), current_name("urgent_slowdown_max"), current_name("load_s_n")
    ('mean_wait_s', 'urgent_max_slowdown', 'n_jobs_with_load_s')
    """
    match = _OLD_NAME.fullmatch(name)
    if match is None:
        return _OLD_NAMES.get(name, name)
    return f"{match[1]}{_WITH if match[3] == 'n' else match[3]}_{match[2]}"


def resolved(name: str, known: Container[str]) -> str:
    """Return the name among the known ones that a user means: the name itself, or the current name of an old one."""
    current = current_name(name)
    if name in known or current not in known:
        return name
    deprecated(f"the figure {name}", current, "1.0")
    return current


def renamed(figures: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the figures of a stored result by their current names. O(figures), O(1) for current results."""
    if _MARK_OF_OLD not in figures:
        return figures
    return {current_name(name): value for name, value in figures.items()}
