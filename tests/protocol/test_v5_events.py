"""Every event of Batsim 5's schema in both directions: decoded and encoded to the same JSON value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pybatsched.core import decisions as d, events as e
from pybatsched.protocol.v5 import Codec

HOSTS = {"resources_type": "HostResources", "resources": {"host_ids": "0-3"}}
FROM_BATSIM: dict[str, Any] = {
    "BatsimHelloEvent": {"batprotocol_version": "1.0.0", "batsim_version": "5.0.0", "batsim_commit": ""},
    "SimulationBeginsEvent": {
        "host_number": 1,
        "computation_host_number": 1,
        "computation_hosts": [
            {
                "id": 0,
                "name": "n",
                "pstate": 0,
                "pstate_count": 2,
                "state": "IDLE",
                "properties": [{"key": "sleep_pstates", "value": "1:0:0"}],
                "zone_properties": [],
                "core_count": 4,
                "computation_speed": [1e9, 1.0],
            }
        ],
        "workloads": [{"name": "w0", "filename": "w.json"}],
        "anything": {"new": [1, None]},
    },
    "SimulationEndsEvent": {},
    "JobSubmittedEvent": {
        "job_id": "w0!a",
        "job": {"resource_request": 2, "walltime": 3.5, "profile_id": "w0!p", "extra_data": '{"urgent": true}'},
        "submission_time": 1.0,
    },
    "JobCompletedEvent": {"job_id": "w0!a", "state": "COMPLETED_FAILED", "return_code": 7},
    "JobsKilledEvent": {
        "job_ids": ["w0!a", "w0!b"],
        "progresses": [
            {
                "job_id": "w0!a",
                "wrapper": {
                    "kill_progress_type": "KillProgressForkJoinProfile",
                    "kill_progress": {
                        "profile_id": "w0!f",
                        "tasks_progress": [
                            {
                                "kill_progress_type": "KillProgressAtomicProfile",
                                "kill_progress": {"profile_id": "w0!p", "progress": 0.25},
                            }
                        ],
                    },
                },
            }
        ],
    },
    "RequestedCallEvent": {"call_me_later_id": "x", "last_periodic_call": True},
    "AllStaticJobsHaveBeenSubmittedEvent": {},
    "AllStaticExternalEventsHaveBeenInjectedEvent": {},
    "ExternalEventOccurredEvent": {
        "id": "ee0!3",
        "external_event_type": "GenericExternalEvent",
        "external_event": {"data": "any text"},
    },
    "HostsPStateChangedEvent": {"host_ids": "0-1", "pstate": 1},
    "HostsTurnedOnOffEvent": {"host_ids": "0-1", "state": 1},
    "ProbeDataEmittedEvent": {
        "probe_id": "p",
        **HOSTS,
        "metrics": "Power",
        "data_type": "AggregatedProbeData",
        "data": {"data": 3.5},
        "manually_triggered": False,
        "nb_emitted": 1,
        "nb_triggered": 1,
    },
}
PERIODIC = {
    "period": 2,
    "offset": 0,
    "time_unit": "Second",
    "mode_type": "FinitePeriodNumber",
    "mode": {"nb_periods": 3},
}
FROM_SCHEDULER: dict[str, Any] = {
    "ExecuteJobEvent": {
        "job_id": "w0!a",
        "allocation": {
            "host_allocation": "0-1",
            "executor_placement_type": "CustomExecutorToHostMapping",
            "executor_placement": {"mapping": [1, 0]},
        },
        "profile_allocation_override": [
            {
                "profile_id": "w0!p",
                "host_allocation": "0",
                "executor_placement_type": "PredefinedExecutorPlacementStrategyWrapper",
                "executor_placement": {"strategy": "FillOneHostCoresFirst"},
            }
        ],
        "storage_placement": [{"storage_name": "pfs", "host_id": 9}],
    },
    "RejectJobEvent": {"job_id": "w0!a"},
    "KillJobsEvent": {"job_ids": ["w0!a"]},
    "RegisterProfileEvent": {
        "profile": {"id": "dyn!p", "profile_type": "DelayProfile", "profile": {"delay": 3.0}, "extra_data": "x"}
    },
    "RegisterJobEvent": {"job_id": "dyn!a", "job": {"resource_request": 1, "walltime": None, "profile_id": "dyn!p"}},
    "FinishRegistrationEvent": {},
    "ForceSimulationStopEvent": {},
    "CallMeLaterEvent": {"call_me_later_id": "x", "when_type": "OneShot", "when": {"time": 3, "time_unit": "Second"}},
    "CallMeLaterEvent ": {"call_me_later_id": "y", "when_type": "Periodic", "when": PERIODIC},
    "StopCallMeLaterEvent": {"call_me_later_id": "y"},
    "CreateProbeEvent": {
        "probe_id": "p",
        "metrics": "Power",
        **HOSTS,
        "measurement_triggering_policy_type": "TemporalTriggerWrapper",
        "measurement_triggering_policy": {"temporal_trigger_type": "Periodic", "temporal_trigger": PERIODIC},
        "data_accumulation_strategy_type": "NoProbeDataAccumulation",
        "data_accumulation_strategy": {},
    },
    "StopProbeEvent": {"probe_id": "p"},
    "TriggerProbeEvent": {"probe_id": "p", "force_data_emission": True},
    "ResetProbeEvent": {"probe_id": "p", "new_value": 0.0},
    "ChangeHostsPStateEvent": {"host_ids": "0-1", "pstate": 2},
    "TurnOnOffHostsEvent": {"host_ids": "0-1", "state": 2},
}
#: Events without a class: kept unchanged.
KEPT = {
    "BatsimHelloEvent",
    "ProbeDataEmittedEvent",
    "ForceSimulationStopEvent",
    "CallMeLaterEvent ",
    "StopCallMeLaterEvent",
    "CreateProbeEvent",
    "StopProbeEvent",
    "TriggerProbeEvent",
    "ResetProbeEvent",
}


def message(name: str, data: Any) -> bytes:
    event = {"timestamp": 2.5, "event_type": name.strip(), "event": data}
    return json.dumps({"now": 3.0, "events": [event]}).encode()


@pytest.mark.parametrize("name", FROM_BATSIM)
def test_events(name: str) -> None:
    codec, raw = Codec(), message(name, FROM_BATSIM[name])
    decoded = codec.decode_events(raw)
    assert isinstance(decoded.items[0], e.UnknownEvent) == (name in KEPT)
    assert json.loads(codec.encode_events(decoded).rstrip(b"\0")) == json.loads(raw)


@pytest.mark.parametrize("name", FROM_SCHEDULER)
def test_decisions(name: str) -> None:
    codec, raw = Codec(), message(name, FROM_SCHEDULER[name])
    decoded = codec.decode_decisions(raw)
    assert isinstance(decoded.items[0], d.UnknownDecision) == (name in KEPT)
    assert json.loads(codec.encode_decisions(decoded)) == json.loads(raw)
