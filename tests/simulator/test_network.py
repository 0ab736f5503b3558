"""Jobs that communicate: durations worked out by hand, kills and walltimes during transfers, and errors."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.platforms import read_platform
from support.simulated import rows

from pybatsched.cli import batsim, build_parser, main
from pybatsched.cli.simulate import spec_of
from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError, NotSimulatedError
from pybatsched.live import batsim_options
from pybatsched.runs.build import build
from pybatsched.simulator.no_scheduler import run_all_at_once
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.outputs.files import batsim_files
from pybatsched.simulator.simgrid.actions import Actions
from pybatsched.simulator.simgrid.kernel import SimgridLoop
from pybatsched.simulator.simgrid.meters import Meters, exact_sum
from pybatsched.simulator.simulation import SimulatedRun
from pybatsched.simulator.work.profiles import AllPairs
from pybatsched.simulator.world import Refusal

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform version="4.1">\n'
#: Four hosts of 1 Gflop/s with links of 100 MB/s and 1 ms in both directions, and two disks of 50 MB/s without latency.
#: Messages between the hosts and the master are free.
PLATFORM = (
    f'{HEAD}<zone id="z" routing="Full">'
    + "".join(f'<host id="n{i}" speed="1Gf"/><link id="l{i}" bandwidth="100MBps" latency="1ms"/>' for i in range(4))
    + '<host id="boss" speed="1Gf"><prop id="role" value="master"/></host>'
    + '<link id="free" bandwidth="1e300Bps" latency="0"/>'
    + "".join(
        f'<host id="s{i}" speed="1Gf"><prop id="role" value="storage"/></host>'
        f'<link id="d{i}" bandwidth="50MBps" latency="0"/>'
        for i in range(2)
    )
    + "".join(f'<route src="{h}" dst="boss"><link_ctn id="free"/></route>' for h in ("n0", "n1", "n2", "n3", "boss"))
    + "".join(
        f'<route src="n{i}" dst="n{k}"><link_ctn id="l{i}"/><link_ctn id="l{k}"/></route>'
        for i in range(4)
        for k in range(i + 1, 4)
    )
    + "".join(f'<route src="n{i}" dst="s{k}"><link_ctn id="d{k}"/></route>' for i in range(4) for k in range(2))
    + '<route src="s0" dst="s1"><link_ctn id="d0"/><link_ctn id="d1"/></route></zone></platform>'
)


def write(folder: Path, *jobs: tuple[int, dict[str, Any]], platform: str = PLATFORM, **more: Any) -> None:
    """Write a platform and a workload of jobs at time 0: their sizes and profiles."""
    profiles = {f"p{i}": profile for i, (_, profile) in enumerate(jobs)}
    profiles |= more.pop("profiles", {})
    content = {
        "nb_res": 4,
        "jobs": [{"id": str(i), "subtime": 0, "res": n, "profile": f"p{i}", **more} for i, (n, _) in enumerate(jobs)],
        "profiles": profiles,
    }
    (folder / "platform.xml").write_text(platform)
    (folder / "w.json").write_text(json.dumps(content))


def given(folder: Path, *options: str) -> Scenario:
    """Read the written platform and workload."""
    args = ["simulate", "-p", str(folder / "platform.xml"), "-w", str(folder / "w.json"), "--external", "--quiet"]
    return build(spec_of(build_parser().parse_args([*args, *options]))).scenario


def drop_in(folder: Path, *options: str) -> SimulatedRun:
    """Return the simulation of `pybatsched batsim`."""
    read = batsim_options.read(["-p", str(folder / "platform.xml"), "-w", str(folder / "w.json"), *options, "-q"])
    return SimulatedRun(batsim._scenario(read, batsim._Log(read)), None)


def simulated(folder: Path, *options: str) -> int:
    """Run the command, with the results in the folder."""
    files = ["-p", str(folder / "platform.xml"), "-w", str(folder / "w.json"), "-e", str(folder / "out")]
    return main(["simulate", *files, *options])


Decide = Callable[[float, Sequence[e.Event]], list[d.Decision]]


def run(folder: Path, decide: Decide, *options: str) -> tuple[dict[str, dict[str, str]], list[e.Event]]:
    """Run a scheduler. Return the rows of the jobs by name, and all events that the scheduler got."""
    seen: list[e.Event] = []

    def scheduler(now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
        seen.extend(events)
        return now, [msgspec.structs.replace(decision, timestamp=now) for decision in decide(now, events)]

    assert SimulatedRun(given(folder, *options), scheduler, batsim_files(str(folder / "out"))).run()
    return {row["job_id"]: row for row in rows(folder / "out_jobs.csv")}, seen


def starting(*allocs: str, **more: Any) -> Decide:
    """Start job i on the i-th of these hosts when it is submitted."""

    def decide(_now: float, events: Sequence[e.Event]) -> list[d.Decision]:
        submitted = [event.job_id for event in events if isinstance(event, e.JobSubmitted)]
        return [d.ExecuteJob(job, IntervalSet.parse(allocs[int(job.partition("!")[2])]), **more) for job in submitted]

    return decide


def length(row: dict[str, str]) -> float:
    return float(row["execution_time"])


HOMOGENEOUS = "parallel_homogeneous"


@pytest.mark.parametrize(
    ("profile", "n", "expected_s"),
    [
        ({"type": HOMOGENEOUS, "cpu": 0, "com": 50e6}, 2, 1.002),
        ({"type": HOMOGENEOUS, "cpu": 0, "com": 50e6}, 3, 2.002),
        ({"type": HOMOGENEOUS, "cpu": 5e9, "com": 50e6}, 2, 5.002),
        ({"type": "parallel_homogeneous_total", "cpu": 0, "com": 60e6}, 2, 0.602),
        ({"type": "parallel", "cpu": [0, 0], "com": [0, 100e6, 0, 0]}, 2, 1.002),
        ({"type": HOMOGENEOUS, "cpu": 1e9, "com": 50e6}, 1, 1.0),
        ({"type": "parallel", "cpu": [0, 0], "com": [0, 1.2e9, 0, 0]}, 2, 12.002),
        ({"type": "composed", "repeat": 2, "seq": ["delay", "com"]}, 2, 2 * (3 + 1.002)),
    ],
)  # fmt: skip
def test_durations_of_communicating_jobs(profile: dict[str, Any], n: int, expected_s: float, tmp_path: Path) -> None:
    parts = {"delay": {"type": "delay", "delay": 3}, "com": {"type": HOMOGENEOUS, "cpu": 0, "com": 50e6}}
    write(tmp_path, (n, profile), profiles=parts)
    jobs, _ = run(tmp_path, starting(f"0-{n - 1}" if n > 1 else "0"))
    assert length(jobs["0"]) == pytest.approx(expected_s, abs=2e-6)


def test_links_are_shared(tmp_path: Path) -> None:
    """Both use the link of host 1, and each gets half of it."""
    com = {"type": "parallel", "cpu": [0, 0], "com": [0, 100e6, 0, 0]}
    write(tmp_path, (2, com), (2, com))
    jobs, _ = run(tmp_path, starting("0-1", "1-2"), "--enable-compute-sharing")
    assert [length(jobs[name]) for name in "01"] == pytest.approx([2.002, 2.002], abs=2e-6)


def test_storage(tmp_path: Path) -> None:
    """Two hosts read 20 MB and write 5 MB each over the link of the disk. A copy uses both disks."""
    pfs = {"type": "parallel_homogeneous_pfs", "bytes_to_read": 20e6, "bytes_to_write": 5e6, "storage": "a"}
    copy = {"type": "data_staging", "nb_bytes": 100e6, "from": "a", "to": "b"}
    write(tmp_path, (2, pfs))
    jobs, _ = run(tmp_path, starting("0-1", storage_mapping={"a": 5}))
    assert length(jobs["0"]) == pytest.approx(1.0, abs=2e-6)
    write(tmp_path, (1, copy))
    jobs, _ = run(tmp_path, starting("0", storage_mapping={"a": 4, "b": 5}))
    assert length(jobs["0"]) == pytest.approx(2.0, abs=2e-6)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (None, r"uses a storage, the platform has 2; expected a storage_mapping"),
        ({"b": 4}, r"uses the storage 'a', which storage_mapping lacks"),
        ({"a": 0}, r"maps 'a' to host 0, which is not a storage host"),
    ],
)
def test_invalid_storage_mappings_are_rejected(mapping: dict[str, int] | None, message: str, tmp_path: Path) -> None:
    write(tmp_path, (1, {"type": "parallel_homogeneous_pfs", "bytes_to_read": 1, "storage": "a"}))
    with pytest.raises(Refusal, match=message):
        run(tmp_path, starting("0", storage_mapping=mapping))


def test_a_walltime_ends_a_transfer(tmp_path: Path) -> None:
    write(tmp_path, (2, {"type": HOMOGENEOUS, "cpu": 0, "com": 50e6}), walltime=0.5)
    jobs, _ = run(tmp_path, starting("0-1"))
    assert (jobs["0"]["final_state"], length(jobs["0"])) == ("COMPLETED_WALLTIME_REACHED", 0.5)


def test_a_kill_during_a_transfer_reports_the_progress(tmp_path: Path) -> None:
    """At 0.502 s, after the latency, half of the bytes have been sent."""
    write(tmp_path, (2, {"type": HOMOGENEOUS, "cpu": 0, "com": 50e6}))
    start = starting("0-1")

    def decide(now: float, events: Sequence[e.Event]) -> list[d.Decision]:
        if any(isinstance(event, e.RequestedCall) for event in events):
            return [d.KillJob(("w0!0",))]
        started = start(now, events)
        return [*started, d.CallMeLater(0.502)] if started else []

    jobs, seen = run(tmp_path, decide)
    assert jobs["0"]["final_state"] == "COMPLETED_KILLED"
    assert length(jobs["0"]) == pytest.approx(0.502, abs=1e-6)
    (killed,) = [event for event in seen if isinstance(event, e.JobKilled)]
    assert killed.job_progress is not None
    assert killed.job_progress["w0!0"]["progress"] == pytest.approx(0.5, abs=1e-5)


def test_an_additional_io_job_is_merged(tmp_path: Path) -> None:
    """The job sends 50 MB each way; its I/O 100 MB to a disk of 50 MB/s at the same rate."""
    write(tmp_path, (2, {"type": HOMOGENEOUS, "cpu": 0, "com": 50e6}))
    io = {"type": "parallel", "cpu": [0, 0], "com": [0, 100e6, 0, 0]}
    jobs, _ = run(tmp_path, starting("0-1", additional_io_job={"alloc": "0 4", "profile_name": "io", "profile": io}))
    assert length(jobs["0"]) == pytest.approx(2.002, abs=2e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alloc": "0 4", "profile_name": "none"}, "profile 'none' does not exist"),
        ({"alloc": "9", "profile_name": "p0"}, "expected some of 6 hosts"),
        ({"alloc": "x", "profile_name": "p0"}, "expected hosts such as 0-3"),
        ({"alloc": "0"}, "expected the texts profile_name and alloc"),
        ({"alloc": "0-2", "profile_name": "two"}, "profile two is not defined for 3 hosts"),
        ({"alloc": "0-1", "profile_name": "two", "profile": {"type": "delay", "delay": 1}}, "exists or existed"),
        ({"alloc": "0-1", "profile_name": "x", "profile": {"type": "data_staging"}}, "field nb_bytes: expected a"),
    ],
)
def test_invalid_additional_io_jobs_are_rejected(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    two = {"type": "parallel", "cpu": [0, 0], "com": [0, 1, 1, 0]}
    seq = {"type": "composed", "seq": ["two"]}
    write(tmp_path, (2, {"type": HOMOGENEOUS, "cpu": 0, "com": 50e6}), profiles={"two": two, "seq": seq})
    with pytest.raises(Refusal, match=message):
        run(tmp_path, starting("0-1", additional_io_job=given))


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            {"type": "data_staging", "nb_bytes": -1, "from": "a", "to": "b"},
            "field nb_bytes: expected a number of bytes",
        ),
        ({"type": "data_staging", "nb_bytes": 1, "from": "a"}, "field to: expected the label of a storage"),
        ({"type": "parallel_homogeneous_pfs"}, "field bytes_to_read or bytes_to_write: expected a number"),
        ({"type": "parallel_homogeneous_pfs", "bytes_to_read": "x"}, "field bytes_to_read: expected a number"),
    ],
)
def test_invalid_profiles_are_rejected_before_the_run(profile: dict[str, Any], message: str, tmp_path: Path) -> None:
    write(tmp_path, (1, profile))
    with pytest.raises(InputError, match=rf"w\.json: profile p0: {message}"):
        run(tmp_path, starting("0"))


def test_hosts_without_a_route_are_named(tmp_path: Path) -> None:
    hosts = "".join(f'<host id="n{i}" speed="1Gf"/>' for i in range(2)) + '<host id="master_host" speed="1Gf"/>'
    ways = "".join(f'<route src="n{i}" dst="master_host"><link_ctn id="l{i}"/></route>' for i in range(2))
    links = '<link id="l0" bandwidth="1Bps" latency="0"/><link id="l1" bandwidth="1Bps" latency="0"/>'
    one_way = ways.replace('dst="master_host"', 'dst="master_host" symmetrical="NO"', 1)
    write(
        tmp_path,
        (2, {"type": HOMOGENEOUS, "cpu": 0, "com": 1}),
        platform=f'{HEAD}<zone id="z" routing="Floyd">{hosts}{links}{one_way}</zone></platform>',
    )
    with pytest.raises(
        InputError, match=r"platform\.xml: no route from 'n1' to 'n0': zone 'z' \(line 4\) has no route"
    ):
        run(tmp_path, starting("0-1"))


def test_messages_of_batsim_travel_over_the_platform(tmp_path: Path) -> None:
    """Each message crosses two links of 1 us and 1 GB/s, and the server takes one after the other."""
    cluster = '<cluster id="c" prefix="n" suffix="" radical="0-4" speed="1Gf" bw="1GBps" lat="1us"/>'
    write(tmp_path, (1, {"type": "delay", "delay": 5}), platform=f"{HEAD}{cluster}</platform>")
    options = ("-m", "n4", "--clock", "simgrid")
    jobs, seen = run(tmp_path, starting("0"), *options)
    at = {type(event): event.timestamp for event in seen}
    # The hello of the submitter, READY of the scheduler and the submission take a hop of 2.002 us each, and then its
    # goodbye, the start of the job and its end.
    assert (at[e.JobSubmitted], at[e.JobCompleted]) == (6e-6, 5.000012)
    assert length(jobs["0"]) == 5.0


def test_which_clock_a_run_has(tmp_path: Path) -> None:
    """Without communication nothing changes; with it, the exact clock is refused."""
    write(tmp_path, (1, {"type": "delay", "delay": 5}))
    for clock, expected in (("auto", "Loop"), ("exact", "Loop"), ("simgrid", "SimgridLoop")):
        assert type(SimulatedRun(given(tmp_path, "--clock", clock), None).world.loop).__name__ == expected
    write(tmp_path, (2, {"type": HOMOGENEOUS, "cpu": 0, "com": 1}))
    assert type(SimulatedRun(given(tmp_path), None).world.loop).__name__ == "SimgridLoop"
    assert simulated(tmp_path, "--policy", "fcfs", "--clock", "exact", "--quiet") == 2


@pytest.mark.parametrize(
    ("latency", "profile", "expected"),
    [
        ("0", {"type": "delay", "delay": 5}, "Loop"),
        ("1us", {"type": "delay", "delay": 5}, "SimgridLoop"),
        ("0", {"type": "usage_trace", "trace": "usage.txt"}, "SimgridLoop"),
    ],
)
def test_which_clock_the_drop_in_has(latency: str, profile: dict[str, Any], expected: str, tmp_path: Path) -> None:
    """That of SimGrid, if messages to the master take time or work has no fixed speed."""
    link = f'bw="{"1e300" if latency == "0" else "1e9"}Bps" lat="{latency}"'
    cluster = f'<cluster id="c" prefix="n" suffix="" radical="0-4" speed="1Gf" {link}/>'
    write(tmp_path, (1, profile), platform=f"{HEAD}{cluster}</platform>")
    (tmp_path / "usage.txt").write_text("rank0.txt\n")
    (tmp_path / "rank0.txt").write_text("0 m_usage 1.0 1e9\n")
    assert type(drop_in(tmp_path, "-m", "n4").world.loop).__name__ == expected


def test_processors_without_a_platform_have_no_network(tmp_path: Path) -> None:
    write(tmp_path, (2, {"type": HOMOGENEOUS, "cpu": 0, "com": 1}))
    args = ["simulate", "--procs", "4", "-w", str(tmp_path / "w.json"), "--external", "--quiet"]
    with pytest.raises(
        InputError, match=r"job 0: profile p0 .* on 4 equal processors, without a network \(use a platform"
    ):
        SimulatedRun(build(spec_of(build_parser().parse_args(args))).scenario, None)


def test_without_a_scheduler_jobs_communicate_too(tmp_path: Path) -> None:
    """Both jobs send 100 MB over the same two links, so both take 2 s after the latency."""
    com = {"type": "parallel", "cpu": [0, 0], "com": [0, 100e6, 0, 0]}
    write(tmp_path, (2, com), (2, com))
    assert run_all_at_once(given(tmp_path), batsim_files(str(tmp_path / "out"))) == pytest.approx(2.002, abs=1e-9)


@pytest.mark.parametrize("sharing_policy", ["SHARED", "FATPIPE"])
@pytest.mark.parametrize("amount", [1.0, 1e6, 0.1, 123456.7, 1e300])
@pytest.mark.parametrize("places", [[0, 1], [3, 1, 0, 2], [0, 0, 1], [2, 1, 2, 0, 3, 3]])
def test_equal_transfers_are_summed_as_one_by_one(
    places: list[int], amount: float, sharing_policy: str, tmp_path: Path
) -> None:
    """The same links in the same order, with sums that have the same bits, also for several executors on a host."""
    links = PLATFORM.replace('latency="1ms"', f'latency="1ms" sharing_policy="{sharing_policy}"')
    write(tmp_path, (1, {"type": "delay", "delay": 1}), platform=links)
    platform = read_platform(tmp_path / "platform.xml")
    pairs = [(src, dst, amount) for y, src in enumerate(places) for x, dst in enumerate(places) if x != y]
    assert list(AllPairs(places, amount)) == pairs
    loop = SimgridLoop(lambda: None, math.inf, platform, lambda: True)
    flops = [(host, 1.0) for host in places]
    one_by_one = loop._needs_of(flops, pairs)
    for _ in range(2):  # paths that are not known yet, and those that are
        assert loop._needs_of(flops, AllPairs(places, amount)) == one_by_one
        loop._ways.clear()


@pytest.mark.parametrize("n_missing", [0, 2, 12])
@pytest.mark.parametrize("com", [0, 1])
def test_missing_routes_of_a_full_zone_are_named(
    com: float, n_missing: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In SimGrid they are free. The user is told, if a job communicates."""
    text = PLATFORM
    if n_missing:
        removed = (
            r'<route src="n2" dst="n3">.*?</route>' if n_missing == 2 else r'<route src="n\d" dst="n\d">.*?</route>'
        )
        text = re.sub(removed, "", PLATFORM)
    write(tmp_path, (2, {"type": HOMOGENEOUS, "cpu": 1e9, "com": com}), platform=text)
    assert simulated(tmp_path, "--policy", "fcfs") == 0
    said = capsys.readouterr().err
    pair = "'n2' to 'n3'" if n_missing == 2 else "'n0' to 'n1'"
    expected = f"zone 'z' (line 4): {n_missing} routes missing, such as {pair}: as in Batsim"
    assert (expected in said) == (com > 0 and n_missing > 0)


