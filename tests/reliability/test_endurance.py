"""A server that runs for days: its memory does not grow with finished jobs. See `make endurance`."""

from __future__ import annotations

import gc
import json
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from support.process import Peer, Server

from pybatsched.cli.common import arguments
from pybatsched.core import finished_jobs
from pybatsched.core.finished_jobs import N_RECENT
from pybatsched.errors import RemoteProtocolError, quantity
from pybatsched.runs.policies import PolicySpec
from pybatsched.session.session import Session
from reliability.endurance import REGISTERING, Reading, judge_journal, judge_memory, judge_peaks, read, shares
from reliability.long_talk import LongTalk


def n_held_by(root: object) -> int:
    """Count all objects that an object references, directly or not, without modules, classes and functions."""
    shared = (type, ModuleType, FunctionType)
    seen, left = {id(root)}, [root]
    for held in left:
        for one in gc.get_referents(held):
            if id(one) not in seen and not isinstance(one, shared):
                seen.add(id(one))
                left.append(one)
    return len(left)


def test_nothing_grows_with_jobs_that_are_over() -> None:
    session = Session(PolicySpec("easy").plan())
    talk = LongTalk(session.handle)
    talk.begin()
    talk.go_on(N_RECENT + 1_500)
    counts = []
    for _ in range(3):
        counts.append(n_held_by(session))
        talk.go_on(N_RECENT // 2)  # after so many jobs the oldest outcomes are dropped: the same place each time
        assert len(session.engine.jobs.alive) == 100
    assert max(counts) - min(counts) < N_RECENT // 2, counts  # not one object a job
    with pytest.raises(RemoteProtocolError, match="job w0!7 was submitted before"):
        session.handle(_submitted("w0!7", 1e9))


@pytest.fixture
def little_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let less be kept of the last jobs, so that a test needs fewer jobs to see what grows."""
    monkeypatch.setattr(finished_jobs, "N_RECENT", 64)


@pytest.mark.usefixtures("little_kept")
@pytest.mark.parametrize("policy", REGISTERING)
@pytest.mark.parametrize("reuses_profiles", [False, True])
def test_nothing_grows_with_jobs_that_were_registered(policy: str, reuses_profiles: bool) -> None:
    session = Session(PolicySpec(policy, arguments.options_given(REGISTERING[policy])).plan())
    talk = LongTalk(session.handle, dynamic=True, reuses_profiles=reuses_profiles, n_alive=10, n_procs=8)
    talk.begin()
    talk.go_on(500)
    n_registered, n_held = talk.n_registered, n_held_by(session)
    talk.go_on(1_500)
    assert talk.n_registered - n_registered > 700
    assert n_held_by(session) - n_held < 300
    names = [f"w0.{number}.1" for number in range(talk.n_submitted)]
    assert sum(session.engine.jobs.knows(f"dyn!{name}") for name in names) == talk.n_registered
    assert sum(session.engine.cluster.is_retired("dyn", name) for name in names) == talk.n_registered


@pytest.mark.usefixtures("little_kept")
def test_nothing_grows_with_jobs_that_cannot_be_restarted() -> None:
    session = Session(PolicySpec("redirection", arguments.options_given(REGISTERING["redirection"])).plan())
    talk = LongTalk(session.handle, dynamic=True, profile={"type": "smpi"}, n_alive=10, n_procs=16)
    talk.begin()
    talk.go_on(500)
    n_held = n_held_by(session)
    talk.go_on(1_500)
    assert n_held_by(session) - n_held < 300
    (remark,) = session.engine.remarks
    assert remark.startswith("redirection: 950 jobs could not be redirected (first: w0!51): ")


def _submitted(job_id: str, now: float) -> bytes:
    job = {"id": job_id, "subtime": now, "res": 1, "walltime": 10.0, "profile": "d"}
    event = {"timestamp": now, "type": "JOB_SUBMITTED", "data": {"job_id": job_id, "job": job}}
    return json.dumps({"now": now, "events": [event]}).encode()


def test_a_server_opens_no_more_files(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with Server("--policy", "fcfs", "--journal", str(journal)) as server, Peer(server.wait_ready()) as peer:
        talk = LongTalk(peer.ask)
        talk.begin()
        readings = [read(server.process.pid, 0, journal)]
        for _ in range(4):
            talk.go_on(250)
            readings.append(read(server.process.pid, talk.n_exchanges, journal))
        talk.end()
        assert server.finish() == 0
        assert quantity(talk.n_ended, "job") in server.errors
    assert len({one.n_files for one in readings}) == 1
    sizes = [after.journal_bytes - before.journal_bytes for before, after in pairwise(readings)]
    assert max(sizes) < 1.1 * min(sizes)


def test_the_report_of_a_server_that_grows(capsys: pytest.CaptureFixture[str]) -> None:
    flat = [Reading(n, 40_000, 13, n / 1e4, 500 * n) for n in range(0, 1_001, 100)]
    assert judge_memory(flat) == []
    assert judge_journal(flat) == []
    leaking = [one._replace(rss_kb=40_000 + 3 * one.n) for one in flat]
    assert judge_memory(leaking) == ["memory grew by 6.70%; expected less than 5%"]
    assert judge_memory([*flat[:-1], flat[-1]._replace(n_files=14)]) == ["the number of open files changed"]
    dearer = [one._replace(cpu_s=one.n**2 / 1e6, journal_bytes=one.n**2) for one in flat]
    assert len(judge_journal(dearer)) == 2
    longer = [one._replace(journal_bytes=90_000 + 500 * one.n) for one in flat[:-1]]  # its begin does not count
    assert len(judge_journal([*longer, flat[-1]._replace(journal_bytes=90_000 + 60_000 + 500 * 1_000)])) == 1
    assert judge_peaks([(250, 230_000), (500, 412_000), (1_000, 776_000)]) == []
    assert len(judge_peaks([(250, 230_000), (500, 412_000), (1_000, 976_000)])) == 1
    assert "open files: 13, 14" in capsys.readouterr().out


def test_a_short_run_is_not_reported_as_slower() -> None:
    ticks = (0.50, 0.50, 0.51, 0.51, 0.53)
    short = [Reading(62 * n, 40_000, 14, cpu_s, 25_000 + 500 * 62 * n) for n, cpu_s in enumerate(ticks)]
    assert judge_journal([*short[:-1], short[-1]._replace(journal_bytes=short[-1].journal_bytes + 4_000)]) == []


def test_runs_of_a_few_jobs_are_not_reported_as_growing() -> None:
    assert [shares(n) for n in (1, 2, 3, 4, 50_000)] == [[1], [1, 2], [1, 3], [1, 2, 4], [12_500, 25_000, 50_000]]
    assert judge_peaks([(1, 50_000)]) == []
    assert judge_peaks([(1, 50_000), (3, 50_400)]) == []
    assert judge_peaks([(1, 50_000), (2, 49_800), (4, 50_400)]) == []


def test_the_first_message_in_a_journal_hides_no_growth() -> None:
    sizes = (25_000, 56_000, 87_000, 118_000, 155_200)  # 500 bytes an exchange, and 600 in the last quarter
    growing = [Reading(62 * n, 40_000, 14, 0.5, size) for n, size in enumerate(sizes)]
    message = "the journal grows by 600 bytes an exchange at the end, by 500 at the beginning"
    assert judge_journal(growing) == [message]
