"""The interface of a policy.

A policy is a class with hooks named `on_*`, which the engine calls for events, and `decide`, which it calls once per
message for decisions. The engine applies each decision before it takes the next one from `decide`, so a generator
always sees the free sets after its own last decision.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from pybatsched.core.model_refs import COMMON, model_at

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pybatsched.core.cluster import Cluster
    from pybatsched.core.decisions import Decision, Reason
    from pybatsched.core.events import Answer, Event, FromJobMsg, Notify, Query
    from pybatsched.core.fields import JobFields
    from pybatsched.core.intervals import IntervalSet
    from pybatsched.core.jobs import Job
    from pybatsched.core.nodes import Nodes
    from pybatsched.core.predictions import Predictions

#: The version of this interface. It changes when a policy may have to be changed.
API_VERSION = 1


#: Rows of texts; the first has the heads of the columns.
PolicyTable: TypeAlias = Sequence[Sequence[str]]


class BatsimFeature(enum.Enum):
    """A feature of Batsim that a policy needs: its member in Batsim's configuration, and its command-line option."""

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


@dataclass(frozen=True, slots=True)
class TrustedFiles:
    """The Python files (``file.py:Class``) that a policy may run: those named in the user's own options.

    It also holds other code (``module:object``) from options that may name code (`names_code`).

    The user's own options come from the command line, a configuration file or a campaign. `others` are files that come
    from elsewhere, each with its option and source; they are never run.
    """

    names: frozenset[str] = frozenset()
    others: Mapping[str, str] = field(default_factory=dict)


