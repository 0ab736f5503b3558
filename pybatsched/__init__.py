"""pybatsched: a batch scheduler process for the Batsim simulator, with policies as small plugins.

Everything that authors of policies need is here, and everything for experiments in Python; see docs/write-a-policy.md,
docs/python.md, and docs/api.md for all names.
"""

from pybatsched.version import __version__

TYPE_CHECKING = False  # as in typing, which is slow to import: a command must handle signals early
if TYPE_CHECKING:
    from pybatsched.core import events as events
    from pybatsched.core.cluster import Cluster as Cluster, Partition as Partition
    from pybatsched.core.decisions import (
        CONTINUE_REGISTRATION as CONTINUE_REGISTRATION,
        REGISTRATION_FINISHED as REGISTRATION_FINISHED,
        Answer as Answer,
        CallMeLater as CallMeLater,
        ChangeJobState as ChangeJobState,
        Decision as Decision,
        ExecuteJob as ExecuteJob,
        KillJob as KillJob,
        Notify as Notify,
        Query as Query,
        Reason as Reason,
        RegisterJob as RegisterJob,
        RegisterProfile as RegisterProfile,
        RejectJob as RejectJob,
        Release as Release,
        Replace as Replace,
        Requeue as Requeue,
        Reshape as Reshape,
        SetJobMetadata as SetJobMetadata,
        SetResourceState as SetResourceState,
        StartAt as StartAt,
        ToJobMsg as ToJobMsg,
        fact_text as fact_text,
    )
    from pybatsched.core.derive import load_note as load_note
    from pybatsched.core.fields import (
        DeadlineFields as DeadlineFields,
        FieldError as FieldError,
        FieldModel as FieldModel,
        JobFields as JobFields,
        memory_class as memory_class,
        memory_need_gb as memory_need_gb,
    )
    from pybatsched.core.host_nodes import nodes_of as nodes_of
    from pybatsched.core.instants import HALF_TICK as HALF_TICK, TICK as TICK, instant as instant
    from pybatsched.core.intervals import EMPTY as EMPTY, IntervalSet as IntervalSet
    from pybatsched.core.jobs import Job as Job, JobState as JobState, user_of as user_of
    from pybatsched.core.model_refs import model_at as model_at
    from pybatsched.core.node_requests import PLAIN as PLAIN, NodeRequest as NodeRequest, request_of as request_of
    from pybatsched.core.nodes import (
        FreeNodes as FreeNodes,
        Node as Node,
        NodePart as NodePart,
        Nodes as Nodes,
        NodeShare as NodeShare,
        members as members,
        set_of as set_of,
    )
    from pybatsched.core.options import Options as Options
    from pybatsched.core.policy import (
        API_VERSION as API_VERSION,
        BatsimFeature as BatsimFeature,
        Policy as Policy,
        PolicyTable as PolicyTable,
    )
    from pybatsched.core.predictions import (
        Predictions as Predictions,
        Predictor as Predictor,
        run_time_s as run_time_s,
    )
    from pybatsched.errors import (
        InputError as InputError,
        PolicyError as PolicyError,
        UntrustedFileError as UntrustedFileError,
        quantity as quantity,
    )
    from pybatsched.experiment.log import (
        Log as Log,
        generate_workload as generate_workload,
        read_workload as read_workload,
    )
    from pybatsched.experiment.policies import available_policies as available_policies, policy as policy
    from pybatsched.experiment.runs import (
        Campaign as Campaign,
        Run as Run,
        Runs as Runs,
        WorkerDiedError as WorkerDiedError,
        read_campaign as read_campaign,
        read_run as read_run,
    )
    from pybatsched.experiment.simulating import simulate as simulate
    from pybatsched.experiment.stepping import JobView as JobView, Simulation as Simulation
    from pybatsched.machines import slurm_conf as slurm_conf
    from pybatsched.policies.availability import AvailabilityProfile as AvailabilityProfile
    from pybatsched.policies.choices import ChoiceScheduler as ChoiceScheduler, Mask as Mask
    from pybatsched.policies.freed_intervals import FreedIntervals as FreedIntervals
    from pybatsched.policies.loading import agent_of as agent_of
    from pybatsched.policies.local_scheduler import (
        FRONT as FRONT,
        Entry as Entry,
        LocalPolicy as LocalPolicy,
        LocalScheduler as LocalScheduler,
        QueuePolicy as QueuePolicy,
        take_out as take_out,
    )
    from pybatsched.policies.node_profile import (
        NodeBooking as NodeBooking,
        NodeProfile as NodeProfile,
        NodeStep as NodeStep,
    )
    from pybatsched.policies.observations import Observation as Observation, observe as observe
    from pybatsched.policies.orders import (
        QueueOrder as QueueOrder,
        RankedJobs as RankedJobs,
        parse_order as parse_order,
    )
    from pybatsched.policies.queue_options import (
        ChoiceOptions as ChoiceOptions,
        Order as Order,
        QueueFields as QueueFields,
        QueueOptions as QueueOptions,
    )
    from pybatsched.policies.registry import local_scheduler as local_scheduler
    from pybatsched.policies.reservations import Reservations as Reservations
    from pybatsched.runs.policies import PolicySpec as PolicySpec

