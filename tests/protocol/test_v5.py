"""Messages of Batsim 5: the handshake, events, decisions, profiles, and invalid ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol import CannotEncodeError, Message
from pybatsched.protocol.v5 import Codec
from pybatsched.protocol.v5_decisions import milliseconds
from pybatsched.protocol.v5_handshake import (
    Features,
    Hello,
    is_greeting,
    read_greeting,
    read_hello,
    write_greeting,
    write_hello,
)
from pybatsched.protocol.v5_members import Members, extra_data_of, fields_of
from pybatsched.protocol.v5_profiles import read_profile, write_profile


def encoded(*decisions: d.Decision, codec: Codec | None = None) -> list[dict[str, Any]]:
    """Return the encoded events for decisions at 7.5 s."""
    raw = (codec or Codec()).encode_decisions(Message(7.5, decisions))
    message = json.loads(raw)
    assert message["now"] == 7.5
    assert all(event.keys() == {"timestamp", "event_type", "event"} for event in message["events"])
    return [{event["event_type"]: event["event"]} for event in message["events"]]


def decoded(*events: tuple[str, dict[str, Any]], codec: Codec | None = None) -> tuple[e.Event, ...]:
    """Return the decoded events at 3 s."""
    wire = [{"timestamp": 3.0, "event_type": name, "event": data} for name, data in events]
    return (codec or Codec()).decode_events(json.dumps({"now": 3.0, "events": wire}).encode() + b"\0").items


def test_a_job_is_executed() -> None:
    (event,) = encoded(d.ExecuteJob("w0!a", IntervalSet.parse("0-2 5")))
    assert event == {
        "ExecuteJobEvent": {
            "job_id": "w0!a",
            "allocation": {
                "host_allocation": "0-2 5",
                "executor_placement_type": "PredefinedExecutorPlacementStrategyWrapper",
                "executor_placement": {"strategy": "SpreadOverHostsFirst"},
            },
        }
    }


def test_executor_and_storage_mappings_are_encoded() -> None:
    (event,) = encoded(d.ExecuteJob("w0!a", IntervalSet.parse("4-5"), {"1": "0", "0": "1", "2": "1"}))
    placed = event["ExecuteJobEvent"]["allocation"]
    assert placed["executor_placement_type"] == "CustomExecutorToHostMapping"
    assert placed["executor_placement"] == {"mapping": [1, 0, 1]}
    (event,) = encoded(d.ExecuteJob("w0!a", IntervalSet.parse("4"), None, {"pfs": 9}))
    assert event["ExecuteJobEvent"]["storage_placement"] == [{"storage_name": "pfs", "host_id": 9}]


def test_kills_rejections_and_the_end_of_registration() -> None:
    assert encoded(d.KillJob(("w0!a", "w0!b")), d.RejectJob("w0!c"), d.Notify(d.REGISTRATION_FINISHED)) == [
        {"KillJobsEvent": {"job_ids": ["w0!a", "w0!b"]}},
        {"RejectJobEvent": {"job_id": "w0!c"}},
        {"FinishRegistrationEvent": {}},
    ]


def test_calls_are_at_whole_milliseconds_and_each_has_a_name() -> None:
    first, second = encoded(d.CallMeLater(8.0), d.CallMeLater(8.0004))
    assert first["CallMeLaterEvent"]["when"] == {"time": 8000, "time_unit": "Millisecond"}
    assert second["CallMeLaterEvent"]["when"] == {"time": 8001, "time_unit": "Millisecond"}
    assert first["CallMeLaterEvent"]["when_type"] == "OneShot"
    assert first["CallMeLaterEvent"]["call_me_later_id"] != second["CallMeLaterEvent"]["call_me_later_id"]


@given(st.integers(0, 10**15))
def test_a_call_is_never_early_and_less_than_a_millisecond_late(microseconds: int) -> None:
    at = microseconds / 1e6
    assert milliseconds(at) == -(-microseconds // 1000)


def test_a_registered_job_carries_the_users_fields_in_one_text() -> None:
    job = {"id": "dyn!1", "subtime": 7.5, "res": 2, "profile": "p", "walltime": 60, "estimate": 30.0, "user": "é"}
    profile = {"type": "delay", "delay": 4.5, "origin": "w0!a"}
    registered, made = encoded(d.RegisterProfile("dyn", "p", profile), d.RegisterJob("dyn!1", job))
    assert registered["RegisterProfileEvent"]["profile"]["profile"] == {"delay": 4.5}
    assert json.loads(registered["RegisterProfileEvent"]["profile"]["extra_data"]) == {"origin": "w0!a"}
    written = made["RegisterJobEvent"]["job"]
    assert json.loads(written.pop("extra_data")) == {"estimate": 30.0, "user": "é"}
    assert written == {"resource_request": 2, "walltime": 60.0, "profile_id": "dyn!p"}


def test_a_job_without_walltime_has_no_walltime_field() -> None:
    (made,) = encoded(d.RegisterJob("dyn!1", {"res": 1, "profile": "p", "subtime": 0, "walltime": -1}))
    assert "walltime" not in made["RegisterJobEvent"]["job"]


def test_hosts_are_switched_off_and_on_or_change_their_pstate() -> None:
    codec = Codec()
    hosts = [
        {"id": i, "name": f"n{i}", "properties": [{"key": "sleep_pstates", "value": "2:3:4"}] if i < 2 else []}
        for i in range(4)
    ]
    decoded(("SimulationBeginsEvent", {"host_number": 4, "computation_hosts": hosts}), codec=codec)
    every = IntervalSet.parse("0-3")
    assert encoded(d.SetResourceState(IntervalSet.parse("0-1"), "2"), codec=codec) == [
        {"TurnOnOffHostsEvent": {"host_ids": "0-1", "state": 2}}
    ]
    assert encoded(d.SetResourceState(every, "1"), codec=codec) == [
        {"TurnOnOffHostsEvent": {"host_ids": "0-1", "state": 1}},
        {"ChangeHostsPStateEvent": {"host_ids": "2-3", "pstate": 1}},
    ]
    assert encoded(d.SetResourceState(every, "0"), codec=codec) == [
        {"ChangeHostsPStateEvent": {"host_ids": "0-3", "pstate": 0}}
    ]


def test_prepared_decisions_are_encoded_unchanged() -> None:
    """A session prepares a reply for its journal, and the codec is given it then: hosts are not switched twice."""
    codec = Codec()
    hosts = [{"id": 0, "name": "n", "properties": [{"key": "sleep_pstates", "value": "2:3:4"}]}]
    decoded(("SimulationBeginsEvent", {"host_number": 1, "computation_hosts": hosts}), codec=codec)
    host = IntervalSet.parse("0")
    slower_then_off = (d.SetResourceState(host, "1"), d.SetResourceState(host, "2"))
    assert encoded(*codec.prepare(slower_then_off), codec=codec) == [
        {"ChangeHostsPStateEvent": {"host_ids": "0", "pstate": 1}},
        {"TurnOnOffHostsEvent": {"host_ids": "0", "state": 2}},
    ]
    assert encoded(*codec.prepare([d.SetResourceState(host, "0")]), codec=codec) == [
        {"TurnOnOffHostsEvent": {"host_ids": "0", "state": 0}}
    ]


def test_job_metadata_is_not_sent() -> None:
    decisions = (d.SetJobMetadata("w0!a", "parent=w0!b"), d.RejectJob("w0!a"))
    assert encoded(*decisions) == [{"RejectJobEvent": {"job_id": "w0!a"}}]


@pytest.mark.parametrize(
    ("decision", "name"),
    [
        (d.Notify(d.CONTINUE_REGISTRATION), "continue_registration"),
        (d.Query({"consumed_energy": {}}), "Query"),
        (d.ToJobMsg("w0!a", "hi"), "ToJobMsg"),
        (d.ChangeJobState("w0!a", "RUNNING"), "ChangeJobState"),
        (d.ExecuteJob("w0!a", IntervalSet.parse("0"), additional_io_job={}), "additional_io_job"),
        (d.RegisterProfile("dyn", "p", {"type": "send", "msg": {}}), "profile of type 'send'"),
        (d.CallMeLater(1e300), r"CallMeLater at 1e\+300 s"),
    ],
)
def test_decisions_that_batsim_5_lacks_are_errors(decision: d.Decision, name: str) -> None:
    with pytest.raises(CannotEncodeError, match=name):
        encoded(decision)


def test_simulation_begins_has_the_agreed_features_and_options() -> None:
    codec = Codec(Features(dynamic_registration=True, profile_reuse=True), '{"seed": 3}')
    profiles = [{"id": "w0!d", "profile_type": "DelayProfile", "profile": {"delay": 5.0}}]
    begins = {"host_number": 1, "computation_hosts": [{"id": 0, "name": "n"}], "profiles": profiles}
    (event,) = decoded(("SimulationBeginsEvent", begins), codec=codec)
    assert isinstance(event, e.SimulationBegins)
    assert event.option("dynamic-jobs-enabled") is True
    assert event.option("profile-reuse-enabled") is True
    assert event.option("dynamic-jobs-acknowledged") is False
    assert event.option("sched-config") == '{"seed": 3}'
    assert event.profiles == {"w0": {"d": {"type": "delay", "delay": 5.0}}}


def test_a_job_has_the_fields_of_its_text() -> None:
    job = {"resource_request": 2, "walltime": None, "profile_id": "w0!d", "extra_data": '{"estimate": 9}'}
    (event,) = decoded(("JobSubmittedEvent", {"job_id": "w0!a", "job": job, "submission_time": 2.5}))
    assert isinstance(event, e.JobSubmitted)
    assert event.job == {"id": "w0!a", "subtime": 2.5, "res": 2, "profile": "d", "estimate": 9}


def test_a_walltime_of_minus_one_in_extra_data_keeps_the_other_fields() -> None:
    """Converted files have this for jobs with a walltime of -1."""
    job: dict[str, Any] = {"resource_request": 2, "walltime": None, "profile_id": "w0!d"}
    job["extra_data"] = '{"urgent": true, "walltime": -1}'
    (event,) = decoded(("JobSubmittedEvent", {"job_id": "w0!a", "job": job, "submission_time": 2.5}))
    assert isinstance(event, e.JobSubmitted)
    assert event.job == {"id": "w0!a", "subtime": 2.5, "res": 2, "profile": "d", "urgent": True, "walltime": -1}
    job["walltime"] = 60.0
    (event,) = decoded(("JobSubmittedEvent", {"job_id": "w0!a", "job": job, "submission_time": 2.5}))
    assert isinstance(event, e.JobSubmitted)
    assert event.job is not None
    assert event.job["walltime"] == 60.0
    assert event.job["extra_data"] == job["extra_data"]


def test_extra_data_that_contradicts_batsim_stays_a_text() -> None:
    job = {"resource_request": 2, "profile_id": "w0!d", "extra_data": '{"res": 7}'}
    (event,) = decoded(("JobSubmittedEvent", {"job_id": "w0!a", "job": job, "submission_time": 2.5}))
    assert isinstance(event, e.JobSubmitted)
    assert event.job == {"id": "w0!a", "subtime": 2.5, "res": 2, "profile": "d", "extra_data": '{"res": 7}'}


def test_other_spellings_and_missing_members_are_accepted() -> None:
    job = {"resourceRequest": 2, "Walltime": 60, "profileId": "w0!d", "extra-data": '{"estimate": 9}', "new": [1]}
    (event,) = decoded(("JobSubmittedEvent", {"jobId": "w0!a", "job": job, "profiles": None, "submission_time": None}))
    assert isinstance(event, e.JobSubmitted)
    assert event.job == {"id": "w0!a", "subtime": 3.0, "res": 2, "profile": "d", "estimate": 9, "walltime": 60.0}
    begun, completed = decoded(("SimulationBeginsEvent", {}), ("JobCompletedEvent", {"job_id": "w0!a"}))
    assert isinstance(begun, e.SimulationBegins)
    assert begun.n_resources is None
    assert isinstance(completed, e.JobCompleted)
    assert completed.final_state == e.COMPLETED_SUCCESSFULLY  # the first of its states is left out


def test_a_negative_return_code_is_restored() -> None:
    (event,) = decoded(("JobCompletedEvent", {"job_id": "w0!a", "state": "COMPLETED_FAILED", "return_code": 2**32 - 1}))
    assert isinstance(event, e.JobCompleted)
    assert event.return_code == -1


def test_machine_events_come_as_the_text_of_generic_ones() -> None:
    line = {"timestamp": 3, "type": "machine_unavailable", "resources": "0-1"}
    event = {"id": "ee0!0", "external_event_type": "GenericExternalEvent", "external_event": {"data": json.dumps(line)}}
    assert decoded(("ExternalEventOccurredEvent", event)) == (
        e.Notify(e.MACHINES_UNAVAILABLE, IntervalSet.parse("0-1"), timestamp=3.0, extra={"id": "ee0!0"},
         beside={"event_type": "ExternalEventOccurredEvent", "event": event}),
    )  # fmt: skip
    other = {**event, "external_event": {"data": "anything"}}
    (notice,) = decoded(("ExternalEventOccurredEvent", other))
    assert isinstance(notice, e.Notify)
    assert notice.kind == "generic"
    assert notice.extra == {"data": "anything", "id": "ee0!0"}


def test_unknown_events_are_kept() -> None:
    data = {"probe_id": "p", "data_type": "AggregatedProbeData", "data": {"data": 3.5}}
    assert decoded(("ProbeDataEmittedEvent", data)) == (e.UnknownEvent("ProbeDataEmittedEvent", data, timestamp=3.0),)


def test_times_are_rounded_to_the_tick_and_written_unchanged() -> None:
    raw = (
        b'{"now":0.333333333333,"events":[{"timestamp":0.333333333333,"event_type":"SimulationEndsEvent","event":{}}]}'
    )
    codec = Codec()
    message = codec.decode_events(raw)
    assert message.now == message.items[0].timestamp == 0.333333
    assert json.loads(codec.encode_events(message).rstrip(b"\0")) == json.loads(raw)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "JSON object"),
        (b"[]", "JSON object"),
        (b"\xff", "JSON"),
        (b"{}", "message.now"),
        (b'{"now": "x"}', "message.now"),
        (b'{"now": 3.7e19, "events": []}', r"now: expected at most 1.84e\+16 s .*, found 3.7e\+19"),
        (b'{"now": 0, "events": {}}', "message.events"),
        (b'{"now": 0, "events": [1]}', r"message.events\[0\]"),
        (b'{"now": 0, "events": [{"timestamp": 0}]}', r"events\[0\].event_type"),
        (b'{"now": 0, "events": [{"timestamp": 0, "event_type": "JobCompletedEvent", "event": 1}]}', "event: expected"),
        (
            b'{"now": 0, "events": [{"timestamp": 0, "event_type": "JobSubmittedEvent", "event": {"job_id": "a"}}]}',
            "job",
        ),
        (
            b'{"now":0,"events":[{"timestamp":0,"event_type":"HostsTurnedOnOffEvent","event":{"host_ids":"x"}}]}',
            "interval set",
        ),
        (b'{"now": 1' + b"0" * 400 + b', "events": []}', "number"),
        (b"[" * 5000, "JSON object"),
    ],
)
def test_invalid_messages_are_rejected_with_the_field(raw: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        Codec().decode_events(raw)


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("ExecuteJobEvent", {"mapping": 5}, r"executor_placement.mapping: expected an array of integers, found 5"),
        ("ExecuteJobEvent", {"mapping": {"0": 1}}, r"mapping: expected an array of integers"),
        ("ExecuteJobEvent", {"mapping": [1, None]}, r"mapping\[1\]: expected an integer"),
        ("CallMeLaterEvent", {"time": 10**400, "time_unit": "Millisecond"}, "when.time: expected a whole number"),
        ("CallMeLaterEvent", {"time": -1}, "when.time: expected a whole number from 0"),
    ],
)
def test_invalid_decisions_are_rejected_with_the_field(kind: str, data: dict[str, Any], text: str) -> None:
    placed = {"executor_placement_type": "CustomExecutorToHostMapping", "executor_placement": data}
    event: dict[str, Any] = {"job_id": "w0!a", "allocation": {"host_allocation": "0", **placed}}
    if kind == "CallMeLaterEvent":
        event = {"call_me_later_id": "c", "when_type": "OneShot", "when": data}
    raw = json.dumps({"now": 1, "events": [{"timestamp": 1, "event_type": kind, "event": event}]}).encode()
    with pytest.raises(RemoteProtocolError, match=text):
        Codec().decode_decisions(raw)


@pytest.mark.parametrize("hosts", ["0-1", "0 1"])
def test_a_pstate_change_is_one_event_for_any_spelling_of_hosts(hosts: str) -> None:
    codec = Codec()
    event = {"timestamp": 1, "event_type": "ChangeHostsPStateEvent", "event": {"host_ids": hosts, "pstate": 1}}
    codec.decode_decisions(json.dumps({"now": 1, "events": [event]}).encode())
    changed = e.ResourceStateChanged(IntervalSet.parse("0-1"), "1", timestamp=1.0)
    result = json.loads(codec.encode_events(Message(1.0, (changed,))).rstrip(b"\0"))
    assert [one["event_type"] for one in result["events"]] == ["HostsPStateChangedEvent"]


def test_a_job_is_killed_once() -> None:
    """Batsim 5.0.0-rc2 crashes on a list of jobs that are all being killed."""
    codec = Codec()
    assert encoded(d.KillJob(("w0!a",)), d.KillJob(("w0!a", "w0!b")), d.KillJob(("w0!b",)), codec=codec) == [
        {"KillJobsEvent": {"job_ids": ["w0!a"]}},
        {"KillJobsEvent": {"job_ids": ["w0!b"]}},
    ]
    assert encoded(d.KillJob(("w0!a",)), codec=codec) == []


@pytest.mark.parametrize("name", ["HostsPStateChangedEvent", "HostsTurnedOnOffEvent"])
def test_outdated_timestamps_of_host_events_are_replaced_by_now(name: str) -> None:
    data = {"host_ids": "0", "pstate": 1} if name == "HostsPStateChangedEvent" else {"host_ids": "0", "state": 1}
    wire = {"now": 5.0, "events": [{"timestamp": 1.0, "event_type": name, "event": data}]}
    codec = Codec()
    message = codec.decode_events(json.dumps(wire).encode())
    assert message.items[0].timestamp == 5.0
    assert json.loads(codec.encode_events(message).rstrip(b"\0")) == wire


def test_events_of_one_instant_are_in_the_order_of_their_file() -> None:
    notices = [e.Notify("x", timestamp=1.0, extra={"id": f"ee{name}!{n}"}) for name, n in ((0, 10), (1, 0), (0, 9))]
    end = e.SimulationEnds(timestamp=1.0)
    found = Codec().order((notices[0], end, notices[1], notices[2]))
    assert found == (notices[2], end, notices[0], notices[1])


def test_decisions_that_we_never_send_are_still_read() -> None:
    """The simulator rejects it with its name."""
    profile = {"id": "dyn!p", "profile_type": "NewProfile", "profile": {"delay": 5.0}}
    never = {"call_me_later_id": "x", "when_type": "OneShot", "when": {"time": 2**63, "time_unit": "Second"}}
    for name, data in (("RegisterProfileEvent", {"profile": profile}), ("CallMeLaterEvent", never)):
        raw = json.dumps({"now": 0.0, "events": [{"timestamp": 0.0, "event_type": name, "event": data}]}).encode()
        codec = Codec()
        assert json.loads(codec.encode_decisions(codec.decode_decisions(raw))) == json.loads(raw)


def test_very_large_host_ranges_are_encoded_quickly() -> None:
    """The engine rejects such a decision of a policy earlier; other callers must not wait."""
    (event,) = encoded(d.SetResourceState(IntervalSet.parse("0-99999999999"), "1"))
    assert event == {"ChangeHostsPStateEvent": {"host_ids": "0-99999999999", "pstate": 1}}


HOSTS = {"resources_type": "HostResources", "resources": {"host_ids": "0-3"}}
FROM_BATSIM: dict[str, Any] = {
    "BatsimHelloEvent": {"batprotocol_version": "1.0.0", "batsim_version": "5.0.0", "batsim_commit": ""},
    "SimulationBeginsEvent": {
        "host_number": 1,
        "computation_host_number": 1,
        "computation_hosts": [
            {"id": 0, "name": "n", "pstate": 0, "pstate_count": 2, "state": "IDLE",
             "properties": [{"key": "sleep_pstates", "value": "1:0:0"}], "zone_properties": [], "core_count": 4,
             "computation_speed": [1e9, 1.0]},
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
                            {"kill_progress_type": "KillProgressAtomicProfile",
                             "kill_progress": {"profile_id": "w0!p", "progress": 0.25}},
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
}  # fmt: skip
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
    "BatsimHelloEvent", "ProbeDataEmittedEvent", "ForceSimulationStopEvent", "CallMeLaterEvent ",
    "StopCallMeLaterEvent", "CreateProbeEvent", "StopProbeEvent", "TriggerProbeEvent", "ResetProbeEvent",
}  # fmt: skip


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


def test_a_greeting_is_a_length_and_a_string() -> None:
    assert write_greeting('{"seed": 1}') == b'\x0b\x00\x00\x00{"seed": 1}'
    assert read_greeting(write_greeting("é")) == "é"
    assert is_greeting(b"\0\0\0\0")  # no text at all
    assert not is_greeting(b'{"now": 0.0, "events": []}')
    assert not is_greeting(b"\x01")


def test_a_hello_names_json_and_the_requested_features() -> None:
    hello = Hello("pybatsched", "1.2", Features(dynamic_registration=True))
    raw = write_hello(hello)
    assert raw[:4] == b"\x02\0\0\0"
    (event,) = json.loads(raw[4:])["events"]
    assert event["event_type"] == "EDCHelloEvent"
    assert event["event"]["decision_component_commit"] == ""
    assert event["event"]["requested_simulation_features"]["dynamic_registration"] is True
    assert read_hello(raw) == hello


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "four bytes"),
        (b"\x01\0\0\0abc", "FlatBuffers"),
        (b"\x02\0\0\0{", "not JSON"),
        (b'{"now":0.0,"events":[]}', "its answer to the greeting is only JSON"),
        (b'\x02\0\0\0{"now": 0.0, "events": []}', "one EDCHelloEvent"),
        (
            b'\x02\0\0\0{"now": 0, "events": [{"timestamp": 0, "event_type": "RejectJobEvent", "event": {}}]}',
            "EDCHello",
        ),
    ],
)
def test_invalid_hello_messages_are_rejected(raw: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        read_hello(raw)


NAMES = st.text("abcxyz_0", min_size=1, max_size=6)
AMOUNT = st.floats(0, 1e12)
OWN = st.dictionaries(st.sampled_from(["np", "app", "é"]), st.one_of(st.integers(), NAMES, st.booleans()), max_size=2)
PROFILES = st.one_of(
    st.fixed_dictionaries({"type": st.just("delay"), "delay": AMOUNT}),
    st.fixed_dictionaries({"type": st.just("parallel_homogeneous"), "cpu": AMOUNT, "com": AMOUNT}),
    st.fixed_dictionaries({"type": st.just("parallel_homogeneous_total"), "cpu": AMOUNT, "com": AMOUNT}),
    st.fixed_dictionaries({"type": st.just("parallel"), "cpu": st.lists(AMOUNT), "com": st.lists(AMOUNT)}),
    st.fixed_dictionaries({"type": st.just("composed"), "repeat": st.integers(1, 9), "seq": st.lists(NAMES)}),
    st.fixed_dictionaries({"type": st.just("usage_trace"), "trace": NAMES}),
    st.fixed_dictionaries({"type": st.just("smpi"), "trace": NAMES}),
    st.fixed_dictionaries({"type": st.just("data_staging"), "nb_bytes": AMOUNT, "from": NAMES, "to": NAMES}),
    st.fixed_dictionaries(
        {
            "type": st.just("parallel_homogeneous_pfs"),
            "bytes_to_read": AMOUNT,
            "bytes_to_write": AMOUNT,
            "storage": NAMES,
        }
    ),
)


@given(PROFILES, OWN)
def test_profiles_are_unchanged_after_encoding_and_decoding(profile: dict[str, Any], own: dict[str, Any]) -> None:
    whole = {**profile, **own}
    assert read_profile(Members(write_profile("w0!p", whole), "profile")) == ("w0!p", whole)


def test_fields_of_a_profile_of_batsim_5_alone_are_not_among_its_members() -> None:
    """Convert makes such profiles of bytes that are read and written in other amounts; Batsim refuses a member more."""
    said_of_it = {"storage_name": "pfs", "bytes_to_read": 1, "generation_strategy": "DefinedAmountsSpreadUniformly"}
    written: dict[str, Any] = {"id": "w0!s", "profile_type": "ParallelTaskOnStorageHomogeneousProfile"}
    written |= {"profile": said_of_it, "extra_data": '{"app": "x"}'}
    assert write_profile(*read_profile(Members(written, "profile"))) == written


def test_a_type_of_batsim_5_alone_is_kept() -> None:
    written = {"id": "w0!f", "profile_type": "ForkJoinCompositionProfile", "profile": {"profile_ids": ["w0!a"]}}
    identifier, profile = read_profile(Members(written, "profile"))
    assert profile == {"type": "ForkJoinCompositionProfile", "profile_ids": ["w0!a"]}
    assert write_profile(identifier, profile) == written


@given(st.dictionaries(st.one_of(NAMES, st.just("extra_data")), st.one_of(st.integers(-9, 9), st.text(), st.none())))
def test_fields_are_unchanged_after_encoding_and_decoding(fields: dict[str, Any]) -> None:
    assert fields_of(extra_data_of(fields)) == fields
