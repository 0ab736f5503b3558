"""pybatsched: a batch scheduler process for the Batsim simulator, with policies as small plugins.

Authors of policies find what they need here; see docs/write-a-policy.md.
"""

from pybatsched.core.cluster import Cluster, Partition
from pybatsched.core.decisions import (
    CallMeLater,
    Decision,
    ExecuteJob,
    KillJob,
    Reason,
    RejectJob,
    Release,
    Replace,
    Requeue,
    Reshape,
    SetJobMetadata,
    StartAt,
)
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.policy import API_VERSION, Need, Options, Policy
from pybatsched.policies.local import LocalPolicy, LocalScheduler, QueuePolicy
from pybatsched.policies.options import QueueOptions

__version__ = "0.1.0"

__all__ = [
    "API_VERSION",
    "CallMeLater",
    "Cluster",
    "Decision",
    "ExecuteJob",
    "IntervalSet",
    "Job",
    "JobState",
    "KillJob",
    "LocalPolicy",
    "LocalScheduler",
    "Need",
    "Options",
    "Partition",
    "Policy",
    "QueueOptions",
    "QueuePolicy",
    "Reason",
    "RejectJob",
    "Release",
    "Replace",
    "Requeue",
    "Reshape",
    "SetJobMetadata",
    "StartAt",
    "__version__",
]