#: The module of each public name. A module is imported when one of its names is first used, so that a command imports
#: only what it needs.
_MODULES = {
    "core": "events",
    "core.cluster": "Cluster Partition",
    "core.decisions": (
        "CONTINUE_REGISTRATION REGISTRATION_FINISHED Answer CallMeLater ChangeJobState Decision ExecuteJob "
        "KillJob Notify Query Reason RegisterJob RegisterProfile RejectJob Release Replace Requeue Reshape "
        "SetJobMetadata SetResourceState StartAt ToJobMsg fact_text"
    ),
    "core.fields": "DeadlineFields FieldError FieldModel JobFields memory_class memory_need_gb",
    "core.host_nodes": "nodes_of",
    "core.instants": "HALF_TICK TICK instant",
    "core.intervals": "EMPTY IntervalSet",
    "core.jobs": "Job JobState user_of",
    "core.model_refs": "model_at",
    "core.node_requests": "PLAIN NodeRequest request_of",
    "core.nodes": "FreeNodes Node NodePart NodeShare Nodes members set_of",
    "core.options": "Options",
    "core.policy": "API_VERSION BatsimFeature Policy PolicyTable",
    "core.derive": "load_note",
    "core.predictions": "Predictions Predictor run_time_s",
    "errors": "InputError PolicyError UntrustedFileError quantity",
    "experiment.log": "Log generate_workload read_workload",
    "experiment.policies": "available_policies policy",
    "experiment.runs": "Campaign Run Runs WorkerDiedError read_campaign read_run",
    "experiment.simulating": "simulate",
    "experiment.stepping": "JobView Simulation",
    "machines": "slurm_conf",
    "policies.availability": "AvailabilityProfile",
    "policies.choices": "ChoiceScheduler Mask",
    "policies.freed_intervals": "FreedIntervals",
    "policies.loading": "agent_of",
    "policies.local_scheduler": "FRONT Entry LocalPolicy LocalScheduler QueuePolicy take_out",
    "policies.node_profile": "NodeBooking NodeProfile NodeStep",
    "policies.observations": "Observation observe",
    "policies.queue_options": "ChoiceOptions Order QueueFields QueueOptions",
    "policies.orders": "QueueOrder RankedJobs parse_order",
    "policies.registry": "local_scheduler",
    "policies.reservations": "Reservations",
    "runs.policies": "PolicySpec",
}
#: Public names that are modules themselves. An attribute of their package exists only after their import.
_MODULES_BY_NAME = frozenset({"events", "slurm_conf"})
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

#: Deprecated names, with the current ones and the versions since which they are deprecated.
_DEPRECATED = {"Need": ("BatsimFeature", "1.0"), "Profile": ("AvailabilityProfile", "1.0")}

__all__ = [*_MODULE_OF, "__version__"]  # noqa: PLE0604  names are texts


if not TYPE_CHECKING:  # type checkers see the imports above, and report a name that does not exist

    def __getattr__(name: str) -> object:
        if name in _DEPRECATED:
            import sys  # noqa: PLC0415  see above

            from pybatsched.deprecations import deprecated  # noqa: PLC0415  see above

            deprecated(f"pybatsched.{name}", f"pybatsched.{_DEPRECATED[name][0]}", _DEPRECATED[name][1])
            return getattr(sys.modules[__name__], _DEPRECATED[name][0])
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'pybatsched' has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415  see above

        module = f"pybatsched.{_MODULE_OF[name]}"
        value = import_module(f"{module}.{name}") if name in _MODULES_BY_NAME else getattr(import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