class Policy:
    """Base class of all policies.

    Set `Options` to a model if the policy has options, `JobFields` to a model if it reads fields of jobs, and `needs`
    to the features that Batsim must have enabled.
    """

    Options: ClassVar[type[BaseModel]] = model_at("pybatsched.core.options:Options", **COMMON)
    #: What to cite for the policy: entries in BibTeX, which `pybatsched cite` prints.
    references: ClassVar[tuple[str, ...]] = ()
    #: The fields it reads from `job.fields`. Workloads are checked before a run, jobs from messages on submission.
    JobFields: ClassVar[type[JobFields]] = model_at("pybatsched.core.fields:JobFields", estimate=None)
    #: Options that name other policies whose local schedulers it uses. Their job fields are checked as well.
    borrows: ClassVar[tuple[str, ...]] = ()
    #: Options that name Python code to run, as ``module:object``. They are accepted only from the user's own options.
    names_code: ClassVar[tuple[str, ...]] = ()
    #: Options that name files to read. Campaigns search these beside their own file, and run again if they change.
    names_files: ClassVar[tuple[str, ...]] = ()
    #: Set it if the policy reserves a time for every job. Jobs without walltime and estimate are then rejected, unless
    #: the option `assume_walltime` is set.
    reserves: ClassVar[bool] = False
    needs: ClassVar[frozenset[BatsimFeature]] = frozenset()
    #: Options and values with which the policy registers profiles that communicate. The embedded simulator then has
    #: SimGrid's clock.
    communicates_if: ClassVar[Mapping[str, str]] = {}
    #: An option that names the platform of a run, as ``-p`` does, if the user names none.
    machine_option: ClassVar[str] = ""
    #: Set it if the policy gets jobs that may not start yet at their submission, and obeys `array_limit` itself. It may
    #: start such a job after `on_job_eligible`. Jobs of reservations of hosts come when they may start.
    gets_jobs_early: ClassVar[bool] = False
    #: Set it if the policy parses the text of Batsim's --sched-cfg itself.
    reads_sched_config: ClassVar[bool] = False
    #: Set it if the policy handles jobs larger than the platform; else the engine rejects them.
    handles_oversized: ClassVar[bool] = False
    #: Set it if the policy itself sends `REGISTRATION_FINISHED`.
    manages_registration: ClassVar[bool] = False
    #: Set it if the policy itself calls `predictions` at submissions and ends, and corrects predictions.
    drives_predictions: ClassVar[bool] = False
    #: Set it if the policy places jobs by memory, GPUs and whole nodes (`cluster.nodes`). For others these requests of
    #: jobs are ignored, and the user is told so.
    plans_nodes: bool = False
    #: Set it to false if the engine must not start a job on other processors than those of the decision: it then delays
    #: a start that would break a reservation of hosts.
    takes_any_procs: ClassVar[bool] = True
    #: Set by the run; pass it to `local_scheduler`.
    trusted_files: TrustedFiles = TrustedFiles()
    #: Set by the run if the user wants predicted run times (`Options.predict`).
    predictions: Predictions | None = None

    def __init__(self, options: Any) -> None:
        """Keep the checked options. Override `on_begin`, not this, to set up state."""
        self.options = options

    def on_begin(self, cluster: Cluster) -> None:
        """Handle the start of the simulation: inspect the cluster and create partitions."""

    def on_job_submitted(self, job: Job, now: float) -> None:
        """Handle the submission of a job, which now waits."""

    def on_requests(self, nodes: Nodes, now: float) -> None:
        """Handle that a job requests memory, GPUs or whole nodes, before its submission (only with `plans_nodes`).

        From now on `nodes` says what is free on each node. This comes once, at the first such job, or with partitions
        after `on_begin`.
        """

    def on_job_eligible(self, job: Job, now: float) -> None:
        """Handle a job that may start from now on. Only with `gets_jobs_early`; otherwise it is submitted now."""

    def on_job_ended(self, job: Job, now: float) -> None:
        """Handle the end of a job that was not killed by the policy; see `job.final_state`. Its processors are free.

        If the engine has killed and requeued it, because its machine failed or a reservation of hosts began, the job
        waits again, `job.past[-1]` is what ran, and `on_failure` follows.
        """

    def on_job_killed(self, job: Job, now: float) -> None:
        """Handle a kill that took effect. After a `Requeue` the job waits again, else it has ended."""

    def on_failure(self, job: Job, now: float) -> None:
        """Handle a job that waits again because the engine has killed it: its machine failed, or a reservation began.

        `on_job_ended` was called for it before. By default it is handled as a new submission. With the rule
        `requeue_first` it belongs in front of the queue; several such jobs come in reverse order of submission.
        """
        self.on_job_submitted(job, now)

    def on_job_released(self, job: Job, procs: IntervalSet, now: float) -> None:
        """Handle a job held by `StartAt` that lost some of these processors before its start; it waits again."""

    def on_machines_changed(self, procs: IntervalSet, now: float) -> None:
        """Handle processors that became unavailable or available; the free sets are up to date."""

    def on_estimate_changed(self, job: Job, now: float) -> None:
        """Handle a running job that has exceeded its estimate, and has a new one (only with the option `predict`).

        `job.estimate` and `job.expected_end_at` are the new ones.
        """

    def on_call(self, now: float) -> None:
        """Handle a call that was requested with `CallMeLater`."""

    def on_notify(self, event: Notify, now: float) -> None:
        """Handle a notice of Batsim, such as `events.NO_MORE_STATIC_JOBS`, or an event of a user's event file."""

    def on_answer(self, event: Answer, now: float) -> None:
        """Handle Batsim's answer to a `Query`."""

    def on_query(self, event: Query, now: float) -> None:
        """Handle a query of the peer; answer with an `Answer` decision."""

    def on_job_message(self, event: FromJobMsg, now: float) -> None:
        """Handle a message of a running job."""

    def on_unknown(self, event: Event, now: float) -> None:
        """Handle an event of unknown type (Batsim forwards it only with `UNKNOWN_EVENTS`)."""

    def on_end(self, now: float) -> None:
        """Handle the end of the simulation; no decision is possible any more."""

    def decide(self, now: float) -> Iterable[Decision]:
        """Return decisions, as a list or a generator. Each is applied before the next one is taken.

        Called once per message, after all hooks.
        """
        raise NotImplementedError

    def uses_new_estimates(self, now: float) -> bool:  # noqa: ARG002
        """Return whether new estimates of running jobs may cause a decision before the next event.

        If not, no call is requested for the time of the next correction, and the next message makes it. Asked after
        `decide`, if a job waits, a processor is free, and a running job may exceed its estimate.
        """
        return True

    def remarks(self) -> Iterable[str]:
        """Return lines for the user at the end of the run, for example about an option without effect."""
        return ()

    def figures(self) -> Mapping[str, float]:
        """Return the policy's own numbers at the end of the run, for example how often it preempted.

        They are shown in the closing table, and stored in the summary (`policy_figures`) and as columns of campaigns.
        """
        return {}

    def broken_promises(self) -> Iterable[str]:
        """Return a line for each guarantee that was not kept; the run then ends with exit code 7."""
        return ()

    def busy_until(self, now: float) -> float:
        """Return the time at which the scheduler is ready again, to model the time that decisions take."""
        return now

    def why_waiting(self, job: Job, now: float) -> Reason:  # noqa: ARG002
        """Return why a waiting job was not started now, for `pybatsched explain` and jobs that never start."""
        return f"the policy gives no reason{_misspelled_method(type(self))}"

    def tables(self, now: float) -> Mapping[str, PolicyTable]:  # noqa: ARG002
        """Return tables of the policy's state by name, for `pybatsched explain --at`: the first row has the heads."""
        return {}

    def take_over(self, job: Job, now: float) -> bool:  # noqa: ARG002
        """Return whether this policy plans with a running job of the policy that it replaces during a run.

        Also asked for jobs that run when the simulation begins (field `running_at_start`).

        If so, the job is in `running_jobs` of its partition, and `on_job_ended` follows. If not, its processors are
        unavailable until it ends, and only `on_machines_changed` follows. It is called after `on_begin`, in the order
        of starts, for each running job inside one partition; `on_job_submitted` for each waiting job comes after it.
        """
        return False


def _misspelled_method(cls: type[Policy]) -> str:
    """Return a hint if a class has a method with almost the name of one that the engine calls; else an empty text."""
    import difflib  # noqa: PLC0415  rarely needed

    called = {name for name in vars(Policy) if not name.startswith("_")} - vars(cls).keys()
    for name, value in vars(cls).items():
        near = difflib.get_close_matches(name, called, 1, cutoff=0.85) if callable(value) else ()
        if near:
            return f"; it has a method {name}, did you mean {near[0]}?"
    return ""
