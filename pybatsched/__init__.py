"""pybatsched: a batch scheduler process for the Batsim simulator, with policies as small plugins.

Authors of policies find what they need here; see docs/write-a-policy.md, and docs/api.md for all of it.
"""

TYPE_CHECKING = False  # as in typing, which takes its time: a command is to hear signals before that
if TYPE_CHECKING:
    from pybatsched.core import events
    from pybatsched.core.cluster import Cluster, Partition
    from pybatsched.core.decisions import (
        CONTINUE_REGISTRATION,
        REGISTRATION_FINISHED,
        Answer,
        CallMeLater,
        ChangeJobState,
        Decision,
        ExecuteJob,
        KillJob,
        Notify,
        Query,
        Reason,
        RegisterJob,
        RegisterProfile,
        RejectJob,
        Release,
        Replace,
        Requeue,
        Reshape,
        SetJobMetadata,
        SetResourceState,
        StartAt,
        ToJobMsg,
    )
    from pybatsched.core.fields import FieldError, FieldModel, JobFields
    from pybatsched.core.instants import TICK, instant
    from pybatsched.core.intervals import IntervalSet
    from pybatsched.core.jobs import Job, JobState
    from pybatsched.core.policy import API_VERSION, Need, Options, Policy
    from pybatsched.errors import InputError
    from pybatsched.policies.availability import Profile
    from pybatsched.policies.local import LocalPolicy, LocalScheduler, QueuePolicy
    from pybatsched.policies.options import QueueFields, QueueOptions
    from pybatsched.policies.registry import local_scheduler

__version__ = "0.2.0"

__all__ = [
    "API_VERSION",
    "CONTINUE_REGISTRATION",
    "REGISTRATION_FINISHED",
    "TICK",
    "Answer",
    "CallMeLater",
    "ChangeJobState",
    "Cluster",
    "Decision",
    "ExecuteJob",
    "FieldError",
    "FieldModel",
    "InputError",
    "IntervalSet",
    "Job",
    "JobFields",
    "JobState",
    "KillJob",
    "LocalPolicy",
    "LocalScheduler",
    "Need",
    "Notify",
    "Options",
    "Partition",
    "Policy",
    "Profile",
    "Query",
    "QueueFields",
    "QueueOptions",
    "QueuePolicy",
    "Reason",
    "RegisterJob",
    "RegisterProfile",
    "RejectJob",
    "Release",
    "Replace",
    "Requeue",
    "Reshape",
    "SetJobMetadata",
    "SetResourceState",
    "StartAt",
    "ToJobMsg",
    "__version__",
    "events",
    "instant",
    "local_scheduler",
]

#: Where these are defined. They are imported when somebody asks for the first of them: a command that needs none need
#: not wait for them.
_HOMES = (
    "core",
    "core.cluster",
    "core.decisions",
    "core.fields",
    "core.instants",
    "core.intervals",
    "core.jobs",
    "core.policy",
    "errors",
    "policies.availability",
    "policies.local",
    "policies.options",
    "policies.registry",
)


if not TYPE_CHECKING:  # who checks types knows all names, and is to say so if one is not there

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'pybatsched' has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415  see above

        for home in _HOMES:
            module = import_module(f"pybatsched.{home}")
            globals().update({one: getattr(module, one) for one in __all__ if hasattr(module, one)})
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
