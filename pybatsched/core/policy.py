"""The plugin contract: what a policy is told and what it may answer.

A policy is a class with hooks named `on_*`, which tell it what happened, and `decide`, which is asked once per
message what to do now. The engine consumes `decide` one decision at a time and applies each before it asks for the
next, so a generator always sees the free sets as they are after its own last decision.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict

from pybatsched.core.fields import JobFields

if TYPE_CHECKING:
    from pybatsched.core.cluster import Cluster
    from pybatsched.core.decisions import Decision, Reason
    from pybatsched.core.events import Answer, Event, FromJobMsg, Notify, Query
    from pybatsched.core.intervals import IntervalSet
    from pybatsched.core.jobs import Job

API_VERSION = 1


class BatsimFeature(enum.Enum):
    """Something a policy needs from Batsim: the member of its configuration, and the option that turns it on."""

    DYNAMIC_JOBS = ("dynamic-jobs-enabled", "--enable-dynamic-jobs")
    ACKNOWLEDGED_JOBS = ("dynamic-jobs-acknowledged", "--acknowledge-dynamic-jobs")
    PROFILE_REUSE = ("profile-reuse-enabled", "--enable-profile-reuse")
    FORWARDED_PROFILES = ("profiles-forwarded-on-submission", "--forward-profiles-on-submission")
    UNKNOWN_EVENTS = ("forward-unknown-events", "--forward-unknown-events")

    @property
    def config_key(self) -> str:
        """The member of `config` in SIMULATION_BEGINS."""
        return self.value[0]

    @property
    def batsim_option(self) -> str:
        """The option of the batsim command."""
        return self.value[1]


class Options(BaseModel):
    """Base of a policy's options: typed, documented, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class TrustedFiles:
    """The Python files (``file.py:Class``) that a policy may run: those that the owner's own options name.

    So are names of other code (``module:object``) in those options of a policy that may have them (`names_code`).

    The owner is who starts the process: the command line, a configuration file, a campaign. `others` are files that
    somebody else's options name, with a word on which option and whose; they are never run.
    """

    names: frozenset[str] = frozenset()
    others: Mapping[str, str] = field(default_factory=dict)


class Policy:
    """Base class of all policies.

    Set `Options` to a model of your own if the policy has options, `JobFields` to one if it reads fields of jobs, and
    `needs` to what Batsim must have enabled.
    """

    Options: ClassVar[type[BaseModel]] = Options
    #: What it reads of `job.fields`. Workloads are checked by it before a run, and jobs over the wire when they come.
    JobFields: ClassVar[type[JobFields]] = JobFields
    #: Its options that name other policies, by whose rules it schedules: what these read of jobs is checked as well.
    borrows: ClassVar[tuple[str, ...]] = ()
    #: Its options that name Python code to be run, as ``module:object``: only the owner's word counts there.
    names_code: ClassVar[tuple[str, ...]] = ()
    #: Set it if every job has a time reserved for it, so that those without walltime and estimate are rejected, unless
    #: the option `assume_walltime` says what to plan with.
    reserves: ClassVar[bool] = False
    needs: ClassVar[frozenset[BatsimFeature]] = frozenset()
    #: Set it if the policy reads the text of Batsim's --sched-cfg in a form of its own.
    reads_sched_config: ClassVar[bool] = False
    #: Set it if the policy can do something with jobs larger than the platform; else the engine rejects them.
    handles_oversized: ClassVar[bool] = False
    #: Set it if the policy says itself when registration is finished.
    manages_registration: ClassVar[bool] = False
    #: Set by the run, to be passed on to `registry.local_scheduler`.
    trusted_files: TrustedFiles = TrustedFiles()

    def __init__(self, options: Any) -> None:
        """Keep the checked options. Override `on_begin`, not this, to set up state."""
        self.options = options

    def on_begin(self, cluster: Cluster) -> None:
        """The simulation begins: look at the machine and cut partitions."""

    def on_job_submitted(self, job: Job, now: float) -> None:
        """A job of a user arrived and waits."""

    def on_job_ended(self, job: Job, now: float) -> None:
        """A job is over by itself; `job.final_state` says how. Its processors are free already."""

    def on_job_killed(self, job: Job, now: float) -> None:
        """A kill took effect. After a `Requeue` the job is waiting again, else it is over."""

    def on_job_released(self, job: Job, procs: IntervalSet, now: float) -> None:
        """A job held by `StartAt` on these processors lost some of them before its start; it waits again."""

    def on_machines_changed(self, procs: IntervalSet, now: float) -> None:
        """Processors went away or came back; the free sets say which."""

    def on_call(self, now: float) -> None:
        """A call that was requested with `CallMeLater` is due."""

    def on_notify(self, event: Notify, now: float) -> None:
        """Batsim sent a notice, as `events.NO_MORE_STATIC_JOBS`, or a user's own kind of event."""

    def on_answer(self, event: Answer, now: float) -> None:
        """Batsim answered a `Query`."""

    def on_query(self, event: Query, now: float) -> None:
        """The peer asks something; answer with an `Answer` decision."""

    def on_job_message(self, event: FromJobMsg, now: float) -> None:
        """A running job sent a message."""

    def on_unknown(self, event: Event, now: float) -> None:
        """An event came that this version does not know (Batsim forwards it only with `UNKNOWN_EVENTS`)."""

    def on_end(self, now: float) -> None:
        """The simulation is over; nothing can be decided any more."""

    def decide(self, now: float) -> Iterable[Decision]:
        """Give decisions, as a list or a generator; each is applied before the next one is asked for.

        Asked once per message, after all hooks.
        """
        raise NotImplementedError

    def remarks(self) -> Iterable[str]:
        """Give lines for the user when the run is over: an option that had no effect, say."""
        return ()

    def figures(self) -> Mapping[str, float]:
        """Give numbers of the policy's own when the run is over: how often it preempted, say.

        They are shown in the closing table, kept in the summary (`policy_figures`) and columns of campaigns.
        """
        return {}

    def broken_promises(self) -> Iterable[str]:
        """Give a line for each promise that did not hold; any of them ends the run with exit code 7."""
        return ()

    def busy_until(self, now: float) -> float:
        """Give the instant at which the scheduler is ready again: models the time that deciding takes."""
        return now

    def why_waiting(self, job: Job, now: float) -> Reason:  # noqa: ARG002
        """Give the reason why a waiting job was not started just now, for `pybatsched explain`."""
        return "the policy gives no reason"
