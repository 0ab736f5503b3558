"""The simulator in Batsim's place: every message and every file as real Batsim had them, for each recording.

Each is played with the default clock and with that of SimGrid. README.md beside this file is made from here: if it is
out of date, the last test says how to renew it.
"""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.recordings import Recording, Recording5, recordings, recordings5
from support.simulated import FILES, first_difference, play, without_hops

from pybatsched.cli import build_parser
from pybatsched.cli.simulate import spec_of
from pybatsched.core import decisions as d, events as e
from pybatsched.errors import InputError, RemoteProtocolError
from pybatsched.protocol import Message
from pybatsched.protocol.v5 import Codec
from pybatsched.protocol.v5_handshake import read_greeting, read_hello
from pybatsched.protocol.v5_members import fields_of
from pybatsched.runs.build import build
from pybatsched.simulator import batsim5_handshake
from pybatsched.simulator.options import AUTO, EXACT, SIMGRID, Scenario
from pybatsched.simulator.outputs.files import batsim_files
from pybatsched.simulator.simulation import SimulatedRun

#: Recorded with last-bit effects of SimGrid's running clock; with the exact clock, instants are exact.
CLOCK_NOISE = {
    "clock-noise": "a parallel task ended at 21.999999999999996 in Batsim, so a submission at 22 came in two messages",
    "very-short": "Batsim's clock missed 3 by a last bit, so two submissions came in two messages",
}
#: Files that show the 1e-300 s hops of a zero-hop platform at time 0, where the exact clock has none.
HOPS_AT_ZERO = {"kill-at-start": {"out_jobs.csv", "out_schedule.csv"}}

ALL = recordings()
#: Jobs communicate, so that the run has SimGrid's clock without being asked.
NETWORK = {r.name for r in ALL if r.name.startswith(("com-", "wired-")) or r.name == "storage"}


@pytest.mark.parametrize("recording", [r for r in ALL if r.name not in CLOCK_NOISE], ids=lambda r: r.name)
def test_messages_and_files_equal_batsims(recording: Recording, tmp_path: Path) -> None:
    are_batsims(recording, tmp_path, AUTO, HOPS_AT_ZERO.get(recording.name, ()))


@pytest.mark.parametrize("recording", ALL, ids=lambda r: r.name)
def test_with_the_clock_of_simgrid_nothing_differs(recording: Recording, tmp_path: Path) -> None:
    are_batsims(recording, tmp_path, SIMGRID)


def are_batsims(recording: Recording, folder: Path, clock: str, other: Collection[str] = ()) -> None:
    played = play(recording, folder / "out", clock=clock)
    assert first_difference(recording, played) == ""
    if recording.exit_code != 0:
        assert played.refusal
        return
    assert not played.refusal
    assert played.finished == recording.ends
    compared = [name for name in FILES if (recording.directory / name).exists()]
    assert compared
    for name in compared:
        if name not in other:
            assert without_hops(folder / name) == (recording.directory / name).read_text(), name
    theirs = recording.directory / "out_consumed_energy.csv"
    if theirs.exists():
        rows = energy_rows if clock == AUTO else Path.read_text
        assert rows(folder / theirs.name) == rows(theirs)


@pytest.mark.parametrize("clock", [AUTO, SIMGRID])
@pytest.mark.parametrize("recording", ALL, ids=lambda r: r.name)
def test_a_simulation_paused_at_each_message_gives_the_same_messages(
    recording: Recording, clock: str, tmp_path: Path
) -> None:
    by_itself = play(recording, tmp_path / "out", clock=clock)
    (tmp_path / "halting").mkdir()
    assert play(recording, tmp_path / "halting" / "out", halting=True, clock=clock) == by_itself
    for name in FILES:
        if (tmp_path / name).exists():
            assert (tmp_path / "halting" / name).read_text() == (tmp_path / name).read_text(), name


def energy_rows(path: Path) -> list[str]:
    """Return the rows of ``_consumed_energy.csv``, without the mean power where Batsim's hops at time 0 show."""
    lines = path.read_text().splitlines()
    return [line.rpartition(",")[0] if line.startswith("0.000000,") else line for line in lines]