def never_called(*_: Any) -> Any:
    raise AssertionError("the run has started")


CLUSTER = '<cluster id="c" prefix="n" suffix="" radical="0-3" speed="1Gf" lat="50us" {}/>'
UNEVEN: dict[str, Any] = {"type": "parallel", "cpu": [1e8, 1e8], "com": [0, 50e6, 30e6, 0]}


def cluster_with(attributes: str, config: str = "") -> str:
    speed = "" if attributes.startswith("bw=") else 'bw="125MBps" '
    return f"{HEAD}{config}{CLUSTER.format(speed + attributes)}</platform>"


@pytest.mark.parametrize(
    "attributes", ['bb_bw="0" bb_lat="0"', 'bb_bw="" bb_lat=""', 'loopback_bw="0" loopback_lat="0"', 'limiter_link="0"']
)
def test_links_of_clusters_that_do_not_exist(attributes: str, tmp_path: Path) -> None:
    """As in SimGrid, a cluster has a backbone and loopbacks only if their bandwidth or their latency is above 0."""
    write(tmp_path, (2, UNEVEN), platform=cluster_with(attributes))
    jobs, _ = run(tmp_path, starting("0-1"), "-m", "n3")
    assert (jobs["0"]["starting_time"], jobs["0"]["execution_time"]) == ("0.000500", "0.400100")  # those of Batsim


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ('bw="0Bps"', r"line 4: the links of cluster 'c' have no bandwidth"),
        ('bb_lat="1ms"', r"line 4: the backbone of cluster 'c' has no bandwidth; expected bb_bw above 0"),
        ('loopback_lat="1ms"', r"link 'c n3 loopback' has no bandwidth; expected more than 0 Bps"),
    ],
)
def test_links_of_clusters_without_bandwidth_are_named(attributes: str, said: str, tmp_path: Path) -> None:
    """In Batsim, the first message never arrives."""
    write(tmp_path, (2, UNEVEN), platform=cluster_with(attributes))
    with pytest.raises(InputError, match=rf"platform\.xml: {said}"):
        run(tmp_path, starting("0-1"), "-m", "n3")


