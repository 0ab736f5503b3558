"""Run what was built, and write its files: those of `pybatsched simulate -e PREFIX`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pybatsched.core import events as e
from pybatsched.core.engine import Reply
from pybatsched.core.host_nodes import NODE_PROPERTIES
from pybatsched.core.node_partitions import OPTION
from pybatsched.core.node_requests import REQUEST_FIELDS
from pybatsched.errors import quantity, spelled
from pybatsched.metrics import Outcome, Tally, joined, summary
from pybatsched.metrics.summary import Result
from pybatsched.metrics.truncated import Truncation, UnfinishedJob
from pybatsched.metrics.workload_fields import fields_of
from pybatsched.protocol import Message
from pybatsched.results.run_state import SUMMARY
from pybatsched.results.writing import Results
from pybatsched.runs.build import Built, described
from pybatsched.simulator import run as simulator
from pybatsched.simulator.observers import Observer
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.outputs.files import BATSIM_VERSION, ResultFiles, batsim_files
from pybatsched.workload import Workload

if TYPE_CHECKING:
    from pybatsched.session.journal import JournalWriter
    from pybatsched.simulator.jobs import SimJob

#: The journal beside the results.
JOURNAL: Final = ".pbj"
#: Simulates a scenario with observers and a tally: a scheduler that is not a policy in this process.
External = Callable[[Scenario, Sequence[Observer], Tally], Result]


class Keeping(Observer):
    """Keeps the outcomes of the finished jobs in a list, as a reader of the file of jobs returns them."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        self.outcomes = outcomes

    def finished(self, job: SimJob, outcome: Outcome) -> None:
        """Keep an outcome. O(1)."""
        del job
        self.outcomes.append(outcome)


def results_of(built: Built, prefix: str, journal: str | None = None, more: Mapping[str, Any] | None = None) -> Results:
    """Return the files of a run, to be opened with `with`. `more` are members of the state file."""
    setting = built.setting()
    about = {"inputs": setting.inputs, "policy": setting.policy, "tau_s": built.spec.tau_s, **built.how, **(more or {})}
    return Results(prefix, about | ({"clusters": setting.clusters} if setting.clusters else {}), journal)


def execute(
    built: Built,
    results: Results | None,
    observers: Sequence[Observer] = (),
    *,
    files: Callable[[str], Sequence[Observer]] = batsim_files,
    journal: str | None = None,
    watch: Callable[[Message[e.Event], Reply], None] | None = None,
    external: External | None = None,
    version: str = BATSIM_VERSION,
    more: Mapping[str, Any] | None = None,
) -> tuple[Result, dict[str, Any]]:
    """Simulate, and write all `files` under their temporary names. Return the result and the summary."""
    tally = simulator.tally_of(built.scenario, built.spec.tau_s)
    outcomes: list[Outcome] = []
    policy = None if built.plan is None else described(built.plan, built.scenario.options)
    if _has_requests(built.scenario, policy):
        observers = [*observers, Keeping(outcomes)]
    if results is not None:
        observers = [ResultFiles(results, tally), *files(results.part), *observers]
    if external is not None:
        result = external(built.scenario, observers, tally)
    else:
        assert built.plan is not None
        writer: JournalWriter | None = None
        if journal:
            from pybatsched.session.journal import JournalWriter  # noqa: PLC0415  only for journals

            writer = JournalWriter(journal)
        result = simulator.run_policy(built.scenario, built.plan, observers, tally=tally, journal=writer, watch=watch)
    result = with_node_figures(result, outcomes, built.scenario.workloads, policy)
    if results is not None:
        results.cut_at = result.cut_at
    return result, summary_of(built, result, more, version)


def _has_requests(scenario: Scenario, policy: Mapping[str, Any] | None) -> bool:
    """Return whether jobs may request something of nodes, or have partitions of nodes. O(hosts)."""
    if policy is not None and policy["options"].get(OPTION):
        return True
    names = NODE_PROPERTIES
    if all(
        names.isdisjoint(one.properties) and names.isdisjoint(one.zone_properties) for one in scenario.platform.hosts
    ):
        return False
    return any(REQUEST_FIELDS & workload.fields for workload in scenario.workloads.values())


def with_node_figures(
    result: Result, outcomes: Iterable[Outcome], workloads: Mapping[str, Workload], policy: Mapping[str, Any] | None
) -> Result:
    """Return the result with the figures of nodes, if requests of jobs were counted. O(jobs)."""
    if not result.nodes:
        return result
    from pybatsched.metrics.node_use import NodeUse  # noqa: PLC0415  only for runs on nodes

    unfinished = [
        UnfinishedJob(one.n_procs, one.submitted_at, one.started_at, one.procs, one.fields) for one in result.stuck
    ]
    cut = None if result.cut_at is None else Truncation(result.cut_at, unfinished)
    records = joined(outcomes, fields_of(workloads))
    use = NodeUse.of_summary("the summary", {"nodes": result.nodes, "policy": policy}, records, cut)
    return result if use is None else msgspec.structs.replace(result, node_figures=use.figures())


def summary_of(
    built: Built, result: Result, more: Mapping[str, Any] | None = None, version: str = BATSIM_VERSION
) -> dict[str, Any]:
    """Return the summary of a run that is over."""
    extra = {**built.how, "seed": built.spec.seed, **(more or {}), **all_warnings(built.warnings, result)}
    return summary.of_run(built.setting(), result, extra, {"behaves_as_batsim": version})


def finish(results: Results, content: Mapping[str, Any]) -> None:
    """Write the summary, and give all files their final names."""
    summary.write(f"{results.part}{SUMMARY}", content)
    results.finish()


def all_warnings(before: Sequence[str], result: Result) -> dict[str, list[str]]:
    """Return the member `warnings` of a summary: those from before the run, and those about the result."""
    found = dict.fromkeys((*before, *warnings_after(result)))
    return {"warnings": [spelled(text) for text in found]} if found else {}


def warnings_after(result: Result) -> Sequence[str]:
    """Return what a user should know about a result: rejected, killed and unfinished jobs, remarks, broken promises."""
    found = [*summary.losses(result), *result.remarks]
    found += [f"the policy broke a promise: {text}" for text in result.broken_promises]
    if not result.finished and result.cut_at is None:
        why = f": {result.stuck[0].job_id}: {result.stuck[0].why}" if result.stuck else ""
        found.append(f"the simulation stopped with {quantity(len(result.stuck), 'job')} unfinished{why}")
    return found
