"""The simulator in place of Batsim 5: every message equals that of real Batsim 5.0.0-rc2, for each recording."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from support.recordings import Recording5, recordings5

from pybatsched.cli import build_parser
from pybatsched.cli.simulate import read_scenario
from pybatsched.core import decisions as d, events as e
from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol import Message
from pybatsched.protocol.v5 import Codec
from pybatsched.protocol.v5_handshake import read_greeting, read_hello
from pybatsched.protocol.v5_members import fields_of
from pybatsched.simulator import batsim5_handshake
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.outputs.files import Outputs
from pybatsched.simulator.simulation import Simulation

ALL = recordings5()
#: Members of the first event that are of the program and its machine, not of the simulation.
ITS_OWN = ("batsim_arguments", "batsim_execution_context_json", "external_events")
#: Events that Batsim 5.0.0-rc2 stamps with the time of an earlier message.
STAMPED_BEFORE = {"ExternalEventOccurredEvent", "HostsPStateChangedEvent", "HostsTurnedOnOffEvent"}
#: Recordings whose files have members that are neither Batsim's nor in `extra_data`: the real one forgets them.
OTHER_MEMBERS = {"features-reject"}


def scenario_of(recording: Recording5) -> Scenario:
    """Read the inputs, by the names that Batsim was given."""
    same = {"--ee": "--events", "--energy-host": "-E"}
    args = [same.get(arg, arg) for arg in recording.args]
    for option in ("-s", "-e"):
        if option in args:
            place = args.index(option)
            del args[place : place + (3 if option == "-s" else 2)]
    before = Path.cwd()
    os.chdir(recording.directory)
    try:
        scenario = read_scenario(
            build_parser().parse_args(["simulate", *args, "--external", "--protocol", "v5", "--quiet"])
        )
    finally:
        os.chdir(before)
    for workload in scenario.workloads.values():
        workload.source = Path(workload.source).name
    return scenario


def plain(raw: bytes) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(raw.rstrip(b"\0"))
    for event in message["events"]:
        data = event["event"]
        if event["event_type"] == "SimulationBeginsEvent":
            event["event"] = {key: value for key, value in data.items() if key not in ITS_OWN}
            for host in data["computation_hosts"]:
                host["properties"].sort(key=itemgetter("key"))
        if event["event_type"] in STAMPED_BEFORE:
            del event["timestamp"]
        if event["event_type"] == "ExternalEventOccurredEvent":
            data["external_event"]["data"] = fields_of(data["external_event"]["data"])
        if event["event_type"] == "JobSubmittedEvent":
            data["job"]["extra_data"] = fields_of(data["job"]["extra_data"])  # with or without blanks
    return message


def without_extra_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_extra_data(part) for key, part in value.items() if key != "extra_data"}
    return [without_extra_data(part) for part in value] if isinstance(value, list) else value


def play(recording: Recording5, prefix: Path) -> list[dict[str, Any]]:
    """Reply to the simulator with the replies recorded with Batsim 5. Return the simulator's messages."""
    (_, greeting), (_, hello), *rest = recording.records
    features = read_hello(hello).features
    codec = Codec(features, read_greeting(greeting))
    replies = iter(raw for sender, raw in rest if sender == "scheduler")
    sent = []

    def scheduler(now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
        sent.append(plain(codec.encode_events(Message(now, tuple(events)))))
        message = codec.decode_decisions(next(replies))
        return message.now, message.items

    scenario = scenario_of(recording)
    scenario = replace(scenario, options=batsim5_handshake.with_requested_features(scenario.options, features))
    telling = batsim5_handshake.with_batsim5_fields(scheduler, scenario, "ENDPOINT")
    assert Simulation(scenario, telling, Outputs(str(prefix))).run()
    return sent


@pytest.mark.parametrize("recording", [one for one in ALL if one.exit_code == 0], ids=lambda r: r.name)
def test_messages_and_jobs_equal_batsims(recording: Recording5, tmp_path: Path) -> None:
    sent = play(recording, tmp_path / "out")
    recorded = [plain(raw) for sender, raw in recording.records[2:] if sender == "batsim"]
    if recording.name in OTHER_MEMBERS:
        sent = [without_extra_data(message) for message in sent]
        recorded = [without_extra_data(message) for message in recorded]
    for mine, theirs in zip(sent, recorded, strict=True):
        assert mine == theirs
    columns = ("job_id", "starting_time", "execution_time", "finish_time", "final_state", "allocated_resources")
    rows, their_rows = (
        [{name: row[name] for name in columns} for row in csv.DictReader(path.read_text().splitlines())]
        for path in (tmp_path / "out_jobs.csv", recording.directory / "out_jobs.csv")
    )
    assert rows == their_rows


@pytest.mark.parametrize("recording", [one for one in ALL if one.exit_code != 0], ids=lambda r: r.name)
def test_decisions_that_abort_batsim_are_rejected(recording: Recording5, tmp_path: Path) -> None:
    with pytest.raises(RemoteProtocolError, match="expected an integer, found 6.5"):
        play(recording, tmp_path / "out")
