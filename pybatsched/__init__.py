"""pybatsched: a batch scheduler process for the Batsim simulator, with policies as small plugins.

Authors of policies find what they need here; see docs/write-a-policy.md, and docs/api.md for all of it.
"""

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
from pybatsched.core.instants import TICK, instant
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.policy import API_VERSION, Need, Options, Policy
from pybatsched.errors import InputError
from pybatsched.policies.local import LocalPolicy, LocalScheduler, QueuePolicy
from pybatsched.policies.options import QueueOptions
from pybatsched.policies.profile import Profile
from pybatsched.policies.registry import local_scheduler

__version__ = "0.1.0"

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
    "InputError",
    "IntervalSet",
    "Job",
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
