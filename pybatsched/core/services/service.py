"""Services of the engine: what the engine does for every policy, and in which steps of a run.

A service is a subclass of `Service` that overrides some steps. The engine calls the steps of a `Services` and knows
no service by name; `pybatsched.core.services.order` says which services a run has, and in which order. A step that no
service of a run overrides costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pybatsched.core.decisions import Decision, ExecuteJob, Reason
    from pybatsched.core.events import Event, Notify
    from pybatsched.core.intervals import IntervalSet
    from pybatsched.core.jobs import Job, KillCause

# ruff: noqa: ARG002


class Service:
    """Base class of the services, with the steps in the order of a message. The defaults do nothing."""

    #: Whether only the step `takes` is called now. A service that changes this makes a new `Services`.
    is_dormant = False
    #: The step `takes` is called only for jobs with one of these fields; None: for all jobs.
    fields: frozenset[str] | None = None

    def begin(self) -> None:
        """Begin: the policy has handled `on_begin`."""

    def follow(self, earlier: Any) -> None:
        """Begin in place of the service of the same class that a replaced policy had."""
        self.begin()

    def leave(self) -> None:
        """End, because the policy is replaced by one without this service."""

    def before_events(self, events: Sequence[Event]) -> None:
        """Handle the start of a message."""

    def check(self, job: Job) -> None:
        """Raise InputError for a new job with invalid fields."""

    def takes(self, job: Job) -> bool:
        """Return whether the service handles a waiting job, so that the policy does not get it."""
        return False

    def submitted(self, job: Job) -> None:
        """Handle a job that the policy gets next."""

    def killed(self, job: Job, cause: KillCause) -> None:
        """Handle a job that the engine has killed. It waits again if it was requeued, else it has ended."""

    def ended(self, job: Job, cause: KillCause | None) -> None:
        """Handle the end of a job: by itself or rejected (no cause), or killed."""

    def machines_gone(self, procs: IntervalSet, at: float) -> None:
        """Handle processors that have become unavailable; none if all of them were so before."""

    def machines_back(self, procs: IntervalSet, at: float) -> None:
        """Handle processors that are available again."""

    def holds_back(self, notice: Notify) -> bool:
        """Return whether the service sends a notice of Batsim to the policy later."""
        return False

    def after_events(self) -> None:
        """Handle the end of the events of a message."""

    def before_decide(self) -> None:
        """Do what comes before the policy decides."""

    def adjust(self, decision: Decision) -> Decision:
        """Return the decision to check instead of a decision of the policy."""
        return decision

    def admit(self, job: Job, decision: ExecuteJob) -> ExecuteJob | None:
        """Return the decision to carry out instead of a start; None to delay it."""
        return decision

    def after_decide(self) -> None:
        """Do what comes after the decisions of the policy."""

    def is_waiting(self) -> bool:
        """Return whether the service will act later, whatever the policy does."""
        return False

    def why_waiting(self, job: Job) -> Reason | None:
        """Return why a job was not started; None if the policy knows."""
        return None

    def excuses_promises(self) -> bool:
        """Return whether the policy could not keep its promises because of this service."""
        return False

    def figures(self) -> Mapping[str, float]:
        """Return numbers of the run, by name."""
        return {}

    def remarks(self) -> tuple[str, ...]:
        """Return lines for the user at the end of the run."""
        return ()

    def tables(self) -> Mapping[str, list[dict[str, Any]]]:
        """Return tables for the summary of the run, by name."""
        return {}


_Steps: TypeAlias = tuple[Callable[..., Any], ...]


class Services:
    """The services of a run in their order and, for each step of a message, the methods that override it."""

    def __init__(self, services: Iterable[Service] = ()) -> None:
        self.all = tuple(services)
        self.before_events = self._steps("before_events")
        self.check = self._steps("check")
        self.takes = self._steps("takes")
        of_services = [one.fields for one in self.all if type(one).takes is not Service.takes]
        fields = frozenset[str]().union(*(names or () for names in of_services))
        #: `takes` is called only for jobs with one of these fields; None: for all jobs.
        self.fields = None if None in of_services else fields
        self.submitted = self._steps("submitted")
        self.killed = self._steps("killed")
        self.ended = self._steps("ended")
        self.machines_gone = self._steps("machines_gone")
        self.machines_back = self._steps("machines_back")
        self.holds_back = self._steps("holds_back")
        #: All steps between the events and the decisions.
        self.before_decide = (*self._steps("after_events"), *self._steps("before_decide"))
        self.adjust = self._steps("adjust")
        self.admit = self._steps("admit")
        self.after_decide = self._steps("after_decide")

    def _steps(self, name: str) -> _Steps:
        default = getattr(Service, name)
        active = (one for one in self.all if name == "takes" or not one.is_dormant)
        return tuple(getattr(one, name) for one in active if getattr(type(one), name) is not default)

    def take(self, job: Job) -> bool:
        """Return whether a service handles a waiting job, so that the policy does not get it."""
        if self.fields is not None and self.fields.isdisjoint(job.fields):
            return False
        return any(takes(job) for takes in self.takes)