def with_setting(key: str, value: str) -> str:
    return cluster_with("", f'<config>\n<prop id="{key}" value="{value}"/></config>')


NOT_SIMULATED = {
    with_setting("network/TCP-gamma", "10000"): "line 5: <config> changes network/TCP-gamma",
    with_setting("host/solver", "bmf"): "line 5: <config> changes host/solver",
    with_setting("surf/precision", "x"): "line 5: <config> changes surf/precision",
    PLATFORM.replace(
        '<host id="n1"', '<host speed_file="s" id="n1"'
    ): r"line 4: <host id=n1> has a trace \(speed_file\)",
    PLATFORM.replace(
        '<link id="l0"', '<link state_file="s" id="l0"'
    ): r"line 4: <link id=l0> has a trace \(state_file\)",
    PLATFORM.replace(
        "</platform>",
        '<trace id="t" periodicity="1">0 1</trace>\n<trace_connect trace="t" element="n1" kind="SPEED"/></platform>',
    ): "line 5: <trace_connect> gives 'n1' a trace",
}


@pytest.mark.parametrize("platform", NOT_SIMULATED)
def test_settings_and_traces_that_change_times_are_named(platform: str, tmp_path: Path) -> None:
    write(tmp_path, (2, UNEVEN), platform=platform)
    master = () if 'id="boss"' in platform else ("-m", "n3")
    said = rf"platform\.xml: {NOT_SIMULATED[platform]}, which is not simulated; run it with Batsim"
    with pytest.raises(NotSimulatedError, match=said):
        run(tmp_path, never_called, *master)
    write(tmp_path, (1, {"type": "delay", "delay": 1}), platform=platform)
    jobs, _ = run(tmp_path, starting("0"), *master)  # exact times: ignored with a remark
    assert length(jobs["0"]) == 1.0
    with pytest.raises(NotSimulatedError, match=said):
        drop_in(tmp_path, *master)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("network/TCP-gamma", "4194304"),
        ("precision/work-amount", "0.000010"),
        ("host/solver", "fairbottleneck"),
        ("network/bandwidth-factor", "0.5"),
        ("network/latency-factor", "13.01"),
        ("network/weight-S", "20537"),
        ("network/crosstraffic", "0"),
    ],
)
def test_settings_that_change_nothing(key: str, value: str, tmp_path: Path) -> None:
    write(tmp_path, (2, UNEVEN), platform=with_setting(key, value))
    jobs, _ = run(tmp_path, starting("0-1"), "-m", "n3")
    assert jobs["0"]["execution_time"] == "0.400100"  # that of Batsim


