"""Histories of all jobs at once equal those of each job, and every message is decoded once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.journals import cut_before_reply

from pybatsched.core.engine import Engine
from pybatsched.core.jobs import Job
from pybatsched.protocol import v4
from pybatsched.session.explain import explain, full_histories, job_histories
from pybatsched.session.job_history import JobHistory
from pybatsched.session.journal import Exchange, JournalReader, JournalWriter
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Refused, Workload, plan_for

DYNAMIC = {"dynamic-jobs-enabled": True}


def record(path: Path, workload: Workload, n_procs: int, policy: str = "easy", **options: object) -> Path:
    session = Session(plan_for(policy, **options), journal=JournalWriter(path))
    with session.closing_journal():
        FakeBatsim(workload, n_procs, config=DYNAMIC).run(session.handle)
    return path


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what is decoded from now on."""
    n: Counter[str] = Counter()

    def counting(name: str, decode: Callable[..., Any]) -> Callable[..., Any]:
        def counts(*args: Any, **more: Any) -> Any:
            n[name] += 1
            return decode(*args, **more)

        return counts

    for name in ("decode_events", "decode_decisions"):
        monkeypatch.setattr(v4, name, counting(name, getattr(v4, name)))
    return n


def crowd(n: int) -> Workload:
    """As many jobs in one message as there are, each of which ends by itself."""
    jobs = Workload()
    for number in range(n):
        jobs.job(number, n=1, s=1 + number, walltime=n + 1)
    return jobs


def test_a_message_is_decoded_once_however_many_jobs_it_is_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record(tmp_path / "run.pbj", crowd(50), 50, "fcfs")
    n_exchanges = len(list(JournalReader(path).exchanges()))
    n = counted(monkeypatch)
    assert len(full_histories(JournalReader(path))) == 50
    assert n == {"decode_events": 2 * n_exchanges, "decode_decisions": n_exchanges}  # one of two is the policy's own
    n.clear()
    explain(JournalReader(path), "w0!7")
    # The message that submits the job is decoded once more: that its text contains the id is not enough.
    assert n == {"decode_events": 2 * n_exchanges + 1, "decode_decisions": n_exchanges + 1}
    n.clear()
    assert len(job_histories(JournalReader(path))) == 50
    assert n == {"decode_decisions": n_exchanges}


def test_reasons_are_asked_only_for_waiting_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the other jobs, at most as many run at each message as the machine has processors."""
    path = record(tmp_path / "run.pbj", crowd(50), 50, "fcfs")
    looked = Counter[str]()
    ask = JobHistory.ask

    def asks(story: JobHistory, engine: Engine, now: float) -> Job | None:
        looked[story.job_id] += 1
        return ask(story, engine, now)

    monkeypatch.setattr(JobHistory, "ask", asks)
    full_histories(JournalReader(path))
    assert set(looked.values()) == {2}  # with its start, and with its end


def test_histories_of_suspended_jobs_equal_those_of_explain(tmp_path: Path) -> None:
    """They run, are killed, wait and are held, under names of their own, and run again."""
    jobs = Workload().job("a", n=6, s=100, walltime=101, estimate=100).job("b", n=2, s=80, walltime=81, estimate=80)
    jobs.job("u", n=7, s=60, at=10, walltime=61, estimate=60, urgent=True)
    jobs.job("c", n=8, s=10, at=20, walltime=11, estimate=10).job("big", n=9, s=5, at=30, walltime=9)
    path = record(tmp_path / "run.pbj", jobs, 8, "ujfb", swap="fixed")
    found = full_histories(JournalReader(path))
    assert sorted(found) == ["w0!a", "w0!b", "w0!big", "w0!c", "w0!u"]
    for job_id, lines in found.items():
        *history, end = explain(JournalReader(path), job_id)
        assert (lines, end[1]) == (history, "(the run ended)")
    texts = [text.partition(":")[0].partition(",")[0] for _, text in found["w0!a"]]
    assert {"started on 0-5", "requeued", "not started", "held on 0-5", "kill took effect"} <= set(texts)


# --- journals that are cut ---

# On four processors, b waits for a, and c for b.
QUEUE = Workload().job("a", n=4, s=8, walltime=9).job("b", n=4, s=5, at=1, walltime=6).job("c", n=4, s=2, at=2)


def test_a_truncated_reply_is_not_a_different_reply(tmp_path: Path) -> None:
    """The fourth message submits c; its reply is missing."""
    path = record(tmp_path / "run.pbj", QUEUE, 4)
    whole = {job_id: explain(JournalReader(path), job_id) for job_id in ("w0!a", "w0!b", "w0!c")}
    cut_before_reply(path, 4)
    reader = JournalReader(path)
    found = full_histories(reader)
    note = "the journal is truncated: 7 bytes after its last complete record"
    assert (reader.is_whole, reader.note) == (False, note)
    assert [text.partition(":")[0] for _, text in found["w0!b"]] == ["submitted", "not started"]
    assert [text for _, text in found["w0!c"]] == ["submitted: 4 processors, walltime none"]
    for job_id, lines in found.items():
        assert lines == whole[job_id][: len(lines)]
        assert explain(JournalReader(path), job_id) == [*lines, (2.0, f"({note})")]


def test_the_policy_is_asked_again_after_an_unanswered_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that cannot be compared are not replayed."""
    path = record(tmp_path / "run.pbj", QUEUE, 4)
    exchanges = list(JournalReader(path).exchanges())
    exchanges.insert(2, Exchange(99, b'{"now": 0.5, "events": []}'))
    monkeypatch.setattr(JournalReader, "exchanges", lambda _: iter(exchanges))
    history = [text for _, text in explain(JournalReader(path), "w0!b")]
    assert not [text for text in history if "today's policy" in text]
    kinds = [text.partition(":")[0] for text in history]
    assert kinds == ["submitted", "not started", "... passed over 2 more times", "started on 0-3", "ended"]


def test_all_histories_have_the_reason_of_a_failed_run(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "run.pbj")
    session = Session(plan_for("easy"), journal=journal)
    answers = iter((*"abc", None))

    def handle(raw: bytes) -> bytes:
        return session.handle(raw if next(answers) else b"nonsense")

    with pytest.raises(Refused), session.closing_journal():
        FakeBatsim(QUEUE, 4).run(handle)
    found = full_histories(JournalReader(tmp_path / "run.pbj"))
    assert sorted(found) == ["w0!a", "w0!b"]
    for job_id, lines in found.items():
        assert lines[-1][1].startswith("the run failed: RemoteProtocolError: message 4: ")
        assert lines == explain(JournalReader(tmp_path / "run.pbj"), job_id)[:-1]
