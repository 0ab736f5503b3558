"""The features of Batsim 5 that a policy needs: requested in the hello, and those that Batsim 5 does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pybatsched.core.policy import BatsimFeature, Policy
from pybatsched.protocol.v5_handshake import Features


def features_for(needs: Iterable[BatsimFeature]) -> Features:
    """Return the features to request. A policy that registers jobs gets all profiles at the start."""
    makes_jobs = BatsimFeature.DYNAMIC_JOBS in needs
    return Features(
        dynamic_registration=makes_jobs,
        profile_reuse=BatsimFeature.PROFILE_REUSE in needs,
        acknowledge_dynamic_jobs=BatsimFeature.ACKNOWLEDGED_JOBS in needs,
        forward_profiles_on_job_submission=not makes_jobs or BatsimFeature.FORWARDED_PROFILES in needs,
        # Not without need: Batsim 5.0.0-rc2 does not survive it if a workload has a profile that no job uses.
        forward_profiles_on_simulation_begins=makes_jobs,
    )


#: Hooks that Batsim 5 never triggers, and the feature that it lacks.
_NEVER_CALLED: Final = {
    "on_answer": "queries (of energy, say)",
    "on_job_message": "messages of jobs",
}


def missing_features(cls: type[Policy], name: str, *, keeps_notes: bool) -> Iterator[str]:
    """Return a warning for each thing that the policy uses and Batsim 5 lacks."""
    for hook, what in _NEVER_CALLED.items():
        if getattr(cls, hook) is not getattr(Policy, hook):
            yield f"policy {name} has {hook}, which is never called: Batsim 5 has no {what}"
    if BatsimFeature.DYNAMIC_JOBS in cls.needs and not keeps_notes:
        yield (
            f"policy {name} may let jobs go on as others, and Batsim 5 keeps no notes on jobs: its own files do not "
            "tell which. A journal does, and the files of pybatsched run do"
        )
        yield (
            "should Batsim end now with a segmentation fault: 5.0.0-rc2 does if a workload has profiles that no job "
            "uses, and pybatsched workload convert --for batsim5 leaves them out"
        )