@pytest.mark.parametrize("recording", [r for r in ALL if r.name in NETWORK], ids=lambda r: r.name)
def test_the_exact_clock_has_no_network(recording: Recording, tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"job \w+: profile \w+ .* is not simulated with clock exact \(use clock simgrid\); run it with",
    ):
        play(recording, tmp_path / "out", clock=EXACT)


@pytest.mark.parametrize("recording", [r for r in ALL if r.name in CLOCK_NOISE], ids=lambda r: r.name)
def test_clock_noise_is_all_that_differs(recording: Recording, tmp_path: Path) -> None:
    """The messages are equal up to one that Batsim split in two: the rest of it is equal."""
    played = play(recording, tmp_path / "out")
    number = int(first_difference(recording, played).removeprefix("message ").partition(":")[0])
    mine = Counter(json.dumps(event) for event in played.messages[number - 1]["events"])
    texts = recording.requests[number - 1 : number + 1]
    first, second = (Counter(json.dumps(event) for event in json.loads(text)["events"]) for text in texts)
    assert first <= mine
    assert mine - first <= second


HEAD = """\
# The recordings of Batsim 4.2.1

[docs/conformance.md](../../docs/conformance.md) describes the comparison.
`test_simulator_recordings.py` writes this table.

| recording | default clock | `--clock simgrid` |
|---|---|---|
"""


def line(recording: Recording) -> str:
    """Return the line of a recording in the table. The tests above check it."""
    name = recording.name
    equal = "equal" if recording.ends else "equal, with the deadlock"
    if recording.exit_code != 0:
        equal = "equal; the reply on which Batsim aborted is rejected"
    result = equal
    if name in NETWORK:
        result = "equal (jobs communicate: the clock is that of SimGrid)"
    elif name in CLOCK_NOISE:
        result = f"differs: {CLOCK_NOISE[name]}"
    elif name in HOPS_AT_ZERO:
        result = f"messages equal; {', '.join(sorted(HOPS_AT_ZERO[name]))} differ by hops at time 0"
    return f"| {name} | {result} | {equal} |"


def test_the_table_of_recordings_is_up_to_date() -> None:
    """Missing recordings are not checked; those present must be in the table with the right result."""
    page = Path(__file__).parent / "README.md"
    lines = page.read_text().splitlines() if page.exists() else []
    wanted = [line(recording) for recording in sorted(ALL, key=lambda r: r.name)]
    if "\n".join(lines[: HEAD.count("\n")]) + "\n" != HEAD or not set(wanted) <= set(lines):
        fresh = ROOT / "build" / "recordings.md"
        fresh.parent.mkdir(exist_ok=True)
        fresh.write_text(HEAD + "\n".join(wanted) + "\n")
        pytest.fail(f"tests/conformance/README.md is out of date; the new one is in {fresh.relative_to(ROOT)}")


ALL_5 = recordings5()
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
        scenario = build(
            spec_of(build_parser().parse_args(["simulate", *args, "--external", "--protocol", "v5", "--quiet"]))
        ).scenario
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


def play_5(recording: Recording5, prefix: Path) -> list[dict[str, Any]]:
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
    assert SimulatedRun(scenario, telling, batsim_files(str(prefix))).run()
    return sent


@pytest.mark.parametrize("recording", [one for one in ALL_5 if one.exit_code == 0], ids=lambda r: r.name)
def test_messages_and_jobs_equal_batsims(recording: Recording5, tmp_path: Path) -> None:
    sent = play_5(recording, tmp_path / "out")
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


@pytest.mark.parametrize("recording", [one for one in ALL_5 if one.exit_code != 0], ids=lambda r: r.name)
def test_decisions_that_abort_batsim_are_rejected(recording: Recording5, tmp_path: Path) -> None:
    with pytest.raises(RemoteProtocolError, match="expected an integer, found 6.5"):
        play_5(recording, tmp_path / "out")