def test_zones_with_routing_wifi_are_named_before_the_run(tmp_path: Path) -> None:
    text = (
        f'{HEAD}<zone id="air" routing="Wifi"><prop id="access_point" value="ap"/>'
        '<link id="ap" bandwidth="50MBps" latency="0" sharing_policy="WIFI"/><router id="r"/>'
        '<host id="n0" speed="1Gf"/><host id="n1" speed="1Gf"/><host id="n2" speed="1Gf"/></zone></platform>'
    )
    write(tmp_path, (2, UNEVEN), platform=text)
    with pytest.raises(
        InputError, match=r"platform\.xml: line 4: zone 'air' has routing Wifi; expected one that Batsim can use"
    ):
        run(tmp_path, never_called, "-m", "n2")


def test_storage_profiles_need_a_storage_host_before_the_run(tmp_path: Path) -> None:
    cluster = '<cluster id="c" prefix="n" suffix="" radical="0-4" speed="1Gf" bw="1GBps" lat="1us"/>'
    profile = {"type": "parallel_homogeneous_pfs", "bytes_to_read": 1, "bytes_to_write": 1}
    write(tmp_path, (2, profile), platform=f"{HEAD}{cluster}</platform>")
    with pytest.raises(InputError, match="profile p0: uses storage; expected a host with the property role = storage"):
        run(tmp_path, never_called, "-m", "n4")


@pytest.mark.parametrize("routing", ["Full", "Floyd", "Dijkstra"])
def test_missing_routes_between_zones_are_named_before_the_run(
    routing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both clusters reach the master, but not each other. A job on one of them runs."""
    clusters = "".join(
        f'<cluster id="{name}" prefix="{name}" suffix="" radical="0-1" speed="1Gf" bw="1GBps" lat="1us"/>'
        for name in "abm"
    )
    ways = "".join(
        f'<zoneRoute src="{name}" dst="m" gw_src="{name}{name}_router" gw_dst="mm_router" symmetrical="{both}">'
        '<link_ctn id="l"/></zoneRoute>'
        for name, both in (("a", "YES"), ("b", "NO"))
    )
    link = '<link id="l" bandwidth="1GBps" latency="0"/>'
    zones = f'{HEAD}<zone id="site" routing="{routing}">{clusters}{link}{ways}</zone></platform>'
    write(tmp_path, (2, {"type": HOMOGENEOUS, "cpu": 1e9, "com": 1}), platform=zones)
    assert simulated(tmp_path, "-m", "m0", "--policy", "fcfs") == 0
    missing = ": 3 routes missing, such as" if routing == "Full" else " has no route from"
    said = f"zone 'site' (line 4){missing} 'a' to 'b': as in Batsim, a run fails when a job or a message needs it"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ('bandwidth="0Bps" latency="0"', r"line 4: link 'l0' has no bandwidth; expected more than 0 Bps"),
        ('bandwidth="1Bps" latency="0" sharing_policy="WIFI"', r"line 4: link 'l0' is a Wifi link, which is not sim"),
        ('bandwidth="-1Bps" latency="0"', r"line 4: <link id=l0> attribute bandwidth: expected a bandwidth"),
        ('latency="0"', r"line 4: <link id=l0> has no attribute bandwidth; expected one"),
    ],
)
def test_links_that_cannot_be_used_are_named(link: str, said: str, tmp_path: Path) -> None:
    platform = PLATFORM.replace('<link id="l0" bandwidth="100MBps" latency="1ms"/>', f'<link id="l0" {link}/>')
    write(tmp_path, (2, {"type": HOMOGENEOUS, "cpu": 0, "com": 1}), platform=platform)
    with pytest.raises(InputError, match=rf"platform\.xml: {said}"):
        run(tmp_path, never_called)


BAD_LINKS = (
    '<link id="bad" bandwidth="0Bps" latency="0"/><link id="wifi" bandwidth="1Bps" latency="0" sharing_policy="WIFI"/>'
)
SENDING = {"type": "parallel", "cpu": [0, 0], "com": [0, 2e8, 0, 0]}


@pytest.mark.parametrize("routing", ["Full", "Floyd", "Dijkstra"])
def test_links_that_no_host_uses_stop_no_run(routing: str, tmp_path: Path) -> None:
    """Two routers are joined by links that are not simulated, and no host sends over them: 2 s for 200 MB."""
    points = "".join(f'<host id="n{i}" speed="1Gf"/>' for i in range(3)) + '<router id="a"/><router id="b"/>'
    joined = {("n0", "n1"): "l", ("n0", "n2"): "l", ("n1", "n2"): "l", ("a", "b"): "bad", ("n0", "b"): "wifi"}
    ways = "".join(
        f'<route src="{src}" dst="{dst}"><link_ctn id="{link}"/></route>' for (src, dst), link in joined.items()
    )
    links = f'<link id="l" bandwidth="100MBps" latency="0"/>{BAD_LINKS}'
    text = f'{HEAD}<zone id="z" routing="{routing}">{points}{links}{ways}</zone></platform>'
    write(tmp_path, (2, SENDING), platform=text)
    jobs, _ = run(tmp_path, starting("0-1"), "-m", "n2")
    assert float(jobs["0"]["execution_time"]) == pytest.approx(2)


def test_zones_of_no_host_stop_no_run(tmp_path: Path) -> None:
    """A zone of routers alone, with a route to it over a link without bandwidth."""
    text = (
        f'{HEAD}<zone id="site" routing="Full">{BAD_LINKS}'
        '<cluster id="c" prefix="n" suffix="" radical="0-2" speed="1Gf" bw="100MBps" lat="0"/>'
        '<zone id="r" routing="Full"><router id="a"/><router id="b"/>'
        '<route src="a" dst="b"><link_ctn id="wifi"/></route></zone>'
        '<zoneRoute src="c" dst="r" gw_src="nc_router" gw_dst="a"><link_ctn id="bad"/></zoneRoute></zone></platform>'
    )
    write(tmp_path, (2, SENDING), platform=text)
    jobs, _ = run(tmp_path, starting("0-1"), "-m", "n2")
    assert float(jobs["0"]["execution_time"]) == pytest.approx(2)


def test_links_to_the_gateway_are_named_before_the_run(tmp_path: Path) -> None:
    """The master is in another zone, behind a router that the hosts reach by a Wifi link."""
    text = (
        f'{HEAD}<zone id="site" routing="Full">{BAD_LINKS}<link id="l" bandwidth="1Bps" latency="0"/>'
        '<zone id="y" routing="Full"><host id="n0" speed="1Gf"/><host id="n1" speed="1Gf"/><router id="g"/>'
        '<route src="n0" dst="g"><link_ctn id="wifi"/></route></zone>'
        '<zone id="m" routing="Full"><host id="boss" speed="1Gf"/></zone>'
        '<zoneRoute src="y" dst="m" gw_src="g" gw_dst="boss"><link_ctn id="l"/></zoneRoute></zone></platform>'
    )
    write(tmp_path, (2, {"type": HOMOGENEOUS, "cpu": 0, "com": 1}), platform=text)
    with pytest.raises(InputError, match="line 4: link 'wifi' is a Wifi link, which is not simulated"):
        run(tmp_path, never_called, "-m", "boss")


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ({"type": "parallel", "cpu": [1, 1], "com": [1, 2, 3]}, "field com: expected an array of 4 amounts"),
        ({"type": "parallel", "cpu": [1, 1], "com": [0, -1, 0, 0]}, r"field com\[1\]: expected a number, 0 or more"),
        ({"type": HOMOGENEOUS, "cpu": 1, "com": -1}, "field com: expected a number, 0 or more, found -1"),
        ({"type": HOMOGENEOUS, "cpu": 1, "com": math.inf}, "expected a number, found Infinity"),
    ],
)
def test_amounts_that_are_none(profile: dict[str, Any], said: str, tmp_path: Path) -> None:
    write(tmp_path, (2, profile))
    with pytest.raises(InputError, match=said):
        run(tmp_path, starting("0-1"))


def test_energy_is_added_and_subtracted_with_more_digits_than_doubles_have() -> None:
    """A clock that is 1e-9 s late at 500 W shows in the seventh decimal of the energy: rounding must be exact."""
    joules = [0.1] * 10
    meters = Meters([], lambda _host: 0.0, lambda _host, _speed: None, Actions([]))
    meters._joules = joules
    assert meters.total_j() == 1.0  # added one by one, doubles give 0.9999999999999999
    assert abs(exact_sum(joules) - 10 * Fraction(0.1)) < Fraction(1, 10**30)


def with_energy(folder: Path, n_hosts: int, n_jobs: int, subtime: float, delay_s: float) -> dict[str, str]:
    """Run jobs of 2 hosts, submitted together, with energy on slow links to the master. Return ``_schedule.csv``."""
    power = '<prop id="wattage_per_state" value="95.3:120:200"/>'
    (folder / "platform.xml").write_text(
        f'{HEAD}<cluster id="c" prefix="n" suffix="" radical="0-{n_hosts}" speed="1Gf" bw="100MBps" lat="1ms">{power}'
        "</cluster></platform>"
    )
    job = {"subtime": subtime, "res": 2, "walltime": 10, "profile": "d"}
    content = {"nb_res": 4, "jobs": [{"id": str(i), **job} for i in range(n_jobs)]}
    (folder / "w.json").write_text(json.dumps({**content, "profiles": {"d": {"type": "delay", "delay": delay_s}}}))
    assert simulated(folder, "-m", "n4", "-E", "--clock", "simgrid", "--policy", "easy", "--quiet") == 0
    return rows(folder / "out_schedule.csv")[0]


def test_first_jobs_of_one_instant_may_be_submitted_separately_with_energy(tmp_path: Path) -> None:
    """The clock of the submitter is just before 1 s when it wakes up, as in Batsim."""
    with_energy(tmp_path, 4, 2, 1, 1)
    starts = [(row["job_id"], row["starting_time"]) for row in rows(tmp_path / "out_jobs.csv")]
    assert starts == [("0", "1.004000"), ("1", "1.012000")]  # those of Batsim


def test_energy_of_a_run_that_starts_late(tmp_path: Path) -> None:
    """The hosts have consumed 1.8e11 J before: doubles have four decimals there, and Batsim has more."""
    assert with_energy(tmp_path, 60, 1, 31536000.3, 1.3)["consumed_joules"] == "7467.708206"  # that of Batsim


@pytest.mark.parametrize("routing", ["Floyd", "Dijkstra", "DijkstraCache"])
def test_platforms_that_batsim_rejects(routing: str, tmp_path: Path) -> None:
    """SimGrid aborts at a symmetrical route from a host to itself."""
    way = "<route src='{}' dst='{}'><link_ctn id='l'/></route>"
    text = (
        f'{HEAD}<zone id="z" routing="{routing}">'
        + "".join(f'<host id="n{i}" speed="1Gf"/>' for i in range(3))
        + '<link id="l" bandwidth="100MBps" latency="0"/>'
        + "".join(way.format(*ends) for ends in (("n0", "n1"), ("n1", "n2"), ("n2", "n2")))
        + "</zone></platform>"
    )
    write(tmp_path, (2, SENDING), platform=text)
    said = r"platform\.xml: line 4: <route>: a route from 'n2' to itself; expected symmetrical=\"NO\" \(Batsim rejects"
    with pytest.raises(InputError, match=said):
        run(tmp_path, never_called, "-m", "n2")
    write(tmp_path, (2, {"type": "delay", "delay": 1}), platform=text)
    jobs, _ = run(tmp_path, starting("0-1"), "-m", "n2", "--clock", "exact")
    assert length(jobs["0"]) == 1.0


def test_calls_are_in_time_where_decisions_have_a_latency(tmp_path: Path) -> None:
    """Each decision takes 60 ms, so that the swap-out of 20 ms is over before the call for it could be requested."""
    hosts = "".join(f'<host id="n{i}" speed="1Gf" coordinates="{10 * i} 0 5"/>' for i in range(2))
    master = '<host id="boss" speed="1Gf" coordinates="0 0 30"><prop id="role" value="master"/></host>'
    jobs = [(0, 2, False), (5, 1, True)]
    content = {
        "nb_res": 2,
        "jobs": [
            {"id": str(i), "subtime": at, "res": n, "walltime": 30, "profile": "d", "urgent": urgent}
            for i, (at, n, urgent) in enumerate(jobs)
        ],
        "profiles": {"d": {"type": "delay", "delay": 20}},
    }
    (tmp_path / "platform.xml").write_text(f'{HEAD}<zone id="z" routing="Vivaldi">{hosts}{master}</zone></platform>')
    (tmp_path / "w.json").write_text(json.dumps(content))
    swaps = ["-o", "swap=fixed", "-o", "swap_out=0.02", "-o", "swap_in=0.02"]
    assert simulated(tmp_path, "--clock", "simgrid", "--policy", "ujfb", *swaps, "--quiet") == 0
    states = {row["job_id"]: row["final_state"] for row in rows(tmp_path / "out_jobs.csv")}
    assert states == {"0": "COMPLETED_KILLED", "1": "COMPLETED_SUCCESSFULLY", "w0.0.1": "COMPLETED_SUCCESSFULLY"}
